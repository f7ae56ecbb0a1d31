//! A result as a response.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use http_body::Frame;
use pilotlight_lambda::{PRELUDE_TYPE, Prelude, PreludeReader, answer};
use tokio::sync::mpsc;

use super::invocation::{InvokeError, Outcome, OutcomeBody, Part};
use super::{To, failed, within};
use crate::body::{CutError, ResponseBody, Source};
use crate::outbound::Outbound;
use crate::upstream::one_try::Try;
use crate::upstream::silence::Silence;
use crate::upstream::{SendError, ServiceResponse, UpstreamError};

/// The media type of a stream that says none.
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

pub(super) async fn read(
    to: To<'_>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    outcome: Outcome,
) -> Result<ServiceResponse, SendError> {
    let Outcome { content_type, body } = outcome;
    let has_prelude = content_type.eq_ignore_ascii_case(PRELUDE_TYPE.as_bytes());
    match body {
        OutcomeBody::Whole(result) if !has_prelude => whole(to, outbound, &result),
        OutcomeBody::Whole(result) => {
            let mut reader = PreludeReader::new();
            let read = reader.read(&result).map_err(|e| unusable(to, &e.to_string()))?;
            let (prelude, length) = read.ok_or_else(|| unusable(to, "it has no eight zero bytes"))?;
            let (status, fields) = head(to, prelude.status, prelude.fields)?;
            Ok(response(outbound, status, fields, result.slice(length..)))
        }
        OutcomeBody::Stream(mut parts) => {
            let (status, fields, first) = match has_prelude {
                true => {
                    let (Prelude { status, fields }, first) = prelude(to, one, &mut parts).await?;
                    let (status, fields) = head(to, status, fields)?;
                    (status, fields, first)
                }
                false => {
                    let mut fields = HeaderMap::new();
                    fields.insert(CONTENT_TYPE, HeaderValue::from_bytes(&content_type).unwrap_or(BYTES));
                    (StatusCode::OK, fields, Bytes::new())
                }
            };
            let silence = one.first_byte.take();
            let silence = silence.map(|wait| wait.then(fields.get(CONTENT_TYPE).map(HeaderValue::as_bytes)));
            let body = match has_no_body(outbound, status) {
                true => ResponseBody::Empty, // what comes of it is thrown away
                false => {
                    let service = to.service.name().to_string();
                    let body = StreamBody { parts: Some(parts), first, silence, service };
                    ResponseBody::Streamed(Box::new(body))
                }
            };
            Ok(ServiceResponse { status, fields: fields.into(), body, upgraded: None })
        }
    }
}

/// A result as it is, of an event that was no request.
pub(super) fn plain(to: To<'_>, one: &mut Try<'_>, outcome: Outcome) -> ServiceResponse {
    let mut fields = HeaderMap::new();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = match outcome.body {
        OutcomeBody::Whole(result) => ResponseBody::full(result),
        OutcomeBody::Stream(parts) => {
            let silence = one.first_byte.take().map(|wait| wait.then(None));
            let service = to.service.name().to_string();
            let body = StreamBody { parts: Some(parts), first: Bytes::new(), silence, service };
            ResponseBody::Streamed(Box::new(body))
        }
    };
    ServiceResponse { status: StatusCode::OK, fields: fields.into(), body, upgraded: None }
}

/// A result to its end.
pub(super) async fn gathered(outcome: Outcome) -> Result<Bytes, InvokeError> {
    let mut parts = match outcome.body {
        OutcomeBody::Whole(result) => return Ok(result),
        OutcomeBody::Stream(parts) => parts,
    };
    let mut result = BytesMut::new();
    loop {
        match parts.recv().await {
            Some(Part::Data(data)) => result.extend_from_slice(&data), // at most `max_stream`
            Some(Part::End) => return Ok(result.freeze()),
            Some(Part::Failed(error)) => return Err(InvokeError::Function(error)),
            Some(Part::TooLarge { limit }) => {
                return Err(InvokeError::TooLarge { limit: usize::try_from(limit).unwrap_or(usize::MAX) });
            }
            None => return Err(InvokeError::Broken),
        }
    }
}

