//! The life of one instance: from its start to the removal of its container.

use super::labels::SETTINGS;
use super::left::short;
use super::pull::Step;
use super::ready::{Place, healthy};
use super::recipe::{Publish, Recipe};
use super::{Pause, Shared, StartContainer};
use crate::error::Exit;
use crate::limits::{ENGINE_PAUSE, REMOVE_TIME, THAW_TIME};
use crate::runtime::{Order, RuntimeEvent, Started};
use crate::spec::{ContainerSource, Pull};
use pilotlight_containers::{Container, Create, EngineError, Listed, Since, Stream};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::Sender;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// What an instance's task is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOrder {
    Do(Order),
    /// Its container goes on, for another gateway.
    Leave,
}

/// One instance.
pub(super) struct Run {
    shared: Arc<Shared>,
    id: u64,
    recipe: Recipe,
    orders: mpsc::Receiver<RunOrder>,
    outputs: Option<[Sender; 2]>,
}

/// A container that is this instance's.
struct Held {
    container: Container,
    /// Told when something may have become of it.
    look: Arc<Notify>,
    /// From when on its output is read.
    since: Since,
}

/// Why there is none.
enum NotStarted {
    /// As a sentence fragment.
    Reason(String),
    /// It has ended before it was ready.
    Ended(Held),
}

impl From<EngineError> for NotStarted {
    fn from(error: EngineError) -> Self {
        Self::Reason(error.to_string())
    }
}

/// How the task goes on when a start is over.
enum Begun {
    Ready(Held),
    NotStarted(NotStarted),
    Told(Option<RunOrder>),
}

impl Run {
    /// To be called within an event loop.
    pub(super) fn new(
        shared: Arc<Shared>,
        start: StartContainer,
        orders: mpsc::Receiver<RunOrder>,
    ) -> io::Result<Self> {
        let StartContainer { id, recipe, outputs } = start;
        let mut outputs = outputs.into_iter().map(writer);
        let outputs = match (outputs.next().transpose()?, outputs.next().transpose()?) {
            (Some(out), Some(err)) => Some([out, err]),
            _ => return Err(io::Error::other("an instance has two outputs")),
        };
        Ok(Self { shared, id, recipe, orders, outputs })
    }

    /// Returns the instance's id when nothing is left to do.
    pub(super) async fn run(mut self) -> u64 {
        let mut lines = JoinSet::new();
        let outputs = self.outputs.take();
        // What a start has come to is kept apart, so that it may be cut off anywhere.
        let mut taken = None;
        let begun = {
            let begin = begin(&self.shared, &self.recipe, self.id, &mut taken, &mut lines, outputs);
            tokio::select! {
                biased;
                order = ending(&mut self.orders) => Begun::Told(order),
                begun = begin => match begun {
                    Ok(held) => Begun::Ready(held),
                    Err(error) => Begun::NotStarted(error),
                },
            }
        };
        match begun {
            Begun::Ready(held) => self.live(held, &mut lines).await,
            Begun::NotStarted(NotStarted::Ended(held)) => self.ended(&held, &mut lines).await,
            Begun::NotStarted(NotStarted::Reason(reason)) => {
                self.remove(taken.as_deref()).await;
                self.tell(RuntimeEvent::StartFailed { id: self.id, reason, detail: None }).await;
            }
            Begun::Told(Some(RunOrder::Leave)) => self.tell_ended(Exit::Left, None).await,
            Begun::Told(_) => {
                drop(lines);
                self.remove(taken.as_deref()).await;
                self.tell_ended(Exit::Signal(KILLED), None).await;
            }
        }
        if let Some(taken) = taken {
            self.shared.give_back(&taken);
        }
        self.id
    }

