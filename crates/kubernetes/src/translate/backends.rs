//! What rules refer to, as services of the gateway. Where their endpoints are is not said here: they come and go
//! without another configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::time::Duration;

use super::listeners::is_granted;
use super::model::{Backend, BackendPart, GAP};
use super::text::{Table, inline, quoted};
use crate::api::{BackendRef, GROUP};
use crate::duration;
use crate::snapshot::{Key, PortRef, ServicePort, Snapshot};

/// Longest name of a service of the gateway.
const MAX_NAME: usize = 64;
/// The longest wait of `queue`.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Services of the gateway by their names.
#[derive(Default)]
pub(super) struct Backends {
    pub(super) services: BTreeMap<String, Named>,
}

/// One of them.
pub(super) struct Named {
    pub(super) backend: Backend,
    transport: Transport,
    wait: Duration,
}

/// What is spoken to endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Http,
    H2c,
}

/// Why something that is referred to cannot be had: a reason as a word, and for people.
pub(super) type Unresolved = (&'static str, String);

/// A Service that is referred to, with its share.
pub(super) struct Resolved {
    part: BackendPart,
    number: u16,
    transport: Transport,
}

impl Named {
    pub(super) fn write(&self, name: &str, text: &mut String) {
        let mut table = Table::default();
        table.set("url", "[]".to_owned());
        let transport = match self.transport {
            Transport::Http => "http",
            Transport::H2c => "h2c",
        };
        table.set("transport", quoted(transport));
        let timeout = quoted(&duration::written(self.wait.min(MAX_WAIT)));
        table.set("queue", inline([("timeout".to_owned(), timeout)]));
        text.push_str(&table.text(&format!("[services.{name}]")));
    }
}

impl Backends {
    /// The service for one or several that share the requests; none: nobody gets any. `lost` is the share of those that
    /// cannot be had.
    ///
    /// # Errors
    /// They do not speak the same.
    pub(super) fn add(
        &mut self,
        snapshot: &Snapshot,
        of_rule: &str,
        resolved: Vec<Resolved>,
        lost: u64,
    ) -> Result<Option<String>, Unresolved> {
        let mut shared: Vec<Resolved> = resolved.into_iter().filter(|one| one.part.weight > 0).collect();
        let Some(first) = shared.first() else { return Ok(None) };
        let transport = first.transport;
        if shared.iter().any(|one| one.transport != transport) {
            return Err(("UnsupportedProtocol", "the backends of one rule speak different protocols".to_owned()));
        }
        let without = share(lost, shared.iter().map(|one| u64::from(one.part.weight)).sum());
        let name = match &mut shared[..] {
            [one] if without == 0 => {
                one.part.weight = 1;
                name(&format!("{}_{}_{}", one.part.service.namespace, one.part.service.name, one.number))
            }
            _ => name(of_rule),
        };
        let workloads: BTreeMap<_, _> =
            shared.iter().flat_map(|one| snapshot.workloads_of(&one.part.service)).collect();
        let wait = workloads.values().map(|workload| workload.wake_timeout).max().unwrap_or(GAP);
        let workloads: BTreeSet<_> = workloads.into_keys().cloned().collect();
        let parts = shared.into_iter().map(|one| one.part).collect();
        let named = Named { backend: Backend { parts, workloads, without }, transport, wait };
        self.services.entry(name.clone()).or_insert(named);
        Ok(Some(name))
    }
}

/// Of a thousand requests; none of them is lost if there is any to be had, and the other way round.
fn share(lost: u64, had: u64) -> u16 {
    let thousandths = lost.saturating_mul(1000) / (lost + had).max(1);
    let least = u64::from(lost > 0);
    u16::try_from(thousandths.clamp(least, 999)).unwrap_or(999)
}

/// A name that the configuration takes, and that no other text has.
fn name(text: &str) -> String {
    let simple: String = text
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' })
        .collect();
    if simple == text && text.len() <= MAX_NAME {
        return simple;
    }
    let mut hasher = std::hash::DefaultHasher::new();
    text.hash(&mut hasher);
    let digest = format!("_{:012x}", hasher.finish() & 0xffff_ffff_ffff);
    format!("{}{digest}", &simple[..simple.len().min(MAX_NAME - digest.len())])
}

/// What a rule of a route refers to.
///
/// # Errors
/// It is not there, or may not be referred to.
pub(super) fn of_route(snapshot: &Snapshot, route: &Key, reference: &BackendRef) -> Result<Resolved, Unresolved> {
    let BackendRef { group, kind, namespace, name, port, weight, .. } = reference;
    let is_service = group.as_deref().is_none_or(str::is_empty) && kind.as_deref().is_none_or(|kind| kind == "Service");
    if !is_service {
        let kind = kind.as_deref().unwrap_or("Service");
        return Err(("InvalidKind", format!("{kind} {name} is not a Service")));
    }
    let key = Key::new(namespace.as_deref().unwrap_or(&route.namespace), name);
    let from = (GROUP, "HTTPRoute", &*route.namespace);
    if key.namespace != route.namespace && !is_granted(snapshot, from, ("", "Service"), &key) {
        let message =
            format!("no ReferenceGrant in {} lets HTTPRoutes of {} refer to it", key.namespace, route.namespace);
        return Err(("RefNotPermitted", message));
    }
    let Some(port) = port else {
        return Err(("BackendNotFound", format!("the reference to the Service {key} has no port")));
    };
    of_service(snapshot, &key, &PortRef::Number(*port), weight.unwrap_or(1))
}

/// A port of a Service.
///
/// # Errors
/// It is not there.
pub(super) fn of_service(snapshot: &Snapshot, key: &Key, port: &PortRef, weight: u32) -> Result<Resolved, Unresolved> {
    let missing = |message: String| Err(("BackendNotFound", message));
    let Some(service) = snapshot.services.get(key) else { return missing(format!("there is no Service {key}")) };
    if service.external_name.is_some() {
        return missing(format!("the Service {key} is of the type ExternalName, which is not followed"));
    }
    let is_it = |one: &&ServicePort| match port {
        PortRef::Number(number) => one.port == *number,
        PortRef::Name(name) => one.name == *name,
    };
    let Some(found) = service.ports.iter().find(is_it) else {
        let port = match port {
            PortRef::Number(number) => number.to_string(),
            PortRef::Name(name) => name.clone(),
        };
        return missing(format!("the Service {key} has no port {port}"));
    };
    let transport = match found.app_protocol.as_deref() {
        None | Some("http" | "HTTP" | "kubernetes.io/ws" | "kubernetes.io/http") => Transport::Http,
        Some("kubernetes.io/h2c" | "grpc") => Transport::H2c,
        Some(other) => {
            return Err((
                "UnsupportedProtocol",
                format!("the appProtocol {other} of the Service {key} is not supported"),
            ));
        }
    };
    let part = BackendPart { service: key.clone(), port: found.name.clone(), weight };
    Ok(Resolved { part, number: found.port, transport })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(
            [share(0, 5), share(1, 1), share(1, 3), share(1, 1_000_000), share(1_000_000, 1)],
            [0, 500, 250, 1, 999]
        );
    }

    #[test]
    fn names_are_valid_and_their_own() {
        assert_eq!(name("default_web_80"), "default_web_80");
        let long = "n".repeat(63) + "_" + &"s".repeat(63) + "_80";
        assert_eq!(name(&long).len(), MAX_NAME);
        assert_ne!(name(&long), name(&(long.clone() + "80")));
        assert_ne!(name("a.b"), name("a-b"));
    }
}
