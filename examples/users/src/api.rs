//! The routes: `/users`, `/users/{id}` and `/openapi.json`. It knows requests and answers, not how they came.

use std::hash::Hasher as _;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use rustc_hash::FxHasher;

use crate::cache::{Cache, Lookup};
use crate::json::{self, USER_ROOM};
use crate::problem::Problem;
use crate::store::{Change, Changed, Reader, StoreError, Writer};
use crate::user::NewUser;

/// The longest body of a request.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;
/// What a client is asked to wait when too much waits, or the database is locked.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);
const MAX_LIMIT: i64 = 100;
const DEFAULT_LIMIT: i64 = 20;
const MAX_PAGE: i64 = 1_000_000_000;
const OPENAPI: &str = include_str!("openapi.json");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What one thread answers requests with.
#[derive(Debug)]
pub(crate) struct Api {
    reader: Reader,
    writer: Writer,
    cache: Cache,
}

/// Why a request has no good answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    Problem(Problem),
    /// Too much waits; nothing was begun.
    Overloaded(String),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy { .. } => Self::Overloaded(error.to_string()),
            error => {
                if let StoreError::Gone | StoreError::Failed(_) = error {
                    eprintln!("users: {error}");
                }
                Self::Problem(Problem::of_store(&error, RETRY_AFTER.as_secs() as u32))
            }
        }
    }
}

type Answer = Result<Response<Bytes>, Refusal>;

impl Api {
    pub(crate) fn new(reader: Reader, writer: Writer, cache: Cache) -> Self {
        Self { reader, writer, cache }
    }

    /// Begins what has to be done beside requests. Needs a `LocalSet`.
    pub(crate) fn start(&self) {
        let cache = self.cache.clone();
        tokio::task::spawn_local(async move { cache.repeat_removals().await });
    }

    /// Answers one request. Needs a `LocalSet`: a write goes on when its client has gone.
    pub(crate) async fn answer(self: &Rc<Self>, head: &Parts, body: Bytes) -> Answer {
        let path = head.uri.path();
        if path == "/users" {
            return match head.method {
                Method::GET | Method::HEAD => self.page(head),
                Method::POST => self.write(Change::Create(new_user(head, &body)?)).await,
                _ => Err(Problem::method("GET, HEAD, POST").into()),
            };
        }
        if path == "/openapi.json" {
            return match head.method {
                Method::GET | Method::HEAD => Ok(readable(head, Bytes::from_static(OPENAPI.as_bytes()))),
                _ => Err(Problem::method("GET, HEAD").into()),
            };
        }
        let Some(text) = path.strip_prefix("/users/").filter(|text| !text.contains('/')) else {
            return Err(Problem::not_found(format!("there is nothing at {path}")).into());
        };
        let id = || {
            let id = digits(text).filter(|id| *id > 0);
            id.ok_or_else(|| Problem::bad_request(Some("id"), format!("{text:?} is not a positive number")))
        };
        match head.method {
            Method::GET | Method::HEAD => self.one(head, id()?).await,
            Method::PUT => self.write(Change::Replace(id()?, new_user(head, &body)?)).await,
            Method::DELETE => self.write(Change::Delete(id()?)).await,
            _ => Err(Problem::method("GET, HEAD, PUT, DELETE").into()),
        }
    }

    async fn one(&self, head: &Parts, id: i64) -> Answer {
        let lease = match self.cache.look_up(id).await {
            Lookup::Hit(user) => return Ok(readable(head, user)),
            Lookup::Miss(lease) => lease,
        };
        let user = Bytes::from(self.reader.one(id)?.ok_or_else(|| missing(id))?);
        if let Some(lease) = lease {
            self.cache.keep(id, lease, &user).await;
        }
        Ok(readable(head, user))
    }

    fn page(&self, head: &Parts) -> Answer {
        let query = head.uri.query().unwrap_or_default();
        let page = parameter(query, "page", 1, MAX_PAGE)?;
        let limit = parameter(query, "limit", DEFAULT_LIMIT, MAX_LIMIT)?;
        let mut out = Vec::with_capacity(USER_ROOM * limit as usize);
        out.extend_from_slice(b"{\"page\":");
        json::number(&mut out, page);
        out.extend_from_slice(b",\"limit\":");
        json::number(&mut out, limit);
        out.extend_from_slice(b",\"users\":");
        self.reader.page(&mut out, (page - 1) * limit, limit)?;
        out.push(b'}');
        Ok(readable(head, out.into()))
    }

    async fn write(self: &Rc<Self>, change: Change) -> Answer {
        let api = Rc::clone(self);
        // A task of its own: a client that goes away must not end the claim before the commit.
        let done = tokio::task::spawn_local(async move { api.change(change).await }).await;
        done.unwrap_or_else(|_| Err(StoreError::Gone.into()))
    }

