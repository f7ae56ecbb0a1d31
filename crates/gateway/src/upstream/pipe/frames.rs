//! Requests as frames, RESET as errors, and what services log.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use pilotlight_pipe::control::{Log, LogLevel};
use pilotlight_pipe::frame::{FrameHeader, FrameType, HEADER_LEN, MAX_FRAME, flags};
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::session::ProtocolError;

use crate::outbound::Outbound;
use crate::upstream::length::{self, LengthError};
use crate::upstream::{Delivery, UpstreamError};

/// A REQUEST frame without exchange id and deadline, or `None` if it is larger than a frame may be. With UPGRADE among
/// the flags it tells what the client would switch to (P-38).
pub(crate) fn request_frame(outbound: &Outbound, flags: u8, body: &[u8]) -> Option<BytesMut> {
    let mut frame = BytesMut::with_capacity(1024 + body.len());
    frame.put_bytes(0, HEADER_LEN + 8); // with what `complete` writes
    let head_start = frame.len();
    let target = outbound.target();
    let method = outbound.head.method.as_str();
    let scheme = outbound.origin().scheme.as_str();
    for text in [method, scheme, outbound.host(), &target, outbound.protocol(), &outbound.peer] {
        frame.put_slice(text.as_bytes());
        frame.put_u8(0);
    }
    frame.put_slice(outbound.id.as_bytes());
    frame.put_u8(0);
    let mut field = |name: &[u8], value: &[&[u8]]| {
        frame.put_slice(name);
        frame.put_u8(0);
        value.iter().for_each(|piece| frame.put_slice(piece));
        frame.put_u8(0);
    };
    outbound.received_fields(&mut |name, value| field(name, &[value]));
    outbound.own_fields(|name, value| match name {
        b"connection" => {} // P-9
        b"upgrade" if flags & flags::UPGRADE == 0 => {}
        name => field(name, value),
    });
    let head_length = frame.len() - head_start;
    frame.put_slice(body);
    let length = frame.len() - HEADER_LEN;
    if length > MAX_FRAME {
        return None;
    }
    let header = FrameHeader { length: length as u32, kind: FrameType::REQUEST, flags, exchange: 0 };
    frame[..HEADER_LEN].copy_from_slice(&header.encode());
    frame[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&(head_length as u32).to_le_bytes());
    Some(frame)
}

/// Writes the id, and the time that is left now (P-28), into a frame made by [`request_frame`].
pub(crate) fn complete(frame: &mut [u8], exchange: u16, left: Option<Duration>) {
    let deadline_ms = left.map_or(0, |left| u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1));
    if let Some(place) = frame.get_mut(6..8) {
        place.copy_from_slice(&exchange.to_le_bytes());
    }
    if let Some(place) = frame.get_mut(HEADER_LEN + 4..HEADER_LEN + 8) {
        place.copy_from_slice(&deadline_ms.to_le_bytes());
    }
}

/// What a RESET means for the request (spec §8, §11).
pub(crate) fn reset_error(service: &str, reset: Reset) -> UpstreamError {
    let (service, text) = (service.to_owned(), reset.text);
    match reset.code {
        ResetCode::Refused => UpstreamError::Refused { service, text },
        ResetCode::Overloaded => UpstreamError::Overloaded {
            service,
            text,
            retry_after: Duration::from_millis(u64::from(reset.retry_after_ms)),
        },
        ResetCode::Deadline => UpstreamError::Deadline { service, text },
        ResetCode::TooLarge => UpstreamError::TooLarge { service, text },
        ResetCode::Internal => UpstreamError::Internal { service, text },
        ResetCode::Protocol => UpstreamError::Protocol { service, what: text },
        ResetCode::Cancelled => {
            UpstreamError::Closed { service, what: "cancelled the exchange".into(), delivery: Delivery::Maybe }
        }
    }
}

/// Why the head of an answer cannot be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadHead {
    #[error("the answer's length is ambiguous: {0}")]
    Length(#[from] LengthError),
    /// RFC 9110 §15: there are five classes.
    #[error("the answer's status {0} is not a number from 200 to 599")]
    Status(u16),
}

/// The highest status (RFC 9110 §15).
const MAX_STATUS: u16 = 599;

/// How long the body is that the fields announce; `None` where they do not say, or where there is none. One valid line
/// of it is left.
pub(crate) fn body_length(
    method: &Method,
    status: StatusCode,
    headers: &mut HeaderMap,
) -> Result<Option<u64>, BadHead> {
    if status.as_u16() > MAX_STATUS {
        return Err(BadHead::Status(status.as_u16()));
    }
    let length = length::settle(headers)?;
    Ok(length.filter(|_| *method != Method::HEAD && status != StatusCode::NOT_MODIFIED))
}

/// Writes a line that the service logs.
pub(super) fn log(service: &str, payload: &[u8]) -> Result<(), ProtocolError> {
    let Log { level, text } = Log::parse(payload)?;
    match level {
        LogLevel::Error => tracing::error!(%service, "{text}"),
        LogLevel::Warn => tracing::warn!(%service, "{text}"),
        LogLevel::Info => tracing::info!(%service, "{text}"),
        LogLevel::Debug => tracing::debug!(%service, "{text}"),
        LogLevel::Trace => tracing::trace!(%service, "{text}"),
    }
    Ok(())
}
