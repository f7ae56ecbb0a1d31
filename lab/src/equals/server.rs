//! A server over TCP that does a fixed amount of work for each request.

use std::convert::Infallible;
use std::ffi::OsString;
use std::hint::black_box;

use anyhow::Context as _;
use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Pieces of work for a request.
pub(super) const PIECES: u32 = 200;
/// 5.5 % of the work, which is 5 % of a request: its way through the system and hyper takes a tenth of what the work
/// takes.
pub(super) const PLANTED: u32 = 11;
/// Steps of a piece.
const STEPS: u32 = 400;

/// Listens on a free port, says which, and answers until it is ended.
pub(crate) async fn serve(pieces: Option<OsString>) -> anyhow::Result<()> {
    let pieces: u32 = pieces.and_then(|text| text.to_str()?.parse().ok()).context("how many pieces of work?")?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    println!("{}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::task::spawn_local(async move {
            let handler = service_fn(move |_| async move {
                let sum = (0..pieces).fold(0, |sum, number| sum ^ piece(number));
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(format!("{sum:016x}")))))
            });
            // The load closes its connections as it likes.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), handler).await;
        });
    }
}

/// Marsaglia's xorshift, which no compiler shortens.
fn piece(number: u32) -> u64 {
    let mut state = u64::from(black_box(number)) + 1;
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}
