//! From a service's settings to what the engine is asked for. Pure but for the files of variables, which are read at
//! each start.

use super::labels::{GATEWAY, INSTANCE, SERVICE, SETTINGS};
use crate::isolation::{Isolation, ResourceLimits, parse_env_file};
use crate::spec::{ContainerSource, ContainerSpec, HealthCheck, ImageSpec, ServiceSpec, Transport};
use pilotlight_containers::{Create, Empty, EndpointsConfig, HostConfig, PortBinding, Ulimit};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the pipe's socket is in a container.
const SOCKET: &str = "/run/pilotlight.sock";
/// Where secrets are in a container, as Docker's own are.
const SECRETS: &str = "/run/secrets";

/// What an instance is made of.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) service: Arc<str>,
    /// The instance's number.
    pub(crate) number: u64,
    pub(crate) spec: Arc<ServiceSpec>,
    /// The pipe's socket on this machine and the token, for one that uses the pipe.
    pub(crate) pipe: Option<(PathBuf, String)>,
    /// Tells containers of one instance from those of another.
    pub(crate) mark: String,
}

impl Recipe {
    /// `None` for a service that is a process.
    pub(crate) fn container(&self) -> Option<&ContainerSpec> {
        self.spec.container.as_deref()
    }

    pub(super) fn image(&self) -> Option<&ImageSpec> {
        match &self.container()?.source {
            ContainerSource::Image(image) => Some(image),
            ContainerSource::Labels { .. } | ContainerSource::Name(_) => None,
        }
    }

    pub(super) fn stop_grace(&self) -> Duration {
        self.spec.stop_grace
    }

    pub(super) fn health(&self) -> &HealthCheck {
        &self.spec.health
    }

    pub(super) fn transport(&self) -> Transport {
        self.spec.transport
    }

    /// The container's name, by which one is found of which an engine has not said that it has made it.
    pub(super) fn name(&self, tries: u32) -> String {
        let mark = self.mark.get(..8).unwrap_or(&self.mark);
        let more = if tries == 0 { String::new() } else { format!("-{tries}") };
        format!("pilotlight-{}-{}-{mark}{more}", self.service, self.number)
    }

    /// What its settings are told apart by. A container over the pipe is never another gateway's: its token is gone.
    pub(super) fn settings_hash(&self) -> io::Result<Option<String>> {
        let Some(image) = self.image().filter(|_| self.pipe.is_none()) else { return Ok(None) };
        let create = self.settings(image, Publish::No)?;
        let transport = format!("{:?}", self.spec.transport);
        let text = serde_json::to_vec(&(create, transport, self.container().and_then(|container| container.port)));
        Ok(Some(fnv(&text.map_err(io::Error::other)?)))
    }

    /// The request for a new container.
    pub(super) fn create(&self, gateway: &str, publish: Publish) -> io::Result<Create> {
        let Some(image) = self.image() else { return Err(io::Error::other("the service names no image")) };
        let mut create = self.settings(image, publish)?;
        create.env.push(format!("PILOTLIGHT_INSTANCE={}", self.number));
        if let Some((socket, token)) = &self.pipe {
            create.env.push(format!("PILOTLIGHT_SOCKET={SOCKET}"));
            create.env.push(format!("PILOTLIGHT_TOKEN={token}"));
            create.host_config.binds.push(format!("{}:{SOCKET}", socket.display()));
        }
        let mut label = |name: &str, value: String| create.labels.insert(name.to_owned(), value);
        label(GATEWAY, gateway.to_owned());
        label(SERVICE, self.service.to_string());
        label(INSTANCE, self.number.to_string());
        if let Some(hash) = self.settings_hash()? {
            label(SETTINGS, hash);
        }
        Ok(create)
    }

    /// What is the same for all instances.
    fn settings(&self, image: &ImageSpec, publish: Publish) -> io::Result<Create> {
        let container = self.container();
        let port = container.and_then(|container| container.port);
        let network = container.and_then(|container| container.network.clone());
        let Isolation { env_files, secrets, limits, cgroup, .. } = &self.spec.isolation;
        let mut env = Vec::new();
        for file in env_files {
            env.extend(variables(file)?);
        }
        env.extend(self.spec.env.iter().map(|(name, value)| format!("{name}={value}")));
        env.extend(secrets.iter().map(|(name, _)| format!("{name}_FILE={SECRETS}/{name}")));
        env.push(format!("PILOTLIGHT_SERVICE={}", self.service));
        if let Some(port) = port.filter(|_| !self.spec.env.iter().any(|(name, _)| name == "PORT")) {
            env.push(format!("PORT={port}"));
        }
        let mut binds = image.volumes.clone();
        binds.extend(secrets.iter().map(|(name, file)| format!("{}:{SECRETS}/{name}:ro", file.display())));
        let exposed = port.map(|port| format!("{port}/tcp"));
        let bindings = exposed.iter().filter(|_| publish == Publish::Loopback);
        let loopback = || vec![PortBinding { host_ip: "127.0.0.1".to_owned(), host_port: String::new() }];
        let is_mode = |name: &&String| matches!(name.as_str(), "host" | "none" | "bridge") || name.contains(':');
        let named = network.as_ref().filter(|name| !is_mode(name));
        Ok(Create {
            image: image.image.clone(),
            cmd: image.command.clone(),
            entrypoint: image.entrypoint.clone(),
            env,
            user: image.user.clone(),
            working_dir: image.workdir.clone(),
            labels: BTreeMap::new(),
            networking_config: named
                .map(|name| EndpointsConfig { endpoints_config: BTreeMap::from([(name.clone(), Empty {})]) }),
            host_config: HostConfig {
                binds,
                port_bindings: bindings.map(|port| (port.clone(), loopback())).collect(),
                network_mode: network,
                memory: cgroup.memory,
                nano_cpus: cgroup.cpu_milli.map(|milli| milli * 1_000_000),
                pids_limit: limits.processes,
                ulimits: ulimits(limits),
                init: image.init.then_some(true),
                readonly_rootfs: image.read_only.then_some(true),
            },
            exposed_ports: exposed.into_iter().map(|port| (port, Empty {})).collect(),
        })
    }
}

