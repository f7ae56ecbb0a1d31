//! Systems that are not Linux: a service with isolation fails to start, and the message says why.

use super::settings::{Isolation, SandboxBounds, ToExecute};
use std::os::fd::OwnedFd;

/// Nothing.
#[derive(Debug, Default)]
pub(crate) struct Bounds;

/// Never made.
#[derive(Debug)]
pub(crate) enum Prepared<'a> {
    #[expect(dead_code, reason = "carries the lifetime that it has on Linux")]
    Never(std::convert::Infallible, &'a ()),
}

/// What `exec` is to be given.
#[derive(Debug, Default)]
pub(crate) struct Entered {
    pub(crate) env: Vec<(String, String)>,
    pub(crate) notices: Vec<String>,
    pub(crate) sandbox: Option<SandboxBounds>,
    #[expect(dead_code, reason = "as on Linux")]
    pub(crate) held: Vec<OwnedFd>,
}

impl Bounds {
    pub(crate) fn prepare<'a>(
        &mut self,
        _program: &ToExecute<'a>,
        _isolation: &'a Isolation,
        _notices: &mut Vec<String>,
    ) -> Result<Prepared<'a>, String> {
        Err("`user`, `group`, `env_file`, `secrets`, `limits`, `cgroup` and `sandbox` need Linux; take them away"
            .to_owned())
    }

    pub(crate) fn ended(&mut self, _id: u64) -> Option<String> {
        None
    }

    pub(crate) fn sweep(&mut self) {}

    pub(crate) fn kill_all(&mut self) {}
}

pub(crate) fn enter(_prepared: &Prepared<'_>) -> Result<Entered, String> {
    Ok(Entered::default())
}

pub(crate) fn probe() -> Result<SandboxBounds, String> {
    Ok(SandboxBounds::default())
}

pub(crate) fn uid(_isolation: &Isolation) -> Option<u32> {
    None
}

/// Nothing is looked up here.
///
/// # Errors
/// None.
pub fn check_account(_user: Option<&str>, _group: Option<&str>) -> Result<(), String> {
    Ok(())
}
