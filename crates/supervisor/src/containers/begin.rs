//! From nothing to a container that takes requests: taken over, created, or one that is there.

use super::existing::{Obstacle, existing};
use super::labels::SETTINGS;
use super::pause::Pause;
use super::print::{now, print};
use super::pull::Step;
use super::ready::{Place, healthy};
use super::recipe::{Publish, Recipe};
use super::shared::{Shared, short};
use crate::limits::{ENGINE_PAUSE, MAX_HALVES};
use crate::runtime::{RuntimeEvent, Started};
use crate::spec::Pull;
use pilotlight_containers::{Container, Create, EngineError, Since};
use std::future::Future;
use std::sync::Arc;
use tokio::net::unix::pipe::Sender;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A container that is this instance's.
pub(super) struct Held {
    pub(super) container: Container,
    /// Told when something may have become of it.
    pub(super) look: Arc<Notify>,
    /// From when on its output is read.
    since: Since,
}

/// Why there is none.
pub(super) enum NotStarted {
    /// As a sentence fragment.
    Reason(String),
    /// It has ended before it was ready.
    Ended(Box<Held>),
}

impl From<EngineError> for NotStarted {
    fn from(error: EngineError) -> Self {
        Self::Reason(error.to_string())
    }
}

/// From nothing to one that takes requests. `taken` is the container that it has come to.
pub(super) async fn begin(
    shared: &Arc<Shared>,
    recipe: &Recipe,
    id: u64,
    taken: &mut Option<String>,
    lines: &mut JoinSet<()>,
    outputs: Option<[Sender; 2]>,
) -> Result<Held, NotStarted> {
    let mut looked = shared.looked.subscribe();
    let mut pause = Pause::new(&ENGINE_PAUSE);
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
    let mut pause = Pause::new(&ENGINE_PAUSE);
    let (mut was_cut, mut tries) = (false, 0);
    let held = loop {
        match obtain(shared, recipe, Try { id, number: tries }, taken).await {
            Ok(held) => break held,
            Err(Obstacle::Passing(what)) => {
                was_cut = true;
                shared.waits(id, what).await;
                pause.wait().await;
            }
            // An engine that was killed may have left half of a container, which nothing starts any more.
            Err(Obstacle::Lasting(why)) if was_cut && recipe.image().is_some() && tries < MAX_HALVES => {
                tries += 1;
                discard(shared, taken, lines);
                shared.waits(id, why).await;
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
        Outcome::Ended => Err(NotStarted::Ended(Box::new(held))),
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

/// Which of the tries of an instance's start.
#[derive(Clone, Copy)]
struct Try {
    id: u64,
    number: u32,
}

/// Has removed what a start has come to. The start does not wait for that: an engine takes seconds for what it was
/// killed over.
fn discard(shared: &Arc<Shared>, taken: &mut Option<String>, tasks: &mut JoinSet<()>) {
    let Some(container) = taken.take() else { return };
    shared.give_back(&container);
    shared.remove_later(&container);
    let shared = Arc::clone(shared);
    tasks.spawn(async move { shared.sweep().await });
}

/// A container that runs: one that was left, one that is there, or a new one. May be called again after an error.
async fn obtain(
    shared: &Arc<Shared>,
    recipe: &Recipe,
    which: Try,
    taken: &mut Option<String>,
) -> Result<Held, Obstacle> {
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
                create(shared, recipe, which).await?
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

async fn create(shared: &Arc<Shared>, recipe: &Recipe, Try { id, number }: Try) -> Result<String, Obstacle> {
    let Some(image) = recipe.image() else { return Err(Obstacle::Lasting("the service names no image".to_owned())) };
    if image.pull == Pull::Always {
        pull(shared, &image.image, id).await?;
    }
    let publish = if shared.engine.kind().await?.is_rootless { Publish::Loopback } else { Publish::No };
    let create =
        recipe.create(&shared.options.gateway, publish).map_err(|error| Obstacle::Lasting(error.to_string()))?;
    let name = recipe.name(number);
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
    let mut step = shared.pulls.join(&shared.engine, image);
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

/// Again until the engine is there.
async fn retried<T, F>(shared: &Shared, id: u64, mut what: impl FnMut() -> F) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut pause = Pause::new(&ENGINE_PAUSE);
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
