//! Bytes to heads.

use super::hop::{Crossing, without_named};
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// Bytes before the strings of a head.
const FIXED: usize = 8;
/// Strings of a request head before its fields.
const REQUEST_STRINGS: usize = 7;

/// What REQUEST says before the body. The strings are slices of the frame.
///
/// ```
/// # use bytes::BytesMut;
/// # use http::{HeaderMap, HeaderValue};
/// # use pilotlight_pipe::frame::{MAX_FRAME, flags, split_frame};
/// # use pilotlight_pipe::head::{RequestHead, encode_request};
/// use http::{Method, header::ACCEPT};
/// use pilotlight_pipe::head::decode_request;
///
/// # let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/plain"))]);
/// # let head = RequestHead {
/// #     method: "GET",
/// #     scheme: "https",
/// #     authority: "example.org",
/// #     target: "/users?page=2",
/// #     protocol: "HTTP/1.1",
/// #     peer: "192.0.2.7:50000",
/// #     request_id: "01H7",
/// #     deadline_ms: 3000,
/// #     headers: &headers,
/// # };
/// # let mut wire = BytesMut::new();
/// # encode_request(&mut wire, 7, flags::END, &head, b"")?;
/// # let (_, payload) = split_frame(&mut wire, MAX_FRAME)?.expect("a whole frame");
/// // `payload` is of a REQUEST frame that was read.
/// let (request, _body) = decode_request(payload)?;
/// assert_eq!(request.method, Method::GET);
/// assert_eq!(request.target(), "/users?page=2");
/// assert_eq!(request.authority(), "example.org");
/// assert_eq!(request.headers[ACCEPT], "text/plain");
/// assert_eq!(request.deadline_ms, 3000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecodedRequest {
    /// The method.
    pub method: Method,
    /// The time left in milliseconds when it was sent, 0 for none (P-28).
    pub deadline_ms: u32,
    /// The fields, in their order.
    pub headers: HeaderMap,
    strings: Bytes,
    /// Where each of the seven strings ends: the place of its zero byte.
    ends: [u32; REQUEST_STRINGS],
}

impl DecodedRequest {
    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.string(1)
    }

    /// The client's `host`.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.string(2)
    }

    /// Path and query, exactly as received.
    #[must_use]
    pub fn target(&self) -> &str {
        self.string(3)
    }

    /// `HTTP/1.1`.
    #[must_use]
    pub fn protocol(&self) -> &str {
        self.string(4)
    }

    /// `address:port` of the client, or empty.
    #[must_use]
    pub fn peer(&self) -> &str {
        self.string(5)
    }

    /// The request id.
    #[must_use]
    pub fn request_id(&self) -> &str {
        self.string(6)
    }

    /// The target as a slice of the frame, for a type that keeps it.
    #[must_use]
    pub fn target_bytes(&self) -> Bytes {
        let (start, end) = self.range(3);
        self.strings.slice(start..end)
    }

    fn range(&self, index: usize) -> (usize, usize) {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize + 1 };
        (start, self.ends[index] as usize)
    }

    fn string(&self, index: usize) -> &str {
        let (start, end) = self.range(index);
        // Checked as UTF-8 when decoded.
        str::from_utf8(&self.strings[start..end]).unwrap_or_default()
    }
}

/// Why a payload has no head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Shorter than the fixed part.
    #[error("P-8: a payload of {length} bytes is shorter than a head's 8 fixed bytes")]
    Short {
        /// The payload's length.
        length: usize,
    },
    /// `head_length` points behind the payload.
    #[error("P-8: head_length {head_length} is larger than the {rest} bytes that follow")]
    Length {
        /// What the payload says.
        head_length: u32,
        /// What follows.
        rest: usize,
    },
    /// The last string is not ended.
    #[error("P-8: the head has no final zero byte")]
    Unterminated,
    /// A name without a value.
    #[error("P-8: an odd number of strings: a field without a value")]
    Odd,
    /// Fewer strings than a request head has.
    #[error("P-8: a request head of {strings} strings; it has at least 7")]
    Few {
        /// How many there are.
        strings: usize,
    },
    /// Method, scheme, authority, target, protocol, peer or request id are not UTF-8.
    #[error("P-8: the request's strings are not UTF-8")]
    NotText,
    /// Not a method.
    #[error("P-8: {method:?} is not a method")]
    Method {
        /// What was sent, cut to 32 characters.
        method: String,
    },
    /// Not a field name.
    #[error("P-8: {name:?} is not a field name")]
    Name {
        /// What was sent, cut to 32 characters.
        name: String,
    },
    /// A value with a control character.
    #[error("P-8: the value of {name} has a byte that is not allowed")]
    Value {
        /// The field.
        name: HeaderName,
    },
    /// More fields than a header map takes.
    #[error("P-8: {fields} fields are more than can be held")]
    TooMany {
        /// How many there are.
        fields: usize,
    },
    /// A RESPONSE that switches protocols has a body.
    #[error("P-40: {bytes} bytes behind the head of a RESPONSE with UPGRADE")]
    BehindSwitch {
        /// How many.
        bytes: usize,
    },
    /// A status that is no status, or not one of this frame's type.
    #[error("P-11: status {status} is not allowed here")]
    Status {
        /// What was sent.
        status: u16,
    },
}