/// Whether its port is published on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Publish {
    /// It is reached at its own address.
    No,
    /// On a port of 127.0.0.1 that the engine chooses.
    Loopback,
}

fn ulimits(limits: &ResourceLimits) -> Vec<Ulimit> {
    let all = [
        ("nofile", limits.open_files),
        ("cpu", limits.cpu_seconds),
        ("fsize", limits.file_size),
        ("core", limits.core),
        ("as", limits.address_space),
    ];
    let one = |(name, value): (&str, Option<u64>)| {
        value.map(|value| Ulimit { name: name.to_owned(), soft: value, hard: value })
    };
    all.into_iter().filter_map(one).collect()
}

fn variables(file: &Path) -> io::Result<Vec<String>> {
    let failed = |error: String| io::Error::other(format!("env_file {}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let all = parse_env_file(&text).map_err(|error| failed(error.to_string()))?;
    Ok(all.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
}

/// FNV-1a: the same in every version of this program.
fn fnv(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::HttpSocket;

    fn recipe(change: impl FnOnce(&mut ServiceSpec, &mut ImageSpec)) -> Recipe {
        let mut spec = ServiceSpec::new("app", Vec::new(), Transport::Http(HttpSocket::Port));
        let mut image = ImageSpec::new("app:1");
        change(&mut spec, &mut image);
        let source = ContainerSource::Image(Box::new(image));
        spec.container = Some(Box::new(ContainerSpec { source, port: Some(8080), network: None }));
        let mark = "0123456789abcdef".to_owned();
        Recipe { service: "app".into(), number: 3, spec: Arc::new(spec), pipe: None, mark }
    }

    #[test]
    fn settings_become_the_engines() {
        let recipe = recipe(|spec, image| {
            spec.env.push(("A".to_owned(), "b".to_owned()));
            spec.isolation.cgroup.memory = Some(64 << 20);
            spec.isolation.cgroup.cpu_milli = Some(500);
            spec.isolation.limits.processes = Some(10);
            spec.isolation.limits.open_files = Some(99);
            spec.isolation.secrets.push(("KEY".to_owned(), "/etc/key".into()));
            image.volumes.push("/data:/data:ro".to_owned());
        });
        let create = serde_json::to_value(recipe.create("gate", Publish::Loopback).unwrap()).unwrap();
        assert_eq!(recipe.name(0), "pilotlight-app-3-01234567");
        assert_eq!(create["Image"], "app:1");
        let env: Vec<&str> = create["Env"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        assert_eq!(
            env,
            ["A=b", "KEY_FILE=/run/secrets/KEY", "PILOTLIGHT_SERVICE=app", "PORT=8080", "PILOTLIGHT_INSTANCE=3"]
        );
        let host = &create["HostConfig"];
        assert_eq!(host["Binds"], serde_json::json!(["/data:/data:ro", "/etc/key:/run/secrets/KEY:ro"]));
        assert_eq!((host["Memory"].as_u64(), host["NanoCpus"].as_u64()), (Some(64 << 20), Some(500_000_000)));
        assert_eq!((host["PidsLimit"].as_u64(), host["Ulimits"][0]["Hard"].as_u64()), (Some(10), Some(99)));
        assert_eq!(host["PortBindings"]["8080/tcp"][0]["HostIp"], "127.0.0.1");
        assert_eq!(create["Labels"][GATEWAY], "gate");
    }

    #[test]
    fn a_hash_tells_settings_apart_and_not_instances() {
        let hash = |recipe: Recipe| recipe.settings_hash().unwrap().unwrap();
        let plain = hash(recipe(|_, _| {}));
        assert_eq!(plain, hash(Recipe { number: 9, mark: "x".repeat(32), ..recipe(|_, _| {}) }));
        assert_ne!(plain, hash(recipe(|spec, _| spec.env.push(("A".to_owned(), "b".to_owned())))));
        assert_ne!(plain, hash(recipe(|_, image| image.image = "app:2".to_owned())));
        let piped = Recipe { pipe: Some(("/s".into(), "t".to_owned())), ..recipe(|_, _| {}) };
        assert_eq!(piped.settings_hash().unwrap(), None);
    }
}
