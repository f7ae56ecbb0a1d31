//! `GET /explain`: how a request would be handled, and by which rule. Nothing is sent anywhere.

use std::time::{Duration, Instant};

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pilotlight_content_coding::CompressOptions;
use pilotlight_json_fields::Scanner;
use pilotlight_supervisor::{
    CircuitState, GroupSpec, InstanceState, QueueLimits, Service, ServiceSpec, ServiceState, Status,
};
use serde_json::{Map, Value, json};

use super::shared::Shared;
use super::status;
use super::target::Target;
use crate::admission::Gate;
use crate::compress;
use crate::conditions::HeadFacts;
use crate::field_rules::{FieldRules, FieldValue};
use crate::json_choice::Choice;
use crate::options::{LambdaOptions, RouteLimit, RouteTo, ServiceTarget};
use crate::path::{self, normalized};
use crate::redirect::{Redirect, below};
use crate::routes::{Route, Table, host_of};
use crate::spill::Spill;
use crate::template::Facts;

mod cache;
mod certificate;
mod files;
mod program;

/// Explains a request with these fields (`name: value`).
pub(super) fn explain(
    shared: &Shared,
    url: &str,
    method: &str,
    fields: &[&str],
    data: Option<&str>,
) -> Result<Value, String> {
    let target = Target::parse(shared, url)?;
    let method: Method = method.parse().map_err(|_| format!("{method:?} is not a method"))?;
    let mut headers = headers(fields)?;
    let table = shared.common.table.load();
    let mut told = json!({
        "method": method.as_str(),
        "host": target.authority,
        "target": target.target,
    });
    let Value::Object(map) = &mut told else { return Ok(told) };
    if target.is_https() {
        map.insert("certificate".into(), certificate::explain(shared, host_of(&target.authority)));
    }
    let asked =
        HeadFacts { method: &method, fields: &headers, query: target.query(), port: target.listener_port(shared) };
    let plain = table.find_for(&target.authority, target.path(), || asked);
    let choice = Choice::of(&table, &target.authority, target.path(), plain);
    if let Some(choice) = &choice {
        map.insert("json".into(), json_choice(choice, data));
    }
    let picked = choice.as_ref().and_then(|choice| choice.pick(&scanned(choice, data)).cloned());
    let Some(route) = picked.as_ref().or(plain) else {
        without_route(map, &table, &target, choice.as_deref(), data);
        return Ok(told);
    };
    let sent = sent(route, &target);
    map.insert("route".into(), self::route(route, &target, &sent));
    map.insert("https".into(), target.place_of_https(shared, route).map(Value::from).unwrap_or_default());
    if let Some(options) = &route.compress {
        compress::normalise(route, &mut headers);
        map.insert("compress".into(), compressed(options, &headers));
    }
    if let Some(target) = &route.service {
        map.insert("service".into(), service(target, route.spill.as_deref()));
    }
    match &route.to {
        RouteTo::Service(_) => {
            if let Some(program) = program::explain(route, &sent) {
                map.insert("program".into(), program);
            }
            map.insert("cache".into(), cache::explain(shared, route, &target, &method, &headers));
        }
        RouteTo::Redirect(redirect) => {
            map.insert("redirect".into(), self::redirect(redirect, route, &target));
        }
        RouteTo::Respond(status) => {
            map.insert("status".into(), status.as_u16().into());
        }
        RouteTo::Files(options) => {
            map.insert("files".into(), files::explain(options, route, &target));
        }
    }
    map.insert("admission".into(), route.gate.as_ref().map(Gate::explain).unwrap_or_default());
    map.insert("changes".into(), changes(route));
    map.insert("limits".into(), limits(shared, route));
    Ok(told)
}

