//! The head of an answer that came over the pipe.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::body::PipeBody;
use super::stream::{Stream, Switched};
use crate::body::ResponseBody;
use crate::client_socket::ServerSocket;
use crate::protocols::ServiceProtocol;
use crate::upstream::one_try::Try;
use crate::upstream::{ServiceResponse, Upgraded};

/// The head of an answer and where the rest of it is.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) first: Bytes,
    pub(super) rest: Option<Box<Stream>>,
    pub(super) left: Option<u64>,
    /// The connection, if it is another protocol's now (P-41).
    pub(super) switched: Option<Switched>,
}

impl Reply {
    pub(super) fn into_response(self, service: &str, one: &mut Try<'_>) -> ServiceResponse {
        let (lease, first_byte) = (one.lease.take(), one.first_byte.take());
        let Self { status, headers, first, rest, left, switched } = self;
        if let Some(Switched { socket, read_ahead }) = switched {
            let socket = ServerSocket::Plain(socket);
            let upgraded = Some(Box::new(Upgraded::of_socket(socket, ServiceProtocol::Pipe, read_ahead, lease)));
            return ServiceResponse { status, fields: headers.into(), body: ResponseBody::Empty, upgraded };
        }
        let body = match rest {
            None => ResponseBody::full(first),
            Some(stream) => {
                let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
                let silence = first_byte.map(|first_byte| first_byte.then(content_type));
                let body = PipeBody::new(stream, lease, silence, first, left, service.to_owned());
                ResponseBody::Streamed(Box::new(body))
            }
        };
        ServiceResponse { status, fields: headers.into(), body, upgraded: None }
    }
}
