//! The life of one instance: from its start to the removal of its container.

use super::begin::{Held, NotStarted, begin};
use super::pause::Pause;
use super::recipe::Recipe;
use super::shared::{Shared, short};
use crate::error::Exit;
use crate::limits::{ENGINE_PAUSE, MAX_HALVES, OUTPUT_GRACE, REMOVE_TIME, THAW_TIME};
use crate::runtime::{Order, RuntimeEvent};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What is needed to start an instance.
#[derive(Debug)]
pub(crate) struct StartContainer {
    pub(crate) id: u64,
    pub(crate) recipe: Recipe,
    /// Standard output and standard error: where its lines go.
    pub(crate) outputs: Vec<OwnedFd>,
}

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

/// How the task goes on when a start is over.
enum Begun {
    Ready(Box<Held>),
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
                    Ok(held) => Begun::Ready(Box::new(held)),
                    Err(error) => Begun::NotStarted(error),
                },
            }
        };
        match begun {
            Begun::Ready(held) => self.live(*held, &mut lines).await,
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
                    // Nothing is asked behind these: a request waits for the engine's processor time.
                    Some(RunOrder::Do(Order::Freeze)) => {
                        self.freeze(&id).await;
                        continue;
                    }
                    Some(RunOrder::Do(Order::Thaw)) => {
                        self.thaw(&id).await;
                        continue;
                    }
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
        let _ = tokio::time::timeout(OUTPUT_GRACE, rest).await; // a stream that does not end
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
        let containers = match container {
            Some(container) => vec![container.to_owned()],
            // By its names: an engine may have made it and not have said so.
            None => (0..=MAX_HALVES).map(|number| self.recipe.name(number)).collect(),
        };
        for container in containers {
            self.remove_one(&container).await;
        }
        self.shared.sweep().await;
    }

    /// Tries for a while, and again later.
    async fn remove_one(&self, container: &str) {
        let removed = tokio::time::timeout(REMOVE_TIME, async {
            let mut pause = Pause::new(&ENGINE_PAUSE);
            while let Err(error) = self.shared.engine.remove(container).await {
                if !error.is_passing() {
                    return Err(error);
                }
                pause.wait().await;
            }
            Ok(())
        });
        match removed.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => tracing::warn!(%error, "a container cannot be removed now"),
            Err(_) => tracing::warn!(%container, "a container was not removed within {REMOVE_TIME:?}"),
        }
        self.shared.remove_later(container);
    }

    async fn freeze(&self, id: &str) {
        if let Err(error) = self.shared.engine.pause(id).await {
            tracing::warn!(%error, "a container is not frozen, and goes on");
        }
    }

    /// Tries again: requests wait for it.
    async fn thaw(&self, id: &str) {
        let thawed = tokio::time::timeout(THAW_TIME, async {
            let mut pause = Pause::new(&ENGINE_PAUSE);
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

/// The end of a pipe that the supervisor reads.
fn writer(fd: OwnedFd) -> io::Result<Sender> {
    Sender::from_owned_fd(fd)
}
