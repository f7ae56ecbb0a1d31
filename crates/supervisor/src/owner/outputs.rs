//! The output of services: a pipe for each stream, and the task that reads it into the log.

use crate::log::{Output, Pump};
use std::io;
use std::os::fd::OwnedFd;
use tokio::net::unix::pipe;

/// The gateway's ends.
pub(super) type Outputs = [(Output, pipe::Receiver); 2];

/// Our ends and the service's.
pub(super) fn outputs() -> io::Result<(Outputs, Vec<OwnedFd>)> {
    let (out, out_end) = io::pipe()?;
    let (err, err_end) = io::pipe()?;
    let receiver = |from: io::PipeReader| pipe::Receiver::from_owned_fd(from.into());
    let outputs = [(Output::Stdout, receiver(out)?), (Output::Stderr, receiver(err)?)];
    Ok((outputs, vec![out_end.into(), err_end.into()]))
}

pub(super) async fn pumped(instance: u64, pump: Pump, from: pipe::Receiver) -> u64 {
    if let Err(error) = pump.run(from).await {
        tracing::error!(%error, "cannot read a service's output");
    }
    instance
}
