//! Where a container is spoken to, and from when on.

use super::pause::Pause;
use super::recipe::Recipe;
use super::shared::Shared;
use crate::instance::{Address, Endpoint};
use crate::limits::{HEALTH_PAUSE, PORT_PAUSE};
use crate::spec::{HealthCheck, Transport};
use pilotlight_containers::{Container, EngineError};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Where a container is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At its own address: who accepts there is the program.
    Own(SocketAddr),
    /// At a port of this machine, where the engine accepts before the program does.
    Published(SocketAddr),
}

impl Place {
    /// # Errors
    /// It has no address, as a sentence fragment.
    pub(super) fn of(container: &Container, recipe: &Recipe, own_is_reached: bool) -> Result<Self, String> {
        let spec = recipe.container();
        let port = spec.and_then(|spec| spec.port).ok_or("the service names no `port` of its container")?;
        if container.host_config.network_mode == "host" {
            return Ok(Self::Own(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        let networks = &container.network_settings.networks;
        let wanted = spec.and_then(|spec| spec.network.as_ref()).and_then(|name| networks.get(name));
        let all = wanted.into_iter().chain(networks.values());
        let mut addresses = all.flat_map(|one| [&one.ip_address, &one.ip6_address]);
        let own = addresses.find_map(|address| address.parse().ok()).map(|ip| Self::Own(SocketAddr::new(ip, port)));
        let bindings = container.network_settings.ports.get(&format!("{port}/tcp")).and_then(Option::as_ref);
        let published = bindings.into_iter().flatten().find_map(|binding| {
            let ip: IpAddr = binding.host_ip.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let ip = if ip.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { ip };
            Some(Self::Published(SocketAddr::new(ip, binding.host_port.parse().ok()?)))
        });
        let (first, second) = if own_is_reached { (own, published) } else { (published, None) };
        first.or(second).ok_or_else(|| {
            if own_is_reached {
                "its container is in no network; take network = \"none\" away, or use transport = \"pipe\"".to_owned()
            } else {
                format!(
                    "the addresses of this engine's containers are not reached from here, and port {port} is not published; publish it on 127.0.0.1"
                )
            }
        })
    }

    pub(super) fn endpoint(self) -> Endpoint {
        let (Self::Own(address) | Self::Published(address)) = self;
        Endpoint::Http(Address::Tcp(address))
    }

    /// Waits until the program takes requests. Cancel safe.
    pub(super) async fn answers(self, recipe: &Recipe) {
        let mut pause = Pause::new(&(PORT_PAUSE.0..=PORT_PAUSE.1));
        loop {
            let answers = match self {
                Self::Own(address) => TcpStream::connect(address).await.is_ok(),
                Self::Published(address) => {
                    let health = recipe.health();
                    let asked = ask(address, recipe.transport(), health);
                    tokio::time::timeout(health.timeout, asked).await.is_ok_and(|came| came)
                }
            };
            if answers {
                return;
            }
            pause.wait().await;
        }
    }
}

/// Whether anything comes back. What it is, is for those who ask later.
async fn ask(address: SocketAddr, transport: Transport, health: &HealthCheck) -> bool {
    let request = match transport {
        // RFC 9113 §3.4: the preface and an empty SETTINGS, which a server answers with its own.
        Transport::H2c(_) => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
        _ => {
            format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", health.target, health.host).into_bytes()
        }
    };
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    if !matches!(transport, Transport::Http(_) | Transport::H2c(_)) {
        // Nothing comes back before a request: one that is not closed at once has somebody behind it.
        let mut byte = [0];
        return tokio::time::timeout(SILENCE, stream.read(&mut byte)).await.is_err();
    }
    let mut byte = [0];
    stream.write_all(&request).await.is_ok() && matches!(stream.read(&mut byte).await, Ok(1))
}

/// How long an engine's proxy takes at most to close a connection behind which nobody is.
const SILENCE: Duration = Duration::from_millis(100);

/// Waits until the image's own check says that it is healthy; does not wait if it has none. Cancel safe.
pub(super) async fn healthy(shared: &Shared, id: u64, container: &Container) -> Result<(), EngineError> {
    let check = container.config.healthcheck.as_ref().and_then(|check| check.test.first());
    if check.is_none_or(|kind| kind == "NONE") {
        return Ok(());
    }
    let is_podman = shared.engine.kind().await?.is_podman;
    let mut pause = Pause::new(&HEALTH_PAUSE);
    loop {
        if is_podman && let Err(error) = shared.engine.look_at_health(&container.id).await {
            tracing::debug!(%error, "cannot look at the health of a container");
        }
        let health = shared.engine.inspect(&container.id).await?.state.health;
        if health.status == "healthy" {
            return Ok(());
        }
        let last = health.log.last().map(|look| look.output.trim().to_owned()).unwrap_or_default();
        let last = if last.is_empty() { last } else { format!(": {last}") };
        shared.waits(id, format!("its container is not healthy, says the check of its image{last}")).await;
        pause.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ContainerSource, ContainerSpec, HttpSocket, ServiceSpec};
    use std::sync::Arc;

    #[test]
    fn an_address_is_its_own_or_a_published_one() {
        let mut spec = ServiceSpec::new("app", Vec::new(), Transport::Http(HttpSocket::Port));
        let source = ContainerSource::Name("app".to_owned());
        spec.container = Some(Box::new(ContainerSpec { source, port: Some(80), network: Some("back".to_owned()) }));
        let recipe = Recipe { service: "app".into(), number: 1, spec: Arc::new(spec), pipe: None, mark: String::new() };
        let place = |json: &str, reached| {
            let text = format!("{{\"Id\":\"1\",{json}}}");
            Place::of(&serde_json::from_str(&text).unwrap(), &recipe, reached)
        };
        let both = r#""NetworkSettings":{"Networks":{"a":{"IPAddress":"10.0.0.2"},"back":{"IPAddress":"10.1.0.2"}},
            "Ports":{"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"4711"}],"443/tcp":null}}"#;
        assert_eq!(place(both, true), Ok(Place::Own("10.1.0.2:80".parse().unwrap())));
        assert_eq!(place(both, false), Ok(Place::Published("127.0.0.1:4711".parse().unwrap())));
        let host = r#""HostConfig":{"NetworkMode":"host"}"#;
        assert_eq!(place(host, false), Ok(Place::Own("127.0.0.1:80".parse().unwrap())));
        let none = r#""NetworkSettings":{"Networks":{},"Ports":null}"#;
        assert!(place(none, true).unwrap_err().contains("pipe"));
        assert!(place(none, false).unwrap_err().contains("not published"));
    }
}
