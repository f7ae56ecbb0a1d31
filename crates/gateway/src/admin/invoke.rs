//! `POST /services/NAME/invoke`: a function of AWS Lambda with an event of somebody's.

use std::time::Instant;

use http::StatusCode;
use pilotlight_supervisor::Service;
use serde_json::{Value, json};
use std::sync::Arc;

use super::refused::{Refused, refused};
use super::shared::Shared;
use crate::upstream::lambda::{self, NotInvoked};

/// The worker whose count of exchanges has it.
const WORKER: usize = 0;

/// Bytes of an event that the service takes.
pub(super) fn max_event(shared: &Shared, service: &Service) -> Result<usize, Refused> {
    let table = shared.common.table.load();
    table.lambda(service.name()).map(|options| options.max_payload).ok_or_else(|| {
        refused(
            StatusCode::CONFLICT,
            format!("the service {:?} is no function: it has no transport = \"lambda\"", service.name()),
        )
    })
}

/// Invokes it, and waits for what comes of it.
pub(super) async fn invoke(shared: &Shared, service: &Arc<Service>, event: Vec<u8>) -> Result<Value, Refused> {
    if let Err(e) = serde_json::from_slice::<Value>(&event) {
        return Err(refused(StatusCode::BAD_REQUEST, format!("the event is not JSON: {e}; send for example {{}}")));
    }
    let table = shared.common.table.load_full();
    let gone = || refused(StatusCode::CONFLICT, "it is no function any more");
    let options = Arc::clone(table.lambda(service.name()).ok_or_else(gone)?);
    let begun = Instant::now();
    let lease = service.ready(WORKER).await.map_err(|e| refused(StatusCode::SERVICE_UNAVAILABLE, e.to_string()))?;
    let (instance, placed) = (lease.instance().number(), begun.elapsed());
    let limit = service.max_request_time().or(table.settings().limits.response_timeout);
    let to = lambda::To { functions: &shared.common.functions, service, options: &options };
    let invoked = lambda::invoke(to, lease, event, limit).await;
    let mut answer = json!({
        "service": &**service.name(),
        "instance": instance,
        "waited_ms": placed.as_secs_f64() * 1e3,
        "took_ms": begun.elapsed().as_secs_f64() * 1e3,
    });
    let (name, value) = match invoked {
        Ok(result) => {
            ("result", serde_json::from_slice(&result).unwrap_or_else(|_| String::from_utf8_lossy(&result).into()))
        }
        Err(NotInvoked::Function(error)) => {
            ("error", json!({ "type": error.kind, "message": error.message, "trace": error.trace }))
        }
        Err(NotInvoked::TooLarge(why)) => return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, why)),
        Err(NotInvoked::Late(why)) => return Err(refused(StatusCode::GATEWAY_TIMEOUT, why)),
        Err(NotInvoked::Failed(why)) => return Err(refused(StatusCode::BAD_GATEWAY, why)),
    };
    answer[name] = value;
    Ok(answer)
}
