//! Traces of requests: which are sampled, the context that services get, and where spans go.
//!
//! ```text
//!  head ─▶ Tracer::begin ─▶ RequestTrace ─▶ traceparent to the service
//!                             └ sampled: tries, marks of the timeline ─ at the end ─▶ spans ─▶ Exporter (its thread)
//! ```
//!
//! Invariant: a request waits for no span; what the exporter has no room for is dropped and counted.
//! Invariant: only a client that is trusted chooses a trace, or has one sampled.

use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, ops::RangeInclusive, path::Path};

use http::header::{HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Uri};
use pilotlight_printable::without_mark;
use pilotlight_traces::{IdSource, Ratio, SpanId, TRACEPARENT_BYTES, TraceContext, TraceId};

use crate::forwarded::TrustForwarded;
use crate::head::{self, Head};
use crate::peer_address::PeerAddress;
use crate::target::Scheme;
use crate::timing::Moment;

pub(crate) mod export;
mod spans;
pub(crate) mod tracer;

/// The field of the context.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static(TRACEPARENT_NAME);
pub(crate) const TRACEPARENT_NAME: &str = "traceparent";
/// What vendors add to it.
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Tries of one request that have a span; those beyond it have none.
const MAX_TRIES: usize = 16;

/// `[traces]`: which requests are sampled, and where their spans go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOptions {
    /// The part of requests without a parent that is sampled.
    pub sample: Ratio,
    /// Whose `traceparent` is followed, and whose traces are sampled if they say so. Of all others it is replaced.
    pub trust_parent: TrustForwarded,
    /// Whether spans have the query of a request.
    pub query: RecordedQuery,
    /// Where spans go.
    pub export: ExportOptions,
}

/// Whether spans have the query of a request, in which secrets may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordedQuery {
    /// They have not.
    #[default]
    No,
    /// They have.
    Yes,
}

/// Where spans go, by OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportOptions {
    /// The collector, `http` or `https`, with the path.
    pub endpoint: Uri,
    /// The authorities by which an `https` URL is checked, as a PEM file; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// Fields of each request, which may be keys: they are sensitive, so that nothing prints them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What is known of this gateway: `service.name` and the like.
    pub resource: Vec<(String, String)>,
    /// How long one request to the collector may take.
    pub timeout: Duration,
}

impl ExportOptions {
    /// `endpoint` by default, as the specification of OTLP has it.
    pub const DEFAULT_ENDPOINT: &str = "http://localhost:4318/v1/traces";
    /// `timeout` by default, as the specification of OTLP has it.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
    /// Values of `timeout`.
    pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
    /// Most fields in the file of them.
    pub const MAX_HEADERS: usize = 32;
}

/// Most bytes of a file of fields.
const MAX_HEADERS_FILE: u64 = 64 * 1024;

/// Why a file of fields cannot be used. It shows nothing of their values.
#[derive(Debug, thiserror::Error)]
pub enum HeadersFileError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is larger than 64 KiB or has more than 32 fields.
    #[error("it has too many fields")]
    TooLong,
    /// A line is no field.
    #[error("line {0} is not like `name: value`")]
    Line(usize),
}

/// Reads a file of fields, a `name: value` on each line. Empty lines, and those that begin with `#`, are skipped.
///
/// # Errors
/// It cannot be read, or is malformed.
pub fn read_headers_file(path: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, HeadersFileError> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_HEADERS_FILE + 1).read_to_string(&mut text)?;
    let lines = without_mark(&text).lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let is_field = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
    let one = |(at, line): (usize, &str)| {
        let (name, value) = line.split_once(':').ok_or(HeadersFileError::Line(at))?;
        export_header(name, value).ok_or(HeadersFileError::Line(at))
    };
    let headers: Vec<_> = lines.filter(is_field).map(one).collect::<Result<_, _>>()?;
    if headers.len() > ExportOptions::MAX_HEADERS || text.len() as u64 > MAX_HEADERS_FILE {
        return Err(HeadersFileError::TooLong);
    }
    Ok(headers)
}

