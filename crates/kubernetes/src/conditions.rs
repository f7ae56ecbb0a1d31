//! What is said of objects: conditions as the Gateway API names them, and the patch that says them.
//!
//! A condition keeps the time of its last change for as long as it says the same, so an object that has not changed is
//! not written again.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::{GATEWAY_CONTROLLER, ParentRef};
use crate::snapshot::Key;

/// Whose status it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A class.
    GatewayClass(Key),
    /// A Gateway.
    Gateway(Key),
    /// A route.
    HttpRoute(Key),
    /// An Ingress.
    Ingress(Key),
}

/// What is to be said.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Of a class.
    Class(Vec<Condition>),
    /// Of a Gateway.
    Gateway {
        /// Of the whole.
        conditions: Vec<Condition>,
        /// Of each listener.
        listeners: Vec<ListenerStatus>,
        /// Where it is.
        addresses: Vec<String>,
    },
    /// Of a route, by its parents.
    Parents(Vec<ParentStatus>),
    /// Of an Ingress: where it is.
    Addresses(Vec<String>),
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, as a word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// What is said of a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerStatus {
    /// Its name.
    pub name: String,
    /// Kinds of routes that it takes.
    pub kinds: Vec<&'static str>,
    /// Routes that have it.
    pub attached: usize,
    /// What holds of it.
    pub conditions: Vec<Condition>,
}

/// What is said of a route at one parent.
#[derive(Clone, Debug, PartialEq)]
pub struct ParentStatus {
    /// As the route has it.
    pub parent: ParentRef,
    /// What holds of it.
    pub conditions: Vec<Condition>,
}

/// What the gateway can do beyond the core of the HTTP profile, as the conformance suite names it. In order.
pub const FEATURES: [&str; 20] = [
    "Gateway",
    "GatewayPort8080",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendTimeout",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
];

impl Condition {
    /// One that holds.
    #[must_use]
    pub fn yes(kind: &'static str, reason: &'static str) -> Self {
        Self { kind, holds: true, reason, message: String::new() }
    }

    /// One that does not.
    pub fn no(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, holds: false, reason, message: message.into() }
    }

    /// As the API has it; `known` are those that were said before.
    fn value(&self, known: Option<&Value>, generation: i64, now: &str) -> Value {
        let status = if self.holds { "True" } else { "False" };
        let known = known.and_then(Value::as_array).into_iter().flatten().find(|one| one["type"] == self.kind);
        let since = known.filter(|one| one["status"] == status).and_then(|one| one["lastTransitionTime"].as_str());
        json!({
            "type": self.kind,
            "status": status,
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": generation,
            "lastTransitionTime": since.unwrap_or(now),
        })
    }
}

fn values(conditions: &[Condition], known: Option<&Value>, generation: i64, now: &str) -> Value {
    conditions.iter().map(|one| one.value(known, generation, now)).collect()
}

impl Wanted {
    /// Nothing is programmed, for this reason.
    pub fn unprogrammed(&mut self, why: &str) {
        let Self::Gateway { conditions, listeners, .. } = self else { return };
        let all = conditions.iter_mut().chain(listeners.iter_mut().flat_map(|one| &mut one.conditions));
        for condition in all.filter(|condition| condition.kind == "Programmed") {
            *condition = Condition::no("Programmed", "Invalid", why);
        }
    }

