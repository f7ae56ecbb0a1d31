//! The engine of containers: whether it answers, and whether it has what services name.

use pilotlight_containers::{Engine, EngineError, find};
use pilotlight_supervisor::{ContainerSource, ContainerSpec, ImageSpec, Pull, ServiceSpec};

use super::finding::{Area, Finding};
use crate::config::Config;
use crate::settings;

/// Looks at the engine, if a service runs in a container.
pub(super) fn look(config: &Config) -> Vec<Finding> {
    let services: Vec<(&ServiceSpec, &ContainerSpec)> =
        settings::specs(config).filter_map(|spec| Some((spec, spec.container.as_deref()?))).collect();
    if services.is_empty() {
        return Vec::new();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return vec![Area::Services.note(format!("the engine cannot be asked: {error}"), "try again")],
    };
    let socket = config.containers.socket.clone().unwrap_or_else(|| find(|name| std::env::var(name).ok()));
    let engine = Engine::new(socket);
    runtime.block_on(async {
        let kind = match engine.kind().await {
            Ok(kind) => kind,
            Err(error) => {
                let remedy = "start Docker or Podman, or name its socket: [containers] socket = \"/path\"";
                return vec![Area::Services.problem(error.to_string(), remedy)];
            }
        };
        let way = if kind.is_rootless { "published ports of 127.0.0.1" } else { "their own addresses" };
        let (socket, (major, minor)) = (engine.socket().display(), kind.api);
        let fact = format!("{} answers at {socket} (API {major}.{minor}); containers are reached at {way}", kind.name);
        let mut findings = vec![Area::Services.ok(fact)];
        for (spec, container) in services {
            findings.push(one(&engine, spec, container).await.unwrap_or_else(|error| {
                Area::Services.problem(format!("{}: {error}", spec.name), "see what the engine says")
            }));
        }
        findings
    })
}

async fn one(engine: &Engine, spec: &ServiceSpec, container: &ContainerSpec) -> Result<Finding, EngineError> {
    let name = &spec.name;
    match &container.source {
        ContainerSource::Image(image) => of_image(engine, name, image).await,
        ContainerSource::Labels { labels, advice } => Ok(match engine.list(labels).await?.len() {
            0 => Area::Services.problem(format!("{name}: there is no such container"), advice),
            count => Area::Services.ok(format!("{name}: the engine has {count} of its containers")),
        }),
        ContainerSource::Name(wanted) => match engine.inspect(wanted).await {
            Ok(_) => Ok(Area::Services.ok(format!("{name}: the engine has the container {wanted}"))),
            Err(error) if error.is_not_found() => Ok(Area::Services
                .problem(format!("{name}: there is no container {wanted}"), "create it, or correct the name")),
            Err(error) => Err(error),
        },
    }
}

async fn of_image(engine: &Engine, name: &str, image: &ImageSpec) -> Result<Finding, EngineError> {
    let wanted = &image.image;
    match engine.image(wanted).await {
        Ok(_) => Ok(Area::Services.ok(format!("{name}: the engine has the image {wanted}"))),
        Err(error) if error.is_not_found() => {
            let fact = format!("{name}: the engine does not have the image {wanted}");
            Ok(match image.pull {
                Pull::Never => Area::Services.problem(fact, "pull or load it, or take pull = \"never\" away"),
                Pull::Missing | Pull::Always => {
                    Area::Services.note(fact, "its first request waits for the pull; `docker pull` before saves that")
                }
            })
        }
        Err(error) => Err(error),
    }
}
