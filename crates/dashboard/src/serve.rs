//! The server on 127.0.0.1: the page, sessions, and requests that are passed on.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{self, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HeaderName, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::allowed::is_allowed;
use crate::guard::{check_host, check_site};
use crate::page::Page;
use crate::pass::{Asked, Passed, pass};
use crate::sessions::{Secret, Session, Sessions};

/// Connections of browsers at once; more wait.
pub const MAX_CONNECTIONS: usize = 64;
/// Bytes of a request's body: what the admin interface takes, too.
const MAX_BODY: usize = 64 * 1024;
/// How long a request's head may take, and a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long the gateway may take for the head of an answer.
const ANSWER_TIME: Duration = Duration::from_secs(15);
/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Makes a connection to the admin socket of the gateway. It may block.
pub type Connect = dyn Fn() -> io::Result<std::os::unix::net::UnixStream> + Send + Sync;

/// A dashboard that is listening.
pub struct Dashboard {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    port: u16,
    page: Page,
    sessions: Mutex<Sessions>,
    connect: Arc<Connect>,
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dashboard {
    /// Listens on 127.0.0.1; with port 0 on a free one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn bind(port: u16, connect: Arc<Connect>) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        listener.set_nonblocking(true)?;
        let page = Page::new().map_err(io::Error::other)?;
        let port = listener.local_addr()?.port();
        let shared = Shared { port, page, sessions: Mutex::default(), connect };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Makes links that open the dashboard, each once and within [`crate::sessions::LINK_TIME`]. A new one takes the
    /// place of the one before. Its secret is in the fragment, which browsers send to nobody.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn links(&self) -> impl Fn() -> io::Result<String> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            let key = Secret::random().map_err(io::Error::other)?;
            let link = format!("http://127.0.0.1:{}/#{}", shared.port, key.as_str());
            shared.sessions().offer(key, Instant::now());
            Ok(link)
        }
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// The listener cannot be used.
    ///
    /// # Cancel safety
    /// Every connection is closed.
    pub async fn serve(self) -> io::Result<Infallible> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let mut open = JoinSet::new();
        loop {
            while open.try_join_next().is_some() {}
            if open.len() >= MAX_CONNECTIONS {
                open.join_next().await;
                continue;
            }
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let shared = Arc::clone(&self.shared);
            open.spawn(async move {
                let service = service_fn(move |request| {
                    let shared = Arc::clone(&shared);
                    async move { Ok::<_, Infallible>(answer(&shared, request).await) }
                });
                // A browser that goes, or is too slow, is no concern of anybody's.
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIME)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }
}

enum Body {
    Own(Option<Bytes>),
    Passed(Box<Passed>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Passed(passed) => passed.poll(cx),
        }
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Body> {
    let mut response = match respond(shared, request).await {
        Ok(response) => response,
        Err(Refused(status, detail)) => problem(status, &detail),
    };
    let fields = response.headers_mut();
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(header::CONTENT_SECURITY_POLICY, shared.page.policy.clone());
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    fields.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    fields.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    response
}

struct Refused(StatusCode, String);

async fn respond(shared: &Shared, request: Request<Incoming>) -> Result<Response<Body>, Refused> {
    let stranger = |stranger: crate::guard::Stranger| Refused(StatusCode::FORBIDDEN, stranger.to_string());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    check_host(request.headers(), shared.port).map_err(stranger)?;
    if method == Method::GET && path == "/" {
        return Ok(own(StatusCode::OK, "text/html; charset=utf-8", shared.page.html.clone()));
    }
    check_site(&method, request.headers()).map_err(stranger)?;
    if method == Method::POST && path == "/session" {
        let key = whole(request.into_body()).await?;
        return begin(shared, &String::from_utf8_lossy(&key));
    }
    if !is_open(shared, request.headers()) {
        let detail = "this dashboard is not open; open the link that `pilotlight ui` prints";
        return Err(Refused(StatusCode::UNAUTHORIZED, detail.to_owned()));
    }
    if !is_allowed(&method, &path) {
        return Err(Refused(StatusCode::NOT_FOUND, format!("the dashboard has no {method} {path}")));
    }
    let target = request.uri().path_and_query().map_or(path, |target| target.as_str().to_owned());
    let body = whole(request.into_body()).await?;
    passed_on(shared, Asked { method, target, body }).await
}

/// Takes a link's key for a session.
fn begin(shared: &Shared, key: &str) -> Result<Response<Body>, Refused> {
    let failed = |e: getrandom::Error| Refused(StatusCode::INTERNAL_SERVER_ERROR, e.to_string());
    let session = Session { cookie: Secret::random().map_err(failed)?, token: Secret::random().map_err(failed)? };
    if !shared.sessions().redeem(key, session.clone(), Instant::now()) {
        let detail = "this link was opened before, or is older than five minutes, or another one has replaced it";
        return Err(Refused(StatusCode::UNAUTHORIZED, detail.to_owned()));
    }
    let body = json!({ "token": session.token.as_str() }).to_string();
    let mut response = own(StatusCode::OK, "application/json", body.into());
    let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(shared.port), session.cookie.as_str());
    let cookie =
        HeaderValue::try_from(cookie).map_err(|e| Refused(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

/// Dashboards of several gateways have ports of their own, and share the cookies of the host.
fn cookie_name(port: u16) -> String {
    format!("pilotlight-ui-{port}")
}

fn is_open(shared: &Shared, headers: &HeaderMap) -> bool {
    let name = cookie_name(shared.port);
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let Some((_, cookie)) = pairs.find(|(key, _)| *key == name) else { return false };
    let token = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    token.is_some_and(|token| shared.sessions().is_open(cookie, token))
}

async fn passed_on(shared: &Shared, asked: Asked) -> Result<Response<Body>, Refused> {
    let away = |e: io::Error| Refused(StatusCode::BAD_GATEWAY, format!("the gateway does not answer: {e}"));
    let connect = Arc::clone(&shared.connect);
    let connected = async {
        let stream = tokio::task::spawn_blocking(move || connect()).await.map_err(io::Error::other)??;
        stream.set_nonblocking(true)?;
        pass(UnixStream::from_std(stream)?, asked).await
    };
    let answer = match tokio::time::timeout(ANSWER_TIME, connected).await {
        Ok(answer) => answer.map_err(away)?,
        Err(_) => return Err(away(io::ErrorKind::TimedOut.into())),
    };
    let (head, body) = answer.into_parts();
    let mut response = Response::new(Body::Passed(Box::new(body)));
    *response.status_mut() = head.status;
    if let Some(content_type) = head.headers.get(CONTENT_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, content_type.clone());
    }
    Ok(response)
}

async fn whole(body: Incoming) -> Result<Bytes, Refused> {
    let reading = Limited::new(body, MAX_BODY).collect();
    match tokio::time::timeout(ANSWER_TIME, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(e)) => Err(Refused(StatusCode::BAD_REQUEST, format!("the body cannot be read: {e}"))),
        Err(_) => Err(Refused(StatusCode::REQUEST_TIMEOUT, "the body did not come in time".to_owned())),
    }
}

fn problem(status: StatusCode, detail: &str) -> Response<Body> {
    let title = status.canonical_reason().unwrap_or("Error");
    let document = json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail });
    own(status, "application/problem+json", document.to_string().into())
}

fn own(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Own(Some(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
