//! From objects of the API server to what is kept of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1 as networking;
use kube::api::ObjectMeta;
use pilotlight_tls::Certificate;

use crate::duration;
use crate::snapshot::{
    ANNOTATIONS, IngressBackend, IngressClass, IngressPath, IngressRule, IngressSpec, Key, Meta, PortRef, Service,
    ServicePort, Slice, Specified, TlsSecret, Workload,
};

/// How long a request waits for the first pod of a workload, if the workload does not say it.
pub const DEFAULT_WAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// Most endpoints of one slice that are kept; the API has a limit of 1,000.
const MAX_ENDPOINTS: usize = 1000;

/// The name of an object.
#[must_use]
pub fn key(meta: &ObjectMeta) -> Key {
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// What all objects have.
#[must_use]
pub fn meta(meta: &ObjectMeta) -> Meta {
    let annotations = meta.annotations.iter().flatten();
    Meta {
        generation: meta.generation.unwrap_or_default(),
        created: meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
        annotations: annotations
            .filter_map(|(name, value)| Some((name.strip_prefix(ANNOTATIONS)?.to_owned(), value.clone())))
            .collect(),
    }
}

/// An Ingress.
#[must_use]
pub fn ingress(object: networking::Ingress) -> Specified<IngressSpec> {
    let old_class = || object.metadata.annotations.as_ref()?.get("kubernetes.io/ingress.class").cloned();
    let old_class = old_class();
    let meta = meta(&object.metadata);
    let status = serde_json::to_value(&object.status).unwrap_or_default();
    let spec = object.spec.unwrap_or_default();
    let rules = spec.rules.unwrap_or_default().into_iter().map(|rule| IngressRule {
        host: rule.host.filter(|host| !host.is_empty()),
        paths: rule.http.map(|http| http.paths.into_iter().map(ingress_path).collect()).unwrap_or_default(),
    });
    let spec = IngressSpec {
        class: spec.ingress_class_name.or(old_class),
        default_backend: spec.default_backend.map(ingress_backend),
        rules: rules.collect(),
        tls: spec.tls.unwrap_or_default().into_iter().filter_map(|tls| tls.secret_name).collect(),
    };
    Specified { meta, spec, status: Arc::new(status) }
}

fn ingress_path(path: networking::HTTPIngressPath) -> IngressPath {
    IngressPath {
        path: path.path.unwrap_or_default(),
        exact: path.path_type == "Exact",
        backend: ingress_backend(path.backend),
    }
}

fn ingress_backend(backend: networking::IngressBackend) -> IngressBackend {
    let Some(service) = backend.service else { return IngressBackend::default() };
    let port = service.port.map(|port| match (port.name, port.number) {
        (Some(name), _) => PortRef::Name(name),
        (None, number) => PortRef::Number(number.and_then(|number| number.try_into().ok()).unwrap_or_default()),
    });
    IngressBackend { service: Some(service.name), port: port.unwrap_or_default() }
}

/// A class of Ingresses.
#[must_use]
pub fn ingress_class(object: networking::IngressClass) -> IngressClass {
    let is_default = |all: &BTreeMap<String, String>| {
        all.get("ingressclass.kubernetes.io/is-default-class").is_some_and(|value| value == "true")
    };
    IngressClass {
        controller: object.spec.and_then(|spec| spec.controller).unwrap_or_default(),
        is_default: object.metadata.annotations.as_ref().is_some_and(is_default),
    }
}

/// A Service.
#[must_use]
pub fn service(object: v1::Service) -> Service {
    let spec = object.spec.unwrap_or_default();
    let balancer = object.status.and_then(|status| status.load_balancer).and_then(|balancer| balancer.ingress);
    let mut addresses: Vec<String> =
        balancer.unwrap_or_default().into_iter().filter_map(|one| one.ip.or(one.hostname)).collect();
    if addresses.is_empty() {
        addresses.extend(spec.cluster_ip.filter(|address| !address.is_empty() && address != "None"));
    }
    let ports = spec.ports.unwrap_or_default().into_iter().filter_map(|port| {
        Some(ServicePort {
            name: port.name.unwrap_or_default(),
            port: port.port.try_into().ok()?,
            app_protocol: port.app_protocol,
        })
    });
    Service {
        ports: ports.collect(),
        selector: spec.selector.unwrap_or_default(),
        external_name: spec.external_name,
        addresses,
    }
}

/// Endpoints; none: they are of no Service, or names.
#[must_use]
pub fn slice(object: EndpointSlice) -> Option<Slice> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let service = object.metadata.labels.as_ref()?.get("kubernetes.io/service-name")?;
    let service = Key::new(namespace, service);
    let ports = object.ports.unwrap_or_default().into_iter();
    let ports = ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
    let ports = ports.filter_map(|port| Some((port.name.unwrap_or_default(), port.port?.try_into().ok()?))).collect();
    // "ready" that is not there counts as ready (the API's documentation of EndpointConditions).
    let is_ready = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    };
    let ready = object.endpoints.iter().take(MAX_ENDPOINTS).filter(|endpoint| is_ready(endpoint));
    // All addresses of one endpoint are the same pod.
    let ready = ready.filter_map(|endpoint| endpoint.addresses.first()?.parse::<IpAddr>().ok()).collect();
    Some(Slice { service, ports, ready })
}

