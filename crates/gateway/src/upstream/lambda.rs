//! Functions of AWS Lambda. Each instance asks for its invocations at a Runtime API of its own, which one worker serves
//! ([`api`]). All workers send their invocations to that one, and get the results from it.
//!
//! ```text
//!  worker of the client                        worker that serves the instance
//!  request ─▶ event ─▶ Invocation ───────────▶ Api ──▶ next
//!  response ◀─ result, or a stream ◀────────── Api ◀── response, error
//! ```
//!
//! An invocation has the place at its instance until the instance has answered, or is ended because it did not: a
//! client that goes away ends no invocation.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_exchange::retry::Reuse;
use pilotlight_lambda::FunctionError;
use pilotlight_supervisor::{Lease, Service};
use tokio::sync::oneshot;

use super::first_byte::FirstByte;
use super::one_try::Try;
use super::{BodyLeft, Delivery, Failed, SendError, ServiceResponse, UpstreamError, closed};
use crate::options::LambdaOptions;
use crate::outbound::Outbound;
use crate::request_body::RequestBody;

pub(crate) mod api;
mod invocation;
mod request;
mod response;

pub(crate) use invocation::Functions;
use invocation::{Handed, Invocation, InvokeError, Outcome};

/// The function that is invoked.
#[derive(Clone, Copy)]
pub(crate) struct To<'a> {
    pub(crate) functions: &'a Functions,
    pub(crate) service: &'a Arc<Service>,
    pub(crate) options: &'a LambdaOptions,
}

/// Sends a request as an event, and waits for the result, or for the head of a streamed one.
///
/// # Cancel safety
/// Dropping it throws the result away; the invocation goes on.
pub(crate) async fn send(
    functions: &Functions,
    service: &Arc<Service>,
    options: Option<&LambdaOptions>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    mut body: Option<Box<RequestBody>>,
) -> Result<ServiceResponse, Failed> {
    let Some(options) = options else { return Err(not_configured(service, body)) };
    let to = To { functions, service, options };
    match try_send(to, one, outbound, body.as_deref_mut()).await {
        Ok(response) => Ok(response),
        Err(error) => {
            let body = match body {
                Some(body) if !body.is_whole() => BodyLeft::Spent,
                body => BodyLeft::Whole(body.map(|mut body| {
                    body.rewind();
                    body
                })),
            };
            Err(Failed { error, body, reuse: Reuse::New })
        }
    }
}

async fn try_send(
    to: To<'_>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    body: Option<&mut RequestBody>,
) -> Result<ServiceResponse, SendError> {
    let To { service, options, .. } = to;
    let name = service.name();
    let Some(first_byte) = &*one.first_byte else { return Err(not_reachable(to)) };
    let body = match body {
        None => None,
        Some(body) => match first_byte.within(body.gather(options.max_payload)).await {
            Some(Ok(Some(whole))) => Some(whole),
            Some(Ok(None)) => return Err(too_large(to, None)),
            Some(Err(error)) => return Err(SendError::Client(error)),
            None => return Err(SendError::Client(first_byte.late())),
        },
    };
    let (event, trace) = match &outbound.event {
        Some(event) => (event.as_bytes().to_vec(), request::trace(outbound)),
        None => request::event(options, outbound, body.as_deref()),
    };
    if event.len() > options.max_payload {
        return Err(too_large(to, Some(event.len())));
    }
    let Some(lease) = one.lease.take() else { return Err(not_reachable(to)) };
    first_byte.service_turn();
    let deadline = first_byte.longest();
    let started = start(to, lease, Event { payload: event, trace }, deadline.unwrap_or(LambdaOptions::LONGEST));
    let reply = started.map_err(|error| failed(to, error, Some(first_byte)))?;
    let Some(outcome) = first_byte.within(reply).await else { return Err(first_byte.over(name).into()) };
    let outcome = outcome.unwrap_or_else(|_| Err(InvokeError::gone()));
    let outcome = outcome.map_err(|error| failed(to, error, Some(first_byte)))?;
    match &outbound.event {
        Some(_) => Ok(response::plain(to, one, outcome)),
        None => response::read(to, one, outbound, outcome).await,
    }
}

/// Why an event of somebody's came to nothing.
pub(crate) enum NotInvoked {
    /// The function says so.
    Function(Box<FunctionError>),
    TooLarge(String),
    Late(String),
    Failed(String),
}

