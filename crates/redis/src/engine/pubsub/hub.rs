//! What all subscriptions of a client share: who wants what, the inboxes, the connections' tasks, and where topics are
//! routed to.
//!
//! One lock protects it. Messages go from a connection's task straight into the inboxes, and nobody waits for anybody:
//! a full inbox drops its oldest.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::event::{Event, Message};
use super::inbox::Inbox;
use super::jobs::Job;
use crate::config::{Config, NodeAddress};
use crate::engine::cluster::Cluster;
use crate::engine::credential_refresh::CredentialRefresh;
use crate::engine::finder::Finder;
use crate::engine::lane_options::LaneOptions;
use crate::error::{Error, ErrorKind, Ran, Reason};
use crate::proto::subscriptions::{Output, SubscriberId, Subscriptions, Topic};

/// See the module.
pub(crate) struct Hub {
    pub(super) config: Arc<Config>,
    /// Outside of a cluster: who finds the primary.
    pub(super) finder: Option<Arc<Finder>>,
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) lane_options: LaneOptions,
    pub(super) state: Mutex<State>,
    /// Locked before `state`, if both are.
    pub(super) tasks: Mutex<JoinSet<()>>,
    pub(super) is_short_of_tasks: AtomicBool,
    /// Something may be stranded.
    pub(super) trouble: Notify,
}

pub(super) struct State {
    pub(super) subscriptions: Subscriptions<NodeAddress>,
    pub(super) inboxes: HashMap<SubscriberId, Arc<Inbox>>,
    /// By node: wakes its task.
    pub(super) links: HashMap<NodeAddress, Arc<Notify>>,
    /// Where ordinary channels are subscribed in a cluster: any node will do.
    pub(super) home: Option<NodeAddress>,
    /// The last home, which could not be reached.
    pub(super) avoided: Option<NodeAddress>,
    /// Why the last attempt to connect failed.
    pub(super) problem: Option<Reason>,
    /// They wait for tasks.
    pub(super) jobs: Vec<Job>,
    pub(super) follows_cluster: bool,
    pub(super) is_closed: bool,
}

/// What a connection has to know in each turn.
pub(super) struct Turn {
    /// The answer to a round is due.
    pub(super) is_waiting: bool,
    /// Something is to be tried again, after so many failures.
    pub(super) failures: Option<u32>,
    pub(super) is_needed: bool,
}

