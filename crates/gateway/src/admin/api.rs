//! Which request is answered by what: the table of `docs/admin-api.md`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use pilotlight_printable as printable;
use pilotlight_supervisor::Service;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::events::{self, Events};
use super::logs::{KEPT_LOG_LINES, LogBook, Page, output_name};
use super::order::{Asked, Emptying, NotDone, Order};
use super::prometheus::Exposition;
use super::refused::{Refused, refused};
use super::shared::Shared;
use super::{certificates, deploy, explain, invoke, prometheus, purge, schedules, status};
use crate::options::ServiceTarget;

/// Bytes of a request's body.
const MAX_BODY: usize = 64 * 1024;
/// How long a request's body may take.
const BODY_TIME: Duration = Duration::from_secs(5);
/// Lines of output given out unless the request says otherwise.
const DEFAULT_LINES: usize = 100;
/// Digits of the name of a file that names a program.
const PROGRAM_FILE_DIGITS: usize = 32;

/// A response's body.
pub(super) enum Body {
    Full(Option<Bytes>),
    Followed(Followed),
    Events(Events),
}

/// Output that goes on. It holds no lines: who reads slowly misses what is overwritten meanwhile, and is told so.
pub(super) struct Followed {
    logs: LogBook,
    service: Arc<str>,
    first: Option<Bytes>,
    position: u64,
    next: Option<Pin<Box<dyn Future<Output = Page> + Send>>>,
}

impl Followed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(first);
        }
        let (logs, service, position) = (&self.logs, &self.service, self.position);
        let next = self.next.get_or_insert_with(|| {
            let (logs, service) = (logs.clone(), Arc::clone(service));
            Box::pin(async move { logs.after(&service, position).await })
        });
        let page = ready!(next.as_mut().poll(cx));
        self.next = None;
        self.position = page.next;
        Poll::Ready(lines(&page).into())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let piece = match self.get_mut() {
            Self::Full(whole) => whole.take(),
            Self::Followed(output) => Some(ready!(output.poll(cx))),
            Self::Events(events) => Some(ready!(events.poll(cx))),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }
}

type Answer = Result<Response<Body>, Refused>;

