//! A configuration that is a text of the program around the gateway, which makes it anew while the gateway runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilotlight_gateway::{Asked, Emptying, NotDone, Order, ServerControl};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::config::sections::{Known, Sectioned};
use crate::config::{self, Config, Loaded, Ports, Report};

/// Called once, with the gateway that runs.
type Started = Box<dyn FnOnce(Following) + Send>;

/// A configuration that is told.
pub struct Told {
    /// The name that it has in reports, and whose folder paths are relative to.
    file: PathBuf,
    /// Events that are printed.
    levels: &'static str,
    text: Mutex<Sectioned>,
    read: Mutex<Before>,
    started: Mutex<Option<Started>>,
}

/// What was read before.
#[derive(Default)]
struct Before {
    known: Known,
    /// The texts of the last two turns, of which one is followed.
    texts: Vec<Sectioned>,
}

/// What the program around the gateway holds of it.
#[derive(Clone)]
pub struct Following {
    told: Arc<Told>,
    orders: mpsc::UnboundedSender<Order>,
    servers: ServerControl,
}

impl Told {
    /// A first text. `levels`: which events are printed (`info,kube=warn`), unless `PILOTLIGHT_LOG` says it.
    pub fn new(
        file: PathBuf,
        text: String,
        levels: &'static str,
        started: impl FnOnce(Following) + Send + 'static,
    ) -> Arc<Self> {
        let (text, read) = (Mutex::new(Sectioned::whole(text)), Mutex::default());
        Arc::new(Self { file, levels, text, read, started: Mutex::new(Some(Box::new(started))) })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn levels(&self) -> &str {
        self.levels
    }

    /// Reads the text that was set last.
    pub(crate) fn load(&self, ports: Ports) -> Result<Loaded, Report> {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut before = self.before();
        before.known.next_turn();
        let read = before.known.load(&text, &self.file, ports);
        before.texts.push(text.clone());
        drop(before);
        read.map_or_else(|| config::load_text(&text.text, &self.file, ports), Ok)
    }

    /// Reads the text that is in use, which was set before.
    pub(crate) fn reread(&self, text: &str) -> Result<Config, Report> {
        let mut before = self.before();
        let last = before.texts.pop();
        let followed = before.texts.drain(..).chain(last.clone()).find(|one| *one.text == *text);
        let read = followed.as_ref().and_then(|followed| before.known.reread(followed, &self.file));
        before.texts = followed.into_iter().chain(last).collect();
        drop(before);
        read.map_or_else(|| config::reread(text, &self.file), Ok)
    }

    fn before(&self) -> MutexGuard<'_, Before> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gateway answers; its orders are taken from now on.
    pub(crate) fn has_started(self: &Arc<Self>, orders: mpsc::UnboundedSender<Order>, servers: ServerControl) {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(started) = started {
            started(Following { told: Arc::clone(self), orders, servers });
        }
    }
}

impl Following {
    /// The servers of services that the text gives none.
    #[must_use]
    pub fn servers(&self) -> &ServerControl {
        &self.servers
    }

    /// Has the gateway follow another text; also one without routes. If it is refused, everything goes on as before.
    /// Sections of it that were there before are not read again.
    ///
    /// # Errors
    /// Why it is refused.
    ///
    /// # Cancel safety
    /// The text is set all the same, and the next reload follows it.
    pub async fn follow(&self, text: Sectioned) -> Result<Value, NotDone> {
        *self.told.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
        let ended = || NotDone::Failed("the gateway has ended".to_owned());
        let (reply, answer) = oneshot::channel();
        let order = Order { asked: Asked::Reload(Emptying::Forced), reply };
        self.orders.send(order).map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}
