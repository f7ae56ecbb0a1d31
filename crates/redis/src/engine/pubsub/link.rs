//! The task of one node's connection for subscriptions: connects, runs the session, reports the loss, pauses, connects
//! again; ends when nothing comes from the node any more.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::hub::Hub;
use super::lease::Lease;
use super::session::{Ended, Session};
use crate::config::NodeAddress;
use crate::net::renewal::Changes;

/// A connection that has lasted for less, and on which nothing was read or what is no message, counts as a failed
/// attempt, as a lane's does.
const STEADY: Duration = Duration::from_secs(1);

/// Runs until the node is not needed; aborted when the client is closed.
pub(super) async fn run(hub: Arc<Hub>, node: NodeAddress, wake: Arc<Notify>, lease: Lease) {
    let dial = hub.dial(&node);
    let mut failures = 0;
    while !hub.release(&node) {
        let changes = Changes::new(dial.changes());
        match while_needed(&hub, &node, &wake, dial.dial()).await {
            None => continue,
            Some(Ok(connection)) => {
                let since = Instant::now();
                hub.connected(&node);
                let ended = Session::new(&hub, &node, &wake, dial.as_ref(), connection, changes).run().await;
                failures += 1;
                if since.elapsed() >= STEADY || ended.is_sane() {
                    failures = 0;
                }
                match ended {
                    Ended::Unneeded => {
                        hub.closed(&node);
                        continue;
                    }
                    Ended::Lost { reason, .. } => hub.disconnected(&node, &reason),
                }
            }
            Some(Err(error)) => {
                failures += 1;
                hub.unreachable(&node, &error);
            }
        }
        let pause = hub.config().reconnect.pause(failures, &mut fastrand::Rng::new());
        while_needed(&hub, &node, &wake, tokio::time::sleep(pause)).await;
    }
    lease.finish();
}

async fn while_needed<T>(hub: &Hub, node: &NodeAddress, wake: &Notify, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    loop {
        if !hub.is_needed(node) {
            return None;
        }
        tokio::select! {
            output = &mut future => return Some(output),
            () = wake.notified() => {}
        }
    }
}
