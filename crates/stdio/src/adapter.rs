//! The adapter's process: a service over the pipe.

use crate::crew::Crew;
use crate::endpoint::Endpoint;
use crate::settings::{Settings, StdioOptions, Timeouts};
use pilotlight_pipe::{ServeError, Service};
use std::ffi::OsString;
use std::sync::Arc;

/// The hidden argument with which the binary becomes an adapter.
pub const COMMAND: &str = "stdio";

/// Connections that the adapter holds for event streams, besides those for each process.
const STREAMS: usize = 64;
/// Event streams of each process: the GET's, and some requests.
const STREAMS_EACH: usize = 8;
/// Small exchanges at once on each shared connection.
const EXCHANGES: u16 = 256;

/// Why the adapter cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It was not called as [`command`] says.
    #[error(
        "this is how Pilotlight starts the program of a service with transport = \"stdio\"; it is no command for people"
    )]
    Arguments,
    /// There is no event loop.
    #[error("the event loop cannot be started: {0}")]
    Runtime(std::io::Error),
    /// The gateway cannot be reached, or has broken the protocol.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// The arguments with which the binary becomes the adapter of the program `argv`.
#[must_use]
pub fn command(options: &StdioOptions, timeouts: Timeouts, argv: &[OsString]) -> Vec<OsString> {
    let settings = Settings { options: options.clone(), timeouts };
    // Strings, numbers and times can always be written.
    let settings = serde_json::to_string(&settings).unwrap_or_default();
    [COMMAND.into(), settings.into(), "--".into()].into_iter().chain(argv.iter().cloned()).collect()
}

/// Serves until the gateway wants the instance to end, or is gone; then ends all processes.
///
/// # Errors
/// It was not started by a gateway, or not as [`command`] says.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<(), RunError> {
    let settings = arguments.next().and_then(|text| text.into_string().ok()).ok_or(RunError::Arguments)?;
    let settings: Settings = serde_json::from_str(&settings).map_err(|_| RunError::Arguments)?;
    let argv: Vec<OsString> = arguments.skip(1).collect();
    if argv.is_empty() {
        return Err(RunError::Arguments);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::Runtime)?;
    runtime.block_on(serve(settings, argv))
}

async fn serve(settings: Settings, argv: Vec<OsString>) -> Result<(), RunError> {
    let streams = STREAMS + STREAMS_EACH * settings.options.max_processes;
    let crew = Arc::new(Crew::new(settings, argv));
    let endpoint = Arc::new(Endpoint::new(Arc::clone(&crew)));
    let service = Service::from_env()?.exchanges(EXCHANGES).max_own(u16::try_from(streams).unwrap_or(u16::MAX));
    let mut draining = service.draining();
    let sessions = Arc::clone(&endpoint.sessions);
    let serving = service.serve(move |request| {
        let endpoint = Arc::clone(&endpoint);
        async move { endpoint.answer(request).await }
    });
    let drain = async move {
        // An error: it has served to its end without being told.
        if draining.wait_for(|draining| *draining).await.is_ok() {
            sessions.drain();
        }
        std::future::pending::<()>().await;
    };
    let served = tokio::select! {
        served = serving => served,
        () = drain => Ok(()),
    };
    crew.leave().await;
    Ok(served?)
}
