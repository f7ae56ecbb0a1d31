//! `POST /services/NAME/deploy`: another release of a service.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use http::StatusCode;
use pilotlight_releases::{Name, Releases};
use pilotlight_supervisor::{Blame, DeployError, Service, Trial};
use serde_json::{Value, json};

use super::refused::{Refused, refused};
use super::shared::Shared;

/// Tries a release that is in the service's folder, and waits for what comes of it.
pub(super) async fn deploy(shared: &Shared, service: &Service, body: &[u8]) -> Result<Value, Refused> {
    let spec = service.status().spec;
    let Some(folder) = &spec.releases else {
        let detail = format!("the service {:?} has no `releases`: the folder where they are", service.name());
        return Err(refused(StatusCode::CONFLICT, detail));
    };
    let releases = Releases::at(folder);
    let name = release(body).map_err(|what| refused(StatusCode::BAD_REQUEST, what))?;
    let dir = releases.dir(&name);
    if !dir.is_dir() {
        return Err(refused(StatusCode::NOT_FOUND, format!("there is no release {name} in {}", folder.display())));
    }
    let before = releases.current();
    let (switched, switching) = (name.clone(), releases.clone());
    let switch = Box::new(move || switching.switch(&switched).map_err(|error| unwritable(&switching, &error)));
    let trial = Trial { release: Arc::from(name.as_str()), dir, switch };
    let answer = shared.control.deploy(service.id(), trial).await;
    match answer.map_err(|_| refused(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping"))? {
        Ok(deployed) => Ok(json!({
            "service": &**service.name(),
            "release": name.as_str(),
            "previous": before.as_ref().map(Name::as_str),
            "instance": deployed.instance,
            "health_status": deployed.status,
            "took_ms": deployed.took.as_secs_f64() * 1e3,
        })),
        Err(error) => {
            let detail = told(&error);
            if error.blame == Blame::Release
                && let Err(e) = releases.note_failure(&name, &detail)
            {
                tracing::warn!("why the release {name} is not used cannot be noted in {}: {e}", folder.display());
            }
            Err(refused(
                StatusCode::CONFLICT,
                format!("the release {name} is not used, and nothing has changed: {detail}"),
            ))
        }
    }
}

fn unwritable(releases: &Releases, error: &io::Error) -> io::Error {
    let folder = releases.folder().display();
    io::Error::new(
        error.kind(),
        format!("{error}; does the gateway's user own {folder}, and is there room on its disk?"),
    )
}

/// `{"release": "NAME"}`.
fn release(body: &[u8]) -> Result<Name, String> {
    const EXAMPLE: &str = "send {\"release\": \"20261124-001500-abcdef\"}";
    let value: Value = serde_json::from_slice(body).map_err(|e| format!("the body is not JSON: {e}; {EXAMPLE}"))?;
    let name = value.get("release").and_then(Value::as_str).and_then(Name::parse);
    name.ok_or_else(|| format!("the body has no `release` that is a name of one; {EXAMPLE}"))
}

/// What happened, with the last lines of output.
fn told(error: &DeployError) -> String {
    let mut text = error.reason.clone();
    for line in &*error.output_tail {
        let _ = write!(text, "\n  | {line}"); // to a text nothing fails
    }
    text
}
