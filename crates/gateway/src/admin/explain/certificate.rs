//! Which certificate a client of an address with `https://` would get, and why.

use pilotlight_acme::{Name, NameState};
use pilotlight_tls::ChosenBy;
use serde_json::{Value, json};

use super::super::certificates;
use super::super::shared::Shared;
use super::super::tls;

/// What a client gets that asks for this host. `null` where nobody speaks TLS.
pub(super) fn explain(shared: &Shared, host: &str) -> Value {
    let common = &shared.common;
    let chosen = common.tls.store().chosen(host);
    let mut told = chosen.certificates.first().map_or_else(|| json!({}), tls::certificate);
    let Value::Object(map) = &mut told else { return told };
    let acme = common.issuers.acme().map(|acme| acme.status());
    let state = acme.as_ref().and_then(|status| status.names.iter().find(|state| state.name.as_str() == host));
    let is_none = chosen.certificates.is_empty();
    let why = match chosen.by {
        ChosenBy::Name => "it names the host",
        ChosenBy::Wildcard => "its wildcard stands for the host",
        ChosenBy::Default if is_none => "there is no certificate: the handshake fails",
        ChosenBy::Default => "none is for the host, so it is the first one that there is: clients refuse it",
    };
    map.insert("why".into(), why.into());
    map.insert("others".into(), chosen.certificates.iter().skip(1).map(tls::certificate).collect());
    if let (Some(acme), Some(state)) = (&acme, state) {
        map.insert("acme".into(), certificates::name(state, &acme.authorities));
    }
    map.insert("next".into(), next(shared, host, chosen.by, state).map(Value::from).unwrap_or_default());
    told
}

/// How the host would get one of its own.
fn next(shared: &Shared, host: &str, by: ChosenBy, state: Option<&NameState>) -> Option<String> {
    let common = &shared.common;
    if by != ChosenBy::Default || state.is_some_and(|state| state.is_routed) {
        return None; // what is known of the name says it
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        return Some("clients name no host when they ask for an address".to_owned());
    }
    let takes = common.table.load().takes_unnamed(host);
    let Some((acme, reach)) = common.issuers.acme_with_reach() else {
        return Some("[tls] has no certificate for it, and no `acme`".to_owned());
    };
    Some(match (Name::of_host(host, reach), &acme.status().on_demand) {
        (Err(why), _) => format!("it gets none by ACME: {why}"),
        (Ok(_), _) if !takes => "no route takes the host, so it gets none by ACME".to_owned(),
        (Ok(_), None) => "no route names the host, and `acme` has no `on_demand`, so it gets none by ACME".to_owned(),
        (Ok(_), Some(on_demand)) => {
            format!("on demand: the first client waits while {} is asked, and it is ordered", on_demand.settings.ask)
        }
    })
}
