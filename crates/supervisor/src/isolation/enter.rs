//! The steps between `fork` and `exec`, in the only order that works.

use super::account::Account;
use super::calls::Connecting;
use super::settings::{Isolation, Sandbox, SandboxBounds};
use super::view::Processes;
use super::{calls, env_file, files, rlimits, secrets, view};
use rustix::fs::Access;
use rustix::process::{Gid, getuid};
use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What the guardian has prepared.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) isolation: &'a Isolation,
    pub(crate) account: Option<Account>,
    /// The folder of its cgroup.
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) program: &'a OsStr,
    pub(crate) dir: Option<&'a Path>,
    /// Variables that the instance gets in any case.
    pub(crate) env: &'a [(String, String)],
}

/// What `exec` is to be given.
#[derive(Debug, Default)]
pub(crate) struct Entered {
    pub(crate) env: Vec<(String, String)>,
    pub(crate) notices: Vec<String>,
    /// What of its sandbox is in force, if it has one.
    pub(crate) sandbox: Option<SandboxBounds>,
    /// To be kept open until `exec`.
    pub(crate) held: Vec<OwnedFd>,
}

/// Puts this process into its bounds for good. Only for a process of one thread that is about to `exec`, or to end.
pub(crate) fn enter(prepared: &Prepared<'_>) -> Result<Entered, String> {
    let isolation = prepared.isolation;
    let mut entered = Entered::default();
    // As the gateway's user, who may read and join what the instance may not.
    if let Some(cgroup) = &prepared.cgroup {
        fs::write(cgroup.join("cgroup.procs"), "0")
            .map_err(|error| format!("cgroup: {}: {error}", cgroup.display()))?;
    }
    variables(isolation, &mut entered)?;
    rlimits::apply(&isolation.limits)?;
    // While it may mount, and before it may not see what is shown.
    let viewed = match &isolation.sandbox {
        Sandbox::Strict { read, write } => Some(view::enter(shown(prepared, read, write)?)),
        Sandbox::None => None,
    };
    if viewed.is_some() {
        drop_capabilities()?;
    }
    if let Some(account) = &prepared.account {
        become_account(account)?;
        reachable(account, prepared)?;
        if let (Some(name), Some(home)) = (&account.name, &account.home) {
            for (variable, value) in [("USER", name), ("LOGNAME", name), ("HOME", home)] {
                entered.env.push((variable.to_owned(), value.clone()));
            }
        } else if isolation.user.is_some() {
            entered.env.push(("HOME".to_owned(), "/".to_owned())); // not Pilotlight's own
        }
    }
    // As the instance's user, who must be able to see what it may use.
    if let Sandbox::Strict { read, write } = &isolation.sandbox {
        let dir = prepared.dir.unwrap_or(Path::new("."));
        let (program, socket) = (located(prepared, dir), pipe_socket(prepared));
        set_no_new_privs(true).map_err(|error| format!("sandbox: no-new-privileges: {error}"))?;
        let rules = files::enforce(&program, socket, dir, read, write)?;
        // Where nothing else keeps it from sockets, one that has no use for connections makes none.
        let view = viewed.unwrap_or_else(|| Err(String::new()));
        let is_lone = socket.is_none() && read.is_empty() && write.is_empty();
        let must_not = view.is_err() && !rules.has_unix_sockets() && is_lone;
        calls::refuse(if must_not { Connecting::Refused } else { Connecting::Allowed })?;
        entered.notices.extend(files::lacking(rules));
        entered.notices.extend(view.as_ref().err().map(|why| format!("sandbox: no mount namespace: {why}")));
        entered.sandbox = Some(in_force(rules, view.ok(), must_not));
    }
    if isolation.limits.processes.is_some() && prepared.cgroup.is_none() && getuid().is_root() {
        entered.notices.push(
            "limits.processes has no effect: the kernel does not count root's processes; give the service a `user`"
                .into(),
        );
    }
    Ok(entered)
}

/// What a service that uses the pipe would have of a strict sandbox. Puts this process into one for good.
pub(crate) fn probe() -> Result<SandboxBounds, String> {
    let sandbox = Sandbox::Strict { read: Vec::new(), write: Vec::new() };
    let isolation = Isolation { sandbox, ..Isolation::default() };
    let env = [("PILOTLIGHT_SOCKET".to_owned(), "/".to_owned())];
    let (account, cgroup, program) = (None, None, OsStr::new("/bin/sh"));
    let dir = Some(Path::new("/usr"));
    let entered = enter(&Prepared { isolation: &isolation, account, cgroup, program, dir, env: &env })?;
    entered.sandbox.ok_or_else(|| "it is in no sandbox".to_owned())
}

