//! Why servers refuse this client for good, and what to do about it: asked only when a connection was refused.

use pilotlight_redis::config::{NodeAddress, Topology};
use pilotlight_redis::raw::{NodeKind, NodeStream};
use pilotlight_redis::{AuthError, Config, ConnectError, ConnectErrorKind, Error, ErrorKind, ServerError};
use pilotlight_resp::{Frame, Value};

use crate::wire::Wire;

/// What keeps the client out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The server wants a password, and none is given.
    PasswordMissing,
    /// The user or the password is not the server's; its answer.
    WrongPassword(ServerError),
    /// A password without a user is given, and the server has none; its answer.
    NoPasswordWanted(ServerError),
    /// It was asked for the map of a cluster, and supports none.
    NoCluster,
    /// Something else, which the error's text says.
    Other,
}

impl Refusal {
    /// What an attempt to connect tells.
    pub(crate) fn of(error: &ConnectErrorKind) -> Self {
        match error {
            ConnectErrorKind::Auth(AuthError::Missing) => Self::PasswordMissing,
            // `ERR AUTH <password> called without any password configured for the default user`, before Redis 6 in
            // other words.
            ConnectErrorKind::Auth(AuthError::Rejected { error, .. }) if error.code() == "ERR" => {
                Self::NoPasswordWanted(error.clone())
            }
            ConnectErrorKind::Auth(AuthError::Rejected { error, .. }) => Self::WrongPassword(error.clone()),
            _ => Self::Other,
        }
    }

    /// What an answer to a question on a connection tells.
    pub(crate) fn of_answer(answer: &ServerError) -> Self {
        match answer.code() {
            "NOAUTH" => Self::PasswordMissing,
            // Servers have no code of their own for it.
            _ if answer.text().contains("cluster support disabled") => Self::NoCluster,
            _ => Self::Other,
        }
    }

    /// What to do.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        match self {
            Self::PasswordMissing => {
                Some("give one by the variable REDISCLI_AUTH, --askpass or -a, and its user by --username")
            }
            Self::WrongPassword(_) => {
                Some("check the password (REDISCLI_AUTH, --askpass, -a) and its user (--username)")
            }
            Self::NoPasswordWanted(_) => Some("leave out -a, or unset REDISCLI_AUTH"),
            Self::NoCluster => Some("this server is no node of a cluster: leave out -c (in a URL: redis://)"),
            Self::Other => None,
        }
    }
}

/// Why the client of `config` was refused, if `error` says that it was. Sentinels are not asked: the error names the
/// server.
pub(crate) async fn find(config: &Config, error: &Error) -> Refusal {
    if !matches!(error.kind(), ErrorKind::Rejected(_)) || matches!(config.topology, Topology::Sentinel(_)) {
        return Refusal::Other;
    }
    for server in &config.servers {
        let refusal = match tokio::time::timeout(config.connect_timeout, ask(config, server)).await {
            Ok(Err(error)) => Refusal::of(error.kind()),
            Ok(Ok(answer)) => Refusal::of_answer(&answer),
            Err(_) => Refusal::Other,
        };
        if refusal != Refusal::Other {
            return refusal;
        }
    }
    Refusal::Other
}

/// What the server says against this client once it is connected, if anything.
async fn ask(config: &Config, server: &NodeAddress) -> Result<ServerError, ConnectError> {
    let stream = NodeStream::open(config, server, NodeKind::Server).await?;
    let question = match config.topology {
        Topology::Cluster => vec![b"CLUSTER".to_vec(), b"INFO".to_vec()],
        _ => vec![b"PING".to_vec()],
    };
    let mut wire = Wire::over(stream, config.reply_limits);
    let answer = match wire.send(&question).await {
        Ok(()) => wire.frame().await.ok(),
        Err(_) => None,
    };
    Ok(match answer {
        Some(Frame::Reply(Value::Error(text))) => ServerError::parse(&text),
        _ => ServerError::parse(b""),
    })
}

/// Whether the server let the user in and answered, if only that this command is not for it: enough to know that it is
/// there.
pub(crate) fn is_answer(error: &Error) -> bool {
    error.server().is_some_and(|server| server.code() == "NOPERM" || server.text().contains("unknown command"))
}

/// Whether the first server is a Sentinel, asked as a server.
pub(crate) async fn is_sentinel(config: &Config) -> bool {
    let (Topology::Standalone, Some(server)) = (&config.topology, config.servers.first()) else { return false };
    let asked = async {
        let stream = NodeStream::open(config, server, NodeKind::Server).await.ok()?;
        let mut wire = Wire::over(stream, config.reply_limits);
        wire.send(&[b"ROLE".to_vec()]).await.ok()?;
        wire.frame().await.ok()
    };
    let is_role = |value: &Value| matches!(value, Value::Bulk(role) if &role[..] == b"sentinel");
    match tokio::time::timeout(config.connect_timeout, asked).await {
        Ok(Some(Frame::Reply(Value::Array(role)))) => role.first().is_some_and(is_role),
        _ => false,
    }
}

/// Why there is no connection, without the command that wanted one.
pub(crate) fn why(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Connect(why) | ErrorKind::Rejected(why) => why.to_string(),
        _ => error.to_string(),
    }
}

/// A text, and what to do.
pub(crate) fn advised(text: &str, refusal: &Refusal) -> String {
    match refusal.advice() {
        Some(advice) => format!("{}; {advice}", text.trim_end_matches('.')),
        None => text.to_owned(),
    }
}

/// `cannot use` the servers, why, and what to do.
pub(crate) async fn unusable(config: &Config, error: &Error) -> anyhow::Error {
    let refusal = find(config, error).await;
    anyhow::anyhow!("cannot use {config}: {}", advised(&why(error), &refusal))
}