    /// From its readiness to its end.
    async fn live(&mut self, held: Held, lines: &mut JoinSet<()>) {
        let id = held.container.id.clone();
        let mut calls = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(RunOrder::Do(Order::Freeze)) => self.freeze(&id).await,
                    Some(RunOrder::Do(Order::Thaw)) => self.thaw(&id).await,
                    Some(RunOrder::Do(Order::Terminate)) => {
                        let (engine, grace) = (self.shared.engine.clone(), self.recipe.stop_grace());
                        let id = id.clone();
                        calls.spawn(async move { engine.stop(&id, grace).await });
                    }
                    Some(RunOrder::Do(Order::Kill)) => {
                        let (engine, id) = (self.shared.engine.clone(), id.clone());
                        calls.spawn(async move { engine.kill(&id, "SIGKILL").await });
                    }
                    Some(RunOrder::Leave) => return self.tell_ended(Exit::Left, None).await,
                    // The supervisor has stopped without a word: the next start of this gateway looks after it.
                    None => return,
                },
                () = held.look.notified() => {}
                Some(done) = calls.join_next() => if let Ok(Err(error)) = done {
                    tracing::debug!(%error, "cannot end a container");
                },
                Some(_) = lines.join_next() => {}
            }
            if self.has_ended(&id).await {
                return self.ended(&held, lines).await;
            }
        }
    }

    /// Whether it runs no more; while the engine is away nothing is known.
    async fn has_ended(&self, id: &str) -> bool {
        match self.shared.engine.inspect(id).await {
            Ok(container) => !container.state.running,
            Err(error) => error.is_not_found(),
        }
    }

    /// It has ended: reads the rest of its output, tells it, and removes the container if it is of this gateway's
    /// making.
    async fn ended(&mut self, held: &Held, lines: &mut JoinSet<()>) {
        let id = &held.container.id;
        let last = self.shared.engine.inspect(id).await.map(|container| container.state).unwrap_or_default();
        let memory = self.recipe.spec.isolation.cgroup.memory;
        let limit = last.oom_killed.then(|| match memory {
            Some(bytes) => format!("it reached its limit of memory ({} MiB, `cgroup`)", bytes >> 20),
            None => "memory was short".to_owned(),
        });
        let exit = match last.exit_code {
            code @ 129..=159 => Exit::Signal(code - 128), // how engines write the end by a signal
            code => Exit::Code(code),
        };
        self.tell_ended(exit, limit).await;
        let rest = async { while lines.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(crate::limits::OUTPUT_GRACE, rest).await; // a stream that does not end
        lines.abort_all();
        self.remove(Some(id)).await;
    }

    /// Removes what was made for this instance.
    async fn remove(&self, container: Option<&str>) {
        if self.recipe.image().is_none() {
            if let Some(container) = container
                && let Err(error) = self.shared.engine.stop(container, self.recipe.stop_grace()).await
            {
                tracing::debug!(%error, "cannot stop a container");
            }
            return;
        }
        // By its name as well: an engine may have made it and not have said so.
        let name = self.recipe.name();
        let container = container.unwrap_or(&name);
        let removed = tokio::time::timeout(REMOVE_TIME, async {
            let mut pause = Pause::new(ENGINE_PAUSE);
            while let Err(error) = self.shared.engine.remove(container).await {
                if !error.is_passing() {
                    return Err(error);
                }
                pause.wait().await;
            }
            Ok(())
        });
        match removed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a container cannot be removed"),
            Err(_) => {
                tracing::warn!(%container, "a container was not removed in time; the next start of this gateway does")
            }
        }
    }

    async fn freeze(&self, id: &str) {
        if let Err(error) = self.shared.engine.pause(id).await {
            tracing::warn!(%error, "a container is not frozen, and goes on");
        }
    }

    /// Tries again: requests wait for it.
    async fn thaw(&self, id: &str) {
        let thawed = tokio::time::timeout(THAW_TIME, async {
            let mut pause = Pause::new(ENGINE_PAUSE);
            while let Err(error) = self.shared.engine.unpause(id).await {
                if !error.is_passing() {
                    return tracing::debug!(%error, "a container does not thaw"); // it is not frozen, or has ended
                }
                pause.wait().await;
            }
        });
        if thawed.await.is_err() {
            tracing::error!(container = %short(id), "a frozen container was not let go on within {THAW_TIME:?}");
        }
    }

    async fn tell_ended(&self, exit: Exit, limit: Option<String>) {
        self.tell(RuntimeEvent::Ended { id: self.id, exit, limit }).await;
    }

    async fn tell(&self, event: RuntimeEvent) {
        self.shared.tell(event).await;
    }
}

