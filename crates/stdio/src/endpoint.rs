//! HTTP: which session or turn a request is for (MCP, "Streamable HTTP").

use crate::crew::Crew;
use crate::events::EventBody;
use crate::headers::{self, Accepted, CLIENT, From, LAST_EVENT_ID, REVISION, SESSION, STATELESS, WITH_SESSIONS};
use crate::message::{Kind, Malformed, Message, as_line, id_of, parse};
use crate::reply::{self, code};
use crate::session::{JSON_WITHIN, Session, Sessions};
use crate::settings::Mode;
use crate::turn::{Era, NoEra, NoPlace, Out, Rest, Turn, Turns, Until};
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderValue, VARY,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use pilotlight_pipe::{Body, Failure, Incoming};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::timeout;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const POST_ONLY: HeaderValue = HeaderValue::from_static("POST");
/// What a page may send besides what every page may.
const FIELDS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("mcp-session-id");
/// Seconds for which a browser remembers what a page may.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// What answers requests.
pub(crate) struct Endpoint {
    crew: Arc<Crew>,
    pub(crate) sessions: Arc<Sessions>,
    turns: Arc<Turns>,
}

/// An answer, or one that says why there is no other.
type Answered = Result<Response<Body>, Box<Response<Body>>>;

impl Endpoint {
    pub(crate) fn new(crew: Arc<Crew>) -> Self {
        Self { turns: Turns::new(Arc::clone(&crew)), sessions: <_>::default(), crew }
    }

    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        let (parts, body) = request.into_parts();
        let origin = headers::origin(&parts.headers, &self.crew.settings.options.origins);
        let mut response = match origin {
            From::Refused => {
                let why = "pages of this origin may not use this service; stdio.origins names those that may";
                return Ok(reply::refused(StatusCode::FORBIDDEN, None, code::INVALID, why));
            }
            From::Allowed(_) if parts.method == Method::OPTIONS => preflight(),
            From::Allowed(_) | From::NoPage => self.of_method(&parts, body).await?,
        };
        if let From::Allowed(origin) = origin
            && let Ok(origin) = HeaderValue::from_str(origin)
        {
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
            response.headers_mut().insert(VARY, HeaderValue::from_static("origin"));
        }
        Ok(response)
    }

    async fn of_method(&self, parts: &Parts, body: Incoming) -> Result<Response<Body>, Failure> {
        let mode = self.crew.settings.options.mode;
        let answered = match (mode, &parts.method) {
            (_, &Method::POST) => {
                let body = body.bytes(self.crew.settings.options.max_line).await?;
                match mode {
                    Mode::Mcp => self.post(&parts.headers, body).await,
                    Mode::Lines => self.line(&parts.headers, body).await,
                }
            }
            (Mode::Mcp, &Method::GET) => self.listen(&parts.headers),
            (Mode::Mcp, &Method::DELETE) => self.session(&parts.headers, None).map(|session| {
                session.delete();
                reply::empty(StatusCode::NO_CONTENT)
            }),
            (mode, _) => Err(not_allowed(mode).into()),
        };
        Ok(answered.unwrap_or_else(|refusal| *refusal))
    }

    async fn post(&self, fields: &HeaderMap, body: Bytes) -> Answered {
        let invalid = |status, why: &str| Box::new(reply::refused(status, None, code::INVALID, why));
        if !headers::is_json(fields) {
            return Err(invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has to be application/json"));
        }
        let accepted = headers::accepted(fields);
        if accepted == Accepted::default() {
            let why = "the client has to accept application/json and text/event-stream";
            return Err(invalid(StatusCode::NOT_ACCEPTABLE, why));
        }
        let messages = parse(body).map_err(|error| {
            let code = if error == Malformed::NotJson { code::PARSE } else { code::INVALID };
            reply::refused(StatusCode::BAD_REQUEST, None, code, &format!("the body: {error}"))
        })?;
        match &*messages {
            [message] if headers::is_stateless(fields, message) => self.stateless(fields, message, accepted).await,
            [message] if message.method() == Some("initialize") && !fields.contains_key(SESSION) => {
                self.initialize(fields, message, accepted).await
            }
            messages => {
                let id = messages.iter().find_map(Message::request_id);
                let session = self.session(fields, id)?;
                if messages.len() > 1 && !accepted.events {
                    return Err(invalid(StatusCode::NOT_ACCEPTABLE, "a batch is answered with an event stream"));
                }
                Ok(session.post(messages, accepted).await)
            }
        }
    }

    /// Begins a session.
    async fn initialize(&self, fields: &HeaderMap, message: &Message, accepted: Accepted) -> Answered {
        let id = message.request_id();
        let Some(place) = self.turns.place(|| self.sessions.make_room()).await else {
            let most = self.crew.settings.options.max_processes;
            let why = format!("{most} processes run already and are busy (stdio.max_processes): no session can begin");
            return Err(reply::refused(StatusCode::SERVICE_UNAVAILABLE, id, code::BUSY, &why).into());
        };
        let client = headers::text(fields, &CLIENT).unwrap_or_default();
        let session = self.sessions.start(&self.crew, place, client).map_err(|error| {
            eprintln!("pilotlight: error: {error}");
            reply::refused(StatusCode::BAD_GATEWAY, id, code::ENDED, &error.to_string())
        })?;
        let mut response = session.post(std::slice::from_ref(message), accepted).await;
        if let Ok(id) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(SESSION, id);
        }
        Ok(response)
    }

    /// The session of a request.
    fn session(&self, fields: &HeaderMap, id: Option<&Value>) -> Result<Arc<Session>, Box<Response<Body>>> {
        let bad = |why: &str| Box::new(reply::refused(StatusCode::BAD_REQUEST, id, code::INVALID, why));
        if fields.contains_key(REVISION) {
            let revision = headers::text(fields, &REVISION).unwrap_or_default();
            if !WITH_SESSIONS.contains(&revision) {
                return Err(bad(&format!("{REVISION} names none of {}", WITH_SESSIONS.join(", "))));
            }
        }
        if !fields.contains_key(SESSION) {
            return Err(bad("the field mcp-session-id is missing: begin a session with initialize"));
        }
        let name =
            headers::text(fields, &SESSION).ok_or_else(|| bad("the field mcp-session-id is no session's name"))?;
        self.sessions.find(name).ok_or_else(|| {
            let why = self.sessions.what_became_of(name);
            reply::refused(StatusCode::NOT_FOUND, id, code::ENDED, &why).into()
        })
    }

    fn listen(&self, fields: &HeaderMap) -> Answered {
        let invalid = |status, why: &str| Box::new(reply::refused(status, None, code::INVALID, why));
        let accepted = headers::accepted(fields);
        if !accepted.events && !accepted.any {
            return Err(invalid(StatusCode::NOT_ACCEPTABLE, "the client has to accept text/event-stream"));
        }
        let session = self.session(fields, None)?;
        let no_place = || invalid(StatusCode::BAD_REQUEST, "last-event-id names no event that is still kept");
        let after = match fields.contains_key(LAST_EVENT_ID) {
            false => None,
            true => Some(headers::text(fields, &LAST_EVENT_ID).and_then(|id| id.parse().ok()).ok_or_else(no_place)?),
        };
        session.listen(after).ok_or_else(no_place)
    }

    /// A request that says everything by itself (MCP since 2026-07-28).
    async fn stateless(&self, fields: &HeaderMap, message: &Message, accepted: Accepted) -> Answered {
        let Kind::Request { id, .. } = &message.kind else {
            // This revision has no message of a client but requests; there is nobody to give it to.
            return Ok(reply::empty(StatusCode::ACCEPTED));
        };
        if let Some(why) = headers::mismatch(fields, message) {
            return Err(reply::refused(StatusCode::BAD_REQUEST, Some(id), code::HEADER_MISMATCH, &why).into());
        }
        let era = self.turns.era(message.revision().unwrap_or(STATELESS)).await;
        let era = era.map_err(|error| match error {
            NoEra::NoPlace(error) => no_place(&error, Some(id)),
            NoEra::Failed => reply::refused(StatusCode::BAD_GATEWAY, Some(id), code::ENDED, &error.to_string()),
        })?;
        if era == Era::Sessions {
            let why = "the program speaks a revision of MCP with sessions: begin one with initialize";
            return Err(reply::refused(StatusCode::BAD_REQUEST, Some(id), code::INVALID, why).into());
        }
        let until = Until::Response { id: id.clone(), token: message.progress_token().cloned() };
        self.turn(Turn { line: message.text.clone(), until }, accepted).await
    }

    /// A line for a line.
    async fn line(&self, fields: &HeaderMap, body: Bytes) -> Answered {
        let bad = "the body has to be one line, or JSON";
        let line = as_line(&body).ok_or_else(|| said(StatusCode::BAD_REQUEST, bad))?;
        let kind = parse(line.clone()).ok().filter(|all| all.len() == 1).map(|mut all| all.remove(0).kind);
        let until = match kind {
            Some(Kind::Request { id, .. }) => Until::Id(id),
            Some(Kind::Notification { .. }) => Until::Written,
            Some(Kind::Response { .. }) | None => id_of(&line).map_or(Until::AnyLine, Until::Id),
        };
        self.turn(Turn { line, until }, headers::accepted(fields)).await
    }

    async fn turn(&self, turn: Turn, accepted: Accepted) -> Answered {
        let id = match &turn.until {
            Until::Response { id, .. } | Until::Id(id) => Some(id.clone()),
            Until::AnyLine | Until::Written => None,
        };
        let is_mcp = matches!(turn.until, Until::Response { .. });
        let is_answered = turn.until != Until::Written;
        // One that has ended before it has read anything is no answer: another one is asked, once.
        for _ in 0..2 {
            let mut out = self.turns.begin(turn.clone()).await.map_err(|error| no_place(&error, id.as_ref()))?;
            loop {
                let next = match accepted.events {
                    true => timeout(JSON_WITHIN, out.recv()).await,
                    false => Ok(out.recv().await),
                };
                match next {
                    Ok(Some(Out::Answer { text, code })) if is_mcp => {
                        return Ok(reply::json(reply::status_of(code.as_ref()), text));
                    }
                    Ok(Some(Out::Answer { text, .. })) => return Ok(line_answer(text)),
                    Ok(Some(Out::Failed(error))) => return Ok(reply::json(StatusCode::BAD_GATEWAY, error)),
                    Ok(Some(Out::Before(text))) if accepted.events => {
                        return Ok(reply::events(EventBody::new(Rest::of(out)).behind(text)));
                    }
                    Ok(Some(Out::Before(_))) => {}
                    Ok(None) if !is_answered => return Ok(reply::empty(StatusCode::ACCEPTED)),
                    Ok(None) => break,
                    Err(_) => return Ok(reply::events(EventBody::new(Rest::of(out)))),
                }
            }
        }
        let why = "the program ended before it had read the request";
        Err(reply::refused(StatusCode::BAD_GATEWAY, id.as_ref(), code::ENDED, why).into())
    }
}

