//! Objects of a cluster in, configuration and conditions out; the configuration is read by the gateway's own reader.

use std::path::Path;
use std::time::Duration;

use pilotlight_cli::config;
use serde_json::{Value, json};

use super::*;
use crate::api::{
    GATEWAY_CONTROLLER, GatewayClassSpec, GatewaySpec, HttpRouteSpec, INGRESS_CONTROLLER, ReferenceGrantSpec,
};
use crate::snapshot::{
    IngressBackend, IngressClass, IngressPath, IngressRule, IngressSpec, Key, Meta, PortRef, Service, ServicePort,
    Specified, Workload, WorkloadKey, WorkloadKind,
};

/// A cluster with our class, a Gateway `web` with listeners for HTTP at 80, and Services `a`, `b` and `h2` in
/// `default`.
struct Cluster {
    snapshot: Snapshot,
    options: Options,
    made: i64,
}

impl Cluster {
    fn new() -> Self {
        let options = Options {
            class_name: None,
            port_offset: 8000,
            bind: [0, 0, 0, 0].into(),
            addresses: vec!["192.0.2.1".into()],
            certificates: "/certs".into(),
            unavailable: BTreeMap::new(),
        };
        let mut cluster = Self { snapshot: Snapshot::default(), options, made: 0 };
        let class = GatewayClassSpec { controller_name: GATEWAY_CONTROLLER.into() };
        let class = Specified { spec: class, ..Specified::default() };
        cluster.snapshot.gateway_classes.insert(Key::new("", "pilotlight"), class);
        for namespace in ["default", "other"] {
            let labels = BTreeMap::from([("team".to_owned(), namespace.to_owned())]);
            cluster.snapshot.namespaces.insert(Key::new("", namespace), labels);
        }
        for name in ["a", "b", "h2"] {
            cluster.service("default", name, if name == "h2" { Some("kubernetes.io/h2c") } else { None });
        }
        cluster.gateway("web", json!([{ "name": "http", "port": 80, "protocol": "HTTP" }]));
        cluster
    }

    fn meta(&mut self) -> Meta {
        self.made += 1;
        Meta { generation: 1, created: self.made, ..Meta::default() }
    }