fn whole(to: To<'_>, outbound: &Outbound, result: &[u8]) -> Result<ServiceResponse, SendError> {
    let answer = answer(to.options.events, result).map_err(|e| unusable(to, &e.to_string()))?;
    let (status, fields) = head(to, answer.status, answer.fields)?;
    Ok(response(outbound, status, fields, answer.body.into()))
}

fn response(outbound: &Outbound, status: StatusCode, mut fields: HeaderMap, body: Bytes) -> ServiceResponse {
    let body = match has_no_body(outbound, status) {
        true => {
            if outbound.head.method == Method::HEAD {
                fields.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            }
            ResponseBody::Empty
        }
        false => ResponseBody::full(body),
    };
    ServiceResponse { status, fields: fields.into(), body, upgraded: None }
}

/// RFC 9110 §6.4.1.
fn has_no_body(outbound: &Outbound, status: StatusCode) -> bool {
    outbound.head.method == Method::HEAD || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
}

/// Reads a stream up to its body. What came of that with the prelude is returned beside it.
async fn prelude(to: To<'_>, one: &Try<'_>, parts: &mut mpsc::Receiver<Part>) -> Result<(Prelude, Bytes), SendError> {
    let (mut reader, first_byte) = (PreludeReader::new(), one.first_byte.as_ref());
    loop {
        let Some(part) = within(first_byte, |cx| parts.poll_recv(cx)).await else {
            return Err(failed(to, InvokeError::Late, first_byte));
        };
        let data = match part {
            Some(Part::Data(data)) => data,
            Some(Part::Failed(error)) => return Err(failed(to, InvokeError::Function(error), first_byte)),
            Some(Part::TooLarge { .. }) => return Err(unusable(to, "its stream is too large")),
            Some(Part::End) => return Err(unusable(to, "its stream ended before its eight zero bytes")),
            None => return Err(failed(to, InvokeError::Broken, first_byte)),
        };
        if let Some((prelude, length)) = reader.read(&data).map_err(|e| unusable(to, &e.to_string()))? {
            return Ok((prelude, data.slice(length..)));
        }
    }
}

fn unusable(to: To<'_>, what: &str) -> SendError {
    let what = format!("its result is no response: {what}");
    UpstreamError::Protocol { service: to.service.name().to_string(), what }.into()
}

fn head(to: To<'_>, status: u16, fields: Vec<(String, String)>) -> Result<(StatusCode, HeaderMap), SendError> {
    let status = StatusCode::from_u16(status).map_err(|_| unusable(to, "its status is none"))?;
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        let (Ok(field), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value)) else {
            return Err(unusable(to, &format!("{name:?} is no field, or has a value that is none")));
        };
        map.append(field, value);
    }
    Ok((status, map))
}

/// The rest of a streamed response, read as the client takes it.
struct StreamBody {
    /// None behind the end.
    parts: Option<mpsc::Receiver<Part>>,
    /// What came with the prelude.
    first: Bytes,
    silence: Option<Silence>,
    service: String,
}

impl StreamBody {
    fn cut(&mut self, what: String) -> CutError {
        self.parts = None;
        CutError { service: self.service.clone(), what }
    }
}

impl Source for StreamBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))));
        }
        let Some(parts) = &mut self.parts else { return Poll::Ready(None) };
        let Poll::Ready(part) = parts.poll_recv(cx) else {
            let Some(silence) = &mut self.silence else { return Poll::Pending };
            let what = ready!(silence.poll(cx, false, false));
            return Poll::Ready(Some(Err(self.cut(what))));
        };
        if let Some(silence) = &mut self.silence {
            silence.heard();
        }
        let what = match part {
            Some(Part::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(Part::End) => {
                self.parts = None;
                return Poll::Ready(None);
            }
            Some(Part::Failed(_)) => "the function failed in the middle of it".to_owned(),
            Some(Part::TooLarge { limit }) => format!("it is larger than lambda.max_stream ({limit} bytes)"),
            None => "its instance ended, or missed its deadline".to_owned(),
        };
        Poll::Ready(Some(Err(self.cut(what))))
    }

    fn is_ended(&self) -> bool {
        self.parts.is_none() && self.first.is_empty()
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
