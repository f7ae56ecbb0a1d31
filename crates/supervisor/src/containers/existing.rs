//! Containers that somebody else has made.

use super::recipe::Recipe;
use super::shared::Shared;
use crate::spec::ContainerSource;
use pilotlight_containers::{EngineError, Listed};

/// What keeps from having a container.
pub(super) enum Obstacle {
    /// Another try may help.
    Passing(String),
    Lasting(String),
}

impl From<EngineError> for Obstacle {
    fn from(error: EngineError) -> Self {
        if error.is_passing() { Self::Passing(error.to_string()) } else { Self::Lasting(error.to_string()) }
    }
}

/// One that somebody else has made, and that no other instance has.
pub(super) async fn existing(shared: &Shared, recipe: &Recipe) -> Result<String, Obstacle> {
    let all = listed(shared, recipe).await?;
    let taken = shared.taken_ids();
    let free = all.iter().find(|one| !taken.contains(&one.id)).map(|one| one.id.clone());
    free.ok_or_else(|| {
        let advice = match recipe.container().map(|container| &container.source) {
            Some(ContainerSource::Labels { advice, .. }) => advice.clone(),
            Some(ContainerSource::Name(name)) => format!("there is no container {name}; create it first"),
            _ => "there is none".to_owned(),
        };
        if all.is_empty() {
            Obstacle::Lasting(advice)
        } else {
            // One that ends is given back soon.
            Obstacle::Passing(
                "all of its containers are in use; create more of them, or lower max_instances".to_owned(),
            )
        }
    })
}

/// The containers that a service means which makes none.
pub(super) async fn listed(shared: &Shared, recipe: &Recipe) -> Result<Vec<Listed>, EngineError> {
    match recipe.container().map(|container| &container.source) {
        Some(ContainerSource::Labels { labels, .. }) => shared.engine.list(labels).await,
        Some(ContainerSource::Name(name)) => match shared.engine.inspect(name).await {
            Ok(container) => {
                let state = if container.state.running { "running" } else { "exited" };
                Ok(vec![Listed { id: container.id, state: state.to_owned(), ..Listed::default() }])
            }
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        },
        Some(ContainerSource::Image(_)) | None => Ok(Vec::new()),
    }
}