/// A certificate with its key; none: one of them is missing.
#[must_use]
pub fn secret(object: v1::Secret) -> Option<TlsSecret> {
    let mut data = object.data?;
    let (certificate, key) = (data.remove("tls.crt")?.0, data.remove("tls.key")?.0);
    let problem = Certificate::from_pem(&certificate, &key, "Secret").err().map(|e| format!("{e}; {}", e.remedy()));
    Some(TlsSecret { certificate, key, problem })
}

/// Labels.
#[must_use]
pub fn namespace(object: v1::Namespace) -> BTreeMap<String, String> {
    object.metadata.labels.unwrap_or_default()
}

/// A Deployment that may be scaled to zero.
#[must_use]
pub fn deployment(object: Deployment) -> Option<Workload> {
    let spec = object.spec?;
    workload(&object.metadata, spec.replicas, spec.template.metadata)
}

/// A StatefulSet that may be scaled to zero.
#[must_use]
pub fn stateful_set(object: StatefulSet) -> Option<Workload> {
    let spec = object.spec?;
    workload(&object.metadata, spec.replicas, spec.template.metadata)
}

fn workload(object: &ObjectMeta, replicas: Option<i32>, pods: Option<ObjectMeta>) -> Option<Workload> {
    let all = meta(object).annotations;
    let time = |name: &str| {
        let text = all.get(name)?;
        let time = duration::parse(text).filter(|time| !time.is_zero());
        if time.is_none() {
            tracing::warn!("{}: {ANNOTATIONS}{name} is {text:?}; write a time like 5m, 90s or 1h30m", key(object));
        }
        time
    };
    let idle_timeout = time("idle-timeout")?;
    let min_replicas = all.get("min-replicas").and_then(|text| text.parse().ok()).filter(|count| *count > 0);
    Some(Workload {
        labels: pods.and_then(|pods| pods.labels).unwrap_or_default(),
        replicas: replicas.unwrap_or(1),
        idle_timeout,
        min_replicas: min_replicas.unwrap_or(1),
        wake_timeout: time("wake-timeout").unwrap_or(DEFAULT_WAKE_TIMEOUT),
        version: object.resource_version.as_deref().unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_endpoints_and_tcp_ports_are_kept() {
        let object: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "name": "web-x", "namespace": "shop", "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }, { "name": "dns", "port": 53, "protocol": "UDP" }],
            "endpoints": [
                { "addresses": ["10.0.0.1"], "conditions": { "ready": true } },
                { "addresses": ["10.0.0.2"], "conditions": { "ready": false } },
                { "addresses": ["10.0.0.3", "10.0.0.4"] },
                { "addresses": ["name.example"], "conditions": { "ready": true } },
            ],
        }))
        .unwrap();
        let slice = slice(object).unwrap();
        assert_eq!(slice.service, Key::new("shop", "web"));
        assert_eq!(slice.ports, [("http".to_owned(), 8080)]);
        assert_eq!(slice.ready, [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 3])]);
    }

    #[test]
    fn a_workload_is_known_by_its_annotation() {
        let object = |annotations: serde_json::Value| -> Deployment {
            serde_json::from_value(json!({
                "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "7", "annotations": annotations },
                "spec": {
                    "replicas": 3,
                    "selector": { "matchLabels": { "app": "web" } },
                    "template": { "metadata": { "labels": { "app": "web" } } },
                },
            }))
            .unwrap()
        };
        assert_eq!(deployment(object(json!({}))), None);
        assert_eq!(deployment(object(json!({ "pilotlight.dev/idle-timeout": "soon" }))), None);
        let workload =
            deployment(object(json!({ "pilotlight.dev/idle-timeout": "5m", "pilotlight.dev/min-replicas": "2" })));
        let expected = Workload {
            labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
            replicas: 3,
            idle_timeout: Duration::from_secs(300),
            min_replicas: 2,
            wake_timeout: DEFAULT_WAKE_TIMEOUT,
            version: "7".into(),
        };
        assert_eq!(workload, Some(expected));
    }

    #[test]
    fn addresses_of_a_service_are_those_of_its_load_balancer_first() {
        let object = |status: serde_json::Value| -> v1::Service {
            let spec = json!({ "clusterIP": "10.96.0.9", "ports": [{ "port": 80 }] });
            serde_json::from_value(json!({ "metadata": { "name": "x" }, "spec": spec, "status": status })).unwrap()
        };
        let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }, { "hostname": "lb.example" }] } });
        assert_eq!(service(object(ingress)).addresses, ["192.0.2.1", "lb.example"]);
        assert_eq!(service(object(json!({}))).addresses, ["10.96.0.9"]);
    }
}
