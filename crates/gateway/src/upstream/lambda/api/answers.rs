//! Calls with results and errors.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use pilotlight_lambda::{FunctionError, Input, MAX_ERROR, Output};
use tokio::sync::mpsc;

use super::{Api, CallGuard, accepted, refused, replies};
use crate::upstream::lambda::invocation::{InvokeError, MAX_PIECES, Outcome, OutcomeBody, Part};

const RESPONSE_MODE: HeaderName = HeaderName::from_static("lambda-runtime-function-response-mode");
const ERROR_TYPE: HeaderName = HeaderName::from_static("lambda-runtime-function-error-type");
const ERROR_BODY: HeaderName = HeaderName::from_static("lambda-runtime-function-error-body");

/// What was read of a call's body.
enum Read {
    Whole(Bytes),
    TooLarge,
    Broken,
}

/// How a stream ended.
enum Streamed {
    End,
    Failed(FunctionError),
    TooLarge,
    Broken,
}

impl Api {
    /// The result of an invocation.
    pub(super) async fn response(&self, id: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let mut guard = self.begin();
        if let Output::Refuse(why) = self.state.borrow_mut().runtime.step(Input::Answer(guard.call, id)) {
            return refused(why);
        }
        let (parts, body) = request.into_parts();
        let is_stream =
            parts.headers.get(RESPONSE_MODE).is_some_and(|mode| mode.as_bytes().eq_ignore_ascii_case(b"streaming"));
        match is_stream {
            true => self.stream(&mut guard, id, &parts.headers, body).await,
            false => self.result(&mut guard, &parts.headers, body).await,
        }
    }

    async fn result(&self, guard: &mut CallGuard<'_>, fields: &HeaderMap, body: Incoming) -> Response<Full<Bytes>> {
        let limit = self.state.borrow().current.as_ref().map_or(0, |current| current.max_payload);
        match read(body, limit).await {
            Read::Whole(result) => {
                let body = OutcomeBody::Whole(result);
                self.answered(guard, Ok(Outcome { content_type: content_type(fields), body }));
                accepted()
            }
            Read::TooLarge => {
                self.answered(guard, Err(InvokeError::TooLarge { limit }));
                replies::too_large(limit as u64)
            }
            Read::Broken => refused(pilotlight_lambda::Refusal::Over), // nobody reads it; the guard knows
        }
    }

    /// A streamed result: its parts go on as the client takes them.
    async fn stream(
        &self,
        guard: &mut CallGuard<'_>,
        id: &str,
        fields: &HeaderMap,
        body: Incoming,
    ) -> Response<Full<Bytes>> {
        let (sender, parts) = mpsc::channel(MAX_PIECES);
        let limit = {
            let mut state = self.state.borrow_mut();
            let Some(current) = &mut state.current else { return refused(pilotlight_lambda::Refusal::UnknownId) };
            let outcome = Outcome { content_type: content_type(fields), body: OutcomeBody::Stream(parts) };
            if let Some(reply) = current.reply.take() {
                let _ = reply.send(Ok(outcome)); // a client that has gone: the stream is read and thrown away
            }
            current.max_stream
        };
        let streamed = pass_on(body, limit, &sender).await;
        let (last, response) = match streamed {
            Streamed::End => (Part::End, accepted()),
            Streamed::Failed(error) => {
                self.note_failure(id, &error);
                (Part::Failed(Box::new(error)), accepted())
            }
            Streamed::TooLarge => (Part::TooLarge { limit }, replies::too_large(limit)),
            Streamed::Broken => return refused(pilotlight_lambda::Refusal::Over), // nobody reads it; the guard knows
        };
        let _ = sender.send(last).await; // nobody may wait for it any more
        self.done(guard);
        response
    }

