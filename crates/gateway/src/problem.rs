//! Every answer that the gateway gives by itself: which status, which text. A document for programs (RFC 9457), a page
//! for browsers ([`page`]).

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use pilotlight_files::FileError;
use pilotlight_printable::printable;
use pilotlight_supervisor::{Phase, StartError};
use serde_json::{Value, json};

use crate::admission::refusal::Refusal;
use crate::error_pages::PageText;
use crate::grpc::{self, GrpcStatus};
use crate::json_rule::JsonRefusal;
use crate::options::{Limits, Reloading, Settings};
use crate::path::MAX_READINGS;
use crate::request_body::BodyError;
use crate::routes::AmbiguousPath;
use crate::upstream::UpstreamError;

mod form;
mod page;
mod raw;
mod trace;

use form::Form;
pub(crate) use raw::{header_timeout, plain_http, refusal};

/// When to come again where keys are missing: they are asked for about as often.
const NO_KEYS_RETRY: Duration = Duration::from_secs(5);

/// Why a request could not be answered by a service.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A target that is not a path.
    BadTarget,
    /// A path that some servers read as one with stricter rules.
    AmbiguousPath(AmbiguousPath),
    /// OPTIONS or TRACE with a `Max-Forwards` that is no number.
    MaxForwards,
    /// A request of HTTP/1.0 without `Host`, on a route that sends clients to a URL of the same host.
    NoHost,
    /// CONNECT.
    Connect,
    /// Extended CONNECT (RFC 8441) for a protocol that the route does not let through.
    UpgradeNotAllowed,
    NoRoute {
        path: String,
    },
    /// No route but such as bodies decide of, and none of these takes the request.
    JsonRoute(JsonRefusal),
    /// `only-if-cached` and nothing stored (RFC 9111 §5.2.1.7).
    OnlyIfCached,
    /// The client's body.
    Body(BodyError),
    Start(StartError),
    Upstream(UpstreamError),
    Files(FileError),
    /// The request is not let in on its route.
    Admission(Box<Refusal>),
    /// The route says so.
    Responds(StatusCode),
    /// gRPC to a service that speaks HTTP/2, from a client that does not.
    GrpcWithoutHttp2,
    /// gRPC to a service that is not spoken to by HTTP/2.
    GrpcToHttp1 {
        service: String,
    },
    /// A mistake of ours.
    Bug,
}

