//! The task that keeps a cluster's topology: asks some nodes at once, compares their views, installs the newest
//! (`docs/adr/0076-epochs-of-owners.md`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::Cluster;
use crate::command::{Command, CommandSpec};
use crate::commands::spec;
use crate::config::{Config, NodeAddress};
use crate::engine::lane::DialError;
use crate::error::{Advice, ServerError};
use crate::net::connect::{Purpose, connect};
use crate::net::wire::Wire;
use crate::proto::asked::{Asked, Security};
use crate::proto::refresh::{Action, Outcome};
use crate::proto::retry::Refresh;
use crate::proto::topology::Topology;
use crate::proto::topology::compare::{Consensus, consensus};
use crate::reply::Value;

/// After the first answer, the others get this much longer; before it, silence for so long has one more source asked.
const PATIENCE: Duration = Duration::from_millis(100);
/// A node that has told its view has so long to tell epochs; without them its view is believed less.
const EPOCHS_PATIENCE: Duration = Duration::from_millis(500);
/// A refusal stands in the server's log, so that no node is asked for epochs again for so long. Then the user may have
/// been given the right to it.
const REFUSAL_BELIEVED: Duration = Duration::from_secs(600);
/// So long a topology is kept although all nodes that answer still name former owners. A node that cannot be reached
/// tells the others late of what it has taken over; if it never does, they are believed.
const NEWER_KEPT: Duration = Duration::from_secs(15);

/// Runs until the cluster is dropped or closed.
pub(super) async fn run(cluster: Weak<Cluster>) {
    loop {
        let Some(strong) = cluster.upgrade() else { return };
        let action = strong.wanted.lock().poll(Instant::now().into());
        match action {
            Action::Start => {
                let (sources, parallel) = strong.sources();
                let (config, epochs) = (Arc::clone(&strong.config), Arc::clone(&strong.epochs));
                // While it is asked, the cluster may be dropped.
                drop(strong);
                let view = ask(&config, &epochs, sources, parallel).await;
                let Some(cluster) = cluster.upgrade() else { return };
                cluster.note(view);
            }
            Action::WaitUntil(at) => {
                let _ = timeout_at(at.into(), strong.requested.notified()).await;
            }
            Action::Wait => strong.requested.notified().await,
        }
    }
}

/// Asks some sources at once for the topology, others if those fail or are silent.
///
/// # Errors
/// Nobody gave a topology. It is final if none of the sources will: wrong credentials, no support of clusters.
async fn ask(
    config: &Arc<Config>,
    epochs: &Arc<Epochs>,
    sources: Vec<NodeAddress>,
    parallel: usize,
) -> Result<Consensus, DialError> {
    let mut sources = sources.into_iter();
    let mut asked = JoinSet::new();
    for source in sources.by_ref().take(parallel) {
        asked.spawn(ask_one(Arc::clone(config), Arc::clone(epochs), source));
    }
    let end = Instant::now() + config.connect_timeout;
    let mut views = Vec::new();
    let mut problem: Option<DialError> = None;
    let mut deadline = None;
    while !asked.is_empty() {
        let patience = Instant::now() + PATIENCE;
        match timeout_at(deadline.unwrap_or(patience).min(end), asked.join_next()).await {
            Ok(Some(Ok(Ok(view)))) => {
                views.push(view);
                deadline.get_or_insert(patience);
                continue;
            }
            Ok(Some(Ok(Err(another)))) => {
                problem = Some(match problem {
                    Some(known) if known.is_final != another.is_final => {
                        // What has to be mended is worth telling; whether that is all is not certain.
                        let text = if known.is_final { known.text } else { another.text };
                        DialError { text, is_final: false }
                    }
                    _ => another,
                });
            }
            Ok(Some(Err(_)) | None) => {}
            Err(_) if deadline.is_some() || Instant::now() >= end => break,
            Err(_) => {}
        }
        // Another one in its place, or beside those that are silent.
        if deadline.is_none()
            && let Some(source) = sources.next()
        {
            asked.spawn(ask_one(Arc::clone(config), Arc::clone(epochs), source));
        }
    }
    let is_answered = asked.is_empty();
    consensus(views).ok_or_else(|| match problem {
        Some(problem) => DialError { is_final: problem.is_final && is_answered, ..problem },
        None => DialError { text: "no node is known".into(), is_final: false },
    })
}

/// Whether the epochs of primaries are asked for.
#[derive(Debug, Default)]
pub(super) struct Epochs {
    refused: Mutex<Option<Instant>>,
}

impl Epochs {
    fn are_refused(&self) -> bool {
        self.refused.lock().is_some_and(|at| at.elapsed() < REFUSAL_BELIEVED)
    }

    async fn learn(&self, wire: &mut Wire, view: &mut Topology) {
        if self.are_refused() {
            return;
        }
        // A view without them is better than none.
        if let Ok(Ok(answer)) = timeout(EPOCHS_PATIENCE, wire.exchange(&Command::new(&spec::CLUSTER_NODES))).await {
            if is_refused_for_good(&answer) && self.refused.lock().replace(Instant::now()).is_none() {
                tracing::info!("CLUSTER NODES is refused: after a failover a read may go to the former primary");
            }
            view.learn_epochs(&answer);
        }
    }
}

