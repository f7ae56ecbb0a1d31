//! What runs already when a gateway starts: its own containers, which one before it has left, and those that it only
//! starts and stops.

use super::existing::listed;
use super::labels::{GATEWAY, SERVICE, SETTINGS};
use super::pause::Pause;
use super::recipe::Recipe;
use super::shared::{Left, Shared, short};
use crate::limits::ENGINE_PAUSE;
use crate::runtime::RuntimeEvent;
use pilotlight_containers::{EngineError, Listed};
use std::sync::Arc;

/// What of a service may be found running.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) recipe: Recipe,
    pub(crate) max: u32,
}

/// Looks once, as soon as the engine answers.
pub(super) async fn look(shared: Arc<Shared>, expected: Vec<Expected>) {
    let mut pause = Pause::new(&ENGINE_PAUSE);
    let found = loop {
        match find(&shared, &expected).await {
            Ok(found) => break found,
            Err(error) if error.is_passing() => pause.wait().await,
            Err(error) => {
                tracing::error!(%error, "cannot look for containers of a gateway before this one");
                break Vec::new();
            }
        }
    };
    let _ = shared.looked.send_replace(true);
    for (service, count) in found {
        shared.tell(RuntimeEvent::Found { service, count }).await;
    }
}

async fn find(shared: &Shared, expected: &[Expected]) -> Result<Vec<(Arc<str>, u32)>, EngineError> {
    let own = shared.engine.list(&[format!("{GATEWAY}={}", shared.options.gateway)]).await?;
    let mut found: Vec<(Arc<str>, u32)> = Vec::new();
    let mut others = Vec::new();
    for container in own {
        let name = container.labels.get(SERVICE);
        let hash = container.labels.get(SETTINGS);
        let fits = |one: &&Expected| {
            name.is_some_and(|name| **name == *one.recipe.service)
                && hash.is_some()
                && one.recipe.settings_hash().ok().flatten().as_ref() == hash
        };
        let count = |service: &Arc<str>| found.iter().find(|(one, _)| one == service).map_or(0, |(_, count)| *count);
        let wanted = expected.iter().filter(|_| is_alive(&container)).find(fits);
        match wanted.filter(|one| count(&one.recipe.service) < one.max).zip(hash) {
            Some((one, hash)) => {
                let service = &one.recipe.service;
                let left = Left { container: container.id, service: service.to_string(), hash: hash.clone() };
                shared.left().push(left);
                match found.iter_mut().find(|(one, _)| one == service) {
                    Some((_, count)) => *count += 1,
                    None => found.push((Arc::clone(service), 1)),
                }
            }
            None => others.push(container),
        }
    }
    if !shared.options.is_heir {
        for container in others {
            tracing::info!(container = %short(&container.id), service = container.labels.get(SERVICE), "a container of a gateway before this one is removed");
            if let Err(error) = shared.engine.remove(&container.id).await {
                tracing::warn!(%error, "it cannot be removed");
            }
        }
    }
    for one in expected.iter().filter(|one| one.recipe.image().is_none()) {
        let running = listed(shared, &one.recipe).await?.into_iter().filter(is_alive).count();
        if running > 0 {
            found.push((Arc::clone(&one.recipe.service), one.max.min(u32::try_from(running).unwrap_or(u32::MAX))));
        }
    }
    Ok(found)
}

fn is_alive(container: &Listed) -> bool {
    matches!(container.state.as_str(), "running" | "paused")
}
