//! `GET /certificates`, `POST /certificates/renew` and `/import`.

use http::StatusCode;
use pilotlight_acme::{Acme, CommandError, Issuer, Name, NameState, OnDemandStatus, Pair};
use serde_json::{Value, json};

use super::hidden::hide_credentials;
use super::refused::{Refused, refused};
use super::shared::Shared;
use super::tls::{self, ends_in};

/// Every certificate in use, and every name that gets one by ACME.
pub(super) fn list(shared: &Shared) -> Value {
    let all = shared.common.tls.store().list();
    json!({ "certificates": all.iter().map(tls::certificate).collect::<Vec<_>>(), "acme": acme(shared) })
}

/// What is known of names and authorities; `null` without ACME.
pub(super) fn acme(shared: &Shared) -> Value {
    let Some(acme) = shared.common.issuers.acme() else { return Value::Null };
    let status = acme.status();
    json!({
        "authorities": status.authorities,
        "storage": status.storage,
        "obtained": status.obtained,
        "failed": status.failed,
        "on_demand": status.on_demand.as_ref().map(on_demand),
        "names": status.names.iter().map(|state| name(state, &status.authorities)).collect::<Vec<_>>(),
    })
}

fn on_demand(status: &OnDemandStatus) -> Value {
    let OnDemandStatus { settings, stored, permitted, refused, unanswered, limited } = status;
    json!({
        "ask": hide_credentials(&settings.ask),
        "limit": { "names": settings.limit.count, "seconds": settings.limit.per.as_secs() },
        "stored": stored,
        "permitted": permitted,
        "refused": refused,
        "unanswered": unanswered,
        "limited": limited,
    })
}

pub(super) fn name(state: &NameState, authorities: &[String]) -> Value {
    let from = state.issuer.map(|issuer| match issuer {
        Issuer::Configured(index) => authorities.get(index).map_or("acme", String::as_str),
        Issuer::Staging => "staging",
        Issuer::Other => "another authority",
        Issuer::Imported => "imported",
    });
    json!({
        "name": state.name.as_str(),
        "on_demand": !state.is_routed,
        "from": from,
        "not_after": state.not_after.map(httpdate::fmt_http_date),
        "ends_in_seconds": state.not_after.map(ends_in),
        "renewal_in_seconds": state.renew_at.map(ends_in),
        "ordering": state.is_ordering,
        "next_attempt_in_seconds": state.next_attempt.map(ends_in),
        "last_error": state.last_error.as_ref().map(|error| {
            json!({ "at": httpdate::fmt_http_date(error.at), "text": error.text })
        }),
    })
}

/// Has one name, or all, get a new certificate now.
pub(super) async fn renew(shared: &Shared, body: &[u8]) -> Result<Value, Refused> {
    const EXAMPLE: &str = "send {\"name\": \"app.example.org\"}, or {\"all\": true}";
    let wrong = |why: String| refused(StatusCode::BAD_REQUEST, format!("{why}; {EXAMPLE}"));
    let value: Value = serde_json::from_slice(body).map_err(|e| wrong(format!("the body is not JSON: {e}")))?;
    let name = match (value.get("name").and_then(Value::as_str), value.get("all").and_then(Value::as_bool)) {
        (Some(name), None) if !name.is_empty() => name,
        (None, Some(true)) => "",
        _ => return Err(wrong("`name` is a host, or `all` is true".to_owned())),
    };
    let renewed = of(shared)?.renew(name).await.map_err(|e| told(&e))?;
    Ok(json!({ "ordered": names(&renewed) }))
}

/// Takes a certificate that a person brings.
pub(super) async fn import(shared: &Shared, body: &[u8]) -> Result<Value, Refused> {
    const EXAMPLE: &str = "send {\"certificate\": PEM, \"key\": PEM}";
    let wrong = |why: String| refused(StatusCode::BAD_REQUEST, why);
    let value: Value =
        serde_json::from_slice(body).map_err(|e| wrong(format!("the body is not JSON: {e}; {EXAMPLE}")))?;
    let part = |name: &str| {
        let text = value.get(name).and_then(Value::as_str);
        text.ok_or_else(|| wrong(format!("`{name}` is missing; {EXAMPLE}")))
    };
    let pair = Pair::from_pem(part("certificate")?, part("key")?).map_err(|e| wrong(e.to_string()))?;
    let imported = of(shared)?.import(pair).await.map_err(|e| told(&e))?;
    Ok(json!({ "imported": names(&imported) }))
}

fn names(names: &[Name]) -> Vec<&str> {
    names.iter().map(Name::as_str).collect()
}

fn of(shared: &Shared) -> Result<&Acme, Refused> {
    const NONE: &str =
        "this gateway gets no certificates by ACME: there is no `acme` in [tls]; files are followed when they change";
    shared.common.issuers.acme().ok_or_else(|| refused(StatusCode::CONFLICT, NONE))
}

fn told(error: &CommandError) -> Refused {
    let status = match error {
        CommandError::UnknownName(_) | CommandError::OtherNames(_) => StatusCode::NOT_FOUND,
        CommandError::Certificate(_) => StatusCode::BAD_REQUEST,
        CommandError::Storage(_) => StatusCode::CONFLICT,
        CommandError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    refused(status, error.to_string())
}
