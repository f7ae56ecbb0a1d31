//! What ends a measurement that does not end: every wait of a variant has a limit of its own, and this is for the one
//! that was forgotten.
//!
//! A thread sleeps until a measurement is late. Then it kills the processes of that variant, whose sockets and pipes
//! wake whoever waits for them; the measurement fails, and the run goes on with the others.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::processes::usage;

/// After its processes were killed, a measurement that still does not end is a bug of the lab: so long it may take to
/// see that they are gone.
const LAST_GRACE: Duration = Duration::from_secs(30);
/// The exit code of a bug of ours.
const BUG: i32 = 70;

/// Watches one measurement after the other.
#[derive(Debug)]
pub(super) struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    watched: Option<Watched>,
    ended: bool,
}

#[derive(Clone, Debug)]
struct Watched {
    what: String,
    until: Instant,
    /// Processes that are not this variant's.
    others: BTreeSet<u32>,
    barked: bool,
}

impl Watchdog {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let watching = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(move || watching.watch())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Runs `work`, which is to end within `limit`; if it does not, all descendants of this process but `others` are
    /// killed. `true`: that was so.
    pub(super) fn guard<T>(
        &self,
        what: &str,
        limit: Duration,
        others: BTreeSet<u32>,
        work: impl FnOnce() -> T,
    ) -> (T, bool) {
        self.shared.set(Some(Watched { what: what.to_owned(), until: Instant::now() + limit, others, barked: false }));
        let done = work();
        let watched = self.shared.set(None);
        (done, watched.is_some_and(|watched| watched.barked))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, watched: Option<Watched>) -> Option<Watched> {
        let before = std::mem::replace(&mut self.lock().watched, watched);
        self.changed.notify_all();
        before
    }

    fn watch(&self) {
        let mut state = self.lock();
        while !state.ended {
            let left = state.watched.as_ref().map(|watched| watched.until.saturating_duration_since(Instant::now()));
            state = match (left, &mut state.watched) {
                (Some(Duration::ZERO), Some(late)) => {
                    late.bark();
                    state
                }
                (Some(left), _) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                (None, _) => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Watched {
    fn bark(&mut self) {
        if self.barked {
            eprintln!(
                "pilotlight lab: {} does not end although its processes were killed: this is a bug of the lab",
                self.what
            );
            // What the lab has started ends with it (`processes`).
            std::process::exit(BUG);
        }
        self.barked = true;
        self.until = Instant::now() + LAST_GRACE;
        let own = std::process::id();
        for process in
            usage::tree(own).into_iter().filter(|process| process.pid != own && !self.others.contains(&process.pid))
        {
            if let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
