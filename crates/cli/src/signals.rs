//! The signals that a running gateway is told things with.

use std::io;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// To end, and how it was said.
    Stop(&'static str),
}

/// The signals, known from the moment on at which this exists: none of them ends the process by itself any more.
pub(crate) struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let [interrupt, terminate, hangup] = {
            let _context = runtime.enter();
            let one = |kind: SignalKind| signal(kind);
            [one(SignalKind::interrupt())?, one(SignalKind::terminate())?, one(SignalKind::hangup())?]
        };
        Ok(Self { runtime, interrupt, terminate, hangup })
    }

    /// Waits for the next one.
    pub(crate) fn next(&mut self) -> Told {
        let Self { runtime, interrupt, terminate, hangup } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => Told::Stop("interrupted"),
                _ = hangup.recv() => Told::Stop("the terminal is gone (SIGHUP)"),
                _ = terminate.recv() => Told::Stop("told to end (SIGTERM)"),
            }
        })
    }
}