/// A field for the collector; `None` if it is malformed, or belongs to the message.
#[must_use]
pub fn export_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name: HeaderName = name.trim().parse().ok()?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    let is_framing = matches!(name.as_str(), "host" | "content-length" | "content-type" | "transfer-encoding");
    (!is_framing && !crate::fields::is_hop_by_hop(&name)).then_some((name, value))
}

/// What becomes of the client's `tracestate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateUse {
    /// It crosses.
    Kept,
    /// It is malformed, or belongs to another trace.
    Dropped,
}

#[derive(Debug, Clone, Copy)]
enum Passage {
    /// The client's fields cross.
    AsItCame,
    /// `traceparent` is written anew.
    Written(StateUse),
}

/// What a service is told of the trace, in place of what the client says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Propagation {
    pub(crate) traceparent: [u8; TRACEPARENT_BYTES],
    pub(crate) state: StateUse,
}

/// The trace of one request.
pub(crate) struct RequestTrace {
    context: TraceContext,
    passage: Passage,
    sampled: Option<Box<SampledRequest>>,
}

impl RequestTrace {
    pub(crate) fn trace_id(&self) -> TraceId {
        self.context.trace_id
    }

    pub(crate) fn sampled(&self) -> Option<&SampledRequest> {
        self.sampled.as_deref()
    }

    pub(crate) fn context(&self) -> &TraceContext {
        &self.context
    }

    /// What a service is told; `None`: what the client says.
    pub(crate) fn propagation(&self) -> Option<Propagation> {
        match self.passage {
            Passage::AsItCame => None,
            Passage::Written(state) => Some(Propagation { traceparent: self.context.to_traceparent(), state }),
        }
    }

    /// The same for one try, whose span is the parent of what the service does.
    pub(crate) fn begin_try(&self, ids: &IdSource) -> Option<Propagation> {
        let (sampled, Passage::Written(state)) = (self.sampled.as_ref()?, self.passage) else { return None };
        let mut tries = sampled.tries.borrow_mut();
        if tries.len() == MAX_TRIES {
            return None;
        }
        let span_id = ids.span_id();
        tries.push(Try { span_id, begun: Moment::now(), ended: None });
        let context = TraceContext { span_id, ..self.context };
        Some(Propagation { traceparent: context.to_traceparent(), state })
    }

    /// What became of the last try that was begun.
    pub(crate) fn end_try(&self, outcome: TryOutcome) {
        let Some(sampled) = &self.sampled else { return };
        if let Some(last) = sampled.tries.borrow_mut().last_mut().filter(|last| last.ended.is_none()) {
            last.ended = Some((Moment::now(), outcome));
        }
    }
}

/// What became of a try.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TryOutcome {
    /// The status of the response.
    Answered(u16),
    /// What went wrong, in a word.
    Failed(&'static str),
}

/// A request that was sent to a service.
pub(crate) struct Try {
    span_id: SpanId,
    begun: Moment,
    ended: Option<(Moment, TryOutcome)>,
}

/// What is kept of a request that is sampled.
pub(crate) struct SampledRequest {
    pub(crate) options: Arc<TraceOptions>,
    parent: Option<SpanId>,
    state: String,
    method: Method,
    scheme: Scheme,
    authority: Box<str>,
    target: Box<str>,
    version: &'static str,
    user_agent: Option<Box<str>>,
    client: Box<str>,
    tries: RefCell<Vec<Try>>,
}

impl SampledRequest {
    fn new(
        options: &Arc<TraceOptions>,
        head: &Head,
        peer: &PeerAddress,
        parent: Option<SpanId>,
        state: Option<String>,
    ) -> Self {
        let user_agent = head.field(&USER_AGENT).map(|value| String::from_utf8_lossy(value).into());
        Self {
            options: Arc::clone(options),
            parent,
            state: state.unwrap_or_default(),
            method: head.method.clone(),
            scheme: peer.scheme(),
            authority: head.authority().into(),
            target: head.target().into(),
            version: head::protocol(head.version),
            user_agent,
            client: peer.ip().into(),
            tries: RefCell::default(),
        }
    }
}

impl fmt::Debug for SampledRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampledRequest").finish_non_exhaustive()
    }
}