    async fn change(&self, change: Change) -> Answer {
        let id = match &change {
            Change::Create(_) => None,
            Change::Replace(id, _) | Change::Delete(id) => Some(*id),
        };
        let write = self.writer.change(change);
        let changed = match id {
            Some(id) => self.cache.write(id, write).await?,
            // Nobody puts a user who is not there.
            None => write.await?,
        };
        match (changed, id) {
            (Changed::Created { id, json }, _) => {
                let mut response = with_json(json.into());
                *response.status_mut() = StatusCode::CREATED;
                if let Ok(location) = HeaderValue::try_from(format!("/users/{id}")) {
                    response.headers_mut().insert(LOCATION, location);
                }
                Ok(response)
            }
            (Changed::Replaced { json }, _) => Ok(with_json(json.into())),
            (Changed::Deleted, _) => {
                let mut response = Response::new(Bytes::new());
                *response.status_mut() = StatusCode::NO_CONTENT;
                Ok(response)
            }
            (Changed::Missing, id) => Err(missing(id.unwrap_or_default()).into()),
        }
    }
}

fn missing(id: i64) -> Problem {
    Problem::not_found(format!("there is no user {id}"))
}

fn new_user(head: &Parts, body: &[u8]) -> Result<NewUser, Problem> {
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Problem::media_type());
    }
    NewUser::parse(body)
}

/// A number of the query, from 1 to `max`.
fn parameter(query: &str, name: &'static str, default: i64, max: i64) -> Result<i64, Problem> {
    let given = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).find(|(key, _)| *key == name);
    let Some((_, text)) = given else { return Ok(default) };
    let value = digits(text).filter(|value| (1..=max).contains(value));
    value.ok_or_else(|| Problem::bad_request(Some(name), format!("{text:?} is not a number from 1 to {max}")))
}

/// A number without a sign.
fn digits(text: &str) -> Option<i64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// The answer to GET and HEAD: with an entity tag, and without a body when the client has it (RFC 9110 §13.1.2).
fn readable(head: &Parts, body: Bytes) -> Response<Bytes> {
    let tag = entity_tag(&body);
    let known = |value: &HeaderValue| {
        let tag = tag.to_str().unwrap_or_default();
        value.to_str().is_ok_and(|tags| tags.trim() == "*" || tags.contains(tag))
    };
    if head.headers.get_all(IF_NONE_MATCH).iter().any(known) {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().insert(ETAG, tag);
        return response;
    }
    let length = body.len();
    let mut response = with_json(body);
    response.headers_mut().insert(ETAG, tag);
    if head.method == Method::HEAD {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
        response.body_mut().clear();
    }
    response
}

