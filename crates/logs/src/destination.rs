//! Where the lines of a log go, as the configuration says it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The journal's socket.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// The socket of the machine's own syslog.
const DEV_LOG: &str = "/dev/log";

/// Where the lines of a log go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The standard error.
    Stderr,
    /// The standard output.
    Stdout,
    /// The end of this file, made with mode 0640 if it is not there.
    File(PathBuf),
    /// The systemd journal, by its native protocol at this socket.
    Journal(PathBuf),
    /// A syslog server.
    Syslog(Peer),
}

/// How a syslog server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Datagrams on a Unix socket.
    Unix(PathBuf),
    /// A datagram for each message (RFC 5426) to `HOST:PORT`.
    Udp(String),
    /// A stream with the length before each message (RFC 6587 §3.4.1) to `HOST:PORT`.
    Tcp(String),
}

/// The head of a syslog message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogFormat {
    /// What programs of this machine write to `/dev/log`: RFC 3164 without a time and a host, which the server knows.
    Rfc3164,
    /// RFC 5424, with structured data.
    Rfc5424,
}

/// Why a text is no destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDestination {
    /// What is wrong.
    pub reason: String,
    /// What to write instead.
    pub help: &'static str,
}

macro_rules! facilities {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A facility of syslog (RFC 5424 §6.2.1, table 1) that programs of users may have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Facility {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Facility {
            /// Every facility with its name.
            pub const ALL: [(&str, Self); [$($number),*].len()] = [$(($name, Self::$variant)),*];
        }
    };
}

facilities! {
    /// `user`
    User = 1, "user";
    /// `daemon`
    Daemon = 3, "daemon";
    /// `local0`
    Local0 = 16, "local0";
    /// `local1`
    Local1 = 17, "local1";
    /// `local2`
    Local2 = 18, "local2";
    /// `local3`
    Local3 = 19, "local3";
    /// `local4`
    Local4 = 20, "local4";
    /// `local5`
    Local5 = 21, "local5";
    /// `local6`
    Local6 = 22, "local6";
    /// `local7`
    Local7 = 23, "local7";
}

impl Facility {
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

impl Peer {
    /// What it reads if nothing is said: servers take local sockets for RFC 3164 and all others for either.
    #[must_use]
    pub fn usual_format(&self) -> SyslogFormat {
        match self {
            Self::Unix(_) => SyslogFormat::Rfc3164,
            Self::Udp(_) | Self::Tcp(_) => SyslogFormat::Rfc5424,
        }
    }
}

impl Destination {
    /// Reads `stderr`, `stdout`, `journald`, `journald:SOCKET`, `syslog`, `syslog:SOCKET`, `syslog:udp://HOST:PORT`,
    /// `syslog:tcp://HOST:PORT`, or the path of a file. Paths are as seen from `folder`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, BadDestination> {
        let path = |path: &str, help| match path {
            "" => Err(BadDestination { reason: format!("{text:?} names no path"), help }),
            path if path.contains('\0') => Err(BadDestination { reason: format!("{text:?} is no path"), help }),
            path => Ok(joined(folder, path)),
        };
        match text.split_once(':').unwrap_or((text, "")) {
            ("stderr", "") => Ok(Self::Stderr),
            ("stdout", "") => Ok(Self::Stdout),
            ("journald", "") => Ok(Self::Journal(JOURNAL.into())),
            ("journald", at) => Ok(Self::Journal(path(at, "write \"journald\"")?)),
            ("syslog", "") => Ok(Self::Syslog(Peer::Unix(DEV_LOG.into()))),
            ("syslog", at) => peer(at, |at| path(at, "write \"syslog\"")).map(Self::Syslog),
            ("journal" | "systemd", _) => Err(BadDestination {
                reason: format!("{text:?} is no place for a log"),
                help: "write \"journald\"; a file of that name is \"./…\"",
            }),
            ("udp" | "tcp", rest) if rest.starts_with("//") => Err(BadDestination {
                reason: format!("{text:?} is no place for a log"),
                help: "write \"syslog:udp://HOST:514\" or \"syslog:tcp://HOST:514\"",
            }),
            _ => Ok(Self::File(path(text, "write the path of a file")?)),
        }
    }

