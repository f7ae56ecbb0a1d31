//! The routes: `/users` and `/users/:id`.

use crate::problem::Problem;
use crate::store::{Store, StoreError};
use crate::user::{NewUser, User};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use pilotlight_pipe::{BodyError, Failure, Incoming};
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_LIMIT: i64 = 100;
const DEFAULT_LIMIT: i64 = 20;
/// What a client is asked to wait when the queues are full.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The answer to `GET /users`.
#[derive(Serialize)]
struct List {
    page: i64,
    limit: i64,
    total: i64,
    users: Vec<User>,
}

/// Why a request has no good answer: the client's mistake, or the service's state, which the gateway answers for.
enum Error {
    Problem(Problem),
    Failure(Failure),
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::EmailTaken => Self::Problem(Problem::email_taken()),
            // Nothing was begun, so the gateway may try elsewhere.
            StoreError::Busy => {
                Self::Failure(Failure::Overloaded { retry_after: RETRY_AFTER, text: error.to_string() })
            }
            StoreError::Gone | StoreError::Sqlite(_) => {
                eprintln!("{error}");
                Self::Problem(Problem::internal("the database failed; the service's log says more".into()))
            }
        }
    }
}

/// Answers one request.
pub(crate) async fn handle(store: Rc<Store>, request: Request<Incoming>) -> Result<Response<Bytes>, Failure> {
    let (head, body) = request.into_parts();
    let body = match body.bytes(MAX_BODY_BYTES).await {
        Ok(body) => body,
        Err(BodyError::TooLarge { limit }) => return Ok(Problem::too_large(limit).into_response()),
        Err(error) => return Err(error.into()),
    };
    answer(&store, &head, &body).await
}

async fn answer(store: &Store, head: &Parts, body: &[u8]) -> Result<Response<Bytes>, Failure> {
    match route(store, head, body).await {
        Ok(response) => Ok(response),
        Err(Error::Problem(problem)) => Ok(problem.into_response()),
        Err(Error::Failure(failure)) => Err(failure),
    }
}

async fn route(store: &Store, head: &Parts, body: &[u8]) -> Result<Response<Bytes>, Error> {
    let path = head.uri.path();
    if path == "/users" {
        return match head.method {
            Method::GET | Method::HEAD => list(store, head).await,
            Method::POST => create(store, head, body).await,
            _ => Err(Problem::method("GET, HEAD, POST").into()),
        };
    }
    let Some(text) = path.strip_prefix("/users/").filter(|text| !text.contains('/')) else {
        return Err(Problem::not_found(format!("there is nothing at {path}")).into());
    };
    let id = text.parse().ok().filter(|id| *id > 0);
    let id = id.ok_or_else(|| Problem::bad_request(Some("id"), format!("{text:?} is not a positive number")))?;
    let missing = || Error::from(Problem::not_found(format!("there is no user {id}")));
    match head.method {
        Method::GET | Method::HEAD => readable(head, &store.find(id).await?.ok_or_else(missing)?),
        Method::PUT => {
            let new = new_user(head, body)?;
            Ok(json_response(StatusCode::OK, to_json(&store.replace(id, new).await?.ok_or_else(missing)?)?))
        }
        Method::DELETE if store.delete(id).await? => {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::NO_CONTENT;
            Ok(response)
        }
        Method::DELETE => Err(missing()),
        _ => Err(Problem::method("GET, HEAD, PUT, DELETE").into()),
    }
}