/// A request that no route takes.
fn without_route(
    map: &mut Map<String, Value>,
    table: &Table,
    target: &Target,
    choice: Option<&Choice>,
    data: Option<&str>,
) {
    let labels: Vec<&str> = table.routes().iter().take(20).map(|route| &*route.series.route).collect();
    map.insert("route".into(), Value::Null);
    let is_open = choice.is_some() && data.is_none();
    let why = match choice {
        Some(choice) if is_open => format!("{} of its JSON body says which, and there is none", choice.fields()),
        Some(choice) => format!("none takes what {} of the data is", choice.fields()),
        None => format!("no route matches {} on {}", target.path(), target.authority),
    };
    map.insert("status".into(), if is_open { 400 } else { 404 }.into());
    map.insert("why".into(), why.into());
    map.insert("routes".into(), labels.into());
}

fn headers(fields: &[&str]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for field in fields {
        let (name, value) = field.split_once(':').ok_or_else(|| format!("{field:?} is not `name: value`"))?;
        let name = HeaderName::from_bytes(name.trim().as_bytes());
        let value = HeaderValue::from_str(value.trim());
        let (Ok(name), Ok(value)) = (name, value) else { return Err(format!("{field:?} is not a field")) };
        headers.append(name, value);
    }
    Ok(headers)
}

/// Path and query as the service gets them.
fn sent(route: &Route, target: &Target) -> String {
    let path = target.path();
    let (whole, query) = (&target.target, &target.target[path.len()..]);
    let rewrite = route.changes.as_ref().and_then(|changes| changes.rewrite.as_ref());
    if let Some(rewritten) = rewrite.and_then(|rewrite| rewrite.target(path, query.strip_prefix('?'))) {
        return rewritten;
    }
    if !route.strip_prefix {
        return whole.clone();
    }
    let seen = normalized(path);
    let rest = path::below(path, &route.path).or_else(|| path::below(&seen, &route.path)).unwrap_or(&seen);
    format!("/{}{query}", rest.trim_start_matches('/'))
}

fn route(route: &Route, target: &Target, sent: &str) -> Value {
    let by_path = if route.exact { "the exact path" } else { "the longest prefix of the path" };
    let by_host = match route.host.as_deref() {
        None => "among routes for every host; no route for this host has a path that matches",
        Some(host) if host.starts_with('*') => {
            "among routes for the longest wildcard host that has a path that matches"
        }
        Some(_) => "among routes for this host",
    };
    json!({
        "name": &*route.series.route,
        "host": route.host,
        "path": route.path,
        "exact": route.exact,
        "why": format!("{by_path}, {by_host}"),
        "matched_path": &*normalized(target.path()),
        "target_for_service": sent,
    })
}

fn redirect(redirect: &Redirect, route: &Route, target: &Target) -> Value {
    let path = target.path();
    let whole = normalized(path);
    let facts = Facts {
        host: host_of(&target.authority),
        scheme: target.url().origin.scheme.as_str(),
        path,
        below: below(&route.path, &whole),
        query: &target.target[path.len()..],
        ..Facts::default()
    };
    json!({ "status": redirect.status().as_u16(), "to": redirect.text(), "location": redirect.location(&facts) })
}

/// What the route changes of requests and responses. Values may be secrets, and are not told.
fn changes(route: &Route) -> Value {
    let Some(changes) = &route.changes else { return json!({}) };
    let names = |fields: &[FieldValue]| fields.iter().map(|field| field.name.as_str().to_owned()).collect::<Vec<_>>();
    let fields = |rules: &FieldRules| {
        let removed: Vec<String> = rules.remove.iter().map(ToString::to_string).collect();
        json!({ "remove": removed, "set": names(&rules.set), "add": names(&rules.add) })
    };
    json!({
        "request_fields": fields(&changes.request_fields),
        "response_fields": fields(&changes.response_fields),
        "rewrite": changes.rewrite.as_ref().map(ToString::to_string),
        "errors": changes.errors.pages.iter().map(|(status, path)| format!("{status} {path}")).collect::<Vec<_>>(),
    })
}

/// Which coding a response would be brought into.
fn compressed(options: &CompressOptions, headers: &HeaderMap) -> Value {
    let chosen = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let algorithms: Vec<&str> = options.algorithms.iter().map(|coding| coding.name()).collect();
    json!({ "coding": chosen, "algorithms": algorithms, "min_size_bytes": options.min_size })
}

