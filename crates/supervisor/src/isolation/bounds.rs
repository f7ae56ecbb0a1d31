//! The guardian's part: what is looked up and made before the fork.

pub(crate) use super::enter::{Prepared, enter, probe};

use super::account;
use super::cgroup::Cgroups;
use super::settings::{Isolation, ToExecute};

/// What a guardian keeps for the bounds of its instances.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    cgroups: Cgroups,
}

impl Bounds {
    /// What the forked child needs, and what cannot be had.
    pub(crate) fn prepare<'a>(
        &mut self,
        program: &ToExecute<'a>,
        isolation: &'a Isolation,
        notices: &mut Vec<String>,
    ) -> Result<Prepared<'a>, String> {
        let account = account::resolve(isolation.user.as_deref(), isolation.group.as_deref())?;
        let cgroup = self.cgroups.make(program.id, isolation, notices);
        let ToExecute { program, dir, env, .. } = *program;
        Ok(Prepared { isolation, account, cgroup, program, dir, env })
    }

    /// An instance has ended; gives back the limit that it reached.
    pub(crate) fn ended(&mut self, id: u64) -> Option<String> {
        self.cgroups.ended(id)
    }

    pub(crate) fn sweep(&mut self) {
        self.cgroups.sweep();
    }

    pub(crate) fn kill_all(&mut self) {
        self.cgroups.kill_all();
    }
}

/// The number of the user that instances run as, if it is not the gateway's own; also none if there is no such user,
/// which a start says.
pub(crate) fn uid(isolation: &Isolation) -> Option<u32> {
    isolation.user.as_ref()?;
    let account = account::resolve(isolation.user.as_deref(), isolation.group.as_deref()).ok()??;
    Some(account.uid.as_raw())
}

/// Why a user or group cannot be had.
///
/// # Errors
/// There is no such user or group: a sentence fragment with what to do.
pub fn check_account(user: Option<&str>, group: Option<&str>) -> Result<(), String> {
    account::resolve(user, group).map(|_| ())
}
