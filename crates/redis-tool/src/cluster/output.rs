//! How results are told, and when people want no more of them.

use std::io::Write;

use serde::Serialize;

/// The version of what `--json` prints; it changes when a field goes or changes its meaning.
pub(super) const SCHEMA: u32 = 1;

/// How results are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Text,
    Json,
}

/// Over at the first Ctrl-C or SIGTERM since it was called, whether it was polled or not.
pub(super) fn interrupted() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        match signals {
            (Ok(mut interrupt), Ok(mut terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
            // They end the process then, as they always did.
            _ => std::future::pending().await,
        }
    }
}

pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

pub(super) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string(value)? + "\n"))
}
