//! What is sent to the engine and read from it, as far as it is used. Fields that an engine leaves out, or gives as
//! null, are empty.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// `null` as what is there by default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A container that is to be created.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Create {
    /// Its image.
    pub image: String,
    /// What the image's entrypoint gets instead of the image's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    /// Instead of the image's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// `user`, `user:group`, names or numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The folder in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// What it is found by.
    pub labels: BTreeMap<String, String>,
    /// `8080/tcp`.
    pub exposed_ports: BTreeMap<String, Empty>,
    /// Of this machine.
    pub host_config: HostConfig,
    /// The network that it is in, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking_config: Option<Endpoints>,
}

/// `{}`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Empty {}

/// Names that a container has in networks.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Endpoints {
    /// By the network's name.
    pub endpoints_config: BTreeMap<String, Empty>,
}

/// A network that a container is created in.
pub type EndpointsConfig = Endpoints;

/// What a container has of this machine.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostConfig {
    /// `/here:/there` or `/here:/there:ro`.
    pub binds: Vec<String>,
    /// A network's name, `bridge`, `host` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_mode: Option<String>,
    /// Published ports, by `8080/tcp`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub port_bindings: BTreeMap<String, Vec<PortBinding>>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Billionths of a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nano_cpus: Option<u64>,
    /// Most processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<u64>,
    /// Limits of processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ulimits: Vec<Ulimit>,
    /// Whether a small first process reaps what the program leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    /// Whether nothing in the image may be written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readonly_rootfs: Option<bool>,
}

/// A port of this machine that leads to one of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PortBinding {
    /// An address of this machine.
    #[serde(default, deserialize_with = "or_default")]
    pub host_ip: String,
    /// Empty: one that is free.
    #[serde(default, deserialize_with = "or_default")]
    pub host_port: String,
}

/// A limit of processes (`setrlimit`).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Ulimit {
    /// `nofile`, `nproc`, `core`, …
    pub name: String,
    /// What counts.
    pub soft: u64,
    /// The most that it may be raised to.
    pub hard: u64,
}

/// The answer to a creation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Created {
    pub(crate) id: String,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Container {
    /// Its number.
    pub id: String,
    /// With a slash before it, in Docker.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// What it does.
    #[serde(default, deserialize_with = "or_default")]
    pub state: ContainerState,
    /// How it was created.
    #[serde(default, deserialize_with = "or_default")]
    pub config: Config,
    /// Of this machine.
    #[serde(default, deserialize_with = "or_default")]
    pub host_config: HostState,
    /// Where it is reached.
    #[serde(default, deserialize_with = "or_default")]
    pub network_settings: NetworkSettings,
}

/// How a container was created.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Config {
    /// Its labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Whether it has a terminal: then its output is one stream.
    pub tty: bool,
    /// How its health is looked at, if it is.
    pub healthcheck: Option<Healthcheck>,
}

/// How a container's health is looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Healthcheck {
    /// `NONE`, `CMD` or `CMD-SHELL`, and what is run.
    #[serde(deserialize_with = "or_default")]
    pub test: Vec<String>,
}

/// What a container has of this machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostState {
    /// Its network, or `host` or `none`.
    #[serde(deserialize_with = "or_default")]
    pub network_mode: String,
}

/// What a container does.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerState {
    /// Its first process runs, or is paused.
    pub running: bool,
    /// It is paused.
    pub paused: bool,
    /// Memory was short.
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    /// Of its first process, 0 if it runs nowhere.
    pub pid: i32,
    /// Of its last end.
    pub exit_code: i32,
    /// Why it did not start.
    #[serde(deserialize_with = "or_default")]
    pub error: String,
    /// What its health check says.
    #[serde(deserialize_with = "or_default")]
    pub health: Health,
}

/// What a health check says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Health {
    /// `starting`, `healthy`, `unhealthy`, or nothing.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// The last looks.
    #[serde(deserialize_with = "or_default")]
    pub log: Vec<HealthLook>,
}

/// One look.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HealthLook {
    /// What it printed.
    #[serde(deserialize_with = "or_default")]
    pub output: String,
    /// 0 is healthy.
    pub exit_code: i32,
}

/// Where a container is reached.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkSettings {
    /// In its networks, by their names.
    #[serde(deserialize_with = "or_default")]
    pub networks: BTreeMap<String, Endpoint>,
    /// Ports of this machine, by `8080/tcp`.
    #[serde(deserialize_with = "or_default")]
    pub ports: BTreeMap<String, Option<Vec<PortBinding>>>,
}

/// A container in a network.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Endpoint {
    /// Empty if it has none.
    #[serde(rename = "IPAddress", deserialize_with = "or_default")]
    pub ip_address: String,
    /// Of IPv6; empty if it has none.
    #[serde(rename = "GlobalIPv6Address", deserialize_with = "or_default")]
    pub ip6_address: String,
}

/// A container in a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Listed {
    /// Its number.
    pub id: String,
    /// With a slash before them.
    #[serde(deserialize_with = "or_default")]
    pub names: Vec<String>,
    /// Its labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// `running`, `paused`, `exited`, `created`, …
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    /// Ports of this machine.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
}

/// A port of a container in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Port {
    /// Of the container.
    pub private_port: u16,
    /// Of this machine.
    pub public_port: Option<u16>,
}

/// An image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageDetails {
    /// Its number.
    pub id: String,
}

/// How far a pull has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PullProgress {
    /// The layer, or the whole image.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// What is done.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// How much of it, for people.
    #[serde(deserialize_with = "or_default")]
    pub progress: String,
    /// Why it failed.
    pub error: Option<String>,
}
