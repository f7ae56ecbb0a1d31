//! Threads, each with a runtime and a client of its own: nothing that is counted on the way of a command is shared.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use pilotlight_redis::config::WhenDown;
use pilotlight_redis::{Client, Command, Commands, Config, Value};

use crate::refusal;

/// How long replies are waited for when a client is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A runtime for one thread.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the system gives no event queue")
}

/// The first client of some work: if nobody listens, it says so at once. Those after it wait for a server that comes
/// back.
pub(crate) async fn first_connect(config: &Config) -> anyhow::Result<Client> {
    connect(&Config { when_down: WhenDown::FailFast, ..config.clone() }).await?.close(CLOSE_TIMEOUT).await;
    if refusal::is_sentinel(config).await {
        bail!("{config} is a Sentinel, which has no keys: --sentinel NAME asks it for the primary of that name");
    }
    connect(config).await
}

/// A client that has had an answer.
pub(crate) async fn connect(config: &Config) -> anyhow::Result<Client> {
    let client = Client::new(config.clone())?;
    match client.run::<Value>(Command::raw("PING")).await {
        Err(error) if !refusal::is_answer(&error) => Err(refusal::unusable(config, &error).await),
        _ => Ok(client),
    }
}

/// Starts `count` threads that each do `work` with a client of their own.
pub(crate) fn spawn<T, W, F>(
    count: usize,
    config: &Config,
    work: W,
) -> anyhow::Result<Vec<JoinHandle<anyhow::Result<T>>>>
where
    T: Send + 'static,
    W: Fn(usize, Client) -> F + Send + Sync + 'static,
    F: Future<Output = anyhow::Result<T>>,
{
    let work = Arc::new(work);
    let start = |number: usize| {
        let (work, config) = (Arc::clone(&work), config.clone());
        let body = move || {
            runtime()?.block_on(async {
                let client = connect(&config).await?;
                let done = work(number, client.clone()).await;
                client.close(CLOSE_TIMEOUT).await;
                done
            })
        };
        std::thread::Builder::new().name(format!("load-{number}")).spawn(body).context("the system gives no thread")
    };
    (0..count).map(start).collect()
}

/// How often it is looked whether threads have ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until all have ended.
pub(crate) async fn ended<T>(threads: &[JoinHandle<T>]) {
    while threads.iter().any(|thread| !thread.is_finished()) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until one has ended.
pub(crate) async fn any_ended<T>(threads: &[JoinHandle<T>]) {
    while !threads.iter().any(JoinHandle::is_finished) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What the threads made, or the first error.
pub(crate) fn join<T>(threads: Vec<JoinHandle<anyhow::Result<T>>>) -> anyhow::Result<Vec<T>> {
    let ended =
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked"))));
    ended.collect()
}
