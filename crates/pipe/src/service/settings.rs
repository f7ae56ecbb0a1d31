//! How a service reaches its gateway, and how many exchanges it takes at once.

use super::error::ServeError;
use crate::hello::{MAX_EXCHANGES, MAX_OWN, TOKEN_LEN};
use std::env;
use std::path::PathBuf;
use tokio::sync::watch;

/// How to reach the gateway, and how much to take at once. [`serve`](crate::serve) uses the defaults.
///
/// ```
/// # mod gateway { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/gateway.rs")); }
/// use http::{Request, Response};
/// use pilotlight_pipe::{Incoming, ServeError, Service};
///
/// # fn configured(service: Service) -> Service { service.exchanges(16).max_own(8) }
/// async fn hello(_request: Request<Incoming>) -> Response<&'static str> {
///     Response::new("hello\n")
/// }
///
/// async fn run() -> Result<(), ServeError> {
///     Service::from_env()?.exchanges(16).max_own(8).serve(hello).await
/// }
/// # let gateway = gateway::Gateway::start_with(configured, hello);
/// # let mut shared = gateway.shared();
/// # shared.get(1, "/");
/// # assert_eq!(&shared.answer(1).2[..], b"hello\n");
/// ```
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) socket: PathBuf,
    pub(super) token: String,
    pub(super) exchanges: u16,
    pub(super) max_own: u16,
    pub(super) max_upgraded: u16,
    pub(super) draining: watch::Sender<bool>,
}

impl Service {
    /// What the environment says (spec §2).
    ///
    /// # Errors
    /// `PILOTLIGHT_SOCKET` or `PILOTLIGHT_TOKEN` is not set: this process was not started by a gateway.
    pub fn from_env() -> Result<Self, ServeError> {
        let variable = |name| env::var_os(name).ok_or(ServeError::NotStartedByGateway { name });
        let socket = PathBuf::from(variable("PILOTLIGHT_SOCKET")?);
        let token = variable("PILOTLIGHT_TOKEN")?.into_string().map_err(|_| ServeError::Token)?;
        Self::new(socket, token)
    }

    /// A service of the gateway that listens on `socket` and knows this instance by `token`.
    ///
    /// # Errors
    /// The token is not 32 hexadecimal digits.
    pub fn new(socket: impl Into<PathBuf>, token: impl Into<String>) -> Result<Self, ServeError> {
        let token = token.into();
        if token.len() != TOKEN_LEN || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ServeError::Token);
        }
        let draining = watch::Sender::new(false);
        Ok(Self { socket: socket.into(), token, exchanges: 64, max_own: 64, max_upgraded: 1024, draining })
    }

    /// How many small exchanges to take at once on each shared connection: 0 to 4,096 (what is above is lowered), 64
    /// unless set. With 0 every exchange has a connection of its own.
    #[must_use]
    pub fn exchanges(mut self, exchanges: u16) -> Self {
        self.exchanges = exchanges.min(MAX_EXCHANGES);
        self
    }

    /// How many connections for one (streaming) exchange each to hold: 0 to 4,096 (what is above is lowered), 64 unless
    /// set.
    #[must_use]
    pub fn max_own(mut self, max_own: u16) -> Self {
        self.max_own = max_own.min(MAX_OWN);
        self
    }

    /// How many connections to hold that have switched to another protocol: 1,024 unless set. Clients beyond get 503.
    #[must_use]
    pub fn max_upgraded(mut self, max_upgraded: u16) -> Self {
        self.max_upgraded = max_upgraded;
        self
    }

    /// Becomes `true` when the instance is to end (P-31): answers that would go on for ever should end now, as the
    /// instance waits for them.
    #[must_use]
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }
}
