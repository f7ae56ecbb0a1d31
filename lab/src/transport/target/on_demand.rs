//! A web server that starts its application for the first request: uWSGI, Apache with mod_fcgid. To make it cold it is
//! started anew; its own start is not measured, only its application's.

use std::path::PathBuf;
use std::time::Duration;

use super::super::client::Client;
use super::super::peers::OnDemandPeer;
use super::{LISTEN_LIMIT, Processes, Target, free_address, listens};
use crate::processes::{Held, usage};
use crate::service::answer_body;

/// A running web server with its application.
#[derive(Debug)]
pub(super) struct OnDemand {
    peer: OnDemandPeer,
    dir: PathBuf,
    /// `None` only while it is started anew.
    running: Option<(Held, Client)>,
}

impl OnDemand {
    pub(super) fn start(dir: PathBuf, peer: OnDemandPeer) -> anyhow::Result<Self> {
        let mut target = Self { peer, dir, running: None };
        target.make_cold()?;
        Ok(target)
    }
}

impl Target for OnDemand {
    fn request(&mut self) -> anyhow::Result<Duration> {
        match &mut self.running {
            Some((_, client)) => {
                client.get().map_err(|e| anyhow::anyhow!("{e} ({})", OnDemandPeer::last_words(&self.dir)))
            }
            None => anyhow::bail!("{} does not run", self.peer.name),
        }
    }

    fn make_cold(&mut self) -> anyhow::Result<()> {
        self.running = None;
        let address = free_address()?;
        let mut server = self.peer.program(&self.dir, address)?.start()?;
        server.wait_until(LISTEN_LIMIT, "it listens", |_| listens(address).then_some(()))?;
        self.running = Some((server, Client::new(address, "/", &answer_body())));
        Ok(())
    }

    fn was_cached(&self) -> bool {
        false
    }

    /// The web server's own are those that execute its binary, but for uWSGI, whose application runs in it: there it is
    /// the master.
    fn processes(&self) -> Processes {
        let Some((server, _)) = &self.running else { return Processes::default() };
        let own = |pid: &u32| match self.peer.application_in_server {
            true => *pid == server.pid(),
            false => usage::executable(*pid) == usage::executable(server.pid()),
        };
        let (gateway, service) = usage::tree(server.pid()).iter().map(|process| process.pid).partition(own);
        Processes { gateway, service }
    }
}
