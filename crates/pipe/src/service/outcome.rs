//! What a handler returns, and how it becomes a final frame.

use super::body::{Body, BodyError, Incoming};
use crate::reset::{Reset, ResetCode};
use http::header::UPGRADE;
use http::{Request, Response, StatusCode};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Why a handler has no response. Any error becomes [`Failure::Internal`] with `?`, a [`BodyError::TooLarge`] becomes
/// [`Failure::TooLarge`]; it is no `Error` itself for that to be possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was begun: the gateway may send the request to another instance, whatever its method.
    Refused(String),
    /// As `Refused`, because there is too much to do.
    Overloaded {
        /// For how long.
        retry_after: Duration,
        /// For people.
        text: String,
    },
    /// The request's body is larger than this handler takes: 413 for the client.
    TooLarge(String),
    /// The handler failed: 502 for the client.
    Internal(String),
}

impl Failure {
    pub(super) fn to_reset(&self) -> Reset {
        match self {
            Self::Refused(text) => Reset::new(ResetCode::Refused, text),
            Self::TooLarge(text) => Reset::new(ResetCode::TooLarge, text),
            Self::Internal(text) => Reset::new(ResetCode::Internal, text),
            Self::Overloaded { retry_after, text } => {
                let retry_after_ms = u32::try_from(retry_after.as_millis()).unwrap_or(u32::MAX);
                Reset { code: ResetCode::Overloaded, retry_after_ms, text: text.clone() }
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reset = self.to_reset();
        write!(f, "{}: {}", reset.code.name(), reset.text)
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref() {
            Some(BodyError::TooLarge { .. }) => Self::TooLarge(error.to_string()),
            _ => Self::Internal(error.to_string()),
        }
    }
}

/// What a handler may return: a response, or a `Result` of one.
///
/// ```
/// use http::Response;
/// use pilotlight_pipe::{Failure, IntoOutcome};
///
/// assert!(Response::new("hello\n").into_outcome().is_ok());
/// let busy: Result<Response<&str>, Failure> = Err(Failure::Refused("not now".into()));
/// assert_eq!(busy.into_outcome().unwrap_err(), Failure::Refused("not now".into()));
/// ```
pub trait IntoOutcome {
    /// The response or why there is none.
    ///
    /// # Errors
    /// The handler's own.
    fn into_outcome(self) -> Result<Response<Body>, Failure>;
}

impl<B: Into<Body>> IntoOutcome for Response<B> {
    fn into_outcome(self) -> Result<Response<Body>, Failure> {
        Ok(self.map(Into::into))
    }
}

impl<B: Into<Body>, E: Into<Failure>> IntoOutcome for Result<Response<B>, E> {
    fn into_outcome(self) -> Result<Response<Body>, Failure> {
        self.map(|response| response.map(Into::into)).map_err(Into::into)
    }
}

/// Whether the request may be answered by a switch to another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    None,
    /// P-38.
    Switch,
}

/// What a handler may answer: a switch only where one was offered, and as P-40 wants it.
pub(super) fn checked(outcome: Outcome, offer: Offer) -> Outcome {
    let response = outcome?;
    let (status, is_upgrade) = (response.status(), response.body().is_upgrade());
    let is_switch = is_upgrade && status == StatusCode::SWITCHING_PROTOCOLS && response.headers().contains_key(UPGRADE);
    let wrong = match offer {
        _ if !is_upgrade && status.is_informational() => "which is not the status of an answer",
        Offer::None if is_upgrade => "but its client has not asked for another protocol, or may not",
        Offer::Switch if is_upgrade && !is_switch => "but a switch is a 101 with an `upgrade` field",
        Offer::None | Offer::Switch => return Ok(response),
    };
    Err(Failure::Internal(format!("the handler answered {}, {wrong}", status.as_u16())))
}

pub(super) type Outcome = Result<Response<Body>, Failure>;
pub(super) type Handler = Rc<dyn Fn(Request<Incoming>) -> Running>;

/// A handler at work. A panic is an outcome as well: the service goes on.
pub(super) struct Running(Pin<Box<dyn Future<Output = Outcome>>>);

impl Future for Running {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        // The future is not polled again after a panic, so what it left half done is not seen.
        catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx)))
            .unwrap_or_else(|_| Poll::Ready(Err(Failure::Internal("the handler panicked".into()))))
    }
}

pub(super) fn erase<H, F, R>(handler: H) -> Handler
where
    H: Fn(Request<Incoming>) -> F + 'static,
    F: Future<Output = R> + 'static,
    R: IntoOutcome,
{
    let handler = Rc::new(handler);
    Rc::new(move |request| {
        let handler = Rc::clone(&handler);
        Running(Box::pin(async move { handler(request).await.into_outcome() }))
    })
}