    fn service(&mut self, namespace: &str, name: &str, app_protocol: Option<&str>) {
        let port = ServicePort { name: "main".into(), port: 80, app_protocol: app_protocol.map(str::to_owned) };
        let selector = BTreeMap::from([("app".to_owned(), name.to_owned())]);
        let service = Service { ports: vec![port], selector, ..Service::default() };
        self.snapshot.services.insert(Key::new(namespace, name), service);
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
    fn gateway(&mut self, name: &str, listeners: Value) {
        let spec = json!({ "gatewayClassName": "pilotlight", "listeners": listeners });
        let spec: GatewaySpec = serde_json::from_value(spec).unwrap();
        let meta = self.meta();
        self.snapshot.gateways.insert(Key::new("default", name), Specified { meta, spec, status: Arc::default() });
    }

    fn secret(&mut self, namespace: &str, name: &str, problem: Option<&str>) {
        let secret = TlsSecret { certificate: name.into(), key: b"k".to_vec(), problem: problem.map(str::to_owned) };
        self.snapshot.secrets.insert(Key::new(namespace, name), Arc::new(secret));
    }

    fn route(&mut self, name: &str, spec: Value) {
        self.route_in("default", name, spec);
    }

    fn route_in(&mut self, namespace: &str, name: &str, mut spec: Value) {
        if spec.get("parentRefs").is_none() {
            spec["parentRefs"] = json!([{ "name": "web" }]);
        }
        let spec: HttpRouteSpec = serde_json::from_value(spec).unwrap();
        let meta = self.meta();
        self.snapshot.http_routes.insert(Key::new(namespace, name), Specified { meta, spec, status: Arc::default() });
    }

    fn ingress(&mut self, name: &str, spec: IngressSpec) {
        let class = IngressClass { controller: INGRESS_CONTROLLER.into(), is_default: true };
        self.snapshot.ingress_classes.insert(Key::new("", "pilotlight"), class);
        let meta = self.meta();
        self.snapshot.ingresses.insert(Key::new("default", name), Specified { meta, spec, status: Arc::default() });
    }

    fn translate(&self) -> Translation {
        translate(&self.snapshot, &self.options, &mut Checks::default())
    }

    /// The tables of routes, after the gateway's reader has taken the whole.
    #[track_caller]
    fn routes(&self) -> Vec<toml::Table> {
        let translation = self.translate();
        let listen: Vec<String> = translation.listen.iter().map(|address| format!("{address:?}")).collect();
        let text = format!("listen = [{}]\n{}", listen.join(", "), translation.text);
        if !translation.listen.is_empty() {
            // Certificates are files, which nobody looks at here.
            if let Err(report) = config::parse(&text, Path::new("/x/kubernetes.toml")) {
                panic!("{report}\n{text}");
            }
        }
        let table: toml::Table = toml::from_str(&text).unwrap();
        let routes = table.get("routes").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        routes.into_iter().map(|route| route.as_table().unwrap().clone()).collect()
    }

    /// A condition of a route at its first parent: whether it holds, and why.
    #[track_caller]
    fn said(&self, route: &str, kind: &str) -> (bool, &'static str) {
        let key = Key::new("default", route);
        self.said_of(&key, kind)
    }

    #[track_caller]
    fn said_of(&self, key: &Key, kind: &str) -> (bool, &'static str) {
        match &self.translate().statuses[&Subject::HttpRoute(key.clone())] {
            Wanted::Parents(parents) => {
                let one = parents[0].conditions.iter().find(|one| one.kind == kind).unwrap();
                (one.holds, one.reason)
            }
            other => panic!("{other:?}"),
        }
    }

    /// A condition of a listener of the Gateway `web`.
    #[track_caller]
    fn listener(&self, name: &str, kind: &str) -> (bool, &'static str) {
        match &self.translate().statuses[&Subject::Gateway(Key::new("default", "web"))] {
            Wanted::Gateway { listeners, .. } => {
                let listener = listeners.iter().find(|one| one.name == name).unwrap();
                let one = listener.conditions.iter().find(|one| one.kind == kind).unwrap();
                (one.holds, one.reason)
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn attached(&self, name: &str) -> usize {
        match &self.translate().statuses[&Subject::Gateway(Key::new("default", "web"))] {
            Wanted::Gateway { listeners, .. } => listeners.iter().find(|one| one.name == name).unwrap().attached,
            other => panic!("{other:?}"),
        }
    }
}

fn to(name: &str) -> Value {
    json!([{ "name": name, "port": 80 }])
}

fn ports(list: &toml::Value) -> String {
    let ports: Vec<i64> = list.as_array().unwrap().iter().map(|port| port.as_integer().unwrap()).collect();
    format!("{ports:?}")
}

fn text<'t>(route: &'t toml::Table, key: &str) -> Option<&'t str> {
    route.get(key)?.as_str()
}

#[test]
fn a_route_is_for_the_hosts_and_paths_that_it_says() {
    let mut cluster = Cluster::new();
    let matches =
        json!([{ "path": { "type": "PathPrefix", "value": "/api/" } }, { "path": { "type": "Exact", "value": "/x" } }]);
    cluster.route(
        "r",
        json!({ "hostnames": ["A.example", "*.b.example"], "rules": [{ "matches": matches, "backendRefs": to("a") }] }),
    );
    let places: Vec<_> = cluster
        .routes()
        .iter()
        .map(|route| {
            let exact = route.get("exact").is_some();
            (text(route, "host").unwrap().to_owned(), text(route, "path").unwrap().to_owned(), exact)
        })
        .collect();
    let expected = [
        ("*.b.example", "/api", false),
        ("a.example", "/api", false),
        ("*.b.example", "/x", true),
        ("a.example", "/x", true),
    ];
    assert_eq!(places, expected.map(|(host, path, exact)| (host.to_owned(), path.to_owned(), exact)));
    assert_eq!(cluster.translate().listen, ["http://0.0.0.0:8080"]);
    assert_eq!(
        (cluster.said("r", "Accepted"), cluster.said("r", "ResolvedRefs")),
        ((true, "Accepted"), (true, "ResolvedRefs"))
    );
    assert_eq!(cluster.attached("http"), 1);
    let backends = cluster.translate().backends;
    assert_eq!(backends.keys().collect::<Vec<_>>(), ["default_a_80"]);
}

#[test]
fn nothing_is_said_of_what_is_somebody_elses() {
    let mut cluster = Cluster::new();
    cluster.route("r", json!({ "parentRefs": [{ "name": "unknown" }], "rules": [{ "backendRefs": to("a") }] }));
    let class = cluster.snapshot.gateway_classes.values_mut().next().unwrap();
    class.spec.controller_name = "example.com/other".into();
    cluster.route("s", json!({ "rules": [{ "backendRefs": to("a") }] }));
    let translation = cluster.translate();
    assert!(translation.statuses.is_empty() && translation.listen.is_empty() && translation.text.is_empty());
    let mut cluster = Cluster::new();
    cluster.options.class_name = Some("another".into());
    assert!(cluster.translate().statuses.is_empty());
}

#[test]
fn matches_by_method_header_and_query() {
    let mut cluster = Cluster::new();
    let one = json!({
        "method": "POST",
        "headers": [{ "name": "Version", "value": "two" }, { "name": "version", "value": "ignored" }],
        "queryParams": [{ "name": "animal", "value": "whale" }],
    });
    cluster.route("r", json!({ "rules": [{ "matches": [one], "backendRefs": to("a") }] }));
    let routes = cluster.routes();
    let when = routes[0]["when"].as_table().unwrap();
    assert_eq!(when["methods"][0].as_str(), Some("POST"));
    assert_eq!(when["headers"]["version"].as_str(), Some("two"));
    assert_eq!(when["query"]["animal"].as_str(), Some("whale"));
    assert!(when.get("ports").is_none(), "there is one port");
}

#[test]
fn what_the_gateway_has_not_is_refused_and_harms_nobody() {
    let unsupported = [
        json!({ "matches": [{ "path": { "type": "RegularExpression", "value": "/a.*" } }], "backendRefs": to("a") }),
        json!({ "matches": [{ "headers": [{ "type": "RegularExpression", "name": "x", "value": "a.*" }] }], "backendRefs": to("a") }),
        json!({ "filters": [{ "type": "RequestMirror" }], "backendRefs": to("a") }),
        json!({ "filters": [{ "type": "ExtensionRef" }], "backendRefs": to("a") }),
        json!({ "sessionPersistence": {}, "backendRefs": to("a") }),
        json!({ "retry": { "attempts": 2 }, "backendRefs": to("a") }),
        json!({ "backendRefs": [{ "name": "a", "port": 80, "filters": [{ "type": "RequestHeaderModifier" }] }] }),
        json!({ "timeouts": { "request": "soon" }, "backendRefs": to("a") }),
        // What the reader of the configuration says no to.
        json!({ "matches": [{ "path": { "value": "/a//b" } }], "backendRefs": to("a") }),
        json!({ "filters": [{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": [{ "name": "Connection", "value": "x" }] } }], "backendRefs": to("a") }),
        json!({ "filters": [{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": [{ "name": "X", "value": "{client}" }] } }], "backendRefs": to("a") }),
    ];
    for rule in unsupported {
        let mut cluster = Cluster::new();
        cluster.route("good", json!({ "hostnames": ["good.example"], "rules": [{ "backendRefs": to("b") }] }));
        cluster.route("bad", json!({ "hostnames": ["bad.example"], "rules": [{ "backendRefs": to("a") }, rule] }));
        assert_eq!(cluster.said("bad", "Accepted"), (false, "UnsupportedValue"), "{rule}");
        assert_eq!(cluster.said("good", "Accepted"), (true, "Accepted"));
        let routes = cluster.routes();
        assert_eq!(
            (routes.len(), text(&routes[0], "host")),
            (1, Some("good.example")),
            "all of a route or nothing: {rule}"
        );
        assert_eq!(cluster.attached("http"), 1);
        assert_eq!(cluster.translate().backends.len(), 1);
    }
}

#[test]
fn filters_of_fields_paths_and_hosts() {
    let mut cluster = Cluster::new();
    let filters = json!([
        { "type": "RequestHeaderModifier", "requestHeaderModifier": {
            "set": [{ "name": "X-Env", "value": "prod" }], "add": [{ "name": "X-More", "value": "1" }], "remove": ["X-Gone"] } },
        { "type": "ResponseHeaderModifier", "responseHeaderModifier": { "remove": ["Server"] } },
        { "type": "URLRewrite", "urlRewrite": { "hostname": "app.internal", "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/" } } },
    ]);
    let rule = json!({ "matches": [{ "path": { "value": "/v1" } }], "filters": filters, "backendRefs": to("a"),
        "timeouts": { "request": "10s", "backendRequest": "500ms" } });
    cluster.route("r", json!({ "rules": [rule] }));
    let route = &cluster.routes()[0];
    assert_eq!(route["request_fields"]["set"]["X-Env"].as_str(), Some("prod"));
    assert_eq!(route["request_fields"]["set"]["Host"].as_str(), Some("app.internal"));
    assert_eq!(route["request_fields"]["add"]["X-More"].as_str(), Some("1"));
    assert_eq!(route["request_fields"]["remove"][0].as_str(), Some("X-Gone"));
    assert_eq!(route["response_fields"]["remove"][0].as_str(), Some("Server"));
    assert_eq!((route["rewrite"]["prefix"].as_str(), route["rewrite"]["to"].as_str()), (Some("/v1"), Some("/")));
    assert_eq!((text(route, "timeout"), text(route, "response_timeout")), (Some("10000ms"), Some("500ms")));
    assert_eq!(text(route, "https"), Some("allow"));
}

#[test]
fn redirects_know_scheme_port_and_prefix() {
    let location = |port: u16, filter: Value| {
        let mut cluster = Cluster::new();
        cluster.gateway("web", json!([{ "name": "http", "port": port, "protocol": "HTTP" }]));
        let filters = json!([{ "type": "RequestRedirect", "requestRedirect": filter }]);
        cluster.route("r", json!({ "rules": [{ "matches": [{ "path": { "value": "/a" } }], "filters": filters }] }));
        let routes = cluster.routes();
        (
            routes[0]["redirect"]["to"].as_str().unwrap().to_owned(),
            routes[0]["redirect"]["status"].as_integer().unwrap(),
        )
    };
    let check = |port, filter, to: &str, status| assert_eq!(location(port, filter), (to.to_owned(), status));
    check(80, json!({ "scheme": "https" }), "https://{host}{path}{query}", 302);
    check(80, json!({ "scheme": "https", "port": 8443, "statusCode": 301 }), "https://{host}:8443{path}{query}", 301);
    check(8080, json!({ "hostname": "b.example" }), "http://b.example:8080{path}{query}", 302);
    check(8080, json!({ "scheme": "http" }), "http://{host}{path}{query}", 302);
    let full = json!({ "type": "ReplaceFullPath", "replaceFullPath": "/all" });
    check(80, json!({ "path": full }), "http://{host}/all{query}", 302);
    let prefix = json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": "/b/" });
    check(80, json!({ "path": prefix }), "http://{host}/b{below}{query}", 302);
}

#[test]
fn listeners_have_their_own_routes() {
    let mut cluster = Cluster::new();
    cluster.secret("default", "cert", None);
    cluster.gateway(
        "web",
        json!([
            { "name": "http", "port": 80, "protocol": "HTTP" },
            { "name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example",
              "tls": { "certificateRefs": [{ "name": "cert" }] } },
        ]),
    );
    let at = |section: &str| json!([{ "name": "web", "sectionName": section }]);
    let redirect = json!([{ "type": "RequestRedirect", "requestRedirect": { "scheme": "https" } }]);
    cluster.route("plain", json!({ "parentRefs": at("http"), "rules": [{ "filters": redirect }] }));
    cluster.route("app", json!({ "parentRefs": at("https"), "hostnames": ["a.example", "b.other"], "rules": [{ "backendRefs": to("a") }] }));
    cluster.route("both", json!({ "hostnames": ["c.example"], "rules": [{ "backendRefs": to("b") }] }));
    let routes = cluster.routes();
    let found: Vec<_> = routes
        .iter()
        .map(|route| {
            let ports = route.get("when").map(|when| ports(&when["ports"]));
            (text(route, "host").map(str::to_owned), ports.unwrap_or_default())
        })
        .collect();
    let host = |name: &str| Some(name.to_owned());
    assert_eq!(
        found,
        [(None, "[8080]".into()), (host("a.example"), "[8443]".into()), (host("c.example"), String::new())]
    );
    let translation = cluster.translate();
    assert_eq!(translation.listen, ["http://0.0.0.0:8080", "https://0.0.0.0:8443"]);
    assert_eq!(translation.files.len(), 1);
    assert!(translation.text.contains("[[tls.certificates]]\ncertificate = \"/certs/default_cert_"));
    assert_eq!((cluster.attached("http"), cluster.attached("https")), (2, 2));
}

#[test]
fn a_certificate_that_cannot_be_had_closes_its_listener_alone() {
    let with = |secret: &dyn Fn(&mut Cluster), reference: Value| {
        let mut cluster = Cluster::new();
        secret(&mut cluster);
        cluster.gateway(
            "web",
            json!([
                { "name": "http", "port": 80, "protocol": "HTTP" },
                { "name": "https", "port": 443, "protocol": "HTTPS", "tls": { "certificateRefs": [reference] } },
            ]),
        );
        assert_eq!(cluster.translate().listen.len(), usize::from(cluster.listener("https", "Programmed").0) + 1);
        assert!(cluster.listener("http", "Programmed").0);
        cluster.listener("https", "ResolvedRefs")
    };
    let nothing = |_: &mut Cluster| {};
    let broken = |cluster: &mut Cluster| cluster.secret("default", "cert", Some("it has no key"));
    let elsewhere = |cluster: &mut Cluster| cluster.secret("other", "cert", None);
    let granted = |cluster: &mut Cluster| {
        cluster.secret("other", "cert", None);
        let grant = json!({
            "from": [{ "group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "default" }],
            "to": [{ "group": "", "kind": "Secret" }],
        });
        let grant: ReferenceGrantSpec = serde_json::from_value(grant).unwrap();
        cluster.snapshot.grants.insert(Key::new("other", "g"), grant);
    };
    let there = json!({ "name": "cert", "namespace": "other" });
    assert_eq!(with(&nothing, json!({ "name": "cert" })), (false, "InvalidCertificateRef"));
    assert_eq!(with(&broken, json!({ "name": "cert" })), (false, "InvalidCertificateRef"));
    assert_eq!(with(&nothing, json!({ "name": "cert", "kind": "ConfigMap" })), (false, "InvalidCertificateRef"));
    assert_eq!(with(&elsewhere, there.clone()), (false, "RefNotPermitted"));
    assert_eq!(with(&granted, there), (true, "ResolvedRefs"));
}

#[test]
fn listeners_that_cannot_be_had_say_why() {
    let mut cluster = Cluster::new();
    cluster.gateway(
        "web",
        json!([
            { "name": "one", "port": 80, "protocol": "HTTP", "hostname": "a.example" },
            { "name": "two", "port": 80, "protocol": "HTTP", "hostname": "a.example" },
            { "name": "tcp", "port": 5432, "protocol": "TCP" },
            { "name": "grpc", "port": 8081, "protocol": "HTTP", "allowedRoutes": { "kinds": [{ "kind": "GRPCRoute" }] } },
            { "name": "good", "port": 8080, "protocol": "HTTP" },
        ]),
    );
    assert_eq!(cluster.listener("one", "Conflicted"), (true, "HostnameConflict"));
    assert_eq!(cluster.listener("two", "Programmed"), (false, "Invalid"));
    assert_eq!(cluster.listener("tcp", "Accepted"), (false, "UnsupportedProtocol"));
    assert_eq!(cluster.listener("grpc", "ResolvedRefs"), (false, "InvalidRouteKinds"));
    assert_eq!(cluster.listener("good", "Programmed"), (true, "Programmed"));
    assert_eq!(cluster.listener("good", "Conflicted"), (false, "NoConflicts"));
    cluster.options.unavailable.insert(8080, "Permission denied".into());
    assert_eq!(cluster.listener("good", "Accepted"), (false, "PortUnavailable"));
    // An older Gateway keeps its port.
    let mut cluster = Cluster::new();
    cluster.secret("default", "cert", None);
    let tls = json!({ "certificateRefs": [{ "name": "cert" }] });
    cluster.gateway("younger", json!([{ "name": "https", "port": 80, "protocol": "HTTPS", "tls": tls }]));
    assert_eq!(cluster.translate().listen, ["http://0.0.0.0:8080"]);
    assert!(cluster.listener("http", "Programmed").0);
}

#[test]
fn who_may_join_a_listener() {
    let said = |allowed: Value, namespace: &str, route: Value| {
        let mut cluster = Cluster::new();
        cluster.gateway("web", json!([{ "name": "http", "port": 80, "protocol": "HTTP", "hostname": "*.example", "allowedRoutes": allowed }]));
        cluster.service(namespace, "a", None);
        let mut route = route;
        route["rules"] = json!([{ "backendRefs": to("a") }]);
        if route.get("parentRefs").is_none() {
            route["parentRefs"] = json!([{ "name": "web", "namespace": "default" }]);
        }
        cluster.route_in(namespace, "r", route);
        cluster.said_of(&Key::new(namespace, "r"), "Accepted")
    };
    let from = |from: &str| json!({ "namespaces": { "from": from } });
    let refused = (false, "NotAllowedByListeners");
    assert_eq!(said(json!({}), "default", json!({})), (true, "Accepted"));
    assert_eq!(said(json!({}), "other", json!({})), refused);
    assert_eq!(said(from("All"), "other", json!({})), (true, "Accepted"));
    assert_eq!(said(from("None"), "default", json!({})), refused);
    let selector =
        |team: &str| json!({ "namespaces": { "from": "Selector", "selector": { "matchLabels": { "team": team } } } });
    assert_eq!(said(selector("other"), "other", json!({})), (true, "Accepted"));
    assert_eq!(said(selector("third"), "other", json!({})), refused);
    assert_eq!(said(json!({ "kinds": [{ "kind": "GRPCRoute" }] }), "default", json!({})), refused);
    assert_eq!(said(json!({}), "default", json!({ "hostnames": ["a.other"] })), (false, "NoMatchingListenerHostname"));
    let parent = |more: Value| {
        let mut parent = json!({ "name": "web" });
        parent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "parentRefs": [parent] })
    };
    assert_eq!(said(json!({}), "default", parent(json!({ "sectionName": "https" }))), (false, "NoMatchingParent"));
    assert_eq!(said(json!({}), "default", parent(json!({ "port": 81 }))), (false, "NoMatchingParent"));
    assert_eq!(said(json!({}), "default", parent(json!({ "port": 80 }))), (true, "Accepted"));
}

#[test]
fn a_rule_that_leads_nowhere_is_answered_with_an_error() {
    let check = |references: Value, reason: &str| {
        let mut cluster = Cluster::new();
        cluster.service("other", "a", None);
        cluster.service("default", "odd", Some("mysql"));
        cluster.route("r", json!({ "rules": [{ "backendRefs": references }] }));
        let routes = cluster.routes();
        assert_eq!(routes[0].get("respond").and_then(toml::Value::as_integer), Some(500), "{references}");
        let (holds, found) = cluster.said("r", "ResolvedRefs");
        assert_eq!((holds, found), (reason == "ResolvedRefs", reason), "{references}");
        assert_eq!(cluster.said("r", "Accepted"), (true, "Accepted"));
    };
    check(json!([]), "ResolvedRefs");
    check(json!([{ "name": "a", "port": 80, "weight": 0 }]), "ResolvedRefs");
    check(json!([{ "name": "unknown", "port": 80 }]), "BackendNotFound");
    check(json!([{ "name": "a", "port": 81 }]), "BackendNotFound");
    check(json!([{ "name": "a" }]), "BackendNotFound");
    check(json!([{ "name": "a", "kind": "Unknown", "port": 80 }]), "InvalidKind");
    check(json!([{ "name": "a", "namespace": "other", "port": 80 }]), "RefNotPermitted");
    check(json!([{ "name": "odd", "port": 80 }]), "UnsupportedProtocol");
    check(json!([{ "name": "a", "port": 80 }, { "name": "h2", "port": 80 }]), "UnsupportedProtocol");
}

#[test]
fn several_backends_share_the_requests_of_a_rule() {
    let mut cluster = Cluster::new();
    let shared = json!([{ "name": "a", "port": 80, "weight": 9 }, { "name": "b", "port": 80 }, { "name": "unknown", "port": 80 }]);
    cluster.route("r", json!({ "rules": [{ "backendRefs": shared }, { "matches": [{ "path": { "value": "/h2" } }], "backendRefs": to("h2") }] }));
    let translation = cluster.translate();
    let parts = &translation.backends["default_r_r0"].parts;
    let shares: Vec<_> = parts.iter().map(|part| (part.service.to_string(), part.weight)).collect();
    assert_eq!(shares, [("default/a".to_owned(), 9), ("default/b".to_owned(), 1)]);
    assert_eq!(translation.backends["default_r_r0"].without, 90, "one of eleven requests");
    assert_eq!(translation.backends["default_h2_80"].without, 0);
    assert_eq!(cluster.said("r", "ResolvedRefs"), (false, "BackendNotFound"));
    assert!(translation.text.contains("[services.default_h2_80]\nurl = []\ntransport = \"h2c\""));
    cluster.routes();
}

#[test]
fn one_backend_beside_one_that_is_not_there_has_its_share_and_no_more() {
    let mut cluster = Cluster::new();
    let shared = json!([{ "name": "a", "port": 80 }, { "name": "unknown", "port": 80, "weight": 3 }]);
    cluster.route("r", json!({ "rules": [{ "backendRefs": shared }] }));
    cluster.route("s", json!({ "hostnames": ["s.example"], "rules": [{ "backendRefs": to("a") }] }));
    let backends = cluster.translate().backends;
    let without: Vec<_> = backends.iter().map(|(name, backend)| (name.as_str(), backend.without)).collect();
    assert_eq!(without, [("default_a_80", 0), ("default_r_r0", 750)]);
}

/// Where routes with some host are: their ports, and what they do.
fn at(cluster: &Cluster, host: &str) -> Vec<String> {
    let routes = cluster.routes();
    let ours = routes.iter().filter(|route| text(route, "host").unwrap_or_default() == host);
    let shown = |route: &toml::Table| {
        let numbers =
            |value: &toml::Value| value.as_array().unwrap().iter().filter_map(toml::Value::as_integer).collect();
        let ports: Option<Vec<i64>> = route.get("when").map(|when| numbers(&when["ports"]));
        let ports = ports.map(|ports| format!("{ports:?}")).unwrap_or_default();
        let leads = route.get("respond").and_then(toml::Value::as_integer).map(|status| status.to_string());
        let leads = leads.or_else(|| text(route, "service").map(str::to_owned)).unwrap_or_default();
        format!(
            "{}{} {leads} {ports}",
            text(route, "path").unwrap_or_default(),
            if route.contains_key("exact") { "=" } else { "" }
        )
    };
    ours.map(shown).collect()
}

#[test]
fn listeners_of_one_port_are_kept_apart() {
    let mut cluster = Cluster::new();
    let listener = |name: &str, host: &str| json!({ "name": name, "port": 80, "protocol": "HTTP", "hostname": host });
    let listeners = [listener("any", ""), listener("wild", "*.example"), listener("one", "one.example")];
    cluster.gateway("web", json!(listeners));
    let mut route = |name: &str, section: &str, path: &str, hosts: &[&str]| {
        let (parents, matches) =
            (json!([{ "name": "web", "sectionName": section }]), json!([{ "path": { "value": path } }]));
        let rules = json!([{ "matches": matches, "backendRefs": to("a") }]);
        cluster.route(name, json!({ "parentRefs": parents, "hostnames": hosts, "rules": rules }));
    };
    route("any", "any", "/", &[]);
    route("named", "any", "/", &["two.example", "one.example", "other"]);
    route("wild", "wild", "/", &["*.example", "one.example"]);
    route("one", "one", "/part", &[]);
    assert_eq!(at(&cluster, ""), ["/ default_a_80 "]);
    assert_eq!(at(&cluster, "other"), ["/ default_a_80 "]);
    assert_eq!(at(&cluster, "two.example"), [""; 0], "it is of the listener *.example");
    assert_eq!(at(&cluster, "*.example"), ["/ default_a_80 "], "its own route takes everything");
    assert_eq!(at(&cluster, "one.example"), ["/part default_a_80 ", "/ 404 [8080]"]);
}

#[test]
fn an_ingress_and_a_route_with_one_place_do_not_break_each_other() {
    let mut cluster = Cluster::new();
    let backend = IngressBackend { service: Some("b".into()), port: PortRef::Number(80) };
    let path = IngressPath { path: "/".into(), exact: false, backend };
    let rule = IngressRule { host: Some("A.example".into()), paths: vec![path] };
    cluster.secret("default", "tls", None);
    cluster.ingress("plain", IngressSpec { rules: vec![rule.clone()], ..IngressSpec::default() });
    cluster.ingress("tls", IngressSpec { tls: vec!["tls".into()], ..IngressSpec::default() });
    cluster.route("r", json!({ "hostnames": ["a.example"], "rules": [{ "backendRefs": to("a") }] }));
    assert_eq!(at(&cluster, "a.example"), ["/ default_a_80 [8080]"], "at its own port, which is not the only one");
}

#[test]
fn of_two_routes_at_one_place_the_older_wins() {
    let mut cluster = Cluster::new();
    cluster.route("z-older", json!({ "rules": [{ "backendRefs": to("a") }] }));
    cluster.route("a-younger", json!({ "rules": [{ "backendRefs": to("b") }, { "matches": [{ "path": { "value": "/b" } }], "backendRefs": to("b") }] }));
    let routes = cluster.routes();
    let found: Vec<_> =
        routes.iter().map(|route| (text(route, "path").unwrap(), text(route, "service").unwrap())).collect();
    assert_eq!(found, [("/", "default_a_80"), ("/b", "default_b_80")]);
    assert_eq!(cluster.said("a-younger", "Accepted"), (true, "Accepted"));
}

#[test]
fn what_may_be_scaled_to_zero_is_waited_for() {
    let mut cluster = Cluster::new();
    let key = WorkloadKey { kind: WorkloadKind::Deployment, key: Key::new("default", "a") };
    let workload = Workload {
        labels: BTreeMap::from([("app".to_owned(), "a".to_owned()), ("x".to_owned(), "y".to_owned())]),
        replicas: 0,
        idle_timeout: Duration::from_secs(300),
        min_replicas: 1,
        wake_timeout: Duration::from_secs(90),
        version: Arc::default(),
    };
    cluster.snapshot.workloads.insert(key.clone(), workload);
    cluster.route("r", json!({ "rules": [{ "backendRefs": to("a") }, { "matches": [{ "path": { "value": "/b" } }], "backendRefs": to("b") }] }));
    let translation = cluster.translate();
    assert!(
        translation
            .text
            .contains("[services.default_a_80]\nurl = []\ntransport = \"http\"\nqueue = { timeout = \"90000ms\" }"),
        "{}",
        translation.text
    );
    assert_eq!(translation.backends["default_a_80"].workloads, BTreeSet::from([key]));
    assert!(translation.backends["default_b_80"].workloads.is_empty());
    assert!(
        translation
            .text
            .contains("[services.default_b_80]\nurl = []\ntransport = \"http\"\nqueue = { timeout = \"1000ms\" }")
    );
}

fn path(path: &str, exact: bool, service: &str) -> IngressPath {
    let backend = IngressBackend { service: Some(service.into()), port: PortRef::Name("main".into()) };
    IngressPath { path: path.into(), exact, backend }
}

#[test]
fn an_ingress_is_served_at_80_and_with_certificates_at_443() {
    let mut cluster = Cluster::new();
    cluster.snapshot.gateways.clear();
    let rule =
        IngressRule { host: Some("A.example".into()), paths: vec![path("/", false, "a"), path("/x", true, "b")] };
    let default = IngressBackend { service: Some("unknown".into()), port: PortRef::Number(80) };
    let spec = IngressSpec { rules: vec![rule], default_backend: Some(default), ..IngressSpec::default() };
    cluster.ingress("i", spec.clone());
    let routes = cluster.routes();
    let found: Vec<_> = routes
        .iter()
        .map(|route| (text(route, "host"), text(route, "path").unwrap(), text(route, "service")))
        .collect();
    let expected = [
        (Some("a.example"), "/", Some("default_a_80")),
        (Some("a.example"), "/x", Some("default_b_80")),
        (None, "/", None),
    ];
    assert_eq!(found, expected);
    assert_eq!(routes[2]["respond"].as_integer(), Some(503));
    assert_eq!(cluster.translate().listen, ["http://0.0.0.0:8080"]);
    let said = &cluster.translate().statuses[&Subject::Ingress(Key::new("default", "i"))];
    assert_eq!(*said, Wanted::Addresses(vec!["192.0.2.1".into()]));

    cluster.secret("default", "cert", None);
    cluster.ingress("i", IngressSpec { tls: vec!["cert".into()], default_backend: None, ..spec });
    let routes = cluster.routes();
    assert_eq!(routes.len(), 4);
    assert_eq!(routes[0]["redirect"]["to"].as_str(), Some("https://{host}{path}{query}"));
    assert_eq!(ports(&routes[0]["when"]["ports"]), "[8080]");
    assert_eq!(ports(&routes[1]["when"]["ports"]), "[8443]");
    assert_eq!(cluster.translate().listen, ["http://0.0.0.0:8080", "https://0.0.0.0:8443"]);
    // Of another class.
    cluster.snapshot.ingresses.values_mut().for_each(|ingress| ingress.spec.class = Some("nginx".into()));
    assert_eq!(cluster.routes().len(), 0);
}

#[test]
fn the_same_cluster_makes_the_same_text_and_only_new_routes_are_read() {
    let mut cluster = Cluster::new();
    for index in 0..1000 {
        let host = format!("h{index}.example");
        cluster.route(&format!("r{index}"), json!({ "hostnames": [host], "rules": [{ "backendRefs": to("a") }] }));
    }
    let mut checks = Checks::default();
    let one = translate(&cluster.snapshot, &cluster.options, &mut checks);
    checks.forget();
    let other = translate(&cluster.snapshot, &cluster.options, &mut checks);
    assert_eq!(one.text, other.text);
    assert_eq!((one.routes, checks.known.len()), (1000, 1000));
    checks.forget();
    cluster.snapshot.http_routes.clear();
    assert_eq!(translate(&cluster.snapshot, &cluster.options, &mut checks).routes, 0);
    checks.forget();
    assert_eq!(checks.known.len(), 0);
}
