//! Where topics are served, and the task that moves them when the cluster changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hub::{Hub, State};
use super::lease::Lease;
use crate::config::{DEFAULT_PORT, NodeAddress};
use crate::engine::cluster::Cluster;
use crate::error::ServerError;
use crate::proto::asked::{Asked, Security};
use crate::proto::redirect::Redirect;
use crate::proto::retry::Refresh;
use crate::proto::subscriptions::{Output, Reroute, Topic};

/// While a node is missing, the topology is looked at this often.
const STRANDED_PAUSE: Duration = Duration::from_millis(100);

/// A slot that the topology gives to another node is left where its messages come from for so long: the server itself
/// says when it has moved. After that the server is taken for one that has lost touch with its cluster.
const SETTLE: Duration = Duration::from_secs(1);

impl Hub {
    pub(super) fn note_redirect(&self, error: &ServerError, node: &NodeAddress) {
        let Some(cluster) = &self.cluster else { return };
        let security = if self.config.tls.is_some() { Security::Tls } else { Security::Plain };
        if let Ok(Some(redirect)) = Redirect::detect(error, &Asked { security, ..Asked::plain(node) }) {
            cluster.note_redirect(&redirect);
        }
    }

    /// Who serves a topic, as far as is known.
    pub(super) fn route(&self, home: Option<&NodeAddress>, topic: &Topic) -> Option<NodeAddress> {
        match (&self.cluster, topic.slot()) {
            (Some(cluster), Some(slot)) => cluster.owner(slot),
            (Some(_), None) => home.cloned(),
            (None, _) => Some(
                self.config.servers.first().cloned().unwrap_or_else(|| NodeAddress::tcp("localhost", DEFAULT_PORT)),
            ),
        }
    }

    pub(super) fn reroute(&self, state: &mut State, which: Reroute, out: &mut Vec<Output<NodeAddress>>) {
        self.settle_home(state);
        let State { subscriptions, home, .. } = state;
        subscriptions.reroute(which, |topic| self.route(home.as_ref(), topic), out);
    }

    /// Keeps the home while the topology knows it, else chooses another one.
    pub(super) fn settle_home(&self, state: &mut State) {
        let Some(cluster) = &self.cluster else { return };
        if state.home.as_ref().is_some_and(|home| cluster.knows(home)) {
            return;
        }
        let primaries = cluster.primary_addresses();
        if primaries.is_empty() {
            cluster.want_refresh(Refresh::Urgent);
        }
        let others: Vec<_> = primaries.iter().filter(|node| Some(*node) != state.avoided.as_ref()).collect();
        state.home = match others.is_empty() {
            false => others.get(fastrand::usize(..others.len())).map(|node| (*node).clone()),
            true => primaries.first().cloned(),
        };
    }

    pub(super) fn is_stranded(&self) -> bool {
        self.state.lock().subscriptions.is_stranded()
    }
}

/// Routes topics anew when the topology changes, and asks for the topology while a node is missing. Runs until the hub
/// is closed.
pub(super) async fn follow(hub: Arc<Hub>, cluster: Arc<Cluster>, lease: Lease) {
    let mut changes = cluster.changes();
    let (mut look_at, mut settled_at): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        let due = look_at.into_iter().chain(settled_at).min();
        let sleep = tokio::time::sleep_until(due.unwrap_or_else(Instant::now));
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return lease.finish();
                }
                settled_at = Some(Instant::now() + SETTLE);
            }
            () = hub.trouble.notified(), if look_at.is_none() => {
                look_at = Some(Instant::now() + STRANDED_PAUSE);
                continue;
            }
            () = sleep, if due.is_some() => {}
        }
        let is_settled = settled_at.is_some_and(|at| at <= Instant::now());
        let which = if is_settled { Reroute::All } else { Reroute::Missing };
        settled_at = settled_at.filter(|_| !is_settled);
        hub.change(|state, out| hub.reroute(state, which, out));
        hub.staff_if_short();
        look_at = None;
        if hub.is_stranded() {
            cluster.want_refresh(Refresh::Urgent);
            look_at = Some(Instant::now() + STRANDED_PAUSE);
        }
    }
}