async fn ask_one(config: Arc<Config>, epochs: Arc<Epochs>, source: NodeAddress) -> Result<Topology, DialError> {
    let security = if config.tls.is_some() { Security::Tls } else { Security::Plain };
    let asked = Asked { security, ..Asked::plain(&source) };
    let failed = |why: String, is_final| DialError { text: format!("{source}: {why}").into(), is_final };
    let work = async {
        let mut wire = Wire::new(connect(&config, &source, Purpose::Management).await?);
        let mut answer = async |question: &'static CommandSpec| {
            let answer = wire.exchange(&Command::new(question)).await;
            answer.map_err(|error| failed(error.to_string(), false))
        };
        let slots = answer(&spec::CLUSTER_SLOTS).await?;
        let refused = match Topology::from_slots(&slots, &asked) {
            Ok(mut view) => {
                epochs.learn(&mut wire, &mut view).await;
                return Ok(view);
            }
            Err(error) => error.to_string(),
        };
        // Some servers keep only its successor, and some users may only ask that.
        let shards = answer(&spec::CLUSTER_SHARDS).await?;
        let is_final = is_refused_for_good(&slots) && is_refused_for_good(&shards);
        let mut view = Topology::from_shards(&shards, &asked).map_err(|_| failed(refused, is_final))?;
        epochs.learn(&mut wire, &mut view).await;
        Ok(view)
    };
    let limit = config.connect_timeout;
    timeout(limit, work).await.unwrap_or_else(|_| Err(failed(format!("no answer within {limit:?}"), false)))
}

/// A server without support of clusters, a user without the right to ask: the same question is answered so again.
fn is_refused_for_good(answer: &Value) -> bool {
    matches!(answer, Value::Error(text) if ServerError::parse(text).advice() == Advice::Never)
}

impl Cluster {
    /// Starts the task, unless it runs.
    pub(super) fn start(self: &Arc<Self>) {
        let mut task = self.task.lock();
        if task.is_closed || task.handle.as_ref().is_some_and(|handle| !handle.is_finished()) {
            return;
        }
        // The first one, or the runtime of the one before was shut down.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.wanted.lock().restarted();
            task.handle = Some(runtime.spawn(run(Arc::downgrade(self))).abort_handle());
        }
    }

    /// Whom to ask, and how many of them at once.
    fn sources(&self) -> (Vec<NodeAddress>, usize) {
        let known: Vec<NodeAddress> = match self.live.load().as_deref() {
            Some(live) => live.topology.nodes().iter().map(|node| node.announced.clone()).collect(),
            None => Vec::new(),
        };
        let (mut sources, parallel) = {
            let mut wanted = self.wanted.lock();
            (wanted.sources(&known, &self.config.servers), wanted.parallel())
        };
        let heirs = self.heirs();
        // Those without a live connection last: a dead node costs the whole connect time-out. Who may take its place is
        // the first to know.
        sources.sort_by_cached_key(|address| (self.is_suspect(address), !heirs.contains(address)));
        (sources, parallel)
    }

    /// The replicas of primaries that are lost, as far as is known.
    fn heirs(&self) -> Vec<NodeAddress> {
        let live = self.live.load();
        let Some(topology) = live.as_deref().map(|live| &live.topology) else { return Vec::new() };
        let address = |index| topology.node(index).map(|node| &node.announced);
        let is_lost = |primary: Option<_>| primary.and_then(address).is_some_and(|address| self.is_suspect(address));
        let orphans = topology.shards().iter().filter(|shard| is_lost(shard.primary));
        orphans.flat_map(|shard| shard.replicas.iter().filter_map(|&index| address(index))).cloned().collect()
    }

    fn is_suspect(&self, address: &NodeAddress) -> bool {
        self.nodes.lock().iter().any(|((known, _), node)| known == address && (node.is_down() || node.is_stalled()))
    }

    /// Whether the view is older than the topology: former owners would be read from, what was written to those of now
    /// would not be found.
    fn is_kept_back(&self, view: &Topology) -> bool {
        let is_told = !self.epochs.are_refused();
        let is_older = is_told && self.look(|known| view.is_older_than(known)).unwrap_or(false);
        let mut task = self.task.lock();
        if !is_older {
            task.older_since = None;
            return false;
        }
        tracing::debug!("the nodes that answered name former owners of slots");
        task.older_since.get_or_insert_with(std::time::Instant::now).elapsed() < NEWER_KEPT
    }

    fn note(self: &Arc<Self>, asked: Result<Consensus, DialError>) {
        let outcome = match asked {
            Ok(Consensus { mut view, is_unanimous }) => {
                let _ = self.look(|known| view.keep_epochs(known));
                {
                    let mut task = self.task.lock();
                    task.problem = None;
                    task.refreshes += 1;
                    task.refreshed = Some(std::time::Instant::now());
                }
                match self.is_kept_back(&view) {
                    true => Outcome::Disputed,
                    false => match self.install(view) {
                        Outcome::Unchanged if !is_unanimous => Outcome::Disputed,
                        outcome => outcome,
                    },
                }
            }
            Err(problem) => {
                tracing::debug!(problem = &*problem.text, "the cluster's topology could not be refreshed");
                let mut task = self.task.lock();
                task.failures += 1;
                task.problem = Some(problem);
                Outcome::Failed
            }
        };
        let now = Instant::now().into();
        self.wanted.lock().finished(now, outcome);
        if self.is_awaited(outcome) {
            self.want_refresh(Refresh::Urgent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_believed_for_ten_minutes() {
        let epochs = Epochs::default();
        assert!(!epochs.are_refused());
        *epochs.refused.lock() = Some(Instant::now());
        tokio::time::advance(Duration::from_secs(599)).await;
        assert!(epochs.are_refused());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!epochs.are_refused());
    }
}
