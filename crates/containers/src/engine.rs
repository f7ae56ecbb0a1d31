//! The calls of the API.

use crate::call::{Answer, Call, call};
use crate::error::EngineError;
use crate::events::{Event, Events, Values};
use crate::limits::{CALL_TIME, PULL_SILENCE, STOP_MARGIN, WORK_TIME};
use crate::logs::Logs;
use crate::model::{Container, Create, Created, ImageDetails, Listed, PullProgress};
use bytes::Bytes;
use http::Method;
use serde_json::json;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// The newest version of the API that is asked for; an older one if the engine knows no newer.
const NEWEST: (u32, u32) = (1, 43);

/// An engine, by its socket. Cheap to clone; it is not asked for anything before the first call.
#[derive(Clone, Debug)]
pub struct Engine {
    socket: Arc<PathBuf>,
    kind: Arc<Mutex<Option<Kind>>>,
}

/// What an engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The version of the API that is spoken with it.
    pub api: (u32, u32),
    /// Its name and version.
    pub name: String,
    /// Whether it is Podman.
    pub is_podman: bool,
    /// Whether its socket is not root's: then its containers' addresses are not reached from here.
    pub is_rootless: bool,
}

impl Engine {
    /// The engine that listens there.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: Arc::new(socket.into()), kind: Arc::default() }
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// It does not.
    ///
    /// # Cancel safety
    /// Nothing is lost; so it is with every call that only asks.
    pub async fn ping(&self) -> Result<(), EngineError> {
        self.raw(Method::GET, "/_ping".to_owned(), None, CALL_TIME).await?.done().await
    }

