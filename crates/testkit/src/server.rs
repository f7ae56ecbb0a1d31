//! One real server: its configuration, readiness, faults and admin commands.

pub(crate) mod builder;
pub(crate) mod certificates;

use certificates::Certificates;

use crate::admin::{Admin, Reply, first_words};
use crate::error::Error;
use crate::port::PortLease;
use crate::process::Process;
use crate::wait::{Look, until};
use parking_lot::Mutex;
use rustix::process::Signal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// How long a server has to answer its first PING.
const READY_LIMIT: Duration = Duration::from_secs(10);
const READY_EVERY: Duration = Duration::from_millis(2);
/// Redis accepts commands from this user whatever a test does to the default one.
pub(crate) const ADMIN_USER: &str = "testkit";
pub(crate) const ADMIN_PASSWORD: &str = "testkit-admin";

/// A running `redis-server` (or `valkey-server`) on the loopback interface, without persistence. Dropping it kills
/// exactly this process and removes its folder.
///
/// It also has a user `testkit`, by which [`command`](Self::command) and replication log in, and a Unix socket.
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: the process ends before its folder goes and before its port is given to others.
    process: Process,
    admin: Mutex<Option<Admin>>,
    is_stopped: AtomicBool,
    certificates: Option<Arc<Certificates>>,
    password: Option<String>,
    dir: TempDir,
    port: PortLease,
}

impl Server {
    /// The TCP port: with TLS if the server has TLS, plain otherwise.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// The TCP address.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// `redis://127.0.0.1:PORT`, `rediss://` with TLS; with the password if there is one.
    pub fn url(&self) -> String {
        let scheme = if self.certificates.is_some() { "rediss" } else { "redis" };
        let password =
            self.password.as_deref().map(|password| format!(":{}@", percent_encode(password))).unwrap_or_default();
        format!("{scheme}://{password}{}", self.addr())
    }

    /// The Unix socket, which every server has.
    pub fn unix_path(&self) -> PathBuf {
        socket_in(self.dir.path())
    }

    /// The folder with its configuration, log and data.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The certificates, if it was built with TLS.
    pub fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.certificates.as_ref()
    }

    /// The process id; `None` while it is killed.
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// SIGKILL, and waits for the end. Nothing happens if it is killed already.
    ///
    /// # Errors
    /// If the signal fails.
    pub fn kill(&self) -> Result<(), Error> {
        self.process.kill()
    }

    /// SIGSTOP: connections stay open, nothing is answered. Also admin commands wait, then.
    ///
    /// # Errors
    /// If it does not run.
    pub fn stop(&self) -> Result<(), Error> {
        self.process.signal(Signal::STOP)?;
        self.is_stopped.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// If it does not run.
    pub fn cont(&self) -> Result<(), Error> {
        self.process.signal(Signal::CONT)?;
        self.is_stopped.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Kills it if it runs, starts it on the same port and in the same folder, and waits until it answers. Its data are
    /// gone; a cluster node keeps its id and its view of the cluster.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub fn restart(&self) -> Result<(), Error> {
        self.process.respawn()?;
        self.is_stopped.store(false, Ordering::Relaxed);
        self.wait_ready()
    }

    /// One admin command over a connection of its own.
    ///
    /// # Errors
    /// If the server does not run, is silent for 20 seconds, or refuses the command.
    pub fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply, Error> {
        let mut kept = self.admin.lock();
        let mut admin = match kept.take().filter(|admin| !admin.is_stale()) {
            Some(admin) => admin,
            None => self.connect_admin()?,
        };
        let result = admin.command(args);
        // After anything but a whole reply the connection's state is unknown.
        if matches!(result, Ok(_) | Err(Error::Refused { .. })) {
            *kept = Some(admin);
        }
        result
    }

    /// As [`command`](Self::command), for a command whose reply is `OK`.
    pub(crate) fn command_ok<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<(), Error> {
        let reply = self.command(args)?;
        if reply == Reply::Text(b"OK".to_vec()) {
            return Ok(());
        }
        Err(Error::UnexpectedReply { command: first_words(args), reply: format!("{reply:?}") })
    }

    /// `CONFIG SET name value`.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn config_set(&self, name: &str, value: &str) -> Result<(), Error> {
        self.command_ok(&["CONFIG", "SET", name, value])
    }

    /// The value of one line of `INFO everything`.
    ///
    /// # Errors
    /// As [`command`](Self::command), and if there is no such line.
    pub fn info(&self, name: &str) -> Result<String, Error> {
        let reply = self.command(&["INFO", "everything"])?;
        field(&reply.text(), name)
            .map(str::to_owned)
            .ok_or_else(|| Error::UnexpectedReply { command: "INFO".to_owned(), reply: format!("no {name}") })
    }

    /// Kills the connections of all clients, also of subscribers, except the admin connection. Says how many there
    /// were.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn client_kill_all(&self) -> Result<i64, Error> {
        let mut killed = 0;
        for kind in ["normal", "pubsub"] {
            killed += self.command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"])?.integer().unwrap_or(0);
        }
        Ok(killed)
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// Whether it runs, is not stopped, and answers.
    pub(crate) fn is_responsive(&self) -> bool {
        !self.is_stopped.load(Ordering::Relaxed) && self.command(&["PING"]).is_ok()
    }

    fn connect_admin(&self) -> Result<Admin, Error> {
        if self.pid().is_none() {
            return Err(Error::Down);
        }
        let mut admin = Admin::connect(&self.unix_path())?;
        admin.command(&["AUTH", ADMIN_USER, ADMIN_PASSWORD])?;
        Ok(admin)
    }

    fn wait_ready(&self) -> Result<(), Error> {
        let mut status = None;
        let ready = until("an answer to PING", READY_LIMIT, READY_EVERY, || {
            status = self.process.ended()?;
            if status.is_some() {
                return Ok(Look::Here(()));
            }
            self.command(&["PING"]).map(|_| Look::Here(()))
        });
        match (ready, status) {
            (Ok(()), None) => Ok(()),
            (_, Some(status)) => Err(Error::Exited { status, log: self.log_tail() }),
            (Err(Error::Timeout { within, last, .. }), None) => {
                Err(Error::NotReady { within, last, log: self.log_tail() })
            }
            (Err(other), None) => Err(other),
        }
    }
}

fn socket_in(dir: &Path) -> PathBuf {
    dir.join("redis.sock")
}

/// The value of a `name:value` line, as in INFO.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_info_are_found_whole() {
        let text = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\n";
        assert_eq!(field(text, "role"), Some("master"));
        assert_eq!(field(text, "redis"), None);
    }

    #[test]
    fn passwords_are_encoded_for_urls() {
        assert_eq!(percent_encode("a/b@c:d"), "a%2Fb%40c%3Ad");
    }
}
