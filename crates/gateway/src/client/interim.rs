//! Interim answers (RFC 9110 §15.2) on their way to the client: 102, 103 and those that are not known yet.
//!
//! hyper cannot send them, so they are written between two of its answers, where it has nothing unwritten. An interim answer is
//! help that may be missing: where it would have to wait, or there are too many, it is left out.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, StatusCode};

use super::{Client, MAX_GATHERED, Phase};
use crate::fields::{FieldList, is_hop_by_hop};

impl Client {
    /// Sends an interim answer ahead of the answer that is being waited for.
    pub(crate) fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        // RFC 9110 §10.1.1: 100 is between a client and whoever reads its body: hyper sends it. 101 ends HTTP.
        if matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS) {
            return;
        }
        let size = 64 + headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
        let out = &mut self.io.borrow_mut().out;
        let has_room = out.len() + size <= MAX_GATHERED && !self.write_blocked.get();
        if self.phase.get() != Phase::Busy || self.hyper_has_unwritten.get() || !has_room {
            return;
        }
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(status.as_str().as_bytes());
        out.extend_from_slice(b" ");
        out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        let connection = FieldList::default();
        // RFC 9110 §8.6: no 1xx has a Content-Length; a service on the pipe may have said anything.
        let crosses = |name: &HeaderName| name != CONTENT_LENGTH && !is_hop_by_hop(name, &connection);
        for (name, value) in headers.iter().filter(|(name, _)| crosses(name)) {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(b"\r\n\r\n");
    }
}
