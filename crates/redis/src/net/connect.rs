//! One attempt to connect, from an address to a connection that is ready for commands.

use std::io::IoSlice;

use tokio::time::{Instant, timeout_at};

use super::connect_error::{ConnectError, ConnectErrorKind, ConnectStage};
use super::connection::Connection;
use super::handshake::Session;
use super::transport::Transport;
use super::wire::Wire;
use super::{dial, handshake};
use crate::address::NodeAddress;
use crate::command::Command;
use crate::config::{Config, ReadFrom, TlsConfig, Topology};
use crate::credentials::{CredentialProvider, Credentials};
use crate::out::{Cursor, MAX_SLICES, Out};
use crate::proto::handshake::{Handshake, Plan, ReadOnly, ServerInfo, Style};

/// What a connection is for: it decides what the handshake asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Commands to a primary or standalone server.
    Data,
    /// Reads from a replica.
    Replica,
    /// Subscriptions.
    PubSub,
    /// Topology.
    Management,
    /// Whether the node answers, and whether it is busy.
    Probe,
    /// Commands to a Sentinel, with its own credentials and TLS.
    Sentinel,
}

/// Connects to `address`, as the configuration or the cluster names it: the address map is applied here.
///
/// # Errors
/// No connection was made within the connect time-out, or the server refuses it.
///
/// # Cancel safety
/// Dropping the future closes what was opened.
pub(crate) async fn connect(
    config: &Config,
    address: &NodeAddress,
    purpose: Purpose,
) -> Result<Connection, ConnectError> {
    connect_with(config, address, purpose, &[]).await
}

