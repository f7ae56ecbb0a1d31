//! `cargo run -p redis-axum [redis://localhost] [127.0.0.1:3000]`, then `curl -i http://127.0.0.1:3000/reports/june`.

use anyhow::Context;
use pilotlight_redis::{Client, Config};
use redis_axum::{App, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://localhost".to_owned());
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    // It connects when it is first used: the service starts although Redis does not run yet.
    let client = Client::new(Config::from_url(&url)?)?;
    let listener = TcpListener::bind(&address).await.with_context(|| format!("cannot listen on {address}"))?;
    println!("http://{address}/reports/june");

    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    serve(listener, App::new(client), stop).await?;
    Ok(())
}