impl Hub {
    pub(crate) fn new(
        config: &Arc<Config>,
        finder: Option<Arc<Finder>>,
        cluster: Option<Arc<Cluster>>,
        credential_refresh: &Arc<CredentialRefresh>,
    ) -> Arc<Self> {
        let lane_options = LaneOptions { credential_refresh: Arc::clone(credential_refresh), ..LaneOptions::default() };
        let state = State {
            subscriptions: Subscriptions::new(),
            inboxes: HashMap::new(),
            links: HashMap::new(),
            home: None,
            avoided: None,
            problem: None,
            jobs: Vec::new(),
            follows_cluster: false,
            is_closed: false,
        };
        Arc::new(Self {
            config: Arc::clone(config),
            finder,
            cluster,
            lane_options,
            state: Mutex::new(state),
            tasks: Mutex::default(),
            is_short_of_tasks: AtomicBool::new(false),
            trouble: Notify::new(),
        })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn add_subscriber(&self) -> (SubscriberId, Arc<Inbox>) {
        let inbox = Arc::new(Inbox::new(self.config.subscription_limits));
        let mut state = self.state.lock();
        let id = state.subscriptions.add_subscriber();
        state.inboxes.insert(id, Arc::clone(&inbox));
        if state.is_closed {
            inbox.close();
        }
        (id, inbox)
    }

    pub(crate) fn remove_subscriber(self: &Arc<Self>, id: SubscriberId) {
        self.change(|state, out| {
            state.subscriptions.remove_subscriber(id, out);
            state.inboxes.remove(&id);
        });
    }

    pub(crate) fn unwant(self: &Arc<Self>, id: SubscriberId, topics: &[Topic]) {
        self.change(|state, out| topics.iter().for_each(|topic| state.subscriptions.unwant(id, topic, out)));
    }

    pub(crate) fn is_whole(&self, id: SubscriberId) -> bool {
        let state = self.state.lock();
        !state.is_closed && state.subscriptions.is_whole(id)
    }

    /// Waits until the subscriber gets the messages of `topics`. If it fails, or is dropped, he does not want those
    /// that are new.
    pub(crate) async fn want(
        self: &Arc<Self>,
        id: SubscriberId,
        inbox: &Arc<Inbox>,
        topics: Vec<Topic>,
        command: &'static str,
    ) -> Result<(), Error> {
        if Handle::try_current().is_err() {
            let kind = ErrorKind::Connect("there is no tokio runtime on this thread".into());
            return Err(Error::new(kind, Ran::NotSent, command));
        }
        inbox.take_failures();
        let mut claim = Claim { hub: self, id, topics: self.ask(id, topics) };
        let answered = async {
            loop {
                let settled = inbox.settled.notified();
                if let Some(result) = self.answer(id, inbox, &claim.topics) {
                    return result;
                }
                settled.await;
            }
        };
        let result = match self.config.command_timeout {
            Some(patience) => {
                let timely = tokio::time::timeout(patience, answered).await;
                timely.unwrap_or_else(|_| Err(self.too_late(patience)))
            }
            None => answered.await,
        };
        let ran = |kind: &ErrorKind| if matches!(kind, ErrorKind::Server(_)) { Ran::Executed } else { Ran::NotSent };
        match result {
            Ok(()) => {
                claim.topics.clear();
                Ok(())
            }
            Err(kind) => Err(Error::new(kind.clone(), ran(&kind), command)),
        }
    }

    /// Notes what is wanted. Topics that are new are returned.
    fn ask(self: &Arc<Self>, id: SubscriberId, topics: Vec<Topic>) -> Vec<Topic> {
        let mut new = topics;
        self.change(|state, out| {
            if state.is_closed {
                return;
            }
            if self.cluster.is_some() && !std::mem::replace(&mut state.follows_cluster, true) {
                state.jobs.push(Job::Cluster);
            }
            self.settle_home(state);
            let State { subscriptions, home, .. } = state;
            new.retain(|topic| subscriptions.want(id, topic, |topic| self.route(home.as_ref(), topic), out));
        });
        self.staff();
        self.trouble.notify_one();
        new
    }

    /// What has come of topics that were asked for, if it is settled.
    fn answer(&self, id: SubscriberId, inbox: &Inbox, topics: &[Topic]) -> Option<Result<(), ErrorKind>> {
        if inbox.is_closed() {
            return Some(Err(ErrorKind::Closed));
        }
        // In this order: a topic that is not awaited any more has its failure in the inbox.
        let is_awaited = {
            let state = self.state.lock();
            topics.iter().any(|topic| state.subscriptions.is_awaited(id, topic))
        };
        if let Some((_, kind)) = inbox.take_failures().into_iter().find(|(topic, _)| topics.contains(topic)) {
            return Some(Err(kind));
        }
        (!is_awaited).then_some(Ok(()))
    }

    fn too_late(&self, patience: Duration) -> ErrorKind {
        match &self.state.lock().problem {
            Some(problem) => ErrorKind::Connect(problem.told(format!("not subscribed within {patience:?}: {problem}"))),
            None => ErrorKind::Connection(format!("not subscribed within {patience:?}").into()),
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let inboxes: Vec<_> = state.inboxes.values().cloned().collect();
        drop(state);
        self.tasks.lock().abort_all();
        inboxes.iter().for_each(|inbox| inbox.close());
    }

    /// Waits for the end of all connections after [`Hub::close`].
    pub(crate) async fn ended(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }
}

/// For all parts.
impl Hub {
    /// Changes what is wanted or where it comes from, does what follows, and wakes the connections' tasks.
    pub(super) fn change(self: &Arc<Self>, change: impl FnOnce(&mut State, &mut Vec<Output<NodeAddress>>)) {
        let (mut out, mut wakers) = (Vec::new(), Vec::new());
        let has_jobs;
        {
            let mut state = self.state.lock();
            change(&mut state, &mut out);
            self.apply(&mut state, &mut out, None, None, &mut wakers);
            state.links.values().for_each(|link| link.notify_one());
            has_jobs = !state.jobs.is_empty() && !state.is_closed;
        }
        if has_jobs {
            self.is_short_of_tasks.store(true, Ordering::Relaxed);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Does what the reconciler says. True: topics have lost their node.
    pub(super) fn apply(
        self: &Arc<Self>,
        state: &mut State,
        out: &mut Vec<Output<NodeAddress>>,
        message: Option<&Message>,
        node: Option<&NodeAddress>,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let mut has_moved = false;
        for output in out.drain(..) {
            let (id, event) = match output {
                Output::Deliver(id) => match message {
                    Some(message) => (id, Event::Message(message.clone())),
                    None => continue,
                },
                Output::Gap(id, reason) => (id, Event::Gap { reason }),
                Output::Settled(id) => {
                    state.inboxes.get(&id).into_iter().for_each(|inbox| inbox.settled.notify_waiters());
                    continue;
                }
                Output::Refused(id, topic, error) => match state.inboxes.get(&id) {
                    Some(_) if state.subscriptions.is_wanted(id, &topic) => {
                        (id, Event::Refused { channel: topic.name, error })
                    }
                    Some(inbox) => {
                        inbox.fail(topic, ErrorKind::Server(error));
                        continue;
                    }
                    None => continue,
                },
                Output::Connect(node) => {
                    state.jobs.push(Job::Connection(node));
                    continue;
                }
                Output::Redirected(error) => {
                    node.into_iter().for_each(|node| self.note_redirect(&error, node));
                    has_moved = true;
                    continue;
                }
                Output::Uprooted => {
                    has_moved = true;
                    continue;
                }
            };
            wakers.extend(state.inboxes.get(&id).and_then(|inbox| inbox.push(event)));
        }
        has_moved
    }
}

/// Topics that a caller waits for. Dropped, they are wanted no more.
struct Claim<'h> {
    hub: &'h Arc<Hub>,
    id: SubscriberId,
    topics: Vec<Topic>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.topics.is_empty() {
            self.hub.unwant(self.id, &self.topics);
        }
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("subscriptions", &self.state.lock().subscriptions).finish_non_exhaustive()
    }
}