    /// What it is, and the version of the API that both sides know; asked for once.
    ///
    /// # Errors
    /// It does not answer, or speaks only versions that are too new.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn kind(&self) -> Result<Kind, EngineError> {
        if let Some(known) = self.known().clone() {
            return Ok(known);
        }
        // Podman runs other programs to tell its version, and none to say that it is there.
        let answer = self.raw(Method::GET, "/_ping".to_owned(), None, CALL_TIME).await?;
        let newest = answer.field("api-version").unwrap_or_default();
        let api =
            negotiated(newest).ok_or_else(|| answer.unreadable(format!("{newest:?} is no version of the API")))?;
        let podman = answer.field("libpod-api-version").map(|version| format!("Podman {version}"));
        let is_podman = podman.is_some();
        let server = || answer.field("server").and_then(|server| server.split(' ').next()).unwrap_or("the engine");
        let name = podman.unwrap_or_else(|| server().replace('/', " "));
        answer.done().await?;
        // Quicker than to ask, which an engine takes long to answer. Docker Desktop's, which is in a virtual machine,
        // is its user's as well.
        let is_rootless = std::fs::metadata(self.socket()).is_ok_and(|socket| socket.uid() != 0);
        let kind = Kind { api, name, is_podman, is_rootless };
        *self.known() = Some(kind.clone());
        Ok(kind)
    }

    /// Creates a container; returns its number.
    ///
    /// # Errors
    /// There is no such image ([`EngineError::is_not_found`]), the name is taken ([`EngineError::is_conflict`]), …
    ///
    /// # Cancel safety
    /// Whether it was created is not known then; its name says.
    pub async fn create(&self, name: &str, wanted: &Create) -> Result<String, EngineError> {
        let target = format!("/containers/create?name={}", encoded(name));
        let created: Created = self.post(&target, Some(json_body(wanted)), WORK_TIME).await?.json().await?;
        Ok(created.id)
    }

    /// Starts it; one that runs already stays as it is.
    ///
    /// # Errors
    /// It does not start.
    ///
    /// # Cancel safety
    /// Whether it runs is not known then.
    pub async fn start(&self, id: &str) -> Result<(), EngineError> {
        self.post(&format!("/containers/{}/start", encoded(id)), None, WORK_TIME).await?.done().await
    }

    /// Asks it to end, and kills it after `grace`, which is rounded up to whole seconds. Returns when it has ended.
    ///
    /// # Errors
    /// It is not there, or the engine does not answer.
    ///
    /// # Cancel safety
    /// The engine goes on with it.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<(), EngineError> {
        let seconds = grace.as_millis().div_ceil(1000);
        let target = format!("/containers/{}/stop?t={seconds}", encoded(id));
        self.post(&target, None, grace + STOP_MARGIN).await?.done().await
    }

    /// Sends a signal to its first process; to all of its processes if that is SIGKILL.
    ///
    /// # Errors
    /// It does not run ([`EngineError::is_conflict`]).
    ///
    /// # Cancel safety
    /// Whether it was sent is not known then.
    pub async fn kill(&self, id: &str, signal: &str) -> Result<(), EngineError> {
        let target = format!("/containers/{}/kill?signal={}", encoded(id), encoded(signal));
        self.post(&target, None, CALL_TIME).await?.done().await
    }

    /// Stops all of its processes in their tracks.
    ///
    /// # Errors
    /// It does not run, or is paused already ([`EngineError::is_conflict`]; Podman says 500).
    ///
    /// # Cancel safety
    /// Whether it is paused is not known then.
    pub async fn pause(&self, id: &str) -> Result<(), EngineError> {
        self.post(&format!("/containers/{}/pause", encoded(id)), None, CALL_TIME).await?.done().await
    }

    /// Lets its processes go on.
    ///
    /// # Errors
    /// It is not paused.
    ///
    /// # Cancel safety
    /// Whether it goes on is not known then.
    pub async fn unpause(&self, id: &str) -> Result<(), EngineError> {
        self.post(&format!("/containers/{}/unpause", encoded(id)), None, CALL_TIME).await?.done().await
    }

    /// Removes it, with its volumes that have no name; kills it before, if it runs.
    ///
    /// # Errors
    /// The engine does not answer, or cannot. One that is not there is removed already.
    ///
    /// # Cancel safety
    /// Whether it is removed is not known then.
    pub async fn remove(&self, id: &str) -> Result<(), EngineError> {
        let target = self.versioned(&format!("/containers/{}?force=true&v=true", encoded(id))).await?;
        match self.raw(Method::DELETE, target, None, WORK_TIME).await {
            Ok(answer) => answer.done().await,
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All about a container.
    ///
    /// # Errors
    /// It is not there ([`EngineError::is_not_found`]).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn inspect(&self, id: &str) -> Result<Container, EngineError> {
        self.get(&format!("/containers/{}/json", encoded(id)), CALL_TIME).await?.json().await
    }

    /// The containers that have all of these labels (`name=value`), running or not.
    ///
    /// # Errors
    /// The engine does not answer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn list(&self, labels: &[String]) -> Result<Vec<Listed>, EngineError> {
        let filters = encoded(&json!({ "label": labels }).to_string());
        self.get(&format!("/containers/json?all=true&filters={filters}"), CALL_TIME).await?.json().await
    }

    /// What it prints from now on, to its end; what it has printed before as well, if `since` is its beginning.
    ///
    /// # Errors
    /// It is not there, or the engine keeps no logs of it.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn logs(&self, container: &Container, since: Since) -> Result<Logs, EngineError> {
        let from = match since {
            Since::Beginning => String::new(),
            Since::Seconds(seconds) => format!("&since={seconds}"),
        };
        let target = format!("/containers/{}/logs?follow=true&stdout=true&stderr=true{from}", encoded(&container.id));
        Ok(Logs::new(self.get(&target, CALL_TIME).await?, container.config.tty))
    }

    /// What becomes of containers, from now on.
    ///
    /// # Errors
    /// The engine does not answer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn events(&self) -> Result<Events, EngineError> {
        let filters = encoded(&json!({ "type": ["container"] }).to_string());
        Ok(Events(Values::new(self.get(&format!("/events?filters={filters}"), CALL_TIME).await?)))
    }

    /// An image that the engine has.
    ///
    /// # Errors
    /// It has none of this name ([`EngineError::is_not_found`]).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn image(&self, name: &str) -> Result<ImageDetails, EngineError> {
        self.get(&format!("/images/{}/json", encoded(name)), CALL_TIME).await?.json().await
    }

    /// Pulls an image, and says how far it has come.
    ///
    /// # Errors
    /// The engine cannot, or says nothing for [`PULL_SILENCE`].
    ///
    /// # Cancel safety
    /// Engines give it up when the connection ends.
    pub async fn pull(&self, name: &str, mut on_progress: impl FnMut(&PullProgress)) -> Result<(), EngineError> {
        let failed = |message: String| EngineError::Pull { image: name.to_owned(), message };
        let (image, tag) = image_and_tag(name);
        let target = format!("/images/create?fromImage={}&tag={}", encoded(image), encoded(tag));
        let silent = || failed(format!("the engine said nothing for {PULL_SILENCE:?}"));
        let answer = match self.post(&target, None, PULL_SILENCE).await {
            Ok(answer) => answer,
            Err(EngineError::Refused { message, .. }) => return Err(failed(message)),
            Err(EngineError::Timeout { .. }) => return Err(silent()),
            Err(error) => return Err(error),
        };
        let mut steps = Values::new(answer);
        loop {
            let step = timeout(PULL_SILENCE, steps.next::<PullProgress>()).await.map_err(|_| silent())?;
            match step? {
                None => return Ok(()),
                Some(PullProgress { error: Some(error), .. }) => return Err(failed(error)),
                Some(step) => on_progress(&step),
            }
        }
    }

    /// Has Podman look at a container's health now; without systemd nothing else does.
    ///
    /// # Errors
    /// The engine is not Podman, or the container has no health check.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look_at_health(&self, id: &str) -> Result<(), EngineError> {
        let target = format!("/v4.0.0/libpod/containers/{}/healthcheck", encoded(id));
        self.raw(Method::GET, target, None, CALL_TIME).await?.done().await
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<Kind>> {
        self.kind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn versioned(&self, target: &str) -> Result<String, EngineError> {
        let (major, minor) = self.kind().await?.api;
        Ok(format!("/v{major}.{minor}{target}"))
    }

    async fn get(&self, target: &str, time: Duration) -> Result<Answer, EngineError> {
        let target = self.versioned(target).await?;
        self.raw(Method::GET, target, None, time).await
    }

    async fn post(&self, target: &str, body: Option<Bytes>, time: Duration) -> Result<Answer, EngineError> {
        let target = self.versioned(target).await?;
        self.raw(Method::POST, target, body, time).await
    }

    async fn raw(
        &self,
        method: Method,
        target: String,
        body: Option<Bytes>,
        time: Duration,
    ) -> Result<Answer, EngineError> {
        let body = body.map(|body| ("application/json", body));
        let answer = call(&self.socket, Call { method, target, body, time }).await;
        if answer.as_ref().is_err_and(EngineError::is_passing) {
            *self.known() = None; // another one may come back
        }
        answer
    }
}