/// Reads a REQUEST: the head and the first part of the body.
///
/// ```
/// use bytes::Bytes;
/// use pilotlight_pipe::head::decode_request;
///
/// let head = b"POST\0http\0example.org\0/notes\0HTTP/1.1\0\0id-1\0content-type\0text/plain\0";
/// let mut payload = Vec::from((head.len() as u32).to_le_bytes());
/// payload.extend(0_u32.to_le_bytes()); // no deadline
/// payload.extend(head);
/// payload.extend(b"a note");
/// let (request, body) = decode_request(Bytes::from(payload))?;
/// assert_eq!((request.target(), &body[..]), ("/notes", &b"a note"[..]));
/// # Ok::<(), pilotlight_pipe::head::HeadError>(())
/// ```
///
/// # Errors
/// The payload breaks P-8.
pub fn decode_request(payload: Bytes) -> Result<(DecodedRequest, Bytes), HeadError> {
    request(payload, Crossing::Ordinary)
}

/// The same of a REQUEST with UPGRADE, whose field `upgrade` crosses (P-38).
///
/// ```
/// use bytes::Bytes;
/// use http::header::UPGRADE;
/// use pilotlight_pipe::head::{decode_offer, decode_request};
///
/// let head = b"GET\0http\0example.org\0/chat\0HTTP/1.1\0\0id-1\0upgrade\0websocket\0";
/// let mut payload = Vec::from((head.len() as u32).to_le_bytes());
/// payload.extend(0_u32.to_le_bytes()); // no deadline
/// payload.extend(head);
/// let payload = Bytes::from(payload);
/// assert_eq!(decode_offer(payload.clone())?.0.headers[UPGRADE], "websocket");
/// assert!(decode_request(payload)?.0.headers.is_empty());
/// # Ok::<(), pilotlight_pipe::head::HeadError>(())
/// ```
///
/// # Errors
/// The payload breaks P-8.
pub fn decode_offer(payload: Bytes) -> Result<(DecodedRequest, Bytes), HeadError> {
    request(payload, Crossing::Upgrade)
}

fn request(payload: Bytes, crossing: Crossing) -> Result<(DecodedRequest, Bytes), HeadError> {
    let (deadline_ms, strings, body) = split_head(payload)?;
    let mut ends = [0; REQUEST_STRINGS];
    let mut zeros = memchr::memchr_iter(0, &strings);
    for (index, end) in ends.iter_mut().enumerate() {
        *end = zeros.next().ok_or(HeadError::Few { strings: index })? as u32;
    }
    let first_field = ends[REQUEST_STRINGS - 1] as usize + 1;
    let text = str::from_utf8(&strings[..first_field]).map_err(|_| HeadError::NotText)?;
    let method = &text[..ends[0] as usize];
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| HeadError::Method { method: shown(method) })?;
    let headers = fields(&strings, first_field, crossing)?;
    Ok((DecodedRequest { method, deadline_ms, headers, strings, ends }, body))
}

/// Reads a RESPONSE: status, fields without those of the hop (P-9), and the first part of the body.
///
/// ```
/// use bytes::Bytes;
/// use http::StatusCode;
/// use pilotlight_pipe::head::decode_response;
///
/// let payload = Bytes::from_static(b"\x09\0\0\0\xc8\0\0\0etag\0\"1\"\0hello"); // 9 bytes of fields, 200
/// let (status, headers, body) = decode_response(payload)?;
/// assert_eq!((status, &headers["etag"], &body[..]), (StatusCode::OK, &"\"1\"".parse()?, &b"hello"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The payload breaks P-8, or the status is not from 200 to 999.
pub fn decode_response(payload: Bytes) -> Result<(StatusCode, HeaderMap, Bytes), HeadError> {
    let (status, headers, body) = response(payload, Crossing::Ordinary)?;
    if status.is_informational() {
        return Err(HeadError::Status { status: status.as_u16() });
    }
    Ok((status, headers, body))
}

/// Reads an INFO: a status from 100 to 199, and fields.
///
/// ```
/// use bytes::Bytes;
/// use http::{StatusCode, header::LINK};
/// use pilotlight_pipe::head::decode_info;
///
/// let payload = Bytes::from_static(b"\x0e\0\0\0\x67\0\0\0link\0</a.css>\0"); // 14 bytes of fields, 103
/// let (status, headers) = decode_info(payload)?;
/// assert_eq!(status, StatusCode::EARLY_HINTS);
/// assert_eq!(headers[LINK], "</a.css>");
/// # Ok::<(), pilotlight_pipe::head::HeadError>(())
/// ```
///
/// # Errors
/// The payload breaks P-8, or the status is another.
pub fn decode_info(payload: Bytes) -> Result<(StatusCode, HeaderMap), HeadError> {
    let (status, headers, _) = response(payload, Crossing::Ordinary)?;
    if !status.is_informational() {
        return Err(HeadError::Status { status: status.as_u16() });
    }
    Ok((status, headers))
}

