//! Ports that no parallel test process takes meanwhile. tests/e2e/ports.py has the same range and locks.

use crate::error::Error;
use rustix::fs::{FlockOperation, flock};
use socket2::{Domain, Socket, Type};
use std::fs::{File, OpenOptions, create_dir_all};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

// Ports, and the ports of the cluster bus above them, lie apart from each other and below the range from which Linux
// takes ports of outgoing connections (32768 and more).
const FIRST: u32 = 11_000;
const COUNT: u32 = 10_000;
/// Redis: "the bus port is the data port plus 10000".
const BUS_OFFSET: u16 = 10_000;
const MAX_TRIES: u32 = 1_000;

/// A port that is ours until this is dropped, also while nothing listens on it.
#[derive(Debug)]
pub struct PortLease {
    port: u16,
    /// Locked; the kernel unlocks it when the process ends, however it ends.
    _lock: File,
}

impl PortLease {
    /// Takes a port whose bus port is free, too.
    ///
    /// # Errors
    /// The folder of the locks cannot be written, or no port of a thousand is free.
    pub fn take() -> Result<Self, Error> {
        let dir = lock_dir();
        create_dir_all(&dir).map_err(Error::io("making the folder of port locks"))?;
        for _ in 0..MAX_TRIES {
            let port = next_candidate();
            let path = dir.join(port.to_string());
            let lock = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(path)
                .map_err(Error::io("opening the lock of a port"))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
                && is_free(port)
                && is_free(port + BUS_OFFSET)
            {
                return Ok(Self { port, _lock: lock });
            }
        }
        Err(Error::NoPort { tried: MAX_TRIES })
    }

    /// Its number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

static LOCKS: OnceLock<PathBuf> = OnceLock::new();

/// Puts the locks of ports into this folder from now on, for a program that is to leave nothing behind: that of all
/// tests of a user stays where temporary files are. Only the first call counts.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// pilotlight_testkit::keep_port_locks_in(folder.path());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn keep_port_locks_in(folder: impl Into<PathBuf>) {
    let _ = LOCKS.set(folder.into());
}

fn lock_dir() -> PathBuf {
    let of_all = || std::env::temp_dir().join(format!("pilotlight-ports-{}", rustix::process::getuid().as_raw()));
    LOCKS.get().cloned().unwrap_or_else(of_all)
}

/// Processes begin at different places, so they seldom meet.
fn next_candidate() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(61);
    let index = start.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
    u16::try_from(FIRST + index).unwrap_or(u16::MAX)
}

/// The socket never listens: a process that another test forks at this moment holds a copy of it until it runs its
/// program, and a copy that listened would keep the port from its server.
fn is_free(port: u16) -> bool {
    let bind = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())
    };
    bind().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::TcpListener;

    #[test]
    fn leases_are_distinct_and_bindable() {
        let leases: Vec<_> = (0..50).map(|_| PortLease::take().unwrap()).collect();
        let ports: HashSet<_> = leases.iter().map(PortLease::port).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| is_free(*port) && is_free(port + BUS_OFFSET)));
    }

    #[test]
    fn a_port_that_is_listened_to_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn a_leased_port_is_locked_for_others() {
        let lease = PortLease::take().unwrap();
        let other = File::open(lock_dir().join(lease.port().to_string())).unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(lease);
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok());
    }
}