/// What of the data is the body of a request, as far as it chooses a route.
fn scanned(choice: &Choice, data: Option<&str>) -> Scanner {
    let mut scanner = choice.scanner();
    let _ = scanner.feed(data.unwrap_or_default().as_bytes()); // what was found before a mistake counts
    scanner
}

/// The routes of which the body decides.
fn json_choice(choice: &Choice, data: Option<&str>) -> Value {
    let routes: Vec<&str> = choice.candidates.iter().map(|route| &*route.series.route).collect();
    let without = choice.plain.as_ref().map(|route| &*route.series.route);
    json!({ "fields": choice.fields(), "routes": routes, "otherwise": without, "has_data": data.is_some() })
}

fn service(target: &ServiceTarget, spill: Option<&Spill>) -> Value {
    match target {
        ServiceTarget::Managed(service, _) => {
            let status = service.status();
            json!({ "name": &**service.name(), "kind": "managed", "state": status.state.name(),
                    "runs_in": status.spec.container.as_ref().map(|container| container.source.to_string()),
                    "transport": target.protocol().name(), "then": next(service, &status, spill), "failures": status.failures, "circuit": status.circuit.name(),
                    "queue_length": service.waiting() })
        }
        ServiceTarget::External(external) => {
            let waits = external.live().filter(|live| live.now().group().is_empty()).map(|live| {
                let QueueLimits { max, timeout } = live.line().limits();
                let (waiting, timeout) = (live.waiting(), timeout.as_secs_f32());
                format!("the request waits for a server to come ({waiting} do), up to {timeout} s, as one of {max}")
            });
            let servers = external.live().map(status::servers);
            json!({ "name": external.name(), "kind": "external", "address": external.address(), "then": waits,
                    "servers": servers })
        }
    }
}

/// How a request for the service would be handled.
fn next(service: &Service, status: &Status, spill: Option<&Spill>) -> String {
    if status.circuit != CircuitState::Closed && status.state != ServiceState::Ready {
        let now = Instant::now();
        let wait = status.next_attempt.map(|at| at.saturating_duration_since(now)).filter(|wait| !wait.is_zero());
        return match wait {
            Some(wait) => format!(
                "the request is refused (503): {} failed starts, next attempt in {:.1} s",
                status.failures,
                wait.as_secs_f64()
            ),
            None if status.circuit == CircuitState::Probing => {
                "the request is refused (503) until the start that is tried comes to its end".to_owned()
            }
            None => "it is started for the request, which alone waits for that".to_owned(),
        };
    }
    let waiting = service.waiting();
    // Nobody is before it only if an instance has room.
    let has_room = waiting == 0 && status.state == ServiceState::Ready && !status.is_full();
    if let Some(spill) = spill.filter(|_| !has_room)
        && spill.takes(service).is_some()
    {
        return format!("there is no room, so the request goes to {} if that has some", spill.target().name());
    }
    let ready = || status.instances.iter().filter(|instance| instance.state == InstanceState::Ready);
    let full = status.spec.concurrency.is_some_and(|max| ready().all(|one| one.open_exchanges() >= u64::from(max)));
    match status.state {
        ServiceState::Stopped => started(service, status),
        ServiceState::Starting => "the request waits for its start".to_owned(),
        ServiceState::Frozen => "it is thawed for the request".to_owned(),
        ServiceState::Ready if waiting > 0 => format!("the request waits behind {waiting} others"),
        ServiceState::Ready if full => "the request waits: every instance is busy".to_owned(),
        ServiceState::Ready => "the request is sent at once".to_owned(),
    }
}

/// For the request it is started, once there is room in its group.
fn started(service: &Service, status: &Status) -> String {
    match (&status.spec.group, service.held_back()) {
        (Some(_), Some(held_back)) => format!("the request waits: {held_back}"),
        (Some(share), None) => {
            format!("it is started for the request, as soon as the group `{}` has room for it", share.group.name)
        }
        (None, _) => "it is started for the request".to_owned(),
    }
}