    /// The merge patch of the status; `None`: it says this already. `now` is RFC 3339.
    #[must_use]
    pub fn patch(&self, status: &Value, generation: i64, now: &str) -> Option<Value> {
        let wanted = match self {
            Self::Class(conditions) => json!({
                "conditions": values(conditions, status.get("conditions"), generation, now),
                "supportedFeatures": FEATURES.iter().map(|name| json!({ "name": name })).collect::<Value>(),
            }),
            Self::Gateway { conditions, listeners, addresses } => {
                let known = |name: &str| {
                    status["listeners"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .find(|one| one["name"] == name)?
                        .get("conditions")
                };
                let listener = |one: &ListenerStatus| {
                    let kind = |kind: &&str| json!({ "group": crate::api::GROUP, "kind": kind });
                    json!({
                        "name": one.name,
                        "attachedRoutes": one.attached,
                        "supportedKinds": one.kinds.iter().map(kind).collect::<Value>(),
                        "conditions": values(&one.conditions, known(&one.name), generation, now),
                    })
                };
                json!({
                    "addresses": addresses.iter().map(|address| gateway_address(address)).collect::<Value>(),
                    "conditions": values(conditions, status.get("conditions"), generation, now),
                    "listeners": listeners.iter().map(listener).collect::<Value>(),
                })
            }
            Self::Parents(parents) => json!({ "parents": of_parents(parents, status, generation, now) }),
            Self::Addresses(addresses) => {
                let all: Value = addresses.iter().map(|address| ingress_address(address)).collect();
                json!({ "loadBalancer": { "ingress": all } })
            }
        };
        (!says(status, &wanted)).then(|| json!({ "status": wanted }))
    }
}

/// Those of other controllers stay.
fn of_parents(parents: &[ParentStatus], status: &Value, generation: i64, now: &str) -> Value {
    let known: Vec<&Value> = status["parents"].as_array().into_iter().flatten().collect();
    let is_ours = |one: &Value| one["controllerName"] == GATEWAY_CONTROLLER;
    let ours = parents.iter().map(|parent| {
        let reference = serde_json::to_value(&parent.parent).unwrap_or_default();
        let before = known.iter().find(|one| is_ours(one) && same_parent(&one["parentRef"], &reference));
        json!({
            "parentRef": reference,
            "controllerName": GATEWAY_CONTROLLER,
            "conditions": values(&parent.conditions, before.and_then(|one| one.get("conditions")), generation, now),
        })
    });
    let others = known.iter().filter(|one| !is_ours(one)).map(|one| (*one).clone());
    others.chain(ours).collect()
}

/// The API server fills in what a reference leaves out.
fn same_parent(one: &Value, other: &Value) -> bool {
    let of = |value: &Value, name: &str, default: &str| value[name].as_str().unwrap_or(default).to_owned();
    ["name", "namespace", "sectionName"].iter().all(|name| one.get(*name) == other.get(*name))
        && one.get("port") == other.get("port")
        && of(one, "group", crate::api::GROUP) == of(other, "group", crate::api::GROUP)
        && of(one, "kind", "Gateway") == of(other, "kind", "Gateway")
}

fn gateway_address(address: &str) -> Value {
    let kind = if address.parse::<std::net::IpAddr>().is_ok() { "IPAddress" } else { "Hostname" };
    json!({ "type": kind, "value": address })
}

fn ingress_address(address: &str) -> Value {
    if address.parse::<std::net::IpAddr>().is_ok() { json!({ "ip": address }) } else { json!({ "hostname": address }) }
}

/// Whether a status has everything that is wanted, whatever else is there.
fn says(status: &Value, wanted: &Value) -> bool {
    match (status, wanted) {
        (Value::Object(has), Value::Object(wants)) => wants.iter().all(|(key, want)| match has.get(key) {
            Some(has) => says(has, want),
            None => is_nothing(want),
        }),
        (Value::Array(has), Value::Array(wants)) => {
            has.len() == wants.len() && has.iter().zip(wants).all(|(has, want)| says(has, want))
        }
        (has, want) => has == want || is_nothing(has) && is_nothing(want),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.values().all(is_nothing),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// All statuses, by whose they are.
pub type Statuses = BTreeMap<Subject, Wanted>;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    #[test]
    fn what_is_said_already_is_not_said_again() {
        let wanted = Wanted::Class(vec![Condition::yes("Accepted", "Accepted")]);
        let patch = wanted.patch(&Value::Null, 3, NOW).unwrap();
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], NOW);
        let status = patch["status"].clone();
        assert_eq!(wanted.patch(&status, 3, "2027-01-01T00:00:00Z"), None);
        // Another generation is said, and the time of the last change stays.
        let patch = wanted.patch(&status, 4, "2027-01-01T00:00:00Z").unwrap();
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], NOW);
        let other = Wanted::Class(vec![Condition::no("Accepted", "InvalidParameters", "x")]);
        let patch = other.patch(&status, 3, "2027-01-01T00:00:00Z").unwrap();
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2027-01-01T00:00:00Z");
    }

    #[test]
    fn parents_of_other_controllers_stay() {
        let parent = ParentRef { name: "web".into(), ..ParentRef::default() };
        let wanted =
            Wanted::Parents(vec![ParentStatus { parent, conditions: vec![Condition::yes("Accepted", "Accepted")] }]);
        let theirs = json!({ "parentRef": { "name": "web" }, "controllerName": "example.com/other", "conditions": [] });
        let patch = wanted.patch(&json!({ "parents": [theirs] }), 1, NOW).unwrap();
        let parents = patch["status"]["parents"].as_array().unwrap();
        assert_eq!(
            (parents.len(), &parents[0], &parents[1]["controllerName"]),
            (2, &theirs, &json!(GATEWAY_CONTROLLER))
        );
        let filled = json!({ "parents": [theirs, {
            "parentRef": { "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web" },
            "controllerName": GATEWAY_CONTROLLER,
            "conditions": parents[1]["conditions"],
        }] });
        assert_eq!(wanted.patch(&filled, 1, "2027-01-01T00:00:00Z"), None);
    }

    #[test]
    fn what_could_not_be_applied_is_not_programmed() {
        let mut wanted = Wanted::Gateway {
            conditions: vec![Condition::yes("Accepted", "Accepted"), Condition::yes("Programmed", "Programmed")],
            listeners: Vec::new(),
            addresses: vec!["10.0.0.1".into(), "gw.example".into()],
        };
        wanted.unprogrammed("no");
        let patch = wanted.patch(&Value::Null, 1, NOW).unwrap();
        assert_eq!(patch["status"]["conditions"][1]["status"], "False");
        assert_eq!(patch["status"]["addresses"][1]["type"], "Hostname");
    }
}
