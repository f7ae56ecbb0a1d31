//! What the engine has, and a configuration that is read with it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilotlight_containers::{Engine, EngineError, Listed, find};

use super::text::{self, Group};
use crate::config::{self, Config, Loaded, Ports, Report};

/// For which a start or a reload waits for the engine. One that is later is asked again beside the run.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// What labels declared when the configuration was read last; clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Found(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    groups: Vec<Group>,
    /// Sentences about containers that are not served.
    refused: Vec<String>,
}

impl Found {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether these are the services that were found.
    pub(super) fn is(&self, groups: &[Group]) -> bool {
        self.lock().groups == groups
    }

    /// Sentences about containers that are not served, each told once.
    pub(super) fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().refused)
    }
}

/// Reads a configuration file as [`config::load_for`] does, with what labels declare if it asks for that.
pub(crate) fn load_for<R>(
    file: &Path,
    found: &Found,
    ports: Ports,
    user: impl FnOnce(Result<Loaded, Report>) -> R,
) -> R {
    config::load_with(file, ports, |text| with_labels(text, file, found), user)
}

/// The text of the file, with what labels declare behind it.
fn with_labels(text: String, file: &Path, found: &Found) -> String {
    // Read here only if it may ask for that: it is read again, with whatever follows it.
    let parsed = text.contains("discover").then(|| config::parse(&text, file).ok()).flatten();
    let Some(socket) = parsed.and_then(|loaded| wanted(&loaded.config)) else {
        found.lock().groups.clear();
        return text;
    };
    match asked(&socket) {
        Ok(listed) => found.lock().groups = text::groups(&listed),
        Err(error) => {
            // The same as before: what runs is not to end because the engine is being restarted.
            found.lock().refused.push(format!("labels of containers were not read: {error}"));
        }
    }
    let groups = found.lock().groups.clone();
    let (composed, refused) = text::composed(&text, &groups, |text| config::parse(text, file).map(|_| ()));
    found.lock().refused.extend(refused);
    composed
}

/// The socket of the engine that is asked, if any is.
pub(crate) fn wanted(config: &Config) -> Option<PathBuf> {
    config.containers.discover.then(|| socket(config))
}

fn socket(config: &Config) -> PathBuf {
    config.containers.socket.clone().unwrap_or_else(|| find(|name| std::env::var(name).ok()))
}

/// Asks the engine, for a while at most.
fn asked(socket: &Path) -> Result<Vec<Listed>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let engine = Engine::new(socket);
    runtime.block_on(async {
        match tokio::time::timeout(MAX_WAIT, listed(&engine)).await {
            Ok(listed) => listed.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the engine at {} did not answer within {} s", socket.display(), MAX_WAIT.as_secs())),
        }
    })
}

/// The containers that declare services.
pub(super) async fn listed(engine: &Engine) -> Result<Vec<Listed>, EngineError> {
    engine.list(&[text::ROUTE.to_owned()]).await
}