impl Failure {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::BadTarget | Self::AmbiguousPath(_) | Self::MaxForwards | Self::NoHost => StatusCode::BAD_REQUEST,
            Self::Connect | Self::UpgradeNotAllowed => StatusCode::NOT_IMPLEMENTED,
            Self::NoRoute { .. } => StatusCode::NOT_FOUND,
            Self::JsonRoute(refusal) => refusal.status(),
            Self::OnlyIfCached => StatusCode::GATEWAY_TIMEOUT,
            Self::Body(BodyError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::Timeout { .. } | BodyError::Dripping { .. } | BodyError::Late { .. }) => {
                StatusCode::REQUEST_TIMEOUT
            }
            Self::Body(BodyError::Client(_)) => StatusCode::BAD_REQUEST,
            Self::Start(e) if e.phase == Phase::Init => StatusCode::BAD_GATEWAY,
            Self::Start(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Admission(refusal) => match **refusal {
                Refusal::Network(_) => StatusCode::FORBIDDEN,
                Refusal::Rate { .. } | Refusal::Concurrent { .. } => StatusCode::TOO_MANY_REQUESTS,
                Refusal::Credentials { .. } => StatusCode::UNAUTHORIZED,
                Refusal::Scope { .. } | Refusal::Forward => StatusCode::FORBIDDEN,
                Refusal::Busy | Refusal::NoKeys | Refusal::Undecided => StatusCode::SERVICE_UNAVAILABLE,
            },
            Self::GrpcWithoutHttp2 => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::GrpcToHttp1 { .. } => StatusCode::BAD_GATEWAY,
            Self::Responds(status) => *status,
            Self::Bug => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Files(e) => match e {
                FileError::Malformed => StatusCode::BAD_REQUEST,
                FileError::NotFound { .. } => StatusCode::NOT_FOUND,
                FileError::Forbidden { .. } => StatusCode::FORBIDDEN,
                FileError::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
                FileError::Root { .. } | FileError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            },
            Self::Upstream(e) => match e {
                UpstreamError::Refused { .. } | UpstreamError::Overloaded { .. } => StatusCode::SERVICE_UNAVAILABLE,
                UpstreamError::Deadline { .. } | UpstreamError::Timeout { .. } | UpstreamError::NoServer { .. } => {
                    StatusCode::GATEWAY_TIMEOUT
                }
                UpstreamError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                UpstreamError::LengthRequired { .. } => StatusCode::LENGTH_REQUIRED,
                UpstreamError::NoExtendedConnect { .. } => StatusCode::NOT_IMPLEMENTED,
                UpstreamError::NoShare { .. } => StatusCode::INTERNAL_SERVER_ERROR,
                UpstreamError::Connect { .. }
                | UpstreamError::Closed { .. }
                | UpstreamError::Internal { .. }
                | UpstreamError::Function { .. }
                | UpstreamError::Protocol { .. } => StatusCode::BAD_GATEWAY,
            },
        }
    }

    /// Safe to print: it repeats what clients and services wrote.
    fn detail(&self) -> String {
        let text = self.text();
        match printable(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(safe) => safe,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::BadTarget => "the request target must be a path that begins with /".into(),
            Self::AmbiguousPath(AmbiguousPath { reading: Some(reading) }) => {
                format!("some servers read this path as {reading}, which stricter rules protect")
            }
            Self::AmbiguousPath(AmbiguousPath { reading: None }) => {
                format!("servers may read this path in more than {MAX_READINGS} ways, and stricter rules protect some paths")
            }
            Self::MaxForwards => "Max-Forwards must be one decimal number (RFC 9110 section 7.6.2)".into(),
            Self::NoHost => "the request names no host, which the redirect of this route needs".into(),
            Self::Connect => "this gateway is not a forward proxy: CONNECT is not supported".into(),
            Self::UpgradeNotAllowed => {
                "this route does not let the protocol of the request through (`upgrades` names those that may pass)".into()
            }
            Self::NoRoute { path } => {
                format!("no route matches {path}; `pilotlight explain URL` says which route a request has")
            }
            Self::JsonRoute(refusal) => refusal.to_string(),
            Self::OnlyIfCached => "the request says only-if-cached, and no fresh answer is stored".into(),
            Self::Body(e) => e.to_string(),
            Self::Start(e) => e.to_string(),
            Self::Upstream(e) => e.to_string(),
            Self::Files(e) => e.to_string(),
            Self::Admission(refusal) => refusal.to_string(),
            Self::GrpcWithoutHttp2 => {
                "gRPC needs HTTP/2 from the client to the gateway, and this request came by HTTP/1.1: a proxy between them has to pass it on by HTTP/2 (nginx: grpc_pass)".into()
            }
            Self::GrpcToHttp1 { service } => {
                format!("gRPC needs HTTP/2 to service {service}: set `transport = \"h2c\"`, or `url = \"h2c://HOST:PORT\"`")
            }
            Self::Responds(status) => {
                format!("the route of this request answers every request with {}", status.as_u16())
            }
            Self::Bug => "the gateway made a mistake; please report it with this request id and the log".into(),
        }
    }

    /// One line for the log.
    pub(crate) fn log_text(&self) -> String {
        match self {
            Self::Start(e) => format!("{} (phase {})", self.detail(), e.phase.name()),
            Self::Upstream(UpstreamError::Connect { place, .. }) => format!("{} (at {place})", self.detail()),
            other => other.detail(),
        }
    }

    /// One line for the log about the request alone: why a service did not start, the supervisor's line says.
    pub(crate) fn request_log_text(&self) -> String {
        match self {
            Self::Start(e) if matches!(e.phase, Phase::Spawn | Phase::Connect | Phase::Init | Phase::Answer) => {
                format!("service `{}` did not start, as said above (phase {})", e.service, e.phase.name())
            }
            Self::Upstream(UpstreamError::Function { .. }) => format!("{}, as said above", self.detail()),
            other => other.log_text(),
        }
    }

    /// What developers are shown below the detail: the last lines of a service that did not start, or where a function
    /// failed.
    fn output(&self) -> Vec<String> {
        match self {
            Self::Start(e) => e.output_tail.to_vec(),
            Self::Upstream(UpstreamError::Function { error, .. }) => error.lines(),
            _ => Vec::new(),
        }
    }

    /// The same for a client of gRPC.
    fn grpc_status(&self) -> GrpcStatus {
        match self {
            Self::BadTarget
            | Self::AmbiguousPath(_)
            | Self::MaxForwards
            | Self::NoHost
            | Self::Upstream(UpstreamError::LengthRequired { .. }) => GrpcStatus::InvalidArgument,
            Self::Connect
            | Self::UpgradeNotAllowed
            | Self::NoRoute { .. }
            | Self::JsonRoute(_)
            | Self::Files(_)
            | Self::Upstream(UpstreamError::NoExtendedConnect { .. })
            | Self::GrpcWithoutHttp2
            | Self::GrpcToHttp1 { .. } => GrpcStatus::Unimplemented,
            Self::Body(BodyError::TooLarge { .. }) | Self::Upstream(UpstreamError::TooLarge { .. }) => {
                GrpcStatus::ResourceExhausted
            }
            Self::Body(BodyError::Timeout { .. } | BodyError::Dripping { .. } | BodyError::Late { .. })
            | Self::Upstream(
                UpstreamError::Deadline { .. } | UpstreamError::Timeout { .. } | UpstreamError::NoServer { .. },
            ) => GrpcStatus::DeadlineExceeded,
            Self::Body(BodyError::Client(_)) => GrpcStatus::Cancelled,
            Self::OnlyIfCached
            | Self::Start(_)
            | Self::Upstream(
                UpstreamError::Refused { .. }
                | UpstreamError::Overloaded { .. }
                | UpstreamError::Connect { .. }
                | UpstreamError::Closed { .. },
            ) => GrpcStatus::Unavailable,
            Self::Admission(refusal) => match **refusal {
                Refusal::Network(_) | Refusal::Scope { .. } | Refusal::Forward => GrpcStatus::PermissionDenied,
                Refusal::Rate { .. } | Refusal::Concurrent { .. } => GrpcStatus::ResourceExhausted,
                Refusal::Credentials { .. } => GrpcStatus::Unauthenticated,
                Refusal::Busy | Refusal::NoKeys | Refusal::Undecided => GrpcStatus::Unavailable,
            },
            Self::Responds(StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {
                GrpcStatus::Unavailable
            }
            Self::Responds(_)
            | Self::Bug
            | Self::Upstream(
                UpstreamError::Internal { .. }
                | UpstreamError::Function { .. }
                | UpstreamError::NoShare { .. }
                | UpstreamError::Protocol { .. },
            ) => GrpcStatus::Internal,
        }
    }

    /// The response to a client of gRPC, which looks for its own status and has no use for another
    /// (gRPC over HTTP/2, "Trailers-Only").
    pub(crate) fn grpc_response(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from(self.grpc_status() as u16));
        if let Ok(message) = HeaderValue::from_str(&grpc::message(&self.detail())) {
            headers.insert("grpc-message", message);
        }
        response
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Start(e) => Some(e.retry_after),
            Self::Upstream(UpstreamError::Refused { .. }) => Some(Duration::from_secs(1)),
            Self::Upstream(UpstreamError::Overloaded { retry_after, .. }) => Some(*retry_after),
            Self::Admission(refusal) => match **refusal {
                Refusal::Rate { wait, .. } => Some(wait),
                Refusal::Concurrent { .. } | Refusal::Busy | Refusal::Undecided => Some(Duration::from_secs(1)),
                Refusal::NoKeys => Some(NO_KEYS_RETRY),
                Refusal::Network(_) | Refusal::Credentials { .. } | Refusal::Scope { .. } | Refusal::Forward => None,
            },
            _ => None,
        }
    }

    /// Whether the connection has to be closed because the rest of the request is still on it.
    pub(crate) fn closes(&self) -> bool {
        matches!(self, Self::Body(_))
    }

    /// The response: the operator's own page for it, or a document, or a page.
    pub(crate) fn response(&self, asked: &Asked<'_>, own: Option<&PageText>) -> Response<Bytes> {
        let status = self.status();
        let form = Form::preferred(asked.accept);
        // A client that asks for JSON cannot use a page for people.
        let own = own.filter(|page| !page.is_html() || form != Some(Form::Problem));
        let mut response = match (own, form) {
            (Some(page), _) => own_page(page, status, asked.request_id),
            (None, Some(Form::Page)) => made(status, PAGE, self.page(asked).into()),
            (None, Some(Form::Problem) | None) => made(status, PROBLEM, self.document(asked).into()),
        };
        let headers = response.headers_mut();
        if own.is_none() && form == Some(Form::Page) {
            headers
                .insert(http::header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(page::policy(asked.reloads())));
        }
        if let Self::Files(e) = self
            && let Some(methods) = e.allow()
        {
            headers.insert(http::header::ALLOW, methods);
        }
        if let Some(after) = self.retry_after() {
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if let Self::Admission(refusal) = self {
            headers.extend(refusal.fields());
        }
        response
    }

    fn document(&self, asked: &Asked<'_>) -> String {
        let Asked { request_id, dev, .. } = *asked;
        let status = self.status();
        let mut document = json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("Error"),
            "status": status.as_u16(),
            "detail": self.detail(),
            "request_id": request_id,
        });
        if let (Some(document), Self::Start(e)) = (document.as_object_mut(), self) {
            document.insert("service".into(), Value::from(&*e.service));
            document.insert("phase".into(), Value::from(e.phase.name()));
            document.insert("elapsed_ms".into(), Value::from(e.elapsed.as_millis() as u64));
            if let Some(exit) = &e.exit {
                document.insert("exit".into(), Value::from(exit.to_string()));
            }
        }
        let output = if dev { self.output() } else { Vec::new() };
        if let (Some(document), true) =
            (document.as_object_mut(), dev && (matches!(self, Self::Start(_)) || !output.is_empty()))
        {
            if let Some(found) = trace::find(&output) {
                document.insert("place".into(), Value::from(found.place()));
            }
            document.insert("output".into(), Value::from(output));
        }
        if let (Some(document), Self::Admission(refusal)) = (document.as_object_mut(), self) {
            document.extend(refusal.members());
        }
        pilotlight_printable::json(document.to_string())
    }

    fn page(&self, asked: &Asked<'_>) -> String {
        let Asked { request_id, dev, .. } = *asked;
        let detail = dev.then(|| self.detail());
        let shown = if dev { self.output() } else { Vec::new() };
        let output: Vec<String> = shown.iter().map(|line| printable(line).into_owned()).collect();
        page::document(&page::Page {
            status: self.status(),
            request_id,
            detail: detail.as_deref(),
            output: &output,
            found: trace::find(&output),
            since_ms: asked.reloads().then(|| self.since_ms()),
        })
    }

    /// Since when what is shown has been so, in milliseconds since 1970: for a service that failed to start, since it
    /// read its program.
    fn since_ms(&self) -> u64 {
        let ago = match self {
            Self::Start(e) => e.elapsed,
            _ => Duration::ZERO,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or(u64::MAX)
    }
}

