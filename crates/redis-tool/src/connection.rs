//! The options that say which server, and who asks; the same for every mode.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Args};
use pilotlight_redis::Config;
use pilotlight_redis::config::{
    CredentialError, CredentialProvider, Credentials, Lease, NodeAddress, ProtocolChoice, RefreshingCredentials,
    SentinelConfig, TlsConfig, TlsIdentity, TlsRoots, TlsServerName, Topology,
};

use crate::{advice, token_command};

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_TLS_PORT: u16 = 6380;
const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// The arguments make no sense together, or one of them none by itself: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Which server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection", disable_help_flag = true)]
pub struct ConnectionArgs {
    /// The server, or several by commas: nodes of a cluster, Sentinels
    #[arg(short = 'h', long, value_name = "HOST[:PORT],…", conflicts_with_all = ["url", "socket"])]
    pub host: Option<String>,
    /// Its port [default: 6379; with TLS 6380; of Sentinels 26379]
    #[arg(short, long, conflicts_with_all = ["url", "socket"])]
    pub port: Option<NonZeroU16>,
    /// A Unix socket instead
    #[arg(long, value_name = "PATH", conflicts_with_all = ["url", "cluster", "sentinel"])]
    pub socket: Option<PathBuf>,
    /// Everything in one (what redis-cli calls -u): redis://user:password@host:port/db, rediss://, redis+cluster://a,b,
    /// redis+sentinel://a,b/name, unix:///path
    #[arg(long)]
    pub url: Option<String>,
    /// The server is a node of a cluster
    #[arg(short = 'c', long)]
    pub cluster: bool,
    /// The hosts are Sentinels, which know the primary of this name
    #[arg(long, value_name = "NAME", conflicts_with = "cluster")]
    pub sentinel: Option<String>,
    /// The user [default: the server's `default`]
    #[arg(short, long, visible_alias = "user")]
    pub username: Option<String>,
    /// The password; others see it in the list of processes: REDISCLI_AUTH and --askpass are safer
    #[arg(short = 'a', long, visible_alias = "pass", env = "REDISCLI_AUTH", hide_env_values = true)]
    pub password: Option<String>,
    /// Ask for the password on the terminal
    #[arg(long, conflicts_with = "token_command")]
    pub askpass: bool,
    /// A command whose output is the password, such as a cloud's access token; it is run again before the token ends
    #[arg(long, value_name = "COMMAND")]
    pub token_command: Option<String>,
    /// How long a token is valid, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "token_command")]
    pub token_lifetime: u64,
    /// The number of the database
    #[arg(long, value_name = "NUMBER")]
    pub db: Option<u16>,
    /// The version of the protocol: auto, resp2, resp3
    #[arg(long, value_name = "VERSION", value_parser = protocol)]
    pub protocol: Option<ProtocolChoice>,
    /// Seconds for one attempt to connect
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub connect_timeout: Option<Duration>,
    /// TLS options.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Print help
    #[arg(long, action = ArgAction::HelpLong, help_heading = "Options")]
    pub help: Option<bool>,
}

/// How the connection is encrypted.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Encrypt the connection
    #[arg(short, long)]
    pub tls: bool,
    /// Whom to trust, PEM [default: the system's authorities]
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// The own certificate, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must have [default: the host]
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
    /// Trust anybody: for trying things out
    #[arg(long)]
    pub insecure: bool,
}

impl ConnectionArgs {
    /// What the client is told. It asks on the terminal for the password if so.
    ///
    /// # Errors
    /// An option has no meaning: [`UsageError`].
    pub fn config(&self) -> anyhow::Result<Config> {
        if let Some(user) = self.username.as_deref().filter(|user| user.contains("://")) {
            let scheme = user.split("://").next().unwrap_or_default();
            let why = format!("-u is the name of the user, and {scheme}://… is an address: give it as --url");
            return Err(UsageError(why).into());
        }
        let mut config = match &self.url {
            Some(url) => {
                Config::from_url(url).map_err(|error| UsageError(format!("--url: {}", advice::of_url(url, &error))))?
            }
            None => Config { servers: self.servers()?, ..Config::default() },
        };
        if self.cluster {
            config.topology = Topology::Cluster;
        }
        if let Some(tls) = self.tls.config()? {
            config.tls = Some(tls);
        }
        if let Some(name) = &self.sentinel {
            config.topology = Topology::Sentinel(SentinelConfig {
                master_name: name.as_str().into(),
                credentials: None,
                tls: config.tls.clone(),
            });
        }
        if let Some(credentials) = self.credentials()? {
            config.credentials = Some(credentials);
        }
        config.database = self.db.unwrap_or(config.database);
        config.protocol = self.protocol.unwrap_or(config.protocol);
        config.connect_timeout = self.connect_timeout.unwrap_or(config.connect_timeout);
        config.client_name.get_or_insert_with(|| "pilotlight".into());
        Ok(config)
    }

