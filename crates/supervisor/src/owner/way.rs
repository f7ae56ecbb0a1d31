//! The way to an instance that is to be started, made before its process is.

use super::runtime_api;
use crate::guardian::Inherit;
use crate::instance::Endpoint;
use crate::listener::Listener;
use crate::spec::Transport;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Sockets of a new instance, and where it is spoken to.
pub(super) struct Way {
    pub(super) endpoint: Endpoint,
    /// What it listens on, unless it dials.
    pub(super) listener: Option<Listener>,
    /// Where a function asks for its invocations.
    pub(super) runtime_api: Option<TcpListener>,
}

impl Way {
    /// Binds what the transport needs; `file` is the path of a Unix socket.
    pub(super) fn make(transport: Transport, file: &Path) -> io::Result<Self> {
        let listener = transport.socket().map(|kind| Listener::bind(kind, file)).transpose()?;
        let runtime_api = if transport == Transport::Lambda { Some(runtime_api::bind()?) } else { None };
        let endpoint = match (&listener, &runtime_api) {
            (Some(listener), _) => Endpoint::Http(listener.address.clone()),
            (None, Some(api)) => Endpoint::RuntimeApi(api.local_addr()?),
            (None, None) => Endpoint::Pipe,
        };
        Ok(Self { endpoint, listener, runtime_api })
    }

    /// The socket that it inherits, and how.
    pub(super) fn inherited(&self, transport: Transport) -> io::Result<(Inherit, Option<OwnedFd>)> {
        let Some(socket) = self.listener.as_ref().and_then(|listener| listener.socket.as_ref()) else {
            return Ok((Inherit::Nothing, None));
        };
        let inherit = match transport {
            Transport::FastCgi(_) => Inherit::FastCgi,
            _ => Inherit::Listener,
        };
        Ok((inherit, Some(socket.try_clone()?)))
    }
}
