//! What the gateway has to know of gRPC: which requests are its, and how its clients are told of errors.
//!
//! Messages are not looked at. Requests and responses pass as any others over HTTP/2, with their trailers.

use http::header::CONTENT_TYPE;

use crate::head::Head;

const MEDIA_TYPE: &[u8] = b"application/grpc";

/// Whether a request is one of gRPC. (gRPC-Web is plain HTTP.)
pub(crate) fn is_grpc(head: &Head) -> bool {
    head.field(&CONTENT_TYPE).is_some_and(is_media_type)
}

/// Whether a content type is that of gRPC: alone, with a suffix for its messages, or with parameters.
pub(crate) fn is_media_type(content_type: &[u8]) -> bool {
    let Some((kind, rest)) = content_type.split_at_checked(MEDIA_TYPE.len()) else { return false };
    kind.eq_ignore_ascii_case(MEDIA_TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// A status of gRPC, as far as the gateway gives them (`grpc/status.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GrpcStatus {
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// A text as the value of `grpc-message`: percent-encoded but for visible ASCII.
pub(crate) fn message(text: &str) -> String {
    const KEPT: percent_encoding::AsciiSet = percent_encoding::CONTROLS.add(b'%');
    percent_encoding::utf8_percent_encode(text, &KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content_type: &str, expected: bool) {
        assert_eq!(is_media_type(content_type.as_bytes()), expected, "{content_type}");
    }

    #[test]
    fn content_types() {
        check("application/grpc", true);
        check("Application/gRPC+proto", true);
        check("application/grpc; charset=utf-8", true);
        check("application/grpc-web", false);
        check("application/grp", false);
        check("", false);
    }

    #[test]
    fn messages() {
        assert_eq!(message("no route matches /é%"), "no route matches /%C3%A9%25");
    }
}
