//! What of the keys a scan asks for.

use bytes::Bytes;

use crate::command::{Arg, Command};
use crate::commands::spec;

/// What of the keys is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    pub(super) pattern: Option<Bytes>,
    pub(super) count: Option<u64>,
    pub(super) kind: Option<Bytes>,
}

impl Filter {
    pub(super) fn command<'a>(&self, cursor: u64) -> Command<'a> {
        let mut command = Command::new(&spec::SCAN).arg(cursor);
        if let Some(pattern) = &self.pattern {
            command = command.arg("MATCH").arg(Arg::Shared(pattern.clone()));
        }
        if let Some(count) = self.count {
            command = command.arg("COUNT").arg(count);
        }
        if let Some(kind) = &self.kind {
            command = command.arg("TYPE").arg(Arg::Shared(kind.clone()));
        }
        command
    }
}
