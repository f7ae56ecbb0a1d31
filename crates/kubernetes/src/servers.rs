//! The gateway's servers, as far as the cluster says where they are.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_cli::embedded::Following;
use pilotlight_gateway::{ExternalAddr, ServerSpec};
use tokio::sync::mpsc::Sender;

use crate::endpoints::Endpoint;

/// What one service of the gateway has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Its name.
    pub service: Arc<str>,
    /// Requests that are being answered.
    pub open: usize,
    /// Requests that wait for a server.
    pub waiting: usize,
    /// Since when there was none; none: there never was.
    pub unused: Option<Duration>,
}

/// What the gateway lets others decide.
pub trait Servers: Send + Sync {
    /// Replaces the servers of a service. Those that stay keep their connections. `without`: so many of a thousand
    /// requests have none and are answered with 500.
    ///
    /// # Errors
    /// The gateway has no such service.
    fn set(&self, service: &str, endpoints: &[Endpoint], without: u16) -> Result<(), String>;

    /// What each service has now.
    fn activity(&self) -> Vec<Activity>;
}

impl Servers for Following {
    fn set(&self, service: &str, endpoints: &[Endpoint], without: u16) -> Result<(), String> {
        let server = |endpoint: &Endpoint| {
            let addr = ExternalAddr::Tcp(endpoint.address.ip().to_string(), endpoint.address.port());
            ServerSpec { weight: endpoint.weight, ..ServerSpec::new(addr) }
        };
        let servers: Vec<_> = endpoints.iter().map(server).collect();
        self.servers().set_with(service, &servers, without).map_err(|why| why.to_string())
    }

    fn activity(&self) -> Vec<Activity> {
        let all = self.servers().activity().into_iter();
        let one = |one: pilotlight_gateway::Activity| Activity {
            service: one.service,
            open: one.open as usize,
            waiting: one.waiting,
            unused: one.last_used.map(|used| used.elapsed()),
        };
        all.map(one).collect()
    }
}

/// Tells of services that somebody waits for, until nobody listens.
pub async fn tell_wanted(following: Following, tell: Sender<Arc<str>>) {
    let wanted = following.servers().wanted();
    loop {
        let service = wanted.next().await;
        if tell.send(service).await.is_err() {
            return;
        }
    }
}
