//! Errors in the words of a tool: each cause once, and options and commands to type where the client's own text names
//! functions to call.

use std::error::Error as StdError;

use pilotlight_redis::config::{UrlError, UrlErrorKind};
use pilotlight_redis::{Error, ErrorKind, Misuse};

/// Returns the text of a client's error.
pub(crate) fn text(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Misuse(Misuse::ConnectionState { command, .. }) => format!(
            "{command} is about the connection that it is sent on, and commands share connections here: send it to one \
             node by `pilotlight redis cli -h HOST -p PORT`, without -c"
        ),
        ErrorKind::Misuse(Misuse::Unroutable { command, .. }) => {
            format!("{command} does not go to several nodes: name one, as in ON NODE host:port {command} …")
        }
        _ => error.to_string(),
    }
}

/// Returns an error with its causes, without those that an earlier text has already.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut out = String::new();
    for cause in error.chain() {
        let text = one(cause);
        if out.is_empty() {
            out = text;
        } else if !out.contains(&text) {
            out = format!("{out}: {text}");
        }
    }
    out
}

fn one(cause: &(dyn StdError + 'static)) -> String {
    cause.downcast_ref::<Error>().map_or_else(|| cause.to_string(), text)
}

/// Describes the error of a `--url`, and says what to write. Never a part of the URL that may be a password.
pub(crate) fn of_url(url: &str, error: &UrlError) -> String {
    let hint = match error.kind() {
        UrlErrorKind::MissingScheme => match url.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => {
                format!("; write unix://{path}, or --socket {path}")
            }
            _ => "; an address without a scheme is for --host, a path for --socket".to_owned(),
        },
        UrlErrorKind::UnknownScheme { .. } => {
            "; there are redis, rediss, valkey, valkeys, unix, and redis+cluster, redis+sentinel".to_owned()
        }
        UrlErrorKind::UnknownOption { name, .. } => match &**name {
            "pass" | "password" | "auth" | "pwd" => {
                "; the password is before the host, as in redis://user:password@host, or in the variable REDISCLI_AUTH"
                    .to_owned()
            }
            "user" | "username" => {
                "; the user is before the host, as in redis://user:password@host, or --username NAME".to_owned()
            }
            "database" => "; the database is ?db=NUMBER, or --db NUMBER".to_owned(),
            "tls" | "ssl" => "; TLS is rediss://, or --tls".to_owned(),
            "cluster" | "sentinel" => "; the scheme says that: redis+cluster://, redis+sentinel://".to_owned(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    format!("{error}{hint}")
}

/// Names the option that a text is for which was given as `--host`. Never a part of the text, which may be a password.
pub(crate) fn no_host(text: &str) -> Option<&'static str> {
    match text {
        _ if text.contains("://") => Some("it is a URL: give it as --url"),
        _ if text.starts_with("unix:") => Some("it is a Unix socket: give its path as --socket"),
        _ if text.contains('@') => Some("it has a user or a password: give it as --url redis://user:password@host"),
        _ if text.contains('/') && !text.starts_with('/') => Some("the number of the database is for --db"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use pilotlight_redis::{Config, Ran};

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error: anyhow::Result<()> = Err(anyhow::anyhow!("connection refused"));
        let error = error.context("h:1: connection refused").context("no node answers").unwrap_err();
        assert_eq!(causes(&error), "no node answers: h:1: connection refused");
    }

    #[test]
    fn nothing_of_the_library_is_advised() {
        for misuse in [
            Misuse::ConnectionState { command: "MULTI", instead: "use client.transaction()" },
            Misuse::Unroutable { command: "BLPOP", instead: "call.on(Route::Node(…))" },
        ] {
            let error = anyhow::Error::from(Error::new(misuse, Ran::NotSent, "MULTI"));
            let told = causes(&error);
            assert!(!told.contains("client.") && !told.contains("Route::"), "{told}");
            assert!(told.contains("HOST") || told.contains("ON NODE"), "{told}");
        }
    }

    #[test]
    fn urls_get_hints() {
        for (url, hint) in [
            ("unix:/run/x", "unix:///run/x, or --socket /run/x"),
            ("h:6379", "--host"),
            ("redis://h?pass=s3cret", "REDISCLI_AUTH"),
            ("redis://h?user=s3cret", "--username"),
            ("redis://h?ssl=true", "rediss://"),
            ("http://h", "redis+cluster"),
        ] {
            let told = of_url(url, &Config::from_url(url).unwrap_err());
            assert!(told.contains(hint) && !told.contains("s3cret"), "{url}: {told}");
        }
    }

    #[test]
    fn what_is_no_host_is_named() {
        for (text, hint) in [
            ("redis://u:s3cret@h:1", "--url"),
            ("unix:/run/x", "--socket"),
            ("u:s3cret@h", "--url"),
            ("h:6379/2", "--db"),
        ] {
            assert!(no_host(text).is_some_and(|told| told.contains(hint) && !told.contains("s3cret")), "{text}");
        }
        for host in ["h", "h:1", "[::1]:6379", "::1", "/run/x.sock"] {
            assert_eq!(no_host(host), None, "{host}");
        }
    }
}