/// SIGKILL.
const KILLED: i32 = 9;

/// An order that ends a start. Before it is ready there is nothing to freeze. Cancel safe.
async fn ending(orders: &mut mpsc::Receiver<RunOrder>) -> Option<RunOrder> {
    loop {
        match orders.recv().await {
            Some(RunOrder::Do(Order::Freeze | Order::Thaw)) => {}
            order => return order,
        }
    }
}

/// From nothing to one that takes requests. `taken` is the container that it has come to.
async fn begin(
    shared: &Arc<Shared>,
    recipe: &Recipe,
    id: u64,
    taken: &mut Option<String>,
    lines: &mut JoinSet<()>,
    outputs: Option<[Sender; 2]>,
) -> Result<Held, NotStarted> {
    let mut looked = shared.looked.subscribe();
    let mut pause = Pause::new(ENGINE_PAUSE);
    loop {
        tokio::select! {
            biased;
            _ = looked.wait_for(|looked| *looked) => break,
            () = pause.wait() => {}
        }
        if let Err(error) = shared.engine.ping().await {
            shared.waits(id, error.to_string()).await;
        }
    }
    let mut pause = Pause::new(ENGINE_PAUSE);
    let held = loop {
        match obtain(shared, recipe, id, taken).await {
            Ok(held) => break held,
            Err(Obstacle::Passing(what)) => {
                shared.waits(id, what).await;
                pause.wait().await;
            }
            Err(Obstacle::Lasting(why)) => return Err(NotStarted::Reason(why)),
        }
    };
    if let Some(outputs) = outputs {
        lines.spawn(print(Arc::clone(shared), held.container.clone(), held.since, outputs));
    }
    let state = &held.container.state;
    let pid = Some(state.pid).filter(|pid| *pid > 0);
    shared.tell(RuntimeEvent::Placed { id, container: held.container.id.as_str().into() }).await;
    let started = Started { id, pid, notices: Vec::new(), sandbox: None };
    shared.tell(RuntimeEvent::Started(started)).await;
    if recipe.pipe.is_some() {
        return Ok(held); // its HELLO says when it is ready
    }
    let is_reached = !retried(shared, id, || async { shared.engine.kind().await }).await?.is_rootless;
    let place = Place::of(&held.container, recipe, is_reached).map_err(NotStarted::Reason)?;
    match until_ready(shared, recipe, id, &held, place, lines).await? {
        Outcome::Ready => {
            shared.tell(RuntimeEvent::Ready { id, endpoint: place.endpoint() }).await;
            Ok(held)
        }
        Outcome::Ended => Err(NotStarted::Ended(held)),
    }
}

/// What becomes of a start.
enum Outcome {
    Ready,
    Ended,
}

async fn until_ready(
    shared: &Shared,
    recipe: &Recipe,
    id: u64,
    held: &Held,
    place: Place,
    lines: &mut JoinSet<()>,
) -> Result<Outcome, EngineError> {
    let ready = async {
        retried(shared, id, || healthy(shared, id, &held.container)).await?;
        place.answers(recipe).await;
        Ok(Outcome::Ready)
    };
    tokio::pin!(ready);
    loop {
        tokio::select! {
            biased;
            done = &mut ready => return done,
            () = held.look.notified() => {}
            Some(_) = lines.join_next() => {}
        }
        match shared.engine.inspect(&held.container.id).await {
            Ok(container) if container.state.running => {}
            Err(error) if !error.is_not_found() => {}
            _ => return Ok(Outcome::Ended),
        }
    }
}

