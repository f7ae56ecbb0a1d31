//! The objects of the Gateway API (v1), as far as they are read. Fields that are not here are ignored by the reader;
//! those that change the meaning of a route and are not supported are here, so that it can be refused.

use std::collections::BTreeMap;

use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The group of the Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// Who we are in `GatewayClass.spec.controllerName`.
pub const GATEWAY_CONTROLLER: &str = "pilotlight.dev/gateway";
/// Who we are in `IngressClass.spec.controller`.
pub const INGRESS_CONTROLLER: &str = "pilotlight.dev/ingress";
/// What the API server calls one kind of its objects.
#[must_use]
pub fn resource(kind: &str) -> ApiResource {
    let (version, plural) = match kind {
        "GatewayClass" => ("v1", "gatewayclasses"),
        "Gateway" => ("v1", "gateways"),
        "HTTPRoute" => ("v1", "httproutes"),
        _ => ("v1beta1", "referencegrants"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), plural)
}

/// `GatewayClass.spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// Whose class it is.
    pub controller_name: String,
}

/// `Gateway.spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Its class.
    pub gateway_class_name: String,
    /// What it listens on.
    #[serde(default)]
    pub listeners: Vec<Listener>,
}

/// One listener of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name, which routes may give.
    pub name: String,
    /// The hosts that it is for; none: all.
    pub hostname: Option<String>,
    /// Where clients connect.
    pub port: u16,
    /// HTTP or HTTPS.
    pub protocol: String,
    /// Of HTTPS.
    pub tls: Option<ListenerTls>,
    /// Which routes may join.
    #[serde(default)]
    pub allowed_routes: AllowedRoutes,
}

/// TLS of a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// `Terminate` if it is not there.
    pub mode: Option<String>,
    /// Secrets.
    #[serde(default)]
    pub certificate_refs: Vec<ObjectRef>,
}

/// Another object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Its group; of a Secret or Service the empty one.
    pub group: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
    /// Its namespace; that of the referrer if it is not there.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Which routes may join a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedRoutes {
    /// Of which namespaces.
    pub namespaces: Option<RouteNamespaces>,
    /// Of which kinds; empty: all that the protocol has.
    #[serde(default)]
    pub kinds: Vec<RouteKind>,
}

/// Namespaces of routes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteNamespaces {
    /// `Same`, `All`, `Selector` or `None`.
    pub from: Option<String>,
    /// With `Selector`.
    pub selector: Option<Selector>,
}

/// A selector of labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// All of these.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// And all of these.
    #[serde(default)]
    pub match_expressions: Vec<Expression>,
}

/// One demand of a selector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Of the first two.
    #[serde(default)]
    pub values: Vec<String>,
}

/// A kind of route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteKind {
    /// Its group.
    pub group: Option<String>,
    /// Its kind.
    pub kind: String,
}

/// `HTTPRoute.spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// The Gateways that it joins.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// The hosts that it is for; empty: those of the listeners.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// What becomes of requests.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// A parent of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// That of the Gateway API if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `Gateway` if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// That of the route if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The listener's name; none: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// The listener's port; none: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// One rule of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// One of these has to match; empty: everything does.
    #[serde(default)]
    pub matches: Vec<Match>,
    /// What is changed on the way.
    #[serde(default)]
    pub filters: Vec<Filter>,
    /// Where requests go.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
    /// How long it may take.
    pub timeouts: Option<Timeouts>,
    /// Not supported.
    pub session_persistence: Option<Value>,
    /// Not supported.
    pub retry: Option<Value>,
}

/// What a request has to be, all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Its path.
    pub path: Option<PathMatch>,
    /// Its fields.
    #[serde(default)]
    pub headers: Vec<ValueMatch>,
    /// Its query.
    #[serde(default)]
    pub query_params: Vec<ValueMatch>,
    /// Its method.
    pub method: Option<String>,
}

/// What a path has to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathMatch {
    /// `Exact`, `PathPrefix` (if it is not there) or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `/` if it is not there.
    pub value: Option<String>,
}

/// What a field or a parameter has to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValueMatch {
    /// `Exact` (if it is not there) or `RegularExpression`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Which.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Something that is done with requests or responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Which of the others is there.
    #[serde(rename = "type")]
    pub kind: String,
    /// `RequestHeaderModifier`.
    pub request_header_modifier: Option<HeaderModifier>,
    /// `ResponseHeaderModifier`.
    pub response_header_modifier: Option<HeaderModifier>,
    /// `RequestRedirect`.
    pub request_redirect: Option<Redirect>,
    /// `URLRewrite`.
    pub url_rewrite: Option<UrlRewrite>,
}

/// Changes of fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderModifier {
    /// In place of what is there.
    #[serde(default)]
    pub set: Vec<HeaderValue>,
    /// Behind what is there.
    #[serde(default)]
    pub add: Vec<HeaderValue>,
    /// Left out.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// A field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Where clients are sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    /// That of the request if it is not there.
    pub scheme: Option<String>,
    /// Likewise.
    pub hostname: Option<String>,
    /// Likewise.
    pub path: Option<PathModifier>,
    /// That of the scheme if that is there, else that of the listener.
    pub port: Option<u16>,
    /// 302 if it is not there.
    pub status_code: Option<u16>,
}

/// What backends are asked for instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UrlRewrite {
    /// The host.
    pub hostname: Option<String>,
    /// The path.
    pub path: Option<PathModifier>,
}

/// Another path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// Which of the others is there.
    #[serde(rename = "type")]
    pub kind: String,
    /// `ReplaceFullPath`.
    pub replace_full_path: Option<String>,
    /// `ReplacePrefixMatch`.
    pub replace_prefix_match: Option<String>,
}

/// Where requests go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackendRef {
    /// The empty one if it is not there.
    pub group: Option<String>,
    /// `Service` if it is not there.
    pub kind: Option<String>,
    /// That of the route if it is not there.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its port.
    pub port: Option<u16>,
    /// Its share; 1 if it is not there.
    pub weight: Option<u32>,
    /// Not supported.
    #[serde(default)]
    pub filters: Vec<Filter>,
}

/// How long it may take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// The whole exchange.
    pub request: Option<String>,
    /// Until the backend answers.
    pub backend_request: Option<String>,
}

/// `ReferenceGrant.spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReferenceGrantSpec {
    /// Who may refer.
    #[serde(default)]
    pub from: Vec<GrantFrom>,
    /// To what.
    #[serde(default)]
    pub to: Vec<GrantTo>,
}

/// Who may refer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrantFrom {
    /// Its group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
}

/// To what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrantTo {
    /// Its group.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name; none: any.
    pub name: Option<String>,
}
