//! Traces of requests: the context that requests carry (W3C Trace Context), which of them are sampled, and spans as the
//! OpenTelemetry Protocol (OTLP) writes them.
//!
//! ```text
//!  traceparent ─▶ TraceContext ─┐
//!                               ├─▶ context of this request ─▶ traceparent to the service
//!  Sampler, IdSource ───────────┘            └─ sampled ─▶ Span ─▶ Spans ─▶ export_request
//! ```
//!
//! Pure: it opens no socket and reads no clock and no random source; seeds and times are arguments. It knows no HTTP
//! but the two fields of W3C Trace Context.
//!
//! Invariant: an id that is given out is never all zeros, and a context that is written can be parsed again.

#![forbid(unsafe_code)]

mod context;
mod ids;
mod otlp;
mod sampler;

pub use context::{
    Flags, MAX_STATE_BYTES, MAX_STATE_MEMBERS, SpanId, TRACEPARENT_BYTES, TraceContext, TraceId, TraceStateError,
    check_tracestate,
};
pub use ids::IdSource;
pub use otlp::{
    Attribute, MAX_VALUE_BYTES, ParentOrigin, Scope, Span, SpanKind, SpanStatus, Value, export_request, rejected,
};
pub use sampler::{Ratio, RatioError, Sampler};