/// Reads a RESPONSE with UPGRADE: the fields, `upgrade` among them (P-40).
///
/// ```
/// use bytes::Bytes;
/// use http::header::UPGRADE;
/// use pilotlight_pipe::head::decode_switch;
///
/// let payload = Bytes::from_static(b"\x0d\0\0\0\x65\0\0\0upgrade\0echo\0"); // 13 bytes of fields, 101
/// assert_eq!(decode_switch(payload)?[UPGRADE], "echo");
/// # Ok::<(), pilotlight_pipe::head::HeadError>(())
/// ```
///
/// # Errors
/// The payload breaks P-8, the status is not 101, or there is a body.
pub fn decode_switch(payload: Bytes) -> Result<HeaderMap, HeadError> {
    let (status, headers, body) = response(payload, Crossing::Upgrade)?;
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(HeadError::Status { status: status.as_u16() });
    }
    if !body.is_empty() {
        return Err(HeadError::BehindSwitch { bytes: body.len() });
    }
    Ok(headers)
}

/// Reads TRAILERS.
///
/// ```
/// use bytes::Bytes;
/// use pilotlight_pipe::head::decode_fields;
///
/// let trailers = decode_fields(&Bytes::from_static(b"x-checksum\0abc\0"))?;
/// assert_eq!(trailers["x-checksum"], "abc");
/// # Ok::<(), pilotlight_pipe::head::HeadError>(())
/// ```
///
/// # Errors
/// The payload breaks P-8.
pub fn decode_fields(payload: &Bytes) -> Result<HeaderMap, HeadError> {
    terminated(payload)?;
    fields(payload, 0, Crossing::Ordinary)
}

fn response(payload: Bytes, crossing: Crossing) -> Result<(StatusCode, HeaderMap, Bytes), HeadError> {
    let (second, strings, body) = split_head(payload)?;
    let status = second as u16;
    let status = StatusCode::from_u16(status).map_err(|_| HeadError::Status { status })?;
    Ok((status, fields(&strings, 0, crossing)?, body))
}

/// The second fixed word, the strings, and what is left.
fn split_head(mut payload: Bytes) -> Result<(u32, Bytes, Bytes), HeadError> {
    let Some(&[a, b, c, d, e, f, g, h]) = payload.first_chunk::<FIXED>() else {
        return Err(HeadError::Short { length: payload.len() });
    };
    let head_length = u32::from_le_bytes([a, b, c, d]);
    let rest = payload.len() - FIXED;
    if head_length as usize > rest {
        return Err(HeadError::Length { head_length, rest });
    }
    let body = payload.split_off(FIXED + head_length as usize);
    let strings = payload.split_off(FIXED);
    terminated(&strings)?;
    Ok((u32::from_le_bytes([e, f, g, h]), strings, body))
}

fn terminated(strings: &[u8]) -> Result<(), HeadError> {
    if matches!(strings.last(), None | Some(0)) { Ok(()) } else { Err(HeadError::Unterminated) }
}

/// Names and values from `start` to the end of `strings`, which is empty or ends with a zero byte.
fn fields(strings: &Bytes, start: usize, crossing: Crossing) -> Result<HeaderMap, HeadError> {
    let area = &strings[start..];
    let count = memchr::memchr_iter(0, area).count();
    if !count.is_multiple_of(2) {
        return Err(HeadError::Odd);
    }
    let many = |_| HeadError::TooMany { fields: count / 2 };
    let mut headers = HeaderMap::try_with_capacity(count / 2).map_err(many)?;
    let (mut zeros, mut at, mut connection) = (memchr::memchr_iter(0, area), 0, Vec::new());
    while let (Some(name_end), Some(value_end)) = (zeros.next(), zeros.next()) {
        let name = &area[at..name_end];
        let name = HeaderName::from_bytes(name).map_err(|_| HeadError::Name { name: shown_bytes(name) })?;
        let value = strings.slice(start + name_end + 1..start + value_end);
        let Ok(value) = HeaderValue::from_maybe_shared(value) else {
            return Err(HeadError::Value { name });
        };
        if crossing.lets(&name) {
            headers.try_append(name, value).map_err(many)?;
        } else if name == CONNECTION {
            connection.push(value);
        }
        at = value_end + 1;
    }
    Ok(without_named(headers, &connection, crossing))
}

fn shown(text: &str) -> String {
    text.chars().take(32).collect()
}

fn shown_bytes(bytes: &[u8]) -> String {
    shown(&String::from_utf8_lossy(&bytes[..bytes.len().min(64)]))
}