/// What keeps from having a container.
enum Obstacle {
    /// Another try may help.
    Passing(String),
    Lasting(String),
}

impl From<EngineError> for Obstacle {
    fn from(error: EngineError) -> Self {
        if error.is_passing() { Self::Passing(error.to_string()) } else { Self::Lasting(error.to_string()) }
    }
}

/// A container that runs: one that was left, one that is there, or a new one. May be called again after an error.
async fn obtain(shared: &Arc<Shared>, recipe: &Recipe, id: u64, taken: &mut Option<String>) -> Result<Held, Obstacle> {
    let (mut since, mut is_new) = (Since::Beginning, false);
    let container = match (&*taken, recipe.image()) {
        (Some(container), _) => container.clone(),
        (None, Some(_)) => match adopted(shared, recipe) {
            Some(container) => {
                tracing::info!(service = %recipe.service, instance = recipe.number, container = %short(&container), "taken over");
                since = now();
                container
            }
            None => {
                is_new = true;
                create(shared, recipe, id).await?
            }
        },
        (None, None) => {
            since = now();
            existing(shared, recipe).await?
        }
    };
    if taken.is_none() {
        // Whoever has asked for it has it: nobody else knows of it, or `existing` has looked.
        if shared.take(&container).is_none() {
            return Err(Obstacle::Passing("waits for its container, which another instance gives back".to_owned()));
        }
        *taken = Some(container.clone());
    }
    let before = if is_new { None } else { Some(shared.engine.inspect(&container).await?) };
    let details = match before {
        Some(details) if details.state.running && !details.state.paused => details,
        Some(details) if details.state.paused => {
            shared.engine.unpause(&container).await?;
            shared.engine.inspect(&container).await?
        }
        _ => {
            shared.engine.start(&container).await?;
            shared.engine.inspect(&container).await?
        }
    };
    let look = shared.taken().get(&container).cloned().unwrap_or_default();
    Ok(Held { container: details, look, since })
}

/// One that a gateway before this one has left, of the same settings.
fn adopted(shared: &Shared, recipe: &Recipe) -> Option<String> {
    let hash = recipe.settings_hash().ok().flatten()?;
    let mut left = shared.left();
    let at = left.iter().position(|one| *one.service == *recipe.service && one.hash == hash)?;
    Some(left.remove(at).container)
}

async fn create(shared: &Arc<Shared>, recipe: &Recipe, id: u64) -> Result<String, Obstacle> {
    let Some(image) = recipe.image() else { return Err(Obstacle::Lasting("the service names no image".to_owned())) };
    if image.pull == Pull::Always {
        pull(shared, &image.image, id).await?;
    }
    let publish = if shared.engine.kind().await?.is_rootless { Publish::Loopback } else { Publish::No };
    let create =
        recipe.create(&shared.options.gateway, publish).map_err(|error| Obstacle::Lasting(error.to_string()))?;
    let name = recipe.name();
    match shared.engine.create(&name, &create).await {
        Err(error) if error.is_not_found() && image.pull == Pull::Missing && is_of_image(&error) => {
            pull(shared, &image.image, id).await?;
            Ok(shared.engine.create(&name, &create).await?)
        }
        // An answer was lost with its connection: it is there.
        Err(error) if error.is_conflict() || is_taken(&error) => made(shared, &name, &create, error).await,
        made => Ok(made?),
    }
}

/// The container of this very name, if it is the one that was to be made.
async fn made(shared: &Shared, name: &str, create: &Create, error: EngineError) -> Result<String, Obstacle> {
    let container = shared.engine.inspect(name).await?;
    let is_same = container.config.labels.get(SETTINGS) == create.labels.get(SETTINGS);
    if is_same { Ok(container.id) } else { Err(error.into()) }
}

fn is_of_image(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused { message, .. } if message.contains("image"))
}