    /// As messages and the configuration name it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Stderr => "stderr".to_owned(),
            Self::Stdout => "stdout".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Journal(path) => format!("the journal at {}", path.display()),
            Self::Syslog(Peer::Unix(path)) => format!("syslog at {}", path.display()),
            Self::Syslog(Peer::Udp(at)) => format!("syslog at udp://{at}"),
            Self::Syslog(Peer::Tcp(at)) => format!("syslog at tcp://{at}"),
        }
    }
}

fn peer(text: &str, path: impl Fn(&str) -> Result<PathBuf, BadDestination>) -> Result<Peer, BadDestination> {
    if let Some(at) = text.strip_prefix("udp://") {
        return host_and_port(at).map(Peer::Udp);
    }
    if let Some(at) = text.strip_prefix("tcp://") {
        return host_and_port(at).map(Peer::Tcp);
    }
    if text.contains("://") {
        let help = "write \"syslog:udp://HOST:514\", \"syslog:tcp://HOST:514\", or the path of a Unix socket";
        return Err(BadDestination { reason: format!("syslog is not reached by {text:?}"), help });
    }
    path(text).map(Peer::Unix)
}

fn host_and_port(text: &str) -> Result<String, BadDestination> {
    let split = text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    let is_host = |host: &str| match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| address.parse::<IpAddr>().is_ok()),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
    };
    match split {
        Some((host, _)) if is_host(host) => Ok(text.to_owned()),
        _ => Err(BadDestination {
            reason: format!("{text:?} is no host with a port"),
            help: "write HOST:PORT; the usual port of syslog is 514",
        }),
    }
}

/// `path` as seen from `folder`, without `.`.
fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut out = folder.to_path_buf();
    out.extend(Path::new(path).components().filter(|part| !matches!(part, std::path::Component::CurDir)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Destination) {
        assert_eq!(Destination::parse(text, Path::new("/etc/p")), Ok(expected));
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        assert_eq!(Destination::parse(text, Path::new("/etc/p")).unwrap_err().reason, expected);
    }

    #[test]
    fn words() {
        check("stderr", Destination::Stderr);
        check("stdout", Destination::Stdout);
        check("journald", Destination::Journal(JOURNAL.into()));
        check("journald:j.sock", Destination::Journal("/etc/p/j.sock".into()));
        check("syslog", Destination::Syslog(Peer::Unix(DEV_LOG.into())));
        check("syslog:/run/s", Destination::Syslog(Peer::Unix("/run/s".into())));
        check("syslog:udp://[::1]:514", Destination::Syslog(Peer::Udp("[::1]:514".into())));
        check("syslog:tcp://logs.example.org:601", Destination::Syslog(Peer::Tcp("logs.example.org:601".into())));
        check("a/access.log", Destination::File("/etc/p/a/access.log".into()));
        check("./journald", Destination::File("/etc/p/journald".into()));
        check("a:b.log", Destination::File("/etc/p/a:b.log".into()));
    }

    #[test]
    fn what_is_none() {
        refused("", "\"\" names no path");
        refused("a\0b", "\"a\\0b\" is no path");
        refused("journal", "\"journal\" is no place for a log");
        refused("udp://a:514", "\"udp://a:514\" is no place for a log");
        refused("syslog:tls://a:6514", "syslog is not reached by \"tls://a:6514\"");
        for bad in ["", "a", ":514", "a:", "a:0", "a:70000", "::1:514", "[a]:1", "a b:1"] {
            refused(&format!("syslog:udp://{bad}"), &format!("{bad:?} is no host with a port"));
        }
    }
}