/// A request that gets an answer of the gateway's.
pub(crate) struct Asked<'a> {
    pub(crate) request_id: &'a str,
    /// All lines of `Accept`.
    pub(crate) accept: Option<&'a [u8]>,
    /// Whether clients are shown what a service that failed to start printed.
    pub(crate) dev: bool,
    pub(crate) reloading: Reloading,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(request_id: &'a str, accept: Option<&'a [u8]>, settings: &Settings) -> Self {
        Self { request_id, accept, dev: settings.dev, reloading: settings.reloading }
    }

    /// Whether a page loads itself again. Never without `dev`: elsewhere nobody answers it.
    fn reloads(&self) -> bool {
        self.dev && self.reloading == Reloading::OnChange
    }
}

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
const PAGE: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The operator's own page in place of an error. Nobody keeps it: it would be the page of another status next time.
pub(crate) fn own_page(page: &PageText, status: StatusCode, request_id: &str) -> Response<Bytes> {
    made(status, page.media_type.clone(), page.text(status, request_id))
}

fn made(status: StatusCode, media_type: HeaderValue, text: Bytes) -> Response<Bytes> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What is wrong with a request of HTTP/2 that gets an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MalformedRequest {
    NoAuthority,
    /// `:authority` or `Host` is none, or there are several.
    Authority,
    TwoAuthorities,
    Target,
    ContentLength,
    /// `Content-Length` of an extended CONNECT.
    ConnectLength,
    /// White space around a field's value.
    Padding,
    TooManyFields,
    /// `:protocol` of an extended CONNECT.
    Protocol,
}

