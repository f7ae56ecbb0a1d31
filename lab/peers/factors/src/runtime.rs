//! Threads: a runtime for each, or one for all.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread;

use anyhow::Context as _;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::encoding::Encode;
use crate::http::Http;
use crate::options::Options;
use crate::users::Users;

const BACKLOG: i32 = 1024;

/// How threads share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each thread has a current-thread runtime, a listener on the same port and a client of Redis.
    PerCore,
    /// One runtime whose threads take tasks from each other, one listener, one client of Redis.
    MultiThread,
}

/// Serves until the process is killed.
pub(crate) fn serve<E: Encode, H: Http>(shape: Shape, options: &Options) -> anyhow::Result<()> {
    match shape {
        Shape::PerCore => per_core::<E, H>(options),
        Shape::MultiThread => multi_thread::<E, H>(options),
    }
}

fn per_core<E: Encode, H: Http>(options: &Options) -> anyhow::Result<()> {
    let first = bind(options.listen)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    while listeners.len() < options.threads {
        listeners.push(bind(address)?);
    }
    let mut threads = Vec::new();
    for listener in listeners {
        let options = options.clone();
        threads.push(thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(accept::<E, H>(listener, &options))
        }));
    }
    println!("listening on http://{address}");
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    Ok(())
}

fn multi_thread<E: Encode, H: Http>(options: &Options) -> anyhow::Result<()> {
    let listener = bind(options.listen)?;
    println!("listening on http://{}", listener.local_addr()?);
    let runtime = Builder::new_multi_thread().worker_threads(options.threads).enable_all().build()?;
    let options = options.clone();
    // On a worker: the thread of `block_on` is none.
    runtime.block_on(runtime.spawn(async move { accept::<E, H>(listener, &options).await }))?
}

async fn accept<E: Encode, H: Http>(listener: StdListener, options: &Options) -> anyhow::Result<()> {
    let users: Users<E> = Users::connect(&options.redis, options.db.clone()).await?;
    let handler = H::handler(Arc::new(users));
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (socket, _) = listener.accept().await.context("a connection could not be accepted")?;
        tokio::spawn(H::connection::<E>(handler.clone(), socket));
    }
}

fn bind(address: SocketAddr) -> anyhow::Result<StdListener> {
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        std::io::Result::Ok(socket.into())
    };
    bind().with_context(|| format!("cannot listen on {address}"))
}