/// From when on what a container has printed is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// From its start.
    Beginning,
    /// From this time on, in seconds since 1970.
    Seconds(u64),
}

impl Event {
    /// Whether its container has ended, or is removed.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self.action.as_str(), "die" | "died" | "oom" | "destroy" | "remove")
    }
}

/// The newest version that both know; an engine that knows no such old one says so at the first call.
fn negotiated(newest: &str) -> Option<(u32, u32)> {
    let (major, minor) = newest.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?).min(NEWEST))
}

/// Name and tag, or digest.
fn image_and_tag(name: &str) -> (&str, &str) {
    if let Some((image, digest)) = name.split_once('@') {
        return (image, digest);
    }
    match name.rsplit_once(':') {
        Some((image, tag)) if !tag.contains('/') => (image, tag),
        _ => (name, "latest"),
    }
}

fn json_body(value: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// As a part of a path, or a value of a query.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let one = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_negotiated() {
        assert_eq!(negotiated("1.41"), Some((1, 41)));
        assert_eq!(negotiated("1.51"), Some((1, 43)));
        assert_eq!(negotiated(""), None);
    }

    #[test]
    fn names_of_images() {
        assert_eq!(image_and_tag("ghcr.io/x/y:1"), ("ghcr.io/x/y", "1"));
        assert_eq!(image_and_tag("localhost:5000/y"), ("localhost:5000/y", "latest"));
        assert_eq!(image_and_tag("y@sha256:00"), ("y", "sha256:00"));
        assert_eq!(encoded("a/b:c\"ö"), "a%2Fb%3Ac%22%C3%B6");
    }
}