fn entity_tag(body: &[u8]) -> HeaderValue {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut hash = FxHasher::default();
    hash.write(body);
    let mut tag = [b'"'; 18];
    for (place, byte) in tag[1..17].chunks_exact_mut(2).zip(hash.finish().to_be_bytes()) {
        place.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    HeaderValue::from_bytes(&tag).unwrap_or(HeaderValue::from_static("\"\""))
}

fn with_json(body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Shared;
    use crate::store::{Store, StoreSettings};
    use http::Request;
    use serde_json::{Value, json};

    struct Fixture {
        api: Rc<Api>,
        runtime: tokio::runtime::Runtime,
        _store: Store,
        _folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let settings = StoreSettings { max_waiting_writes: 16, lock_wait: Duration::from_secs(5), index: true };
            let store = Store::open(&folder.path().join("users.db"), settings).unwrap();
            let handle = store.handle();
            let cache = Shared::memory(1 << 20).worker().unwrap();
            let api = Rc::new(Api::new(handle.reader().unwrap(), handle.writer(), cache));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            Self { api, runtime, _store: store, _folder: folder }
        }

        fn send(&self, request: Request<&'static str>) -> (StatusCode, http::HeaderMap, Value) {
            let (head, body) = request.into_parts();
            let answer = self.api.answer(&head, Bytes::from_static(body.as_bytes()));
            let answer = tokio::task::LocalSet::new().block_on(&self.runtime, answer);
            let response = match answer {
                Ok(response) => response,
                Err(Refusal::Problem(problem)) => problem.into_response(),
                Err(Refusal::Overloaded(text)) => panic!("{text}"),
            };
            let (head, body) = response.into_parts();
            (head.status, head.headers, serde_json::from_slice(&body).unwrap_or_default())
        }

        fn get(&self, target: &str) -> (StatusCode, http::HeaderMap, Value) {
            self.send(Request::get(target).body("").unwrap())
        }

        fn json(&self, method: &str, target: &str, body: &'static str) -> (StatusCode, http::HeaderMap, Value) {
            let kind = "Application/JSON; charset=utf-8";
            self.send(Request::builder().method(method).uri(target).header(CONTENT_TYPE, kind).body(body).unwrap())
        }

        #[track_caller]
        fn check(&self, method: &str, target: &str, body: &'static str, status: u16, field: Option<&str>) {
            let (seen, headers, problem) = self.json(method, target, body);
            assert_eq!((seen.as_u16(), problem["field"].as_str()), (status, field), "{problem}");
            assert_eq!(headers[CONTENT_TYPE], "application/problem+json");
            assert_eq!(problem["status"], status);
        }
    }

    #[test]
    fn reads() {
        let users = Fixture::new();
        let (status, headers, user) = users.get("/users/2");
        assert_eq!((status, headers[CONTENT_TYPE].as_bytes()), (StatusCode::OK, &b"application/json"[..]));
        let expected = json!({
            "id": 2, "name": "Alan Allen", "email": "alan.allen.2@example.org",
            "bio": "Alan is number 2 and likes small, fast services.", "createdAt": "2024-01-01T00:00:00Z",
        });
        assert_eq!(user, expected);
        assert_eq!(users.get("/users/2"), (status, headers.clone(), expected), "from the cache");
        let again = Request::get("/users/2").header(IF_NONE_MATCH, &headers[ETAG]).body("").unwrap();
        assert_eq!(users.send(again).0, StatusCode::NOT_MODIFIED);
        let (_, _, page) = users.get("/users?page=500&limit=20");
        assert_eq!((&page["page"], &page["limit"]), (&json!(500), &json!(20)));
        assert_eq!((&page["users"][0]["id"], &page["users"][19]["id"]), (&json!(9981), &json!(10_000)));
        assert_eq!(users.get("/users?page=501&limit=20").2["users"], json!([]));
        assert_eq!(users.get("/users").2["users"][0]["id"], 1);
        let (status, headers, body) = users.send(Request::head("/users/2").body("").unwrap());
        assert_eq!((status, body), (StatusCode::OK, Value::Null));
        assert_ne!(headers[CONTENT_LENGTH], "0");
    }

    #[test]
    fn writes() {
        let users = Fixture::new();
        let (status, headers, user) = users.json("POST", "/users", r#"{"name":"N","email":"n@example.org"}"#);
        assert_eq!((status, headers[LOCATION].as_bytes()), (StatusCode::CREATED, &b"/users/10001"[..]));
        assert_eq!((&user["id"], &user["bio"]), (&json!(10_001), &Value::Null));
        assert_eq!(users.get("/users/10001").2, user);
        let (status, _, user) = users.json("PUT", "/users/10001", r#"{"name":"M","email":"n@example.org","bio":"b"}"#);
        assert_eq!((status, &user["name"], &user["bio"]), (StatusCode::OK, &json!("M"), &json!("b")));
        assert_eq!(users.get("/users/10001").2, user);
        assert_eq!(users.json("DELETE", "/users/10001", "").0, StatusCode::NO_CONTENT);
        assert_eq!(users.get("/users/10001").0, StatusCode::NOT_FOUND);
    }

    #[test]
    fn problems() {
        let users = Fixture::new();
        for id in ["0", "x", "-1", "+1", "", "9223372036854775808"] {
            users.check("GET", &format!("/users/{id}"), "", 400, Some("id"));
        }
        users.check("GET", "/users?limit=101", "", 400, Some("limit"));
        users.check("GET", "/users?page=0", "", 400, Some("page"));
        users.check("GET", "/users?page", "", 400, Some("page"));
        users.check("GET", "/users/10001", "", 404, None);
        users.check("GET", "/users/1/x", "", 404, None);
        users.check("GET", "/", "", 404, None);
        users.check("PATCH", "/users/1", "", 405, None);
        users.check("DELETE", "/users", "", 405, None);
        users.check("POST", "/openapi.json", "", 405, None);
        users.check("POST", "/users", "{", 400, None);
        users.check("POST", "/users", r#"{"name":"A","email":"ada.allen.1@example.org"}"#, 409, Some("email"));
        users.check("PUT", "/users/2", r#"{"name":"A","email":"ada.allen.1@example.org"}"#, 409, Some("email"));
        users.check("PUT", "/users/99999", r#"{"name":"A","email":"a@b"}"#, 404, None);
        users.check("POST", "/users", r#"{"name":"","email":"a@b"}"#, 422, Some("name"));
        let (status, _, problem) = users.send(Request::post("/users").body("{}").unwrap());
        assert_eq!((status.as_u16(), &problem["field"]), (415, &json!("content-type")));
    }

    #[test]
    fn the_document_says_what_is_checked() {
        let users = Fixture::new();
        let (status, _, document) = users.get("/openapi.json");
        assert_eq!((status, &document["openapi"]), (StatusCode::OK, &json!("3.1.0")));
        let limit = &document["paths"]["/users"]["get"]["parameters"][1]["schema"];
        assert_eq!((&limit["maximum"], &limit["default"]), (&json!(MAX_LIMIT), &json!(DEFAULT_LIMIT)));
        assert_eq!(document["paths"]["/users"]["get"]["parameters"][0]["schema"]["maximum"], json!(MAX_PAGE));
    }
}