async fn list(store: &Store, head: &Parts) -> Result<Response<Bytes>, Error> {
    let query = head.uri.query().unwrap_or_default();
    let page = parameter(query, "page", 1, i64::MAX / MAX_LIMIT)?;
    let limit = parameter(query, "limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let found = store.list((page - 1) * limit, limit).await?;
    let total = found.total;
    readable(head, &List { page, limit, total, users: found.users })
}

async fn create(store: &Store, head: &Parts, body: &[u8]) -> Result<Response<Bytes>, Error> {
    let user = store.create(new_user(head, body)?).await?;
    let mut response = json_response(StatusCode::CREATED, to_json(&user)?);
    if let Ok(location) = HeaderValue::try_from(format!("/users/{}", user.id)) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
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
    let given = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    let Some((_, text)) = given else { return Ok(default) };
    let value = text.parse().ok().filter(|value| (1..=max).contains(value));
    value.ok_or_else(|| Problem::bad_request(Some(name), format!("{text:?} is not a number from 1 to {max}")))
}

/// The answer to GET and HEAD: with an entity tag, and without a body when the client has it (RFC 9110 §13.1.2).
fn readable(head: &Parts, value: &impl Serialize) -> Result<Response<Bytes>, Error> {
    let body = to_json(value)?;
    let mut hash = DefaultHasher::new();
    body.hash(&mut hash);
    let tag = format!("\"{:016x}\"", hash.finish());
    let known = |value: &HeaderValue| value.to_str().is_ok_and(|tags| tags.trim() == "*" || tags.contains(&tag));
    let not_modified = head.headers.get_all(IF_NONE_MATCH).iter().any(known);
    let length = body.len();
    let mut response = json_response(StatusCode::OK, body);
    if let Ok(tag) = HeaderValue::try_from(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    if not_modified {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(CONTENT_TYPE);
        response.body_mut().clear();
    } else if head.method == Method::HEAD {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
        response.body_mut().clear();
    }
    Ok(response)
}

fn to_json(value: &impl Serialize) -> Result<Bytes, Error> {
    let body = serde_json::to_vec(value).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(body.into())
}

fn json_response(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    struct Fixture {
        store: Store,
        _folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(&folder.path().join("users.db")).unwrap();
            Self { store, _folder: folder }
        }

        fn send(&self, request: Request<&str>) -> (StatusCode, http::HeaderMap, Value) {
            let (head, body) = request.into_parts();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let response = runtime.block_on(answer(&self.store, &head, body.as_bytes())).unwrap();
            let (head, body) = response.into_parts();
            (head.status, head.headers, serde_json::from_slice(&body).unwrap_or_default())
        }

        fn get(&self, target: &str) -> (StatusCode, http::HeaderMap, Value) {
            self.send(Request::get(target).body("").unwrap())
        }

        #[track_caller]
        fn check(&self, method: &str, target: &str, body: &str, status: u16, field: Option<&str>) {
            let request = Request::builder().method(method).uri(target).header(CONTENT_TYPE, "application/json");
            let (seen, headers, problem) = self.send(request.body(body).unwrap());
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
        let again = Request::get("/users/2").header(IF_NONE_MATCH, &headers[ETAG]).body("").unwrap();
        assert_eq!(users.send(again).0, StatusCode::NOT_MODIFIED);
        let (_, _, page) = users.get("/users?page=500&limit=20");
        assert_eq!((&page["total"], page["users"].as_array().map(Vec::len)), (&json!(10_000), Some(20)));
        assert_eq!(page["users"][19]["id"], 10_000);
        assert_eq!(users.get("/users").2["users"][0]["id"], 1);
        let (status, headers, body) = users.send(Request::head("/users/2").body("").unwrap());
        assert_eq!((status, body), (StatusCode::OK, Value::Null));
        assert_ne!(headers[CONTENT_LENGTH], "0");
    }

    #[test]
    fn writes() {
        let users = Fixture::new();
        let json = |method: &str, target: &str, body: &'static str| {
            let kind = "Application/JSON; charset=utf-8";
            users.send(Request::builder().method(method).uri(target).header(CONTENT_TYPE, kind).body(body).unwrap())
        };
        let (status, headers, user) = json("POST", "/users", r#"{"name":"N","email":"n@example.org"}"#);
        assert_eq!((status, headers[LOCATION].as_bytes()), (StatusCode::CREATED, &b"/users/10001"[..]));
        assert_eq!((&user["id"], &user["bio"]), (&json!(10_001), &Value::Null));
        let (status, _, user) = json("PUT", "/users/10001", r#"{"name":"M","email":"n@example.org","bio":"b"}"#);
        assert_eq!((status, &user["name"], &user["bio"]), (StatusCode::OK, &json!("M"), &json!("b")));
        assert_eq!(users.get("/users/10001").2, user);
        assert_eq!(json("DELETE", "/users/10001", "").0, StatusCode::NO_CONTENT);
        assert_eq!(users.get("/users/10001").0, StatusCode::NOT_FOUND);
    }

    #[test]
    fn problems() {
        let users = Fixture::new();
        users.check("GET", "/users/0", "", 400, Some("id"));
        users.check("GET", "/users/x", "", 400, Some("id"));
        users.check("GET", "/users?limit=101", "", 400, Some("limit"));
        users.check("GET", "/users?page=0", "", 400, Some("page"));
        users.check("GET", "/users/10001", "", 404, None);
        users.check("GET", "/users/1/x", "", 404, None);
        users.check("GET", "/", "", 404, None);
        users.check("PATCH", "/users/1", "", 405, None);
        users.check("DELETE", "/users", "", 405, None);
        users.check("POST", "/users", "{", 400, None);
        users.check("POST", "/users", r#"{"name":"A","email":"ada.allen.1@example.org"}"#, 409, Some("email"));
        users.check("PUT", "/users/2", r#"{"name":"A","email":"ada.allen.1@example.org"}"#, 409, Some("email"));
        users.check("PUT", "/users/99999", r#"{"name":"A","email":"a@b"}"#, 404, None);
        users.check("POST", "/users", r#"{"name":"","email":"a@b"}"#, 422, Some("name"));
        let (status, _, problem) = users.send(Request::post("/users").body("{}").unwrap());
        assert_eq!((status.as_u16(), &problem["field"]), (415, &json!("content-type")));
    }
}
