//! Services as the gateway reaches them: over HTTP/1.1 or over the pipe.

use std::any::Any;
use std::time::Duration;

use ::http::StatusCode;

pub(crate) use pilotlight_exchange::retry::Delivery;
use pilotlight_exchange::retry::Reuse;
use pilotlight_lambda::FunctionError;
use pilotlight_supervisor::{Lease, StartError};

use crate::body::ResponseBody;
use crate::client_socket::ServerSocket;
use crate::protocols::ServiceProtocol;
use crate::request_body::{BodyError, RequestBody};
use crate::response::ResponseFields;
use crate::stream_io::StreamIo;
use server::Seat;

mod backlog;
pub(crate) mod cgi;
pub(crate) mod first_byte;
pub(crate) mod http;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod https;
mod interims;
pub(crate) mod lambda;
mod length;
pub(crate) mod one_try;
pub(crate) mod pipe;
pub(crate) mod seated;
mod secure;
pub(crate) mod server;
pub(crate) mod silence;
pub(crate) mod sockets;
mod turn;

/// A piece of a body below this size is passed on with what follows it in the buffer.
pub(crate) const MIN_PIECE: usize = 4 * 1024;
/// A gathered piece is not made larger than this, but for the last one that is added.
pub(crate) const MAX_GATHERED: usize = 16 * 1024;

/// A service's response; the body may still be coming.
pub(crate) struct ServiceResponse {
    pub(crate) status: StatusCode,
    pub(crate) fields: ResponseFields,
    pub(crate) body: ResponseBody,
    /// The connection of a 101.
    pub(crate) upgraded: Option<Box<Upgraded>>,
}

/// A connection to a service that no longer speaks HTTP.
pub(crate) struct Upgraded {
    pub(crate) service: ServiceSide,
    pub(crate) transport: ServiceProtocol,
    /// What the service sent after its 101.
    pub(crate) read_ahead: bytes::BytesMut,
    /// Keeps the instance from being stopped as idle.
    pub(crate) lease: Option<Lease>,
    /// The place at a server, of a service that has several.
    pub(crate) seat: Option<Seat>,
}

impl Upgraded {
    /// A socket of the connection's own.
    pub(crate) fn of_socket(
        socket: ServerSocket,
        transport: ServiceProtocol,
        read_ahead: bytes::BytesMut,
        lease: Option<Lease>,
    ) -> Self {
        Self { service: ServiceSide::Socket(socket), transport, read_ahead, lease, seat: None }
    }
}

/// The service's side of such a connection.
pub(crate) enum ServiceSide {
    Socket(ServerSocket),
    /// Of a connection that others may use as well, which is in use while this lives.
    Stream {
        stream: StreamIo,
        _connection: Box<dyn Any>,
    },
}

/// Why a service gave no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// Clients are not told the place: the path of an instance's socket has the runtime folder and the process id in
    /// it.
    #[error("service {service} cannot be reached: {cause}")]
    Connect { service: String, place: String, cause: String, came: CameTo },
    /// The connection or the instance ended.
    #[error("service {service} {what} before it answered")]
    Closed { service: String, what: String, delivery: Delivery },
    #[error("service {service} gave no answer within {setting} ({} s)", .after.as_secs_f32())]
    Timeout { service: String, after: Duration, setting: &'static str },
    /// It was not asked, as it had no server, or none with room.
    #[error("service {service} took no request within {setting} ({} s): {why}", .after.as_secs_f32())]
    NoServer { service: String, after: Duration, setting: &'static str, why: &'static str },
    /// Whoever gives its servers has none for a share of the requests, to which this one was drawn.
    #[error("a share of the requests to service {service} has no server")]
    NoShare { service: String },
    #[error("service {service} broke the protocol: {what}")]
    Protocol { service: String, what: String },
    /// RFC 8441 §3: who does not enable it gets no extended CONNECT.
    #[error(
        "service {service} cannot be asked to switch to another protocol: it speaks HTTP/2 (h2c), and its SETTINGS do \
         not have SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441)"
    )]
    NoExtendedConnect { service: String },
    #[error("service {service} did not take the request: {text}")]
    Refused { service: String, text: String },
    #[error("service {service} has too much to do: {text}")]
    Overloaded { service: String, text: String, retry_after: Duration },
    #[error("service {service} gave up at its deadline: {text}")]
    Deadline { service: String, text: String },
    #[error("service {service} failed: {text}")]
    Internal { service: String, text: String },
    /// RFC 3875 §4.1.2: a program is told the length before the body.
    #[error(
        "the request body has no Content-Length, which service {service} needs ({protocol}), and is too long, or comes \
         too slowly, to be read before the service is asked"
    )]
    LengthRequired { service: String, protocol: &'static str },
    /// What the function says of it is for the log, and for developers.
    #[error("the function of service {service} failed")]
    Function { service: String, error: Box<FunctionError> },
    #[error("the request body is larger than service {service} takes: {text}")]
    TooLarge { service: String, text: String },
}

/// How far a connection came that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CameTo {
    /// Nobody took it: refused, unreachable, or no answer in time.
    Nobody,
    /// It was taken, and broke before a request could be sent.
    Server,
}

/// What failed, with the request's body if it can still be sent.
pub(crate) struct Failed {
    pub(crate) error: SendError,
    pub(crate) body: BodyLeft,
    pub(crate) reuse: Reuse,
}

/// Which side failed.
#[derive(Debug)]
pub(crate) enum SendError {
    Upstream(UpstreamError),
    Client(BodyError),
    /// The instance ended before its first response, or the request waited too long for it, or among too many.
    Start(StartError),
}

impl SendError {
    /// Whether the service closed or broke the connection.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Upstream(UpstreamError::Closed { .. }))
    }
}

impl From<UpstreamError> for SendError {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(error)
    }
}

/// The request's body after a failed try.
pub(crate) enum BodyLeft {
    /// There was none, or it is untouched.
    Whole(Option<Box<RequestBody>>),
    /// Part of it is gone.
    Spent,
}

/// The connection, or the instance, ended.
pub(crate) fn closed(service: &str, what: &str, delivery: Delivery) -> UpstreamError {
    UpstreamError::Closed { service: service.to_owned(), what: what.to_owned(), delivery }
}
