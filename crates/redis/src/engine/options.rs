//! How one command is run.

use std::time::Duration;

use crate::config::Config;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallOptions {
    /// From the start to the reply; `None`: for ever.
    pub(crate) timeout: Option<Duration>,
    /// It may be sent again although it may have been executed.
    pub(crate) is_retryable: bool,
    /// The caller chose the timeout: it bounds a blocking command's own, too.
    pub(crate) is_chosen: bool,
}

impl CallOptions {
    /// By the configuration.
    #[inline]
    pub(crate) fn by(config: &Config) -> Self {
        Self { timeout: config.command_timeout, is_retryable: false, is_chosen: false }
    }
}