    fn servers(&self) -> Result<Vec<NodeAddress>, UsageError> {
        if let Some(path) = &self.socket {
            let is_url = path.to_str().is_some_and(|path| path.contains("://") || path.starts_with("unix:"));
            if is_url {
                let why = "--socket takes the path of a Unix socket, as in /run/redis.sock: a URL is for --url";
                return Err(UsageError(why.to_owned()));
            }
            return Ok(vec![NodeAddress::unix(path)]);
        }
        let usual = match &self.sentinel {
            Some(_) => DEFAULT_SENTINEL_PORT,
            None if self.tls.is_wanted() => DEFAULT_TLS_PORT,
            None => DEFAULT_PORT,
        };
        let port = self.port.map_or(usual, NonZeroU16::get);
        let address = |text: &str| {
            if let Some(why) = advice::no_host(text.trim()) {
                return Err(UsageError(format!("--host takes HOST or HOST:PORT: {why}")));
            }
            NodeAddress::parse(text.trim(), port).map_err(|error| UsageError(format!("--host {text:?}: {error}")))
        };
        self.host.as_deref().unwrap_or("127.0.0.1").split(',').map(address).collect()
    }

    fn credentials(&self) -> anyhow::Result<Option<Arc<dyn CredentialProvider>>> {
        let username = self.username.as_deref();
        if let Some(command) = &self.token_command {
            let lifetime = Duration::from_secs(self.token_lifetime.max(1));
            return Ok(Some(token(command, username, lifetime)));
        }
        let password =
            if self.askpass { Some(rpassword::prompt_password("Password: ")?) } else { self.password.clone() };
        Ok(match (username, password) {
            (Some(username), password) => Some(Arc::new(Credentials::new(username, password.unwrap_or_default()))),
            (None, Some(password)) => Some(Arc::new(Credentials::password(password))),
            (None, None) => None,
        })
    }
}

impl TlsArgs {
    /// Any of the options asks for TLS.
    fn is_wanted(&self) -> bool {
        self.tls || self.cacert.is_some() || self.cert.is_some() || self.sni.is_some() || self.insecure
    }

    fn config(&self) -> Result<Option<TlsConfig>, UsageError> {
        if !self.is_wanted() {
            return Ok(None);
        }
        for file in [&self.cacert, &self.cert, &self.key].into_iter().flatten() {
            std::fs::File::open(file)
                .map_err(|error| UsageError(format!("{}: {error}: a PEM file is wanted", file.display())))?;
        }
        let identity = self.cert.clone().zip(self.key.clone());
        Ok(Some(TlsConfig {
            roots: self.cacert.clone().map_or(TlsRoots::System, |file| TlsRoots::Only(file.into())),
            identity: identity.map(|(cert, key)| TlsIdentity { certificates: cert.into(), key: key.into() }),
            server_name: self.sni.as_deref().map_or(TlsServerName::NodeHost, |name| TlsServerName::Fixed(name.into())),
            danger_accept_invalid_certs: self.insecure,
        }))
    }
}

/// Credentials that a command prints. It is run by the shell, with nothing on its standard input.
fn token(command: &str, username: Option<&str>, valid_for: Duration) -> Arc<dyn CredentialProvider> {
    let (command, username) = (command.to_owned(), username.map(str::to_owned));
    Arc::new(RefreshingCredentials::new(move || {
        let (command, username) = (command.clone(), username.clone());
        async move {
            let failed = |why: String| CredentialError::new(format!("--token-command: {why}"));
            let token = token_command::token(&command).await.map_err(failed)?;
            let credentials = match username {
                Some(username) => Credentials::new(username, token),
                None => Credentials::password(token),
            };
            Ok(Lease { credentials, valid_for })
        }
    }))
}

fn protocol(text: &str) -> Result<ProtocolChoice, String> {
    match text {
        "auto" => Ok(ProtocolChoice::Auto),
        "resp2" | "2" => Ok(ProtocolChoice::Resp2),
        "resp3" | "3" => Ok(ProtocolChoice::Resp3),
        _ => Err("auto, resp2 or resp3".to_owned()),
    }
}

/// A number of seconds, fractions too; an `s` behind it is understood.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse();
    let number: f64 = number.map_err(|_| "a number of seconds is wanted, such as 30 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}