/// [`connect`], with commands of the caller at the end of the handshake: an error reply to any of them is an error.
pub(crate) async fn connect_with(
    config: &Config,
    address: &NodeAddress,
    purpose: Purpose,
    extra: &[Command<'_>],
) -> Result<Connection, ConnectError> {
    let attempt = Attempt {
        config,
        announced: address,
        dialled: config.address_map.apply(address),
        purpose,
        deadline: Instant::now() + config.connect_timeout,
    };
    attempt.run(extra).await.map_err(|kind| ConnectError::new(address.clone(), kind))
}

/// Makes a connection that was used as good as new, without dialling: `RESET`, and the handshake again. Who the server
/// takes the client for then.
///
/// # Errors
/// The connection is lost, too slow, or the server refuses: it is to be dropped.
///
/// # Cancel safety
/// None: it is to be dropped, too.
pub(crate) async fn reset(
    config: &Config,
    wire: &mut Wire,
    address: &NodeAddress,
    purpose: Purpose,
    extra: &[Command<'_>],
) -> Result<(Option<Credentials>, ServerInfo), ConnectError> {
    let attempt = Attempt {
        config,
        announced: address,
        dialled: config.address_map.apply(address),
        purpose,
        deadline: Instant::now() + config.connect_timeout,
    };
    attempt.again(wire, extra).await.map_err(|kind| ConnectError::new(address.clone(), kind))
}

struct Attempt<'a> {
    config: &'a Config,
    announced: &'a NodeAddress,
    dialled: NodeAddress,
    purpose: Purpose,
    /// All stages share it.
    deadline: Instant,
}

impl Attempt<'_> {
    async fn run(&self, extra: &[Command<'_>]) -> Result<Connection, ConnectErrorKind> {
        let credentials = self.credentials().await?;
        let plan = |style| self.plan(style, credentials.clone(), extra);
        if let Some(connection) = self.open(plan(Style::from(self.config.protocol))).await? {
            return Ok(connection);
        }
        // Proxies that close on commands they do not know get one more chance, without optional commands.
        self.open(plan(Style::Bare)).await?.ok_or(ConnectErrorKind::Closed { silent: true })
    }

    async fn again(
        &self,
        wire: &mut Wire,
        extra: &[Command<'_>],
    ) -> Result<(Option<Credentials>, ServerInfo), ConnectErrorKind> {
        let credentials = self.credentials().await?;
        let plan = self.plan(Style::from(self.config.protocol), credentials, extra);
        let mut handshake = Handshake::new(Plan { resets: true, ..plan });
        self.within(ConnectStage::Handshake, handshake::run_again(wire, &mut handshake)).await??;
        Ok((handshake.credentials().cloned(), handshake.into_server()))
    }

    async fn credentials(&self) -> Result<Option<Credentials>, ConnectErrorKind> {
        let Some(provider) = self.provider() else { return Ok(None) };
        let credentials = self.within(ConnectStage::Credentials, provider.credentials()).await?;
        credentials.map(Some).map_err(ConnectErrorKind::Credentials)
    }

    /// Dials, and speaks the handshake. `None`: the server may like [`Style::Bare`] better.
    async fn open(&self, plan: Plan) -> Result<Option<Connection>, ConnectErrorKind> {
        let plain = self.within(ConnectStage::Dial, dial::dial(self.config, &self.dialled)).await??;
        let transport = match self.tls() {
            Some(tls) => self.within(ConnectStage::Tls, self.secure(tls, plain)).await??,
            None => plain,
        };
        let session = Session::new(self.announced.clone(), transport, self.config.reply_limits);
        self.within(ConnectStage::Handshake, handshake::run(session, plan)).await?
    }

    #[cfg(feature = "rustls")]
    async fn secure(&self, tls: &TlsConfig, plain: Transport) -> Result<Transport, ConnectErrorKind> {
        let name = tls.server_name.resolve(self.announced, &self.dialled, &self.config.servers);
        super::tls::secure(tls, name.as_deref(), plain).await
    }

    #[cfg(not(feature = "rustls"))]
    async fn secure(&self, _: &TlsConfig, _: Transport) -> Result<Transport, ConnectErrorKind> {
        Err(ConnectErrorKind::TlsConfig("pilotlight-redis was built without its feature `tls`".into()))
    }

    fn provider(&self) -> Option<&dyn CredentialProvider> {
        match (self.purpose, &self.config.topology) {
            (Purpose::Sentinel, Topology::Sentinel(sentinel)) => sentinel.credentials.as_deref(),
            _ => self.config.credentials.as_deref(),
        }
    }

    fn tls(&self) -> Option<&TlsConfig> {
        match (self.purpose, &self.config.topology) {
            (Purpose::Sentinel, Topology::Sentinel(sentinel)) => sentinel.tls.as_ref(),
            _ => self.config.tls.as_ref(),
        }
    }

    fn plan(&self, style: Style, credentials: Option<Credentials>, extra: &[Command<'_>]) -> Plan {
        let is_cluster = matches!(self.config.topology, Topology::Cluster);
        let is_data = matches!(self.purpose, Purpose::Data | Purpose::Replica);
        Plan {
            style,
            credentials,
            client_name: self.config.client_name.clone(),
            resets: false,
            database: if is_data { self.config.database } else { 0 },
            read_only: match self.purpose {
                Purpose::Replica if is_cluster => ReadOnly::Required,
                Purpose::Replica => ReadOnly::Tried,
                _ => ReadOnly::No,
            },
            follows_redirects: self.purpose == Purpose::Data && !is_cluster,
            wants_zone: is_data && matches!(self.config.read_from, ReadFrom::AzAffinity { .. }),
            wants_role: self.wants_role(),
            no_evict: self.config.no_evict && (is_data || self.purpose == Purpose::PubSub),
            no_touch: self.config.no_touch && is_data,
            checks_readiness: is_data || self.purpose == Purpose::Probe,
            extra: extra.iter().map(|command| (command.name(), encoded(command))).collect(),
        }
    }

    /// Whether it matters who is the primary.
    fn wants_role(&self) -> bool {
        let is_data = matches!(self.purpose, Purpose::Data | Purpose::Replica | Purpose::PubSub);
        match &self.config.topology {
            Topology::Standalone => is_data && self.config.servers.len() > 1,
            Topology::Sentinel(_) => is_data,
            Topology::Cluster => false,
        }
    }

    /// The result of `work`, if it comes before the deadline.
    async fn within<T>(&self, stage: ConnectStage, work: impl Future<Output = T>) -> Result<T, ConnectErrorKind> {
        let timeout = |_| ConnectErrorKind::Timeout { stage, limit: self.config.connect_timeout };
        timeout_at(self.deadline, work).await.map_err(timeout)
    }
}

fn encoded(command: &Command<'_>) -> Vec<u8> {
    let mut out = Out::default();
    command.encode(&mut out);
    let (mut bytes, mut cursor) = (Vec::with_capacity(out.len()), Cursor::default());
    while !out.is_written(cursor) {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let filled = out.slices(cursor, &mut slices);
        for slice in &slices[..filled] {
            bytes.extend_from_slice(slice);
            cursor = out.advanced(cursor, slice.len());
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
