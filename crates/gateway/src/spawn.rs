//! Tasks of one worker: every one has an owner that joins it (or drops it when the worker stops).

use std::pin::Pin;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Hands tasks to their owner; works in `Drop`, and after the worker has stopped (the task is dropped then).
#[derive(Clone)]
pub(crate) struct Spawner(mpsc::UnboundedSender<Task>);

/// The owner's end. The queue holds only tasks that were spawned in the current turn of the event loop.
pub(crate) struct Tasks(mpsc::UnboundedReceiver<Task>);

impl Spawner {
    pub(crate) fn new() -> (Self, Tasks) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), Tasks(receiver))
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        // A closed queue is a worker that has stopped: dropping the task closes what it holds.
        let _ = self.0.send(Box::pin(task));
    }
}

impl Tasks {
    /// Runs the tasks for as long as it is polled; must be polled inside a local runtime.
    ///
    /// # Cancel safety
    /// Dropping it drops all tasks.
    pub(crate) async fn run(mut self) {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                task = self.0.recv() => match task {
                    Some(task) => { running.spawn_local(task); }
                    None => return,
                },
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    if let Err(e) = ended && e.is_panic() {
                        tracing::error!("a connection's task panicked: {e}; this is a bug of Pilotlight");
                    }
                }
            }
        }
    }
}
