//! Pulls of images. A pull goes on when the start that wanted it is given up: the next one finds it further.

use super::pause::Pause;
use crate::limits::{ENGINE_PAUSE, PULL_TIME};
use pilotlight_containers::{Engine, EngineError, PullProgress};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How far a pull has come.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// For people.
    Going(String),
    Done,
    Failed(String),
}

/// The pulls that are under way.
#[derive(Debug, Default)]
pub(super) struct Pulls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    going: HashMap<String, watch::Receiver<Step>>,
    tasks: JoinSet<()>,
}

impl Pulls {
    /// A pull of this image: one that is under way, or a new one.
    pub(super) fn join(&self, engine: &Engine, image: &str) -> watch::Receiver<Step> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.tasks.try_join_next().is_some() {}
        if let Some(going) = state.going.get(image).filter(|step| matches!(*step.borrow(), Step::Going(_))) {
            return going.clone();
        }
        let (sender, receiver) = watch::channel(Step::Going(format!("pulls the image {image}")));
        state.tasks.spawn(pull(engine.clone(), image.to_owned(), sender));
        state.going.insert(image.to_owned(), receiver.clone());
        receiver
    }
}

async fn pull(engine: Engine, image: String, step: watch::Sender<Step>) {
    tracing::info!(%image, "pulling");
    let pulled = tokio::time::timeout(PULL_TIME, pull_on(&engine, &image, &step)).await;
    let last = match pulled {
        Ok(Ok(())) => {
            tracing::info!(%image, "pulled");
            Step::Done
        }
        Ok(Err(error)) => Step::Failed(error.to_string()),
        Err(_) => Step::Failed(format!("the image {image} was not pulled within {PULL_TIME:?}")),
    };
    let _ = step.send(last); // nobody waits for it any more
}

async fn pull_on(engine: &Engine, image: &str, step: &watch::Sender<Step>) -> Result<(), EngineError> {
    let mut pause = Pause::new(&ENGINE_PAUSE);
    loop {
        let say = |progress: &PullProgress| {
            let PullProgress { id, status, progress, .. } = progress;
            let words = [id.as_str(), status, progress];
            let words: Vec<&str> = words.into_iter().map(str::trim).filter(|word| !word.is_empty()).collect();
            let _ = step.send(Step::Going(format!("pulls the image {image}: {}", words.join(" ")))); // as above
        };
        match engine.pull(image, say).await {
            Err(error) if error.is_passing() => pause.wait().await,
            done => return done,
        }
    }
}
