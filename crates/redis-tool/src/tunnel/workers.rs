//! The threads that serve clients.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pilotlight_redis::config::Config;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::accept::{Acceptor, Job};
use super::shared::Shared;
use super::smart::{CLOSE_TIMEOUT, Upstream};
use super::{pinned, smart};

/// All threads.
pub(super) struct Workers {
    acceptor: Arc<Acceptor>,
    ending: watch::Sender<bool>,
    grace: watch::Sender<Duration>,
    threads: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    /// Starts so many.
    pub(super) fn start(count: usize, config: &Config, shared: &Arc<Shared>) -> io::Result<Self> {
        let (ending, grace) = (watch::Sender::new(false), watch::Sender::new(shared.limits.grace));
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (sender, jobs) = mpsc::unbounded_channel();
            let (config, shared, ending, grace) =
                (config.clone(), Arc::clone(shared), ending.subscribe(), grace.subscribe());
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let thread = std::thread::Builder::new().name(format!("tunnel-{number}"));
            threads.push(thread.spawn(move || runtime.block_on(work(config, shared, jobs, ending, grace)))?);
            senders.push(sender);
        }
        Ok(Self {
            acceptor: Arc::new(Acceptor::new(senders, Arc::clone(shared))),
            ending,
            grace,
            threads: std::sync::Mutex::new(threads),
        })
    }

    /// Gives clients to the threads.
    pub(super) fn acceptor(&self) -> &Arc<Acceptor> {
        &self.acceptor
    }

    /// Lets what is in flight finish, and joins the threads.
    pub(super) fn end(&self, grace: Duration) {
        self.grace.send_replace(grace);
        self.ending.send_replace(true);
        let mut threads = self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for thread in threads.drain(..) {
            let _ = thread.join();
        }
    }
}

async fn work(
    config: Config,
    shared: Arc<Shared>,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    mut ending: watch::Receiver<bool>,
    grace: watch::Receiver<Duration>,
) {
    let upstream = Arc::new(Upstream::new(config.clone(), Arc::clone(&shared.replies)));
    let config = Arc::new(config);
    let mut clients = JoinSet::new();
    loop {
        let job = tokio::select! {
            job = jobs.recv() => job,
            Some(_) = clients.join_next() => continue,
            _ = ending.wait_for(|ending| *ending) => None,
        };
        let Some(Job { socket, target, permit }) = job else { break };
        let Ok(socket) = TcpStream::from_std(socket) else { continue };
        let (shared, upstream, config, ending) =
            (Arc::clone(&shared), Arc::clone(&upstream), Arc::clone(&config), ending.clone());
        clients.spawn(async move {
            // That a client went away in the middle of something is not news.
            let _ = match target {
                None => smart::serve(socket, shared, upstream, ending).await,
                Some(target) => pinned::serve(socket, shared, config, target, ending).await,
            };
            drop(permit);
        });
    }
    let timeout = *grace.borrow();
    let _ = tokio::time::timeout(timeout, async { while clients.join_next().await.is_some() {} }).await;
    clients.shutdown().await;
    upstream.close(CLOSE_TIMEOUT).await;
}
