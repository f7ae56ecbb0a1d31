//! What an instance may use of the machine: its user, its variables and secrets, its limits, its sandbox.
//!
//! Owns the steps between `fork` and `exec` that put an instance into its bounds. The guardian, which has one thread,
//! forks for an instance that asks for any of this (ADR 0016); all others are spawned as ever. The order of the steps
//! matters and is that of [`enter`].
//!
//! ```text
//!  guardian                         forked child
//!  ─────────                        ────────────
//!  user, group → numbers
//!  cgroup made, limits written ───▶ joins its cgroup, reads env files and secrets, rlimits,
//!                                   capabilities away, group, user, landlock, seccomp ──▶ exec
//!        ◀── notices, or why not ──┘
//! ```
//!
//! Invariant: what is asked for and cannot be had either fails the start or, where the kernel lacks it, is said in a
//! notice. Nothing is left out silently.
//! Invariant: contents of secrets and env files are in no message, no log line
//! and no status; only the child reads them.

#[cfg(target_os = "linux")]
mod account;
#[cfg(target_os = "linux")]
mod bounds;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(
    target_os = "linux",
    expect(dead_code, unreachable_pub, reason = "compiled in tests, so that it keeps compiling")
)]
mod elsewhere;
#[cfg(target_os = "linux")]
mod enter;
mod env_file;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod rlimits;
#[cfg(target_os = "linux")]
mod secrets;
mod settings;
#[cfg(target_os = "linux")]
mod view;

#[cfg(not(target_os = "linux"))]
use elsewhere as bounds;

pub use bounds::check_account;

/// What a service on the pipe would have of a strict sandbox on this machine. Puts this process, which has one thread,
/// into one for good.
///
/// # Errors
/// Why it cannot be had.
pub fn probe_sandbox() -> Result<SandboxBounds, String> {
    probe()
}

pub(crate) use bounds::{Bounds, Prepared, enter, probe, uid};
pub use env_file::{EnvFileError, is_own_variable, parse as parse_env_file};
pub(crate) use settings::ToExecute;
pub use settings::{CgroupLimits, Isolation, ResourceLimits, Sandbox, SandboxBounds};