    /// The invocation failed, as the function says.
    pub(super) async fn error(&self, id: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let mut guard = self.begin();
        if let Output::Refuse(why) = self.state.borrow_mut().runtime.step(Input::Answer(guard.call, id)) {
            return refused(why);
        }
        let (parts, body) = request.into_parts();
        let Some(text) = read_error(body).await else { return refused(pilotlight_lambda::Refusal::Over) };
        let error = FunctionError::read(error_type(&parts.headers), &text);
        self.note_failure(id, &error);
        self.answered(&mut guard, Err(InvokeError::Function(Box::new(error))));
        accepted()
    }

    /// The function could not be initialised, as it says.
    pub(super) async fn init_error(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let guard = self.begin();
        if let Output::Refuse(why) = self.state.borrow_mut().runtime.step(Input::InitError(guard.call)) {
            return refused(why);
        }
        let (parts, body) = request.into_parts();
        let text = read_error(body).await.unwrap_or_default();
        self.instance.report_init_error(FunctionError::read(error_type(&parts.headers), &text).lines());
        accepted()
    }

    fn answered(&self, guard: &mut CallGuard<'_>, outcome: Result<Outcome, InvokeError>) {
        let reply = self.state.borrow_mut().current.as_mut().and_then(|current| current.reply.take());
        if let Some(reply) = reply {
            let _ = reply.send(outcome); // nobody may wait for it any more
        }
        self.done(guard);
    }

    /// The call with the answer is over, and the place at the instance free.
    fn done(&self, guard: &mut CallGuard<'_>) {
        guard.is_open = false;
        let mut state = self.state.borrow_mut();
        let current = match state.runtime.step(Input::Answered(guard.call)) {
            pilotlight_lambda::Output::Done => state.current.take(),
            _ => None,
        };
        drop(state);
        drop(current); // its lease may make room for the next, which comes here
    }
}

/// Sends the parts of a stream to who waits for them.
async fn pass_on(mut body: Incoming, limit: u64, to: &mpsc::Sender<Part>) -> Streamed {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Streamed::Broken };
        match frame.into_data() {
            Ok(data) => {
                length += data.len() as u64;
                if length > limit {
                    return Streamed::TooLarge;
                }
                if !data.is_empty() {
                    let _ = to.send(Part::Data(data)).await; // read to its end even if nobody waits for it
                }
            }
            Err(frame) => {
                let Ok(trailers) = frame.into_trailers() else { continue };
                if let Some(error) = stream_error(&trailers) {
                    return Streamed::Failed(error);
                }
            }
        }
    }
    Streamed::End
}

/// What the trailers say of a failure in the middle of a stream. The body is base64 of JSON.
fn stream_error(trailers: &HeaderMap) -> Option<FunctionError> {
    use base64::Engine as _;

    let kind = error_type(trailers)?;
    let body = trailers.get(ERROR_BODY).map(|body| body.as_bytes()).unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(body);
    Some(FunctionError::read(Some(kind), decoded.as_deref().unwrap_or(body)))
}

fn error_type(fields: &HeaderMap) -> Option<&[u8]> {
    fields.get(ERROR_TYPE).map(|kind| kind.as_bytes())
}

fn content_type(fields: &HeaderMap) -> Vec<u8> {
    fields.get(CONTENT_TYPE).map(|value| value.as_bytes().to_vec()).unwrap_or_default()
}

/// The body of a call, if it has at most so many bytes.
async fn read(mut body: Incoming, limit: usize) -> Read {
    if body.size_hint().lower() > limit as u64 {
        return Read::TooLarge;
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Read::Broken };
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > limit {
            return Read::TooLarge;
        }
        if read.is_empty() && body.is_end_stream() {
            return Read::Whole(data);
        }
        read.extend_from_slice(&data);
    }
    Read::Whole(read.freeze())
}

/// The begin of an error's body; none: it broke off.
async fn read_error(body: Incoming) -> Option<Bytes> {
    match read(body, MAX_ERROR).await {
        Read::Whole(text) => Some(text),
        Read::TooLarge => Some(Bytes::from_static(b"its description is too long")),
        Read::Broken => None,
    }
}
