//! TLS of a running gateway: what it begins from, and who looks at its files.

use std::sync::Arc;

use anyhow::Context as _;
use pilotlight_tls::{FileFollower, Prepared, TicketKeys, TlsContext, TlsSettings};

use crate::settings;

/// TLS, for as long as the gateway runs.
pub(crate) struct LiveTls {
    pub(crate) context: Arc<TlsContext>,
    /// While there are files.
    follower: Option<FileFollower>,
}

impl LiveTls {
    /// Reads the files. `tickets` are the keys that another process has handed over, or nothing.
    pub(crate) fn start(settings: TlsSettings, tickets: &[u8]) -> anyhow::Result<Self> {
        let keys = TicketKeys::new();
        if let Err(e) = keys.import(tickets) {
            tracing::warn!("clients cannot resume the TLS sessions of the process before: {e}");
        }
        let context = TlsContext::new(settings, keys, settings::protocols());
        let context = context.map_err(|e| anyhow::anyhow!("{e}; {}", e.remedy()))?;
        let mut tls = Self { context, follower: None };
        tls.follow().context("the thread that looks at certificates cannot be started")?;
        Ok(tls)
    }

    /// What was prepared counts from now on.
    pub(crate) fn apply(&mut self, prepared: Prepared) {
        self.context.apply(prepared);
        if let Err(e) = self.follow() {
            tracing::warn!("changes of certificates are only seen by `pilotlight reload`: {e}");
        }
    }

    fn follow(&mut self) -> std::io::Result<()> {
        if !self.context.has_files() {
            self.follower = None;
        } else if self.follower.is_none() {
            self.follower = Some(FileFollower::start(&self.context)?);
        }
        Ok(())
    }
}
