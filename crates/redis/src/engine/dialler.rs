//! Who makes the connections of lanes: to a certain server, or to whichever is the primary.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::address::NodeAddress;
use crate::config::Config;
use crate::credentials::Credentials;
use crate::engine::finder::Finder;
use crate::engine::lane::{Dial, DialError, Sign};
use crate::engine::lane_options::{LaneOptions, Replies};
use crate::net::connect::{self, Purpose, connect, connect_with};
use crate::net::connection::Connection;
use crate::net::wire::Wire;
use crate::proto::handshake;

/// Makes connections to a certain server.
pub(crate) fn dialler(
    config: &Arc<Config>,
    address: &NodeAddress,
    purpose: Purpose,
    lane_options: &LaneOptions,
) -> Box<dyn Dial> {
    let (config, address, lane_options) = (Arc::clone(config), address.clone(), lane_options.clone());
    Box::new(Dialler { config, address, purpose, lane_options })
}

/// Makes connections to whichever server is the primary.
pub(crate) fn primary_dialler(finder: &Arc<Finder>, purpose: Purpose, lane_options: &LaneOptions) -> Box<dyn Dial> {
    Box::new(PrimaryDialler { finder: Arc::clone(finder), purpose, lane_options: lane_options.clone() })
}

struct Dialler {
    config: Arc<Config>,
    address: NodeAddress,
    purpose: Purpose,
    lane_options: LaneOptions,
}

impl Dialler {
    async fn connect(&self) -> Result<Connection, DialError> {
        self.lane_options.credential_refresh.begin(&self.config);
        let connection = connect_with(&self.config, &self.address, self.purpose, &self.lane_options.setup).await?;
        // Outside of a cluster nothing else keeps writes and stale copies of another primary apart.
        let is_other = self.purpose == Purpose::Replica && connection.server.role == Some(handshake::Role::Primary);
        if is_other && !self.config.is_cluster() {
            return Err(DialError { text: format!("{}: is no replica", self.address).into(), is_final: false });
        }
        Ok(self.lane_options.replies.prepare(connection))
    }

    async fn reset(&self, wire: &mut Wire, address: &NodeAddress) -> Result<Option<Credentials>, DialError> {
        reset_as(&self.config, wire, address, self.purpose, &self.lane_options).await
    }

    async fn connect_bare(&self) -> Result<Connection, DialError> {
        self.lane_options.credential_refresh.begin(&self.config);
        let connection = connect(&self.config, &self.address, Purpose::Management).await?;
        Ok(self.lane_options.replies.prepare(connection))
    }
}

impl Dial for Dialler {
    fn dial(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>> {
        Box::pin(self.connect())
    }

    fn dial_bare(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>> {
        Box::pin(self.connect_bare())
    }

    fn reset<'d>(
        &'d self,
        wire: &'d mut Wire,
        address: &'d NodeAddress,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Credentials>, DialError>> + Send + 'd>> {
        Box::pin(self.reset(wire, address))
    }

    fn changes(&self) -> Option<watch::Receiver<Option<Credentials>>> {
        self.config.credentials.as_ref()?.changes()
    }

    fn probe<'d>(&'d self, address: &'d NodeAddress) -> Pin<Box<dyn Future<Output = Sign> + Send + 'd>> {
        Box::pin(probe(&self.config, address))
    }
}

struct PrimaryDialler {
    finder: Arc<Finder>,
    purpose: Purpose,
    lane_options: LaneOptions,
}

impl PrimaryDialler {
    async fn connect(&self) -> Result<Connection, DialError> {
        self.lane_options.credential_refresh.begin(self.finder.config());
        let connection = self.finder.connect(self.purpose, &self.lane_options.setup).await?;
        Ok(self.lane_options.replies.prepare(connection))
    }

    async fn reset(&self, wire: &mut Wire, address: &NodeAddress) -> Result<Option<Credentials>, DialError> {
        reset_as(self.finder.config(), wire, address, self.purpose, &self.lane_options).await
    }

    async fn connect_bare(&self) -> Result<Connection, DialError> {
        self.lane_options.credential_refresh.begin(self.finder.config());
        let connection = self.finder.connect(Purpose::Management, &Arc::from([])).await?;
        Ok(self.lane_options.replies.prepare(connection))
    }
}

impl Dial for PrimaryDialler {
    fn dial(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>> {
        Box::pin(self.connect())
    }

    fn dial_bare(&self) -> Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send + '_>> {
        Box::pin(self.connect_bare())
    }

    fn reset<'d>(
        &'d self,
        wire: &'d mut Wire,
        address: &'d NodeAddress,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Credentials>, DialError>> + Send + 'd>> {
        Box::pin(self.reset(wire, address))
    }

    fn changes(&self) -> Option<watch::Receiver<Option<Credentials>>> {
        self.finder.config().credentials.as_ref()?.changes()
    }

    fn probe<'d>(&'d self, address: &'d NodeAddress) -> Pin<Box<dyn Future<Output = Sign> + Send + 'd>> {
        Box::pin(probe(self.finder.config(), address))
    }
}

/// A used connection, as good as a new one for `purpose`.
async fn reset_as(
    config: &Config,
    wire: &mut Wire,
    address: &NodeAddress,
    purpose: Purpose,
    lane_options: &LaneOptions,
) -> Result<Option<Credentials>, DialError> {
    let refused = |text: String| DialError { text: text.into(), is_final: false };
    if !matches!(lane_options.replies, Replies::Read) {
        return Err(refused(format!("{address}: replies are passed through, also that to RESET")));
    }
    lane_options.credential_refresh.begin(config);
    let (credentials, server) = connect::reset(config, wire, address, purpose, &lane_options.setup).await?;
    let is_demoted = server.role == Some(handshake::Role::Replica) && purpose == Purpose::Data;
    if is_demoted && !config.is_cluster() {
        return Err(refused(format!("{address}: is a replica")));
    }
    Ok(credentials)
}

/// What a node says on a new connection. The handshake ends with a `PING`: a node that is stopped accepts the
/// connection and does not answer.
async fn probe(config: &Config, address: &NodeAddress) -> Sign {
    let patience = config.connect_timeout.min(Duration::from_secs(2));
    match tokio::time::timeout(patience, connect(config, address, Purpose::Probe)).await {
        Ok(Ok(connection)) if connection.server.is_busy => Sign::Busy,
        Ok(Ok(_)) => Sign::Alive,
        _ => Sign::None,
    }
}