/// Hands an event to the instance of a lease, and waits for the whole result; `limit`: how long.
///
/// # Cancel safety
/// Dropping it throws the result away; the invocation goes on.
pub(crate) async fn invoke(
    to: To<'_>,
    lease: Lease,
    payload: Vec<u8>,
    limit: Option<Duration>,
) -> Result<Bytes, NotInvoked> {
    let trace = request::new_trace();
    let limit = limit.unwrap_or(LambdaOptions::LONGEST);
    let not = |error| match error {
        InvokeError::Function(error) => NotInvoked::Function(error),
        InvokeError::Late => {
            let (name, seconds) = (to.service.name(), limit.as_secs_f32());
            NotInvoked::Late(format!("service {name} gave no result within {seconds} s; the instance is replaced"))
        }
        other => match failed(to, other, None) {
            SendError::Upstream(error @ UpstreamError::TooLarge { .. }) => NotInvoked::TooLarge(error.to_string()),
            SendError::Upstream(error) => NotInvoked::Failed(error.to_string()),
            SendError::Client(error) => NotInvoked::Failed(error.to_string()),
            SendError::Start(error) => NotInvoked::Failed(error.to_string()),
        },
    };
    let reply = start(to, lease, Event { payload, trace }, limit).map_err(not)?;
    let outcome = reply.await.unwrap_or_else(|_| Err(InvokeError::gone())).map_err(not)?;
    response::gathered(outcome).await.map_err(not)
}

/// An event and the trace that it belongs to.
pub(crate) struct Event {
    pub(crate) payload: Vec<u8>,
    pub(crate) trace: String,
}

/// Hands an event to the instance of a lease.
fn start(
    to: To<'_>,
    lease: Lease,
    event: Event,
    time: Duration,
) -> Result<oneshot::Receiver<Result<Outcome, InvokeError>>, InvokeError> {
    let (reply, replied) = oneshot::channel();
    let (instance, id) = (Arc::clone(lease.instance()), new_id());
    let now = Instant::now();
    let handed = Handed {
        id,
        payload: Bytes::from(event.payload),
        deadline: now.checked_add(time).unwrap_or(now + LambdaOptions::LONGEST),
        trace: event.trace,
        arn: to.options.function.arn(),
    };
    let invocation =
        Invocation { handed, max_payload: to.options.max_payload, max_stream: to.options.max_stream, lease, reply };
    to.functions.send(&instance, invocation)?;
    Ok(replied)
}

/// The id of an invocation: a UUID of random numbers (RFC 9562 §5.4).
fn new_id() -> String {
    let random = || getrandom::u64().unwrap_or_else(|_| fastrand::u64(..));
    uuid(random(), random())
}

fn uuid(high: u64, low: u64) -> String {
    let (time, mid, version) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
    let (variant, node) = (0x8000 | ((low >> 48) & 0x3fff), low & 0xffff_ffff_ffff);
    format!("{time:08x}-{mid:04x}-4{version:03x}-{variant:04x}-{node:012x}")
}

/// Not reachable: whoever reads the settings gives each function its own.
fn not_configured(service: &Service, body: Option<Box<RequestBody>>) -> Failed {
    let error = closed(service.name(), "has no settings of a function", Delivery::No).into();
    Failed { error, body: BodyLeft::Whole(body), reuse: Reuse::New }
}

/// Not reachable: every try has a place and a wait.
fn not_reachable(to: To<'_>) -> SendError {
    closed(to.service.name(), "was not waited for", Delivery::No).into()
}

fn too_large(to: To<'_>, bytes: Option<usize>) -> SendError {
    let most = to.options.max_payload;
    let event = bytes
        .map_or_else(|| "its event would have more".to_owned(), |bytes| format!("its event has {bytes} bytes, more"));
    let text = format!("{event} than lambda.max_payload ({most} bytes)");
    UpstreamError::TooLarge { service: to.service.name().to_string(), text }.into()
}

/// What became of an invocation, as the exchange knows it.
fn failed(to: To<'_>, error: InvokeError, first_byte: Option<&FirstByte>) -> SendError {
    let service = to.service.name().to_string();
    match error {
        InvokeError::Function(error) => UpstreamError::Function { service, error },
        InvokeError::Late => match first_byte.filter(|first_byte| first_byte.longest().is_some()) {
            Some(first_byte) => first_byte.over(&service),
            None => {
                let (after, setting) = (LambdaOptions::LONGEST, "the longest time of an invocation");
                UpstreamError::Timeout { service, after, setting }
            }
        },
        InvokeError::TooLarge { limit } => {
            let what = format!("its result is larger than lambda.max_payload ({limit} bytes)");
            UpstreamError::Protocol { service, what }
        }
        InvokeError::Broken => closed(&service, "broke its result off", Delivery::Maybe),
        InvokeError::Ended(what, delivery) => closed(&service, &what, delivery),
    }
    .into()
}

/// The next part of a stream, unless its time is over before.
async fn within<T>(
    first_byte: Option<&FirstByte>,
    mut poll: impl FnMut(&mut std::task::Context<'_>) -> std::task::Poll<T>,
) -> Option<T> {
    match first_byte {
        Some(first_byte) => first_byte.within(poll_fn(poll)).await,
        None => Some(poll_fn(|cx| poll(cx)).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids() {
        assert_eq!(uuid(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid(0x0123_4567_89ab_cdef, 0), "01234567-89ab-4def-8000-000000000000");
    }
}