fn line_answer(text: Bytes) -> Response<Body> {
    if serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok() {
        return reply::json(StatusCode::OK, text);
    }
    let mut line = text.to_vec();
    line.push(b'\n');
    reply::with_type(StatusCode::OK, TEXT, line.into())
}

fn said(status: StatusCode, why: &str) -> Response<Body> {
    reply::with_type(status, TEXT, format!("{why}\n").into())
}

fn no_place(error: &NoPlace, id: Option<&Value>) -> Response<Body> {
    let (status, code) = match error {
        NoPlace::Full(_) | NoPlace::Late(_) => (StatusCode::SERVICE_UNAVAILABLE, code::BUSY),
        NoPlace::NotStarted(_) => (StatusCode::BAD_GATEWAY, code::ENDED),
    };
    reply::refused(status, id, code, &error.to_string())
}

fn not_allowed(mode: Mode) -> Response<Body> {
    let (allow, why) = match mode {
        Mode::Mcp => (METHODS, "MCP uses POST, GET and DELETE"),
        Mode::Lines => (POST_ONLY, "a line for the program comes by POST"),
    };
    let mut response = said(StatusCode::METHOD_NOT_ALLOWED, why);
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// A browser asks what a page may do.
fn preflight() -> Response<Body> {
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_HEADERS, FIELDS);
    response.headers_mut().insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    response
}