/// Answers the owner.
pub(super) async fn owner(shared: Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let answer = match (&method, segments.as_slice()) {
        (&Method::GET, ["status"]) => Ok(json(StatusCode::OK, &status::gateway(&shared))),
        (&Method::GET, ["config"]) => Ok(json(StatusCode::OK, &(shared.config)())),
        (&Method::GET, ["metrics"]) => Ok(metrics(&shared, request.headers())),
        (&Method::GET, ["events"]) => {
            Events::new(&shared).map(|events| going_on(Body::Events(events), events::CONTENT_TYPE))
        }
        (&Method::GET, ["explain"]) => explained(&shared, &request),
        (&Method::GET, ["certificates"]) => Ok(json(StatusCode::OK, &certificates::list(&shared))),
        (&Method::GET, ["schedules"]) => {
            Ok(json(StatusCode::OK, &serde_json::json!({ "schedules": schedules::list(&shared) })))
        }
        (&Method::POST, ["schedules", "run"]) => run(&shared, request).await,
        (&Method::POST, ["certificates", "renew"]) => renewed(&shared, request).await,
        (&Method::POST, ["certificates", "import"]) => imported(&shared, request).await,
        (&Method::POST, ["purge"]) => purged(&shared, request).await,
        (&Method::GET, ["services", name]) => {
            found(&shared, name).map(|target| json(StatusCode::OK, &status::one(&shared, &target)))
        }
        (&Method::GET, ["services", name, "logs"]) => logs(&shared, name, &request),
        (&Method::POST, ["reload"]) => reload(&shared, request).await,
        (&Method::POST, ["upgrade"]) => upgrade(&shared, request).await,
        (&Method::POST, ["services", name, "deploy"]) => deployed(&shared, name, request).await,
        (&Method::POST, ["services", name, "invoke"]) => invoked(&shared, name, request).await,
        (&Method::POST, ["services", name, action @ ("restart" | "stop" | "start")]) => act(&shared, name, action),
        (
            _,
            ["status" | "config" | "certificates" | "metrics" | "events" | "explain" | "schedules"]
            | ["services", _]
            | ["services", _, "logs"],
        ) => Err(refused(StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes GET only"))),
        (
            _,
            ["purge" | "reload" | "upgrade"]
            | ["certificates", "renew" | "import"]
            | ["schedules", "run"]
            | ["services", _, "deploy" | "invoke" | "restart" | "stop" | "start"],
        ) => Err(refused(StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes POST only"))),
        _ => Err(refused(StatusCode::NOT_FOUND, format!("there is no {path}; docs/admin-api.md lists what there is"))),
    };
    answer.unwrap_or_else(|refused| problem(&refused))
}

/// Answers whoever reaches the address for metrics.
pub(super) async fn public(shared: Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => metrics(&shared, request.headers()),
        _ => problem(&refused(StatusCode::NOT_FOUND, "only GET /metrics is answered here")),
    }
}

/// Answers a process that gives no orders here.
pub(super) fn turned_away(detail: &str) -> Response<Body> {
    problem(&refused(StatusCode::FORBIDDEN, detail))
}

fn metrics(shared: &Shared, fields: &HeaderMap) -> Response<Body> {
    let accept = fields.get_all(ACCEPT).iter().map(HeaderValue::as_bytes);
    let exposition = Exposition::accepted(accept);
    answer(StatusCode::OK, exposition.content_type(), prometheus::text(shared, exposition).into())
}

fn explained(shared: &Shared, request: &Request<Incoming>) -> Answer {
    let query = query(request);
    let url = required(&query, "url", "GET /explain?url=http://example.org/path")?;
    let method = one(&query, "method").unwrap_or("GET");
    let fields: Vec<&str> = query.iter().filter(|(name, _)| name == "field").map(|(_, value)| &**value).collect();
    let value = explain::explain(shared, url, method, &fields, one(&query, "data"))
        .map_err(|detail| refused(StatusCode::BAD_REQUEST, detail))?;
    Ok(json(StatusCode::OK, &value))
}

async fn purged(shared: &Shared, request: Request<Incoming>) -> Answer {
    let body = whole(request.into_body()).await?;
    Ok(json(StatusCode::OK, &purge::purge(shared, &body).await?))
}

async fn deployed(shared: &Shared, name: &str, request: Request<Incoming>) -> Answer {
    let service = managed(shared, name)?;
    let body = whole(request.into_body()).await?;
    Ok(json(StatusCode::OK, &deploy::deploy(shared, &service, &body).await?))
}

async fn invoked(shared: &Shared, name: &str, request: Request<Incoming>) -> Answer {
    let service = managed(shared, name)?;
    let limit = invoke::max_event(shared, &service)?;
    let event = within(request.into_body(), limit).await?;
    Ok(json(StatusCode::OK, &invoke::invoke(shared, &service, event).await?))
}

async fn run(shared: &Shared, request: Request<Incoming>) -> Answer {
    let body = whole(request.into_body()).await?;
    Ok(json(StatusCode::ACCEPTED, &schedules::begin(shared, &body)?))
}

async fn renewed(shared: &Shared, request: Request<Incoming>) -> Answer {
    let body = whole(request.into_body()).await?;
    Ok(json(StatusCode::ACCEPTED, &certificates::renew(shared, &body).await?))
}

async fn imported(shared: &Shared, request: Request<Incoming>) -> Answer {
    let body = whole(request.into_body()).await?;
    Ok(json(StatusCode::OK, &certificates::import(shared, &body).await?))
}

async fn reload(shared: &Shared, request: Request<Incoming>) -> Answer {
    let body = whole(request.into_body()).await?;
    let emptying = emptying(&body).map_err(|what| refused(StatusCode::BAD_REQUEST, what))?;
    ordered(shared, Asked::Reload(emptying)).await
}

/// `{"force": true}` follows a file without services or routes, too.
fn emptying(body: &[u8]) -> Result<Emptying, String> {
    const EXAMPLE: &str = "send nothing, or {\"force\": true} for a file that is meant to have no service or no route";
    if body.is_empty() {
        return Ok(Emptying::Refused);
    }
    let value: Value = serde_json::from_slice(body).map_err(|e| format!("the body is not JSON: {e}; {EXAMPLE}"))?;
    match value.as_object().map(|fields| fields.get("force")) {
        Some(Some(Value::Bool(true))) => Ok(Emptying::Forced),
        Some(None | Some(Value::Bool(false))) => Ok(Emptying::Refused),
        _ => Err(format!("`force` is true or false; {EXAMPLE}")),
    }
}

async fn upgrade(shared: &Shared, request: Request<Incoming>) -> Answer {
    let body = whole(request.into_body()).await?;
    let program_file = program_file(&body).map_err(|what| refused(StatusCode::BAD_REQUEST, what))?;
    ordered(shared, Asked::Upgrade { program_file }).await
}

/// The file that names the next program. Its name is all that comes from here: who may not write into the runtime
/// folder (a service in its sandbox, for one) chooses no program.
fn program_file(body: &[u8]) -> Result<Option<String>, String> {
    const EXAMPLE: &str =
        "send nothing for the program of this gateway; `pilotlight upgrade --program` names another one";
    if body.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(body).map_err(|e| format!("the body is not JSON: {e}; {EXAMPLE}"))?;
    if value.get("program").is_some() {
        return Err(
            "`program` is no longer taken from the admin interface: whoever reached it could have run any program. \
             `pilotlight upgrade --program` names it in a file of the runtime folder"
                .to_owned(),
        );
    }
    let name = value.get("program_file").and_then(Value::as_str).filter(|name| is_program_file(name));
    name.map(|name| Some(name.to_owned()))
        .ok_or_else(|| format!("the body has no `program_file` of {PROGRAM_FILE_DIGITS} hexadecimal digits; {EXAMPLE}"))
}

fn is_program_file(name: &str) -> bool {
    name.len() == PROGRAM_FILE_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Has the process do something, and waits until it is done or refused.
async fn ordered(shared: &Shared, asked: Asked) -> Answer {
    let (reply, answer) = oneshot::channel();
    let gone = |_| refused(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping");
    // One after the other: while one is carried out the next waits in the queue, which is as short as there are
    // connections.
    shared.orders.send(Order { asked, reply }).map_err(|_| gone(()))?;
    match answer.await.map_err(|_| gone(()))? {
        Ok(done) => Ok(json(StatusCode::OK, &done)),
        Err(NotDone::Invalid(why)) => Err(refused(StatusCode::UNPROCESSABLE_ENTITY, why)),
        Err(NotDone::Failed(why)) => Err(refused(StatusCode::CONFLICT, why)),
    }
}

fn logs(shared: &Shared, name: &str, request: &Request<Incoming>) -> Answer {
    let service = managed(shared, name)?;
    let query = query(request);
    let count = match one(&query, "lines") {
        None => DEFAULT_LINES,
        Some(text) => text.parse().map_err(|_| {
            refused(StatusCode::BAD_REQUEST, format!("`lines` is a number; the last {KEPT_LOG_LINES} are kept"))
        })?,
    };
    let page = shared.logs.last(service.name(), count);
    let follow = query.iter().any(|(name, value)| name == "follow" && value != "0" && value != "false");
    if !follow {
        return Ok(answer(StatusCode::OK, NDJSON, lines(&page).into()));
    }
    let followed = Followed {
        logs: shared.logs.clone(),
        service: Arc::clone(service.name()),
        first: Some(lines(&page).into()),
        position: page.next,
        next: None,
    };
    Ok(going_on(Body::Followed(followed), NDJSON))
}

const NDJSON: &str = "application/x-ndjson";

/// A line of JSON for each line of output.
fn lines(page: &Page) -> String {
    let mut text = String::new();
    if page.missed > 0 {
        text.push_str(&json!({ "missed": page.missed }).to_string());
        text.push('\n');
    }
    for kept in &page.lines {
        let line = &kept.line;
        let value = json!({
            "time": kept.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            "instance": line.instance,
            "output": output_name(line.output),
            "text": line.text,
            "cut": line.cut,
            "dropped": line.dropped,
        });
        text.push_str(&printable::json(value.to_string()));
        text.push('\n');
    }
    text
}

fn act(shared: &Shared, name: &str, action: &str) -> Answer {
    let service = managed(shared, name)?;
    let before = service.status();
    match action {
        "restart" => shared.control.restart(service.id()),
        "stop" => shared.control.stop(service.id()),
        _ => shared.control.start(service.id()),
    }
    let told = json!({
        "service": &**service.name(),
        "action": action,
        "state_before": before.state.name(),
        "instance_before": before.instance,
    });
    Ok(json(StatusCode::ACCEPTED, &told))
}

fn found(shared: &Shared, name: &str) -> Result<ServiceTarget, Refused> {
    let table = shared.common.table.load();
    let services = table.services();
    services.iter().find(|target| target.name() == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = services.iter().map(ServiceTarget::name).collect();
        refused(StatusCode::NOT_FOUND, format!("there is no service {name:?}; there is {}", names.join(", ")))
    })
}

fn managed(shared: &Shared, name: &str) -> Result<Arc<Service>, Refused> {
    match found(shared, name)? {
        ServiceTarget::Managed(service, _) => Ok(service),
        ServiceTarget::External(_) => Err(refused(
            StatusCode::CONFLICT,
            format!("the service {name:?} is a url: somebody else starts it, stops it and has its output"),
        )),
    }
}

fn query(request: &Request<Incoming>) -> Vec<(String, String)> {
    let decoded = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    let pairs = request.uri().query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(n, v)| (decoded(n), decoded(v))).collect()
}

fn one<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
}

fn required<'a>(query: &'a [(String, String)], name: &str, example: &str) -> Result<&'a str, Refused> {
    one(query, name).ok_or_else(|| refused(StatusCode::BAD_REQUEST, format!("`{name}` is missing: {example}")))
}

/// A whole small body, in bounded time.
async fn whole(body: Incoming) -> Result<Vec<u8>, Refused> {
    within(body, MAX_BODY).await
}

/// A whole body of at most so many bytes, in bounded time.
async fn within(mut body: Incoming, most: usize) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|e| refused(StatusCode::BAD_REQUEST, format!("the body cannot be read: {e}")))?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            if bytes.len() > most {
                let detail = format!("the body has more than {most} bytes");
                return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, detail));
            }
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_TIME, reading).await {
        Ok(read) => read.map(|()| bytes),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, format!("the body did not come within {BODY_TIME:?}"))),
    }
}

fn problem(refused: &Refused) -> Response<Body> {
    let Refused { status, detail } = refused;
    let document = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "detail": detail,
    });
    answer(*status, "application/problem+json", printable::json(document.to_string()).into())
}

fn json(status: StatusCode, value: &Value) -> Response<Body> {
    answer(status, "application/json", printable::json(value.to_string()).into())
}

fn going_on(body: Body, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = going_on(Body::Full(Some(body)), content_type);
    *response.status_mut() = status;
    response
}
