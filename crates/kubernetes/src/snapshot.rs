//! What is known of the cluster: plain data, no more of each object than is needed.
//!
//! Invariant: nothing here knows how it came to be known, and nothing is removed because the API server is away.

use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::api::{GatewayClassSpec, GatewaySpec, HttpRouteSpec, ReferenceGrantSpec, Selector};

/// The beginning of annotations that are read.
pub const ANNOTATIONS: &str = "pilotlight.dev/";

/// The name of an object in its namespace; that of one that has none is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// The name of an object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}", self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// What all objects have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Which change of the specification it is.
    pub generation: i64,
    /// When it was made, in seconds since 1970: the older of two wins.
    pub created: i64,
    /// Those that begin with [`ANNOTATIONS`], without that.
    pub annotations: BTreeMap<String, String>,
}

/// An object with a specification and a status of ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Specified<S> {
    /// What all objects have.
    pub meta: Meta,
    /// What is wanted.
    pub spec: S,
    /// What was said of it, by us and others.
    pub status: Arc<Value>,
}

/// Everything that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Classes of Gateways, by name.
    pub gateway_classes: BTreeMap<Key, Specified<GatewayClassSpec>>,
    /// Gateways.
    pub gateways: BTreeMap<Key, Specified<GatewaySpec>>,
    /// Routes.
    pub http_routes: BTreeMap<Key, Specified<HttpRouteSpec>>,
    /// What may be referred to from other namespaces.
    pub grants: BTreeMap<Key, ReferenceGrantSpec>,
    /// Ingresses.
    pub ingresses: BTreeMap<Key, Specified<IngressSpec>>,
    /// Classes of Ingresses.
    pub ingress_classes: BTreeMap<Key, IngressClass>,
    /// Services.
    pub services: BTreeMap<Key, Service>,
    /// Endpoints, by their own name.
    pub slices: BTreeMap<Key, Slice>,
    /// Secrets of the type `kubernetes.io/tls`.
    pub secrets: BTreeMap<Key, Arc<TlsSecret>>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<Key, BTreeMap<String, String>>,
    /// Workloads that may be scaled to zero.
    pub workloads: BTreeMap<WorkloadKey, Workload>,
}

/// What an Ingress wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngressSpec {
    /// Its class, by the field or the old annotation.
    pub class: Option<String>,
    /// What no rule takes.
    pub default_backend: Option<IngressBackend>,
    /// Hosts and paths.
    pub rules: Vec<IngressRule>,
    /// Names of Secrets; the hosts are in the certificates.
    pub tls: Vec<String>,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngressRule {
    /// None: all.
    pub host: Option<String>,
    /// Its paths.
    pub paths: Vec<IngressPath>,
}

/// One path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngressPath {
    /// Empty: `/`.
    pub path: String,
    /// Not what is below it.
    pub exact: bool,
    /// Where its requests go.
    pub backend: IngressBackend,
}

/// Where requests of an Ingress go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngressBackend {
    /// The Service; none: another kind of object, which is not supported.
    pub service: Option<String>,
    /// Its port.
    pub port: PortRef,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRef {
    /// By number.
    Number(u16),
    /// By name.
    Name(String),
}

impl Default for PortRef {
    fn default() -> Self {
        Self::Number(0)
    }
}

/// A class of Ingresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngressClass {
    /// Whose class it is.
    pub controller: String,
    /// Whether Ingresses without a class have it.
    pub is_default: bool,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Labels of its pods.
    pub selector: BTreeMap<String, String>,
    /// It stands for a name outside of the cluster.
    pub external_name: Option<String>,
    /// Addresses and hosts of its load balancer, else its own address in the cluster.
    pub addresses: Vec<String>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty if it is the only one.
    pub name: String,
    /// Its number.
    pub port: u16,
    /// What is spoken there.
    pub app_protocol: Option<String>,
}

/// Some of the endpoints of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The Service.
    pub service: Key,
    /// Ports by the names that the Service has for them.
    pub ports: Vec<(String, u16)>,
    /// Addresses that are ready.
    pub ready: Vec<IpAddr>,
}

/// A certificate with its key, as PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsSecret {
    /// The chain.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
    /// Why they cannot be used.
    pub problem: Option<String>,
}

impl TlsSecret {
    /// The same for the same content, in this process.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new(); // with fixed keys
        (&self.certificate, &self.key).hash(&mut hasher);
        hasher.finish()
    }
}

impl std::fmt::Debug for TlsSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsSecret(…)")
    }
}

/// A kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` StatefulSet.
    StatefulSet,
}

impl WorkloadKind {
    /// As the API has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

/// The name of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadKey {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its name.
    pub key: Key,
}

impl std::fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.key)
    }
}

/// A workload that may be scaled to zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Labels of its pods.
    pub labels: BTreeMap<String, String>,
    /// How many are wanted now.
    pub replicas: i32,
    /// Without a request, after which none are.
    pub idle_timeout: Duration,
    /// How many the first request wants.
    pub min_replicas: i32,
    /// How long requests wait for the first.
    pub wake_timeout: Duration,
    /// Which version of the object says so.
    pub version: Arc<str>,
}

impl Snapshot {
    /// The workloads whose pods a Service has.
    pub fn workloads_of(&self, service: &Key) -> impl Iterator<Item = (&WorkloadKey, &Workload)> {
        let selector = self.services.get(service).map(|service| &service.selector).filter(|all| !all.is_empty());
        let namespace = Arc::clone(&service.namespace);
        self.workloads.iter().filter(move |(key, workload)| {
            key.key.namespace == namespace
                && selector.is_some_and(|all| all.iter().all(|(name, value)| workload.labels.get(name) == Some(value)))
        })
    }

    /// Whether a namespace's labels are selected.
    #[must_use]
    pub fn selects(&self, selector: &Selector, namespace: &str) -> bool {
        let Some(labels) = self.namespaces.get(&Key::new("", namespace)) else { return false };
        let has = |key: &String, values: &[String]| labels.get(key).is_some_and(|value| values.contains(value));
        selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && selector.match_expressions.iter().all(|expression| match expression.operator.as_str() {
                "In" => has(&expression.key, &expression.values),
                "NotIn" => !has(&expression.key, &expression.values),
                "Exists" => labels.contains_key(&expression.key),
                "DoesNotExist" => !labels.contains_key(&expression.key),
                _ => false,
            })
    }
}
