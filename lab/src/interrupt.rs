//! Ctrl-C and SIGTERM: an experiment ends between two requests and takes everything that it started with it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The run was told to end.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted: everything that was started is being stopped")
    }
}

impl std::error::Error for Interrupted {}

/// Starts to watch for signals. The second one ends the process at once; what it holds ends with it.
///
/// # Errors
/// No thread or no signal handler can be had.
pub fn watch() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let context = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    drop(context);
    let wait = move || {
        for already in [false, true] {
            runtime.block_on(async {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {}, _ = hangup.recv() => {} }
            });
            if already {
                std::process::exit(1);
            }
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// To be asked between two steps.
///
/// # Errors
/// The process was told to end.
pub fn check() -> Result<(), Interrupted> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}
