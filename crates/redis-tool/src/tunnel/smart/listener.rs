//! One port for all servers.

use std::net::SocketAddr;
use std::sync::Arc;

use pilotlight_redis::config::{Config, WhenDown};

use super::upstream::{CLOSE_TIMEOUT, Upstream};
use crate::tunnel::accept::{Acceptor, bind};
use crate::tunnel::announce::{Opened, announce};
use crate::tunnel::arguments::TunnelArgs;

/// Listens for all servers, once they answer.
pub(crate) async fn listen(args: &TunnelArgs, config: &Config, acceptor: &Acceptor) -> anyhow::Result<()> {
    let listener = bind(SocketAddr::new(args.bind, args.listen))?;
    // It is better known now than to each client later.
    let (command_timeout, when_down) = (Some(config.connect_timeout), WhenDown::FailFast);
    let config_of_probe = Config { command_timeout, when_down, ..config.clone() };
    let probe = Upstream::new(config_of_probe, Arc::clone(&acceptor.shared().replies));
    probe.check().await?;
    probe.close(CLOSE_TIMEOUT).await;
    let local = listener.local_addr()?;
    announce(args, &[Opened { node: config.to_string(), local }])?;
    acceptor.accept(listener, None).await;
    Ok(())
}
