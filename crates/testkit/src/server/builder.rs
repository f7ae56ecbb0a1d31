//! From what a test asks for to a configuration file and a running server.

use super::certificates::Certificates;
use super::{ADMIN_PASSWORD, ADMIN_USER, Server, socket_in};
use crate::error::Error;
use crate::port::PortLease;
use crate::process::Process;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Another process may take the port between our look and the server's `bind`.
const MAX_PORT_TRIES: u32 = 5;
/// The server's words for it.
const PORT_TAKEN: &str = "Address already in use";

/// Whether a server with TLS wants certificates of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// It does not ask for one.
    None,
    /// It checks one that is given.
    Optional,
    /// It refuses clients without one.
    Required,
}

/// What a [`Server`] is started with.
#[derive(Debug, Default, Clone)]
#[must_use]
pub struct ServerBuilder {
    lines: Vec<String>,
    password: Option<String>,
    acl_file: Option<String>,
    tls: Option<(Arc<Certificates>, ClientAuth)>,
    generate_tls: Option<ClientAuth>,
    is_sentinel: bool,
    program: Option<PathBuf>,
}

impl Server {
    /// A server with the default configuration.
    ///
    /// # Errors
    /// If none is installed, or it does not answer in time; the error has the end of its log.
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// A server to be configured first.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }
}

impl ServerBuilder {
    /// Adds a line to the configuration file; it wins over the lines of the testkit.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// `requirepass`: clients need this password.
    pub fn requirepass(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a user: an ACL rule like `alice on >secret ~* &* +@all`. Not together with [`acl_file`](Self::acl_file).
    pub fn user(self, rule: &str) -> Self {
        self.config(format!("user {rule}"))
    }

    /// Uses an ACL file with this content (lines of `user …`), so `ACL LOAD` works; the testkit's own user is added to
    /// it.
    pub fn acl_file(mut self, text: impl Into<String>) -> Self {
        self.acl_file = Some(text.into());
        self
    }

    /// TLS on the TCP port, no plain port, with new certificates for `localhost` and the loopback addresses.
    pub fn tls(mut self, client_auth: ClientAuth) -> Self {
        self.generate_tls = Some(client_auth);
        self.tls = None;
        self
    }

    /// TLS with certificates made before, such as those of another server, or for other names.
    pub fn tls_with(mut self, certificates: Arc<Certificates>, client_auth: ClientAuth) -> Self {
        self.tls = Some((certificates, client_auth));
        self.generate_tls = None;
        self
    }

    /// Runs this server instead of the one that is installed.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Allows `DEBUG` (`enable-debug-command yes`, which exists since Redis 7.0).
    pub fn debug_commands(self) -> Self {
        self.config("enable-debug-command yes")
    }

    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start(self) -> Result<Server, Error> {
        self.spawn()?.ready()
    }

    pub(crate) fn sentinel(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Makes the certificates now, so that copies of this builder share them.
    pub(crate) fn with_certificates(mut self) -> Result<Self, Error> {
        if let Some(client_auth) = self.generate_tls.take() {
            self.tls = Some((Arc::new(Certificates::generate()?), client_auth));
        }
        Ok(self)
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some() || self.generate_tls.is_some()
    }

    /// Starts it without waiting for it, so several can start at the same time.
    pub(crate) fn spawn(self) -> Result<Starting, Error> {
        let builder = self.with_certificates()?;
        let server = builder.spawn_once()?;
        Ok(Starting { server, builder })
    }

    fn spawn_once(&self) -> Result<Server, Error> {
        let dir =
            tempfile::Builder::new().prefix("pilotlight-redis-").tempdir().map_err(Error::io("making a folder"))?;
        let port = PortLease::take()?;
        let config = dir.path().join("redis.conf");
        fs::write(&config, self.config_text(port.port(), dir.path())?)
            .map_err(Error::io("writing the configuration"))?;
        let mut args = vec![config.display().to_string()];
        if self.is_sentinel {
            args.push("--sentinel".to_owned());
        }
        Ok(Server {
            process: Process::spawn(self.program.clone(), args, dir.path().join("log"))?,
            admin: None.into(),
            is_stopped: false.into(),
            certificates: self.tls.as_ref().map(|(certificates, _)| Arc::clone(certificates)),
            password: self.password.clone(),
            dir,
            port,
        })
    }

    fn config_text(&self, port: u16, dir: &Path) -> Result<String, Error> {
        let mut text = format!(
            "bind 127.0.0.1\ndir {dir}\nunixsocket {socket}\nunixsocketperm 700\n",
            dir = quote(&dir.display().to_string()),
            socket = quote(&socket_in(dir).display().to_string())
        );
        match &self.tls {
            None => text += &format!("port {port}\n"),
            Some((certificates, client_auth)) => text += &tls_text(certificates, *client_auth, port),
        }
        if !self.is_sentinel {
            text += &format!("save \"\"\nappendonly no\nmasteruser {ADMIN_USER}\nmasterauth {ADMIN_PASSWORD}\n");
            // The default makes a replica wait 5 seconds for further replicas.
            text += "repl-diskless-sync yes\nrepl-diskless-sync-delay 0\n";
        }
        if let Some(password) = &self.password {
            let _ = writeln!(text, "requirepass {}", quote(password));
        }
        let admin = format!("user {ADMIN_USER} on >{ADMIN_PASSWORD} ~* &* +@all\n");
        if let Some(users) = &self.acl_file {
            let path = dir.join("users.acl");
            fs::write(&path, format!("{users}\n{admin}")).map_err(Error::io("writing the ACL file"))?;
            let _ = writeln!(text, "aclfile {}", quote(&path.display().to_string()));
        } else {
            text += &admin;
        }
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        Ok(text)
    }
}

/// A server that was spawned and does not answer yet.
pub(crate) struct Starting {
    server: Server,
    builder: ServerBuilder,
}

impl Starting {
    /// Waits until it answers. If something outside of the testkit took the port meanwhile, it starts on another one.
    pub(crate) fn ready(mut self) -> Result<Server, Error> {
        for _ in 1..MAX_PORT_TRIES {
            match self.server.wait_ready() {
                Err(Error::Exited { log, .. }) if log.contains(PORT_TAKEN) => {
                    self.server = self.builder.spawn_once()?;
                }
                other => return other.map(|()| self.server),
            }
        }
        self.server.wait_ready().map(|()| self.server)
    }
}

fn tls_text(certificates: &Certificates, client_auth: ClientAuth, port: u16) -> String {
    let client_auth = match client_auth {
        ClientAuth::None => "no",
        ClientAuth::Optional => "optional",
        ClientAuth::Required => "yes",
    };
    format!(
        "port 0\ntls-port {port}\ntls-cert-file {cert}\ntls-key-file {key}\ntls-ca-cert-file {ca}\ntls-auth-clients {client_auth}\ntls-replication yes\n",
        cert = quote(&certificates.server_path().display().to_string()),
        key = quote(&certificates.server_key_path().display().to_string()),
        ca = quote(&certificates.ca_path().display().to_string()),
    )
}

/// A word of a configuration file, whatever it contains.
fn quote(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
