//! The Rust service SDK: [`serve`] runs a handler as a service of the gateway that started this process.
//!
//! Everything runs on the thread that awaits [`serve`], each connection in a task of its own. A handler is polled where
//! its request was read; only one that is not ready at once becomes a task.
//!
//! Its storeys, each of which needs only those below it:
//!
//! ```text
//! supervise                   the loop of the instance: opens connections, decides when it ends
//! own, shared, shared/        the loop of a connection
//! answer, request, instance   an outcome to frames; a frame to a request; what all connections share
//! wire                        bytes of one connection
//! body, outcome, exchange     what a handler gets and returns
//! upgrade                     a connection that has left the protocol
//! settings, error, stage
//! ```
//!
//! Invariants: every request gets exactly one final frame (P-16); all that is held is bounded: one frame of each body,
//! `exchanges` answers on a shared connection, [`MAX_LOG_LINES`] log lines of a connection.

mod answer;
mod body;
mod error;
mod exchange;
mod instance;
mod outcome;
mod own;
mod request;
mod settings;
mod shared;
mod stage;
mod supervise;
mod upgrade;
mod wire;

pub use body::{Body, BodyClosed, BodyError, BodySender, Incoming};
pub use error::ServeError;
pub use exchange::{Exchange, MAX_LOG_LINES};
pub use outcome::{Failure, IntoOutcome};
pub use settings::Service;
pub use upgrade::Upgraded;

use http::Request;
use instance::Instance;

/// Serves `handler` to the gateway that started this process until the gateway wants it to end, or is gone.
///
/// ```no_run
/// use http::{Request, Response};
/// use pilotlight_pipe::{Incoming, serve};
///
/// async fn hello(request: Request<Incoming>) -> Response<String> {
///     Response::new(format!("hello from {}\n", request.uri().path()))
/// }
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
///     Ok(runtime.block_on(serve(hello))?)
/// }
/// ```
///
/// A handler is an async function from `Request<Incoming>` to a `Response<B>` (`B`: text, bytes or a [`Body`]) or a
/// `Result` of one and a [`Failure`]. It need not be `Send`. Its request carries an [`Exchange`] extension: deadline,
/// request id, peer, log, cancellation. When the client has gone the handler's future, or the answer's body, is
/// dropped.
///
/// Handlers run on the thread that awaits this future, so one that computes or blocks for long belongs on a thread of
/// its own. DRAIN and SIGTERM end it when the open exchanges are done (P-31).
///
/// # Errors
/// This process was not started by a gateway, the gateway cannot be reached or refuses, or breaks the protocol.
///
/// # Cancel safety
/// Dropping the future drops all exchanges; their clients see a failed service.
pub async fn serve<H, F, R>(handler: H) -> Result<(), ServeError>
where
    H: Fn(Request<Incoming>) -> F + 'static,
    F: Future<Output = R> + 'static,
    R: IntoOutcome,
{
    Service::from_env()?.serve(handler).await
}

impl Service {
    /// As the function [`serve`].
    ///
    /// # Errors
    /// As the function [`serve`].
    ///
    /// # Cancel safety
    /// As the function [`serve`].
    pub async fn serve<H, F, R>(self, handler: H) -> Result<(), ServeError>
    where
        H: Fn(Request<Incoming>) -> F + 'static,
        F: Future<Output = R> + 'static,
        R: IntoOutcome,
    {
        let (instance, dials) = Instance::new(self, outcome::erase(handler));
        supervise::run(&instance, dials).await
    }
}
