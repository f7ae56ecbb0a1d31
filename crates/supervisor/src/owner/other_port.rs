//! Services that listen on the port in their variable `PORT`, and those that do it elsewhere.

use crate::instance::Instance;
use crate::limits::PORT_PAUSE;
use crate::listening;
use crate::spec::OtherPort;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// The look for a service that can neither dial nor inherit: whether something listens on its port.
pub(super) struct Probe {
    pub(super) instance: u64,
    pub(super) address: SocketAddr,
    pub(super) pid: Option<i32>,
    pub(super) service: Arc<str>,
    pub(super) other: OtherPort,
    /// When it is looked first whether it listens elsewhere.
    pub(super) first_look: Duration,
}

impl Probe {
    pub(super) async fn wait(self, handle: Arc<Instance>) -> u64 {
        let (mut pause, longest) = PORT_PAUSE;
        let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), self.address.port());
        let begun = Instant::now();
        let mut look_at = Some(self.first_look);
        loop {
            if listens(self.address).await {
                return self.instance;
            }
            // `localhost` is that to some programs.
            if listens(v6).await {
                handle.move_to(v6);
                return self.instance;
            }
            if let Some(after) = look_at.filter(|after| begun.elapsed() >= *after) {
                match self.look_elsewhere().await {
                    Elsewhere::Taken(address) => {
                        handle.move_to(address);
                        return self.instance;
                    }
                    Elsewhere::Named => look_at = None,
                    Elsewhere::Nowhere => look_at = Some(after * 2), // it may build something first
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Says where it listens instead.
    async fn look_elsewhere(&self) -> Elsewhere {
        let (service, port) = (&self.service, self.address.port());
        let Some(pid) = self.pid else { return Elsewhere::Nowhere };
        // An error is that it panicked, which is told elsewhere.
        let found = tokio::task::spawn_blocking(move || listening::of_tree(pid)).await.unwrap_or_default();
        let Some(one) = found.first().copied() else { return Elsewhere::Nowhere };
        let at = found.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" and ");
        let help = "have it listen on the port in its variable PORT";
        if self.other == OtherPort::Taken {
            let reached = listening::reached_at(one);
            if listens(reached).await {
                tracing::warn!(%service, "it listens on {at}, not on {port}, its PORT: requests go to {reached} now; elsewhere than here, {help}");
                return Elsewhere::Taken(reached);
            }
        }
        tracing::warn!(%service, "it listens on {at}, not on {port}, its PORT: {help}");
        Elsewhere::Named
    }
}

/// What is found of a service that does not listen on its port.
enum Elsewhere {
    Nowhere,
    /// It was said where, and nothing more comes of it.
    Named,
    /// It is spoken to there.
    Taken(SocketAddr),
}

async fn listens(address: SocketAddr) -> bool {
    // A socket that got this very port for its own end is connected to itself.
    TcpStream::connect(address).await.is_ok_and(|stream| stream.local_addr().is_ok_and(|own| own != address))
}