fn limits(shared: &Shared, route: &Route) -> Value {
    let table = shared.common.table.load();
    let limits = &table.settings().limits;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let (body, body_setting) = match route.body_size {
        RouteLimit::Own(bytes) => (bytes, "the route's body_size"),
        RouteLimit::General => (limits.body_size, "limits.body_size"),
    };
    let (response, response_setting) = match route.response_timeout {
        Some(time) => (Some(time), "the route's response_timeout"),
        None => (limits.response_timeout, "limits.response_timeout"),
    };
    let (body_time, body_time_setting) = match route.response_body_timeout {
        RouteLimit::Own(time) => (time, "the route's response_body_timeout"),
        RouteLimit::General => (limits.response_body_timeout, "limits.response_body_timeout"),
    };
    let mut all = json!([
        { "setting": "limits.header_size", "value": limits.header_size, "unit": "bytes", "beyond": 431 },
        { "setting": "limits.header_count", "value": limits.header_count, "unit": "fields", "beyond": 431 },
        { "setting": "limits.header_timeout", "value": limits.header_timeout.as_secs_f64(), "unit": "seconds", "beyond": 408 },
        { "setting": body_setting, "value": body, "unit": "bytes", "beyond": 413 },
        { "setting": "limits.body_timeout", "value": limits.body_timeout.as_secs_f64(), "unit": "seconds", "beyond": 408 },
        { "setting": response_setting, "value": seconds(response), "unit": "seconds", "beyond": 504 },
        { "setting": body_time_setting, "value": seconds(body_time), "unit": "seconds without a byte", "beyond": "the answer is cut" },
        { "setting": "the route's timeout", "value": seconds(route.timeout), "unit": "seconds", "beyond": 504 },
    ]);
    if let (Value::Array(all), Some(ServiceTarget::Managed(service, _))) = (&mut all, &route.service) {
        all.extend(of_service(&service.status().spec));
        all.extend(service.status().spec.group.iter().flat_map(|share| of_group(&share.group)));
        all.extend(route.lambda.iter().flat_map(|options| of_function(service.name(), options)));
    }
    all
}

/// The limits of a function of AWS Lambda.
fn of_function(service: &str, options: &LambdaOptions) -> [Value; 2] {
    let name = |key: &str| format!("services.{service}.lambda.{key}");
    [
        json!({ "setting": name("max_payload"), "value": options.max_payload, "unit": "bytes of an event, or of a result", "beyond": "413, or 502" }),
        json!({ "setting": name("max_stream"), "value": options.max_stream, "unit": "bytes of a streamed result", "beyond": "the answer is cut" }),
    ]
}

/// The budget that the service shares.
fn of_group(group: &GroupSpec) -> [Value; 3] {
    let name = |key: &str| format!("groups.{}.{key}", group.name);
    let beyond = "the idle instance used least recently is stopped, or the request waits";
    [
        json!({ "setting": name("max_running"), "value": group.max_running, "unit": "instances", "beyond": beyond }),
        json!({ "setting": name("memory"), "value": group.memory, "unit": "bytes", "beyond": beyond }),
        json!({ "setting": name("grace"), "value": group.grace.as_secs_f64(), "unit": "seconds",
                "beyond": "a busy instance is stopped" }),
    ]
}

/// The limits that the service sets.
fn of_service(spec: &ServiceSpec) -> [Value; 6] {
    let name = |key: &str| format!("services.{}.{key}", spec.name);
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    [
        json!({ "setting": name("max_instances"), "value": spec.max_instances, "unit": "instances", "beyond": "the queue" }),
        json!({ "setting": name("concurrency"), "value": spec.concurrency, "unit": "requests of one instance",
                "beyond": "the next instance, or the queue" }),
        json!({ "setting": name("queue.max"), "value": spec.queue.max, "unit": "requests", "beyond": 503 }),
        json!({ "setting": name("queue.timeout"), "value": spec.queue.timeout.as_secs_f64(), "unit": "seconds", "beyond": 503 }),
        json!({ "setting": name("start_timeout"), "value": spec.start_timeout.as_secs_f64(), "unit": "seconds", "beyond": 503 }),
        json!({ "setting": name("max_request_time"), "value": seconds(spec.max_request_time), "unit": "seconds", "beyond": 504 }),
    ]
}
