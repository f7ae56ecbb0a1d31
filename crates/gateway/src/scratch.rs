//! Memory that is warm, used again for each head.

use bytes::BytesMut;
use http::HeaderMap;
use pilotlight_http1::FieldTable;

/// What is kept from one head to the next, one for each worker.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) headers: HeaderMap,
    pub(crate) fields: FieldTable,
    pub(crate) bytes: BytesMut,
    /// Heads of HTTP/2.
    pub(crate) http2_fields: pilotlight_http2::FieldTable,
    /// What is written to clients that speak it.
    pub(crate) http2_out: BytesMut,
}
