//! `setrlimit`.

use super::settings::ResourceLimits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// After the soft limit of processor time, at which SIGXCPU comes, before SIGKILL.
const CPU_GRACE_SECONDS: u64 = 5;

/// Limits this process and what it becomes.
pub(super) fn apply(limits: &ResourceLimits) -> Result<(), String> {
    let all = [
        ("open_files", Resource::Nofile, limits.open_files, 0),
        ("processes", Resource::Nproc, limits.processes, 0),
        ("cpu_seconds", Resource::Cpu, limits.cpu_seconds, CPU_GRACE_SECONDS),
        ("file_size", Resource::Fsize, limits.file_size, 0),
        ("core", Resource::Core, limits.core, 0),
        ("address_space", Resource::As, limits.address_space, 0),
    ];
    for (name, resource, wanted, grace) in all {
        let Some(wanted) = wanted else { continue };
        let own = getrlimit(resource).maximum;
        let hard = own.map_or(wanted + grace, |own| own.min(wanted + grace).max(wanted));
        let limit = Rlimit { current: Some(wanted), maximum: Some(hard) };
        setrlimit(resource, limit).map_err(|error| match own {
            Some(own) if own < wanted => {
                format!("limits.{name} = {wanted} is more than Pilotlight itself may have ({own}); lower it, or raise that with `ulimit`, LimitNOFILE= and the like")
            }
            _ => format!("limits.{name} = {wanted} cannot be set: {error}"),
        })?;
    }
    Ok(())
}
