//! What all clients of a tunnel have in common: limits, the password, counters, memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pilotlight_redis::raw::ReplyBudget;
use tokio::sync::Semaphore;

use super::arguments::TunnelArgs;
use super::clients::Clients;

/// What a client is told when replies exceed their budget.
const TOO_MANY_REPLIES: &str = "ERR the tunnel: the command was run, but there is no memory for its reply (--max-held-mib): \
    ask for fewer large values at the same time, or use --mode pinned, which holds none";

/// What all clients of a tunnel have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) password: Option<String>,
    pub(super) counters: Counters,
    pub(super) clients: Clients,
    /// Kibibytes for large commands, and how many there are.
    pub(super) memory: (Arc<Semaphore>, u32),
    /// Bytes for large replies.
    pub(super) replies: Arc<ReplyBudget>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) max_clients: usize,
    pub(super) max_command_bytes: usize,
    pub(super) max_pending_bytes: usize,
    pub(super) grace: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) clients: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) commands: AtomicU64,
}

impl Counters {
    pub(super) fn add_commands(&self, count: usize) {
        self.commands.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Shared {
    pub(super) fn new(args: &TunnelArgs) -> Self {
        let kibibytes = u32::try_from(args.max_buffered_mib.saturating_mul(1024)).unwrap_or(u32::MAX >> 3);
        let kibibytes = kibibytes.min(u32::MAX >> 3);
        Self {
            limits: Limits {
                max_clients: args.max_clients,
                max_command_bytes: args.max_command_mib.saturating_mul(1 << 20),
                max_pending_bytes: args.max_pending_mib.saturating_mul(1 << 20).max(64 * 1024),
                grace: args.grace,
            },
            password: args.require_password.clone(),
            counters: Counters::default(),
            clients: Clients::new(),
            memory: (Arc::new(Semaphore::new(kibibytes as usize)), kibibytes),
            replies: ReplyBudget::new(args.max_held_mib.saturating_mul(1 << 20), TOO_MANY_REPLIES),
        }
    }

    /// Whether a client may come in with this. It takes as long wherever the first difference is.
    pub(super) fn is_password(&self, given: &[u8]) -> bool {
        let Some(password) = &self.password else { return true };
        let password = password.as_bytes();
        let differences = password
            .iter()
            .enumerate()
            .fold(0, |differences, (at, byte)| differences | (byte ^ given.get(at).copied().unwrap_or(!*byte)));
        differences == 0 && given.len() == password.len()
    }
}

/// Of a tunnel with default limits.
#[cfg(test)]
pub(super) fn with_default_limits(password: Option<&str>) -> Shared {
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        tunnel: TunnelArgs,
    }

    let mut args = Command::parse_from(["tunnel"]).tunnel;
    args.require_password = password.map(str::to_owned);
    Shared::new(&args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_right_or_wrong() {
        let secret = with_default_limits(Some("secret"));
        let check = |given: &[u8]| secret.is_password(given);
        assert!(check(b"secret"));
        assert!(!check(b"") && !check(b"secre") && !check(b"secrets") && !check(b"Secret"));
        assert!(with_default_limits(None).is_password(b"whatever"));
    }
}
