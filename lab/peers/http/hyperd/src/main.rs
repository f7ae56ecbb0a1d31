//! hyper alone, answering from a map: what a Rust HTTP stack costs before a gateway does anything.
//!
//! `hyperd PORT` serves `GET /users/0 … /users/9999`, 200 bytes of JSON, and `/large`, 16 KiB, on one current-thread
//! runtime.
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustc_hash::FxHashMap;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Answers = FxHashMap<String, Bytes>;

fn answers() -> Answers {
    let start =
        r#"{"id":42,"name":"Mallory Rodriguez","email":"user42@example.com","createdAt":"2025-01-15T18:42:00","bio":""#;
    let body = |bytes: usize| Bytes::from(format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2)));
    let small = body(200);
    (0..10_000)
        .map(|id| (format!("/users/{id}"), small.clone()))
        .chain([("/large".to_owned(), body(16 * 1024))])
        .collect()
}

fn answer(answers: &Answers, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let Some(body) = answers.get(request.uri().path()) else {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let mut response = Response::new(Full::new(body.clone()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn main() -> io::Result<()> {
    let port: Option<u16> = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let Some(port) = port else {
        eprintln!("usage: hyperd PORT");
        std::process::exit(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(port))
}

async fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let answers = Rc::new(answers());
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let answers = Rc::clone(&answers);
        tokio::task::spawn_local(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(&answers, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            // a connection that its client cut is not this program's concern
            let _ = http1::Builder::new().pipeline_flush(true).serve_connection(TokioIo::new(socket), service).await;
        });
    }
}