/// The response to a malformed request of HTTP/2.
pub(crate) fn malformed_request(why: MalformedRequest, limits: &Limits) -> Response<Bytes> {
    let status = match why {
        MalformedRequest::TooManyFields => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    };
    let detail = match why {
        MalformedRequest::NoAuthority => "the request has neither :authority nor Host (RFC 9113 section 8.3.1)".into(),
        MalformedRequest::Authority => {
            ":authority and Host must be one host with an optional port (RFC 9113 section 8.3.1)".into()
        }
        MalformedRequest::TwoAuthorities => ":authority and Host differ (RFC 9113 section 8.3.1)".into(),
        MalformedRequest::Target => ":path must be a path that begins with / (RFC 9113 section 8.3.1)".into(),
        MalformedRequest::ContentLength => "Content-Length must be one decimal number (RFC 9110 section 8.6)".into(),
        MalformedRequest::ConnectLength => "a CONNECT has no Content-Length (RFC 9110 section 9.3.6)".into(),
        MalformedRequest::Padding => "a field's value begins or ends with white space (RFC 9113 section 8.2.1)".into(),
        MalformedRequest::TooManyFields => {
            format!("the request has more header fields than limits.header_count ({})", limits.header_count)
        }
        MalformedRequest::Protocol => ":protocol is no name of a protocol (RFC 8441 section 4)".into(),
    };
    let id = crate::request_id::RequestId::random();
    problem_response(status, &json!({ "title": title(status), "detail": detail, "request_id": id.as_str() }))
}

/// The response to an extended CONNECT (RFC 8441) that came to nothing.
pub(crate) fn not_switched() -> Response<Bytes> {
    let status = StatusCode::NOT_IMPLEMENTED;
    let detail = "the service did not switch to the protocol of this extended CONNECT: the route's `upgrades` must name \
                  it, and the service must accept it";
    problem_response(status, &json!({ "title": title(status), "detail": detail }))
}

fn title(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Error")
}

/// A document of RFC 9457 with these members.
fn problem_response(status: StatusCode, members: &Value) -> Response<Bytes> {
    let mut document = json!({ "type": "about:blank", "status": status.as_u16() });
    if let (Some(document), Some(members)) = (document.as_object_mut(), members.as_object()) {
        document.extend(members.clone());
    }
    let mut response = Response::new(Bytes::from(pilotlight_printable::json(document.to_string())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
