//! All processes of the adapter: how many there may be, and their end.

use crate::message::{Message, parse};
use crate::program::Program;
use crate::settings::Settings;
use bytes::Bytes;
use pilotlight_printable::printable;
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// Bytes of a line that the log shows of what a program should not have written.
const SHOWN: usize = 200;

/// The processes. Each is owned by a task, and holds its place until it has ended.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) settings: Settings,
    argv: Vec<OsString>,
    pub(crate) places: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
    leaving: watch::Sender<bool>,
}

impl Crew {
    pub(crate) fn new(settings: Settings, argv: Vec<OsString>) -> Self {
        let places = Arc::new(Semaphore::new(settings.options.max_processes));
        Self { settings, argv, places, tasks: <_>::default(), leaving: watch::Sender::new(false) }
    }

    /// Starts a process, and the task that owns it.
    pub(crate) fn start<F, T>(&self, place: OwnedSemaphorePermit, task: F) -> Result<(), NotStarted>
    where
        F: FnOnce(Member) -> T,
        T: Future<Output = ()> + Send + 'static,
    {
        let max_line = self.settings.options.max_line;
        let program = Program::start(&self.argv, max_line).map_err(|error| NotStarted { name: self.name(), error })?;
        let member = Member { program, leaving: self.leaving.subscribe(), place };
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task(member));
        Ok(())
    }

    /// Ends all processes, and waits for that.
    pub(crate) async fn leave(&self) {
        self.leaving.send_replace(true);
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        while tasks.join_next().await.is_some() {}
    }

    fn name(&self) -> String {
        self.argv.first().map_or_else(String::new, |program| program.to_string_lossy().into_owned())
    }
}

/// A process, and what its task needs.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) program: Program,
    /// Becomes true when the adapter ends.
    pub(crate) leaving: watch::Receiver<bool>,
    /// Given back when the process has ended.
    pub(crate) place: OwnedSemaphorePermit,
}

/// Waits for the end of the adapter.
///
/// # Cancel safety
/// Nothing is lost.
pub(crate) async fn left(leaving: &mut watch::Receiver<bool>) {
    // An error: the crew is gone, which is its end as well.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

#[derive(Debug, thiserror::Error)]
#[error("the program {} cannot be started: {error}", printable(name))]
pub(crate) struct NotStarted {
    name: String,
    error: io::Error,
}

/// A line of the log: what a program wrote that was not passed on.
pub(crate) fn warn(why: &str, line: &[u8]) {
    let shown = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]);
    let more = if line.len() > SHOWN { "…" } else { "" };
    eprintln!("pilotlight: warning: {why}: {}{more}", printable(&shown));
}

/// What a program says on a line of its standard output. What is no message goes to the log, and an empty line nowhere.
pub(crate) fn messages_of(line: &Bytes) -> Option<Vec<Message>> {
    match parse(line.clone()) {
        Ok(messages) => Some(messages),
        Err(_) if line.trim_ascii().is_empty() => None,
        Err(error) => {
            warn(&format!("the program wrote to its standard output what is no message ({error})"), line);
            None
        }
    }
}

/// A panic elsewhere changes nothing of what is in here.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
