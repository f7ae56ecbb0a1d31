//! Who is asked for what no cache has: a thread that counts each request. A hit is a request that it does not hear of.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use super::answers::{self, LARGE_PATH, SMALL_PATH};

/// How targets begin that are never asked for again; their last part says how many bytes are answered.
pub(crate) const DISTINCT: &str = "/distinct/";
const MAX_DISTINCT_BYTES: usize = 2_000_000;

/// A running origin. Its thread ends with it.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    asked: Arc<AtomicU64>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    /// Listens on a free port.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the origin")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let asked = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&asked);
        let thread = std::thread::Builder::new().name("origin".into()).spawn(move || {
            let serving = async move {
                tokio::select! {
                    _ = ended => {}
                    () = serve(listener, counted) => {}
                }
            };
            LocalSet::new().block_on(&runtime, serving);
        })?;
        Ok(Self { address, asked, end: Some(end), thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests it has had.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

async fn serve(listener: std::net::TcpListener, asked: Arc<AtomicU64>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let bodies = Rc::new([(SMALL_PATH, Bytes::from(answers::small())), (LARGE_PATH, Bytes::from(answers::large()))]);
    let filler = Bytes::from(vec![b'x'; MAX_DISTINCT_BYTES]);
    // Who cannot be accepted is not answered, and fails.
    while let Ok((socket, _)) = listener.accept().await {
        let (bodies, filler, asked) = (Rc::clone(&bodies), filler.clone(), Arc::clone(&asked));
        tokio::task::spawn_local(async move {
            let handler = service_fn(move |request: Request<Incoming>| {
                asked.fetch_add(1, Ordering::Relaxed);
                let path = request.uri().path();
                let known = bodies.iter().find(|(known, _)| *known == path).map(|(_, body)| body.clone());
                let distinct = distinct_bytes(path).map(|bytes| filler.slice(..bytes));
                let mut answer = answer(known.or_else(|| distinct.clone()));
                if let Some(tag) = distinct.and_then(|_| HeaderValue::from_str(&format!("\"{path}\"")).ok()) {
                    answer.headers_mut().insert(ETAG, tag);
                }
                async move { Ok::<_, Infallible>(answer) }
            });
            // A connection that a gateway cuts is no concern of an origin.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), handler).await;
        });
    }
}

/// Of `/distinct/…/BYTES`.
fn distinct_bytes(path: &str) -> Option<usize> {
    let (_, bytes) = path.strip_prefix(DISTINCT)?.rsplit_once('/')?;
    bytes.parse().ok().filter(|bytes| *bytes <= MAX_DISTINCT_BYTES)
}

fn answer(body: Option<Bytes>) -> Response<Full<Bytes>> {
    let status = if body.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let mut answer = Response::new(Full::new(body.unwrap_or_default()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=36000"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::client::Client;

    #[test]
    fn every_request_is_counted() {
        let origin = Origin::start().expect("a port");
        let mut small = Client::new(origin.address(), SMALL_PATH, &answers::small());
        let mut large = Client::new(origin.address(), LARGE_PATH, &answers::large());
        small.get().expect("the small answer");
        small.get().expect("the same again");
        large.get().expect("the large answer");
        assert_eq!(small.field("cache-control"), Some("public, max-age=36000"));
        assert_eq!(origin.asked(), 3);
        assert!(Client::new(origin.address(), "/other", "").get().is_err());
        assert_eq!(origin.asked(), 4);
        Client::new(origin.address(), "/distinct/1/of/many/3", "xxx").get().expect("as long as it says");
    }
}