fn variables(isolation: &Isolation, entered: &mut Entered) -> Result<(), String> {
    for file in &isolation.env_files {
        let content = secrets::read(file, "env_file", &mut entered.notices)?;
        let text = String::from_utf8(content).map_err(|_| format!("env_file: {} is not UTF-8", file.display()))?;
        let variables = env_file::parse(&text).map_err(|error| format!("env_file: {}: {error}", file.display()))?;
        entered.env.extend(variables);
    }
    for (name, file) in &isolation.secrets {
        let content = secrets::read(file, &format!("secrets.{name}"), &mut entered.notices)?;
        let (held, path) = secrets::hold(name, &content)?;
        entered.held.push(held);
        entered.env.push((format!("{name}_FILE"), path));
    }
    Ok(())
}

/// What it is to see of the files, besides the system's.
fn shown(prepared: &Prepared<'_>, read: &[PathBuf], write: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let here = std::env::current_dir().map_err(|error| format!("sandbox: the working folder is not known: {error}"))?;
    let dir = prepared.dir.map_or_else(|| here.clone(), |dir| here.join(dir));
    let program = dir.join(located(prepared, &dir));
    let mut all: Vec<PathBuf> = files::programs(&program);
    all.extend(read.iter().chain(write).map(|path| here.join(path)));
    all.extend(pipe_socket(prepared).map(Path::to_owned));
    all.push(dir);
    Ok(all)
}

fn pipe_socket<'a>(prepared: &Prepared<'a>) -> Option<&'a Path> {
    prepared.env.iter().find(|(name, _)| name == "PILOTLIGHT_SOCKET").map(|(_, path)| Path::new(path))
}

fn in_force(rules: files::Rules, view: Option<Processes>, no_connections: bool) -> SandboxBounds {
    let by = |is_there: bool, name: &str| is_there.then(|| name.to_owned());
    let (landlock, seccomp, namespace) = ("landlock", "seccomp", "mount namespace");
    SandboxBounds {
        files: by(rules.has_files(), landlock).or(by(view.is_some(), namespace)),
        network: by(true, seccomp),
        unix_sockets: by(view.is_some(), namespace)
            .or(by(rules.has_unix_sockets(), landlock))
            .or(by(no_connections, seccomp)),
        abstract_sockets: by(rules.has_scopes(), landlock).or(by(no_connections, seccomp)),
        signals: by(rules.has_scopes(), landlock),
        processes: by(view == Some(Processes::Hidden) && rules.has_files(), namespace),
        calls: by(true, seccomp),
    }
}

/// Takes away what root may do beyond its files: the set that bounds what `exec` gives.
fn drop_capabilities() -> Result<(), String> {
    let failed = |error| format!("sandbox: capabilities: {error}");
    if !capabilities(None).map_err(failed)?.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(()); // an ordinary user has none to lose
    }
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) => break, // the kernel's last one was before
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

fn become_account(account: &Account) -> Result<(), String> {
    let (uid, gid) = (account.uid, account.gid);
    let failed = |error: rustix::io::Errno| {
        if error == rustix::io::Errno::PERM {
            format!(
                "it cannot be run as user {} and group {}: Pilotlight runs as user {} and may not change that; start it as root, or take `user` and `group` away",
                uid.as_raw(),
                gid.as_raw(),
                getuid().as_raw()
            )
        } else {
            format!("it cannot be run as user {} and group {}: {error}", uid.as_raw(), gid.as_raw())
        }
    };
    if uid == getuid() && gid == rustix::process::getgid() && !uid.is_root() {
        return Ok(()); // what it is already needs no privilege
    }
    let groups: Vec<Gid> = account.groups.iter().copied().chain([gid]).collect();
    set_thread_groups(&groups).map_err(failed)?;
    set_thread_res_gid(gid, gid, gid).map_err(failed)?;
    set_thread_res_uid(uid, uid, uid).map_err(failed)
}

/// Says what the user may not reach; `exec` would say of both only that it was not permitted.
fn reachable(account: &Account, prepared: &Prepared<'_>) -> Result<(), String> {
    let user = account.name.clone().unwrap_or_else(|| account.uid.as_raw().to_string());
    let may =
        |path: &Path| rustix::fs::access(path, Access::EXEC_OK).map_err(|error| (path.display().to_string(), error));
    if let Some(dir) = prepared.dir {
        may(dir).map_err(|(path, error)| format!("dir: user {user} may not enter {path}: {error}"))?;
    }
    let has_slash = prepared.program.as_encoded_bytes().contains(&b'/');
    let program = prepared.dir.unwrap_or(Path::new(".")).join(prepared.program);
    if has_slash {
        may(&program).map_err(|(path, error)| format!("command: user {user} may not execute {path}: {error}"))?;
    }
    Ok(())
}

/// The program's file, as `exec` will find it.
fn located(prepared: &Prepared<'_>, dir: &Path) -> PathBuf {
    let program = Path::new(prepared.program);
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return dir.join(program);
    }
    let own = prepared.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| OsString::from(path));
    // Without PATH the system looks there, not in the working folder.
    let path = own.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| "/bin:/usr/bin".into());
    let found = std::env::split_paths(&path).map(|folder| dir.join(folder).join(program)).find(|file| file.is_file());
    found.unwrap_or_else(|| program.to_owned())
}
