//! The system calls that `sandbox = "strict"` refuses: a seccomp filter.
//!
//! A list of what is refused, not of what is allowed: a list of allowed calls differs between languages and versions of
//! their runtimes, and breaks services when they are updated. What is refused has no place in a service: changing the
//! machine, looking into other processes, opening network sockets, new namespaces, and io_uring, which would do all of
//! it past the filter.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};
use std::collections::BTreeMap;

/// Refused whatever their arguments.
const REFUSED: &[i64] = &[
    // mounts and roots
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // namespaces; `clone` has a rule of its own
    libc::SYS_unshare,
    libc::SYS_setns,
    // other processes, and what the kernel knows of them
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    // the keyring
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // the kernel itself
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    // the clock and the names of the machine
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // past this filter
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Calls that give a file its mode: which argument that is, and which one says whether it counts.
const MODES: &[(i64, u8, Option<u8>)] = &[
    (libc::SYS_fchmod, 1, None),
    (libc::SYS_fchmodat, 2, None),
    (libc::SYS_fchmodat2, 2, None),
    (libc::SYS_mknodat, 2, None),
    (libc::SYS_openat, 3, Some(2)),
];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(i64, u8, Option<u8>)] =
    &[(libc::SYS_chmod, 1, None), (libc::SYS_creat, 1, None), (libc::SYS_mknod, 1, None), (libc::SYS_open, 2, Some(1))];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(i64, u8, Option<u8>)] = &[];

/// The bits of the second argument of `socket` that say its kind.
const SOCKET_KINDS: u64 = 0xf;

/// `CLONE_NEWTIME`, which `clone` has no room for, is missing on purpose: it is the number of a signal there.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Whether Unix sockets may be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connecting {
    Allowed,
    /// Nor used without a connection. What was inherited, or accepted, is not meant.
    Refused,
}

/// Installs the filter for this process and what it becomes; sets no-new-privileges.
pub(super) fn refuse(connecting: Connecting) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("sandbox: seccomp: {error}");
    for program in programs(connecting).map_err(|error| failed(&error))? {
        apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn programs(connecting: Connecting) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    rules.extend(REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())));
    // Only sockets of this machine: AF_UNIX. The argument is a register, so it cannot change after it was looked at.
    let other_family = when(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?;
    let mut sockets = vec![other_family.clone()];
    if connecting == Connecting::Refused {
        rules.insert(libc::SYS_connect, Vec::new());
        // They name whom they send to with each message. `SOCK_RAW` is the same for Unix sockets.
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            let is_kind = SeccompCmpOp::MaskedEq(SOCKET_KINDS);
            let kind = SeccompCondition::new(1, SeccompCmpArgLen::Dword, is_kind, kind as u64)?;
            sockets.push(SeccompRule::new(vec![kind])?);
        }
    }
    rules.insert(libc::SYS_socket, sockets);
    rules.insert(libc::SYS_socketpair, vec![other_family]);
    let namespace = |flag: u32| SeccompRule::new(vec![has(0, flag)?]);
    let flags = (0..u32::BITS).map(|bit| 1 << bit).filter(|flag| NAMESPACES as u32 & flag != 0);
    rules.insert(libc::SYS_clone, flags.map(namespace).collect::<Result<_, _>>()?);
    // Typing into the terminal that Pilotlight was started from.
    // Their type is another one with musl; they have 32 bits, and so does what is compared.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| u64::from(request as u32));
    let request = |value: u64| when(1, SeccompCmpOp::Eq, value);
    rules.insert(libc::SYS_ioctl, typing.map(request).into_iter().collect::<Result<_, _>>()?);
    // Programs that run as whoever owns them: of no use in here, but to somebody outside.
    for (call, mode, flags) in MODES.iter().chain(MODES_HERE) {
        let mut all = Vec::new();
        for bit in [libc::S_ISUID, libc::S_ISGID] {
            let mode = has(*mode, bit)?;
            match flags {
                None => all.push(SeccompRule::new(vec![mode])?),
                // Without one of these the argument is whatever was in the register.
                Some(flags) => {
                    for flag in [libc::O_CREAT, libc::O_TMPFILE] {
                        all.push(SeccompRule::new(vec![mode.clone(), has(*flags, flag as u32)?])?);
                    }
                }
            }
        }
        rules.insert(*call, all);
    }
    let refused: BpfProgram = filter(rules, libc::EPERM)?;
    // Their flags lie in memory, where no filter can look; ENOSYS makes C libraries fall back to `clone` and `openat`.
    let unknown =
        filter(BTreeMap::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())]), libc::ENOSYS)?;
    Ok([without_x32(refused), unknown])
}

/// Whether an argument has all these bits.
fn has(argument: u8, bits: u32) -> Result<SeccompCondition, seccompiler::BackendError> {
    let bits = u64::from(bits);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)
}

fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?])
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch)?.try_into()
}

/// On x86-64 a kernel may know each call a second time under a number with this bit (x32), which a list by numbers
/// would miss.
fn without_x32(mut program: BpfProgram) -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    if cfg!(target_arch = "x86_64") {
        let check = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // the call's number
            step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        ];
        program.splice(0..0, check);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_fit_the_kernel() {
        for connecting in [Connecting::Allowed, Connecting::Refused] {
            for program in programs(connecting).unwrap() {
                assert!((4..4096).contains(&program.len()), "{}", program.len());
            }
        }
    }
}
