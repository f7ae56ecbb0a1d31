//! AWS Lambda's Runtime API as a gateway speaks it to the runtime clients of functions: what a function is told of a
//! request is an event of JSON, what it answers is a result of JSON, or a stream behind a prelude.
//!
//! ```text
//! request of HTTP ──event──▶ JSON of API Gateway (1.0, 2.0) or of a load balancer
//!
//! calls of a runtime client ──call──▶ Call ──▶ Runtime (states) ──▶ what becomes of the call
//!
//! JSON of a result ──result──▶ status, fields, body of a response
//! bytes of a stream ──prelude──▶ status, fields; the body behind them
//! ```
//!
//! No sockets, no clock, no random numbers. The calls are those of version 2018-06-01; the events are those of the
//! format versions 1.0 and 2.0 of API Gateway, of function URLs, and of Application Load Balancers.
//!
//! Invariant: an instance has one invocation at most, and each invocation ends exactly once.
//!
//! Invariant: what a function names as a field of a connection, or as a length, does not get into a response.

#![forbid(unsafe_code)]

mod call;
mod date;
mod event;
mod function_error;
mod prelude;
mod result;
mod runtime;
mod trace;

pub use call::{Call, CallError};
pub use event::{Event, EventFormat, Function, Request};
pub use function_error::{FunctionError, MAX_ERROR};
pub use prelude::{MAX_PRELUDE, PRELUDE_TYPE, Prelude, PreludeError, PreludeReader};
pub use result::{Answer, ResultError, answer};
pub use runtime::{CallId, Input, Output, Refusal, Runtime};
pub use trace::trace_id;
