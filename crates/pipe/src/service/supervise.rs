//! The loop of the instance: opens its connections, and decides when it ends (P-31 … P-33).

use super::error::ServeError;
use super::instance::{Dial, Instance};
use super::wire::{End, Ended};
use super::{own, shared};
use crate::control::MoreKind;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Sleep, sleep};

/// After SIGTERM: how long the gateway may take to answer the service's DRAIN with its own.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

type Connections = JoinSet<(MoreKind, Ended)>;

/// Serves until the gateway wants the instance to end, or is gone.
pub(super) async fn run(instance: &Rc<Instance>, dials: UnboundedReceiver<Dial>) -> Result<(), ServeError> {
    LocalSet::new().run_until(supervise(instance, dials)).await
}

async fn supervise(instance: &Rc<Instance>, mut dials: UnboundedReceiver<Dial>) -> Result<(), ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signal)?;
    let mut connections = Connections::new();
    instance.want(Dial { kind: MoreKind::Shared, worker: None }); // P-2
    let mut leaving = std::pin::pin!(None::<Sleep>);
    loop {
        tokio::select! {
            Some(dial) = dials.recv() => open(instance, &mut connections, dial),
            ended = connections.join_next(), if !connections.is_empty() => match ended {
                None => {}
                Some(Err(panicked)) => return Err(ServeError::Io(io::Error::other(panicked))),
                Some(Ok((kind, ended))) => {
                    if let Some(result) = connection_ended(instance, kind, ended) {
                        return result;
                    }
                    if connections.is_empty() && dials.is_empty() {
                        return Ok(());
                    }
                }
            },
            _ = terminate.recv() => {
                instance.leave();
                leaving.set(Some(sleep(LEAVE_TIMEOUT)));
            }
            () = poll_fn(|cx| match leaving.as_mut().as_pin_mut() {
                Some(wait) => wait.poll(cx),
                None => std::task::Poll::Pending,
            }) => {
                leaving.set(None);
                instance.drained();
            }
        }
    }
}

fn open(instance: &Rc<Instance>, connections: &mut Connections, Dial { kind, worker }: Dial) {
    let instance = Rc::clone(instance);
    match kind {
        MoreKind::Own => connections.spawn_local(async move { (kind, own::run(&instance, worker).await) }),
        MoreKind::Shared => connections.spawn_local(async move { (kind, shared::run(&instance, worker).await) }),
    };
}

/// Whether the end of this connection is the end of the instance.
fn connection_ended(instance: &Instance, kind: MoreKind, ended: Ended) -> Option<Result<(), ServeError>> {
    if let Ok(End::Upgraded) = ended {
        instance.upgraded_closed();
        return None;
    }
    let left = instance.closed(kind);
    let last_shared = kind == MoreKind::Shared && left == 0;
    match ended {
        // The others finish what is open; then no connection is left.
        Ok(End::Closed | End::Upgraded) => None,
        // P-33
        Ok(End::Eof) => last_shared.then_some(Ok(())),
        Err(error) if last_shared => Some(Err(error)),
        Err(error) => {
            let name = match kind {
                MoreKind::Own => "own",
                MoreKind::Shared => "shared",
            };
            // P-5: standard error is a log.
            eprintln!("pilotlight-pipe: a connection of kind {name} ended: {error}");
            None
        }
    }
}