/// Podman says 500 for a name that is taken.
fn is_taken(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused { message, .. } if message.contains("already in use"))
}

/// Waits for a pull, and says how far it has come.
async fn pull(shared: &Arc<Shared>, image: &str, id: u64) -> Result<(), Obstacle> {
    let mut step = shared.pulls.join(shared, image);
    loop {
        let now = step.borrow_and_update().clone();
        match now {
            Step::Done => return Ok(()),
            Step::Failed(why) => return Err(Obstacle::Lasting(why)),
            Step::Going(what) => shared.waits(id, what).await,
        }
        if step.changed().await.is_err() {
            return Err(Obstacle::Lasting(format!("the pull of {image} was given up")));
        }
    }
}

/// One that somebody else has made, and that no other instance has.
async fn existing(shared: &Shared, recipe: &Recipe) -> Result<String, Obstacle> {
    let all = listed(shared, recipe).await?;
    let taken = shared.taken_ids();
    let free = all.iter().find(|one| !taken.contains(&one.id)).map(|one| one.id.clone());
    free.ok_or_else(|| {
        let advice = match recipe.container().map(|container| &container.source) {
            Some(ContainerSource::Labels { advice, .. }) => advice.clone(),
            Some(ContainerSource::Name(name)) => format!("there is no container {name}; create it first"),
            _ => "there is none".to_owned(),
        };
        if all.is_empty() {
            Obstacle::Lasting(advice)
        } else {
            // One that ends is given back soon.
            Obstacle::Passing(
                "all of its containers are in use; create more of them, or lower max_instances".to_owned(),
            )
        }
    })
}

/// The containers that a service means which makes none.
pub(super) async fn listed(shared: &Shared, recipe: &Recipe) -> Result<Vec<Listed>, EngineError> {
    match recipe.container().map(|container| &container.source) {
        Some(ContainerSource::Labels { labels, .. }) => shared.engine.list(labels).await,
        Some(ContainerSource::Name(name)) => match shared.engine.inspect(name).await {
            Ok(container) => {
                let state = if container.state.running { "running" } else { "exited" };
                Ok(vec![Listed { id: container.id, state: state.to_owned(), ..Listed::default() }])
            }
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        },
        Some(ContainerSource::Image(_)) | None => Ok(Vec::new()),
    }
}

/// Again until the engine is there.
async fn retried<T, F>(shared: &Shared, id: u64, mut what: impl FnMut() -> F) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut pause = Pause::new(ENGINE_PAUSE);
    loop {
        match what().await {
            Err(error) if error.is_passing() => {
                shared.waits(id, error.to_string()).await;
                pause.wait().await;
            }
            done => return done,
        }
    }
}

/// Copies what it prints to where the supervisor reads lines; again when the engine comes back.
async fn print(shared: Arc<Shared>, container: Container, since: Since, outputs: [Sender; 2]) {
    let [mut out, mut err] = outputs;
    let (mut since, mut pause) = (since, Pause::new(ENGINE_PAUSE));
    loop {
        match shared.engine.logs(&container, since).await {
            Ok(mut logs) => {
                let broken = loop {
                    match logs.next().await {
                        Ok(Some((stream, bytes))) => {
                            let to = if stream == Stream::Stdout { &mut out } else { &mut err };
                            if to.write_all(&bytes).await.is_err() {
                                return; // nobody reads
                            }
                        }
                        Ok(None) => break false,
                        Err(_) => break true,
                    }
                };
                if !broken {
                    return;
                }
            }
            Err(error) if error.is_passing() => {}
            Err(error) => {
                return tracing::warn!(%error, container = %short(&container.id), "what a container prints cannot be read");
            }
        }
        since = now(); // lines of this second may come twice, or not at all
        pause.wait().await;
    }
}

fn now() -> Since {
    Since::Seconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// The end of a pipe that the supervisor reads.
fn writer(fd: OwnedFd) -> io::Result<Sender> {
    Sender::from_owned_fd(fd)
}
