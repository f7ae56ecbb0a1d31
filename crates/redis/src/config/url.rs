//! A configuration in one line.
//!
//! ```text
//! scheme://[user:password@]host[:port][,host[:port]…][/database][?option=value&…]
//! scheme+sentinel://[user:password@]sentinel[:port][,…]/master-name[/database][?…]
//! unix://[user:password@]/path/of/socket[?…]
//! ```
//!
//! Everything may be percent-encoded; in the user, the password and the options, `/ ? # @ : & %` have to be where they
//! would end something. No error repeats a part of the URL that could belong to a password.

mod error;
mod options;
mod scalar;
mod scheme;

use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

pub use error::{UrlError, UrlErrorKind};

use self::options::Draft;
use self::scheme::{Scheme, Servers};
use super::nodes::{SentinelConfig, Topology};
use super::settings::Config;
use super::tls::TlsConfig;
use crate::address::{AddressError, DEFAULT_PORT, DEFAULT_SENTINEL_PORT, NodeAddress};
use crate::credentials::Credentials;

impl Config {
    /// Reads a URL; what it does not name has its default.
    ///
    /// | scheme | servers |
    /// |---|---|
    /// | `redis`, `valkey` | one server; further ones are alternatives |
    /// | `redis+cluster`, `valkey+cluster` | some nodes of a cluster |
    /// | `redis+sentinel`, `valkey+sentinel` | Sentinels; the path is the primary's name, then the database |
    /// | `unix`, `redis+unix`, `valkey+unix` | the path of a Unix socket |
    /// | `rediss…`, `valkeys…` | each of them with TLS |
    ///
    /// Options are the scalar settings by their names (`connect_timeout=500ms`, `lanes=2`, `max_queued_bytes=64MiB`,
    /// `command_timeout=none`), `db`, `read_from=primary|replica|round_robin|az:ZONE`, and of TLS `tls_ca`, `tls_cert`,
    /// `tls_key` (files in PEM), `sni` and `insecure`.
    ///
    /// # Errors
    /// The URL is malformed, or names something unknown or impossible; the error says what, where, and what was meant.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        Reader { url }.read()
    }
}

impl FromStr for Config {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        Self::from_url(url)
    }
}

struct Reader<'u> {
    url: &'u str,
}

impl<'u> Reader<'u> {
    fn read(&self) -> Result<Config, UrlError> {
        let (scheme, rest) =
            self.url.split_once("://").ok_or_else(|| self.error(self.url, UrlErrorKind::MissingScheme))?;
        let known = Scheme::parse(scheme).map_err(|kind| self.error(scheme, kind))?;
        let (authority, rest) = split_before(rest, &['/', '?', '#']);
        let (path, rest) = split_before(rest, &['?', '#']);
        let (query, fragment) = split_before(rest, &['#']);
        self.check_escapes(authority, rest_of(self.url, authority))?;
        if !fragment.is_empty() {
            return Err(self.error(fragment, UrlErrorKind::Fragment));
        }

        let mut draft = Draft::new(Config::default());
        draft.config.tls = known.tls.then(TlsConfig::default);
        let (userinfo, hosts) =
            authority.rsplit_once('@').map_or(("", authority), |(userinfo, hosts)| (userinfo, hosts));
        draft.config.credentials = self.credentials(userinfo)?.map(|credentials| Arc::new(credentials) as _);
        match known.servers {
            Servers::Standalone | Servers::Cluster => {
                if known.servers == Servers::Cluster {
                    draft.config.topology = Topology::Cluster;
                }
                // `redis://` is a server on this host, but nobody's cluster is.
                if !hosts.is_empty() || known.servers == Servers::Cluster {
                    draft.config.servers = self.hosts(hosts, DEFAULT_PORT)?;
                }
                self.database(&mut draft, path)?;
            }
            Servers::Sentinel => {
                draft.config.servers = self.hosts(hosts, DEFAULT_SENTINEL_PORT)?;
                let (name, database) = split_before(path.get(1..).unwrap_or_default(), &['/']);
                if name.is_empty() {
                    return Err(self.error(path, UrlErrorKind::MissingMasterName));
                }
                draft.config.topology = Topology::Sentinel(SentinelConfig::new(self.decoded(name)?));
                self.database(&mut draft, database)?;
            }
            Servers::Unix => {
                if !hosts.is_empty() || path.is_empty() {
                    return Err(self.error(hosts, UrlErrorKind::UnixPath));
                }
                draft.config.servers = vec![NodeAddress::unix(self.decoded(path)?)];
            }
        }
        let query = query.strip_prefix('?').unwrap_or_default();
        self.options(&mut draft, query)?;
        draft.finish().map_err(|kind| self.error(query, kind))
    }

    /// Without an `@` before the path, one after it most likely ends a password that has a `/`, `?` or `#`.
    fn check_escapes(&self, authority: &str, after: &str) -> Result<(), UrlError> {
        if !authority.contains('@') && after.contains('@') {
            return Err(self.error(authority, UrlErrorKind::Unescaped));
        }
        Ok(())
    }

    fn credentials(&self, userinfo: &str) -> Result<Option<Credentials>, UrlError> {
        // `:` is what templates make of a user and a password that are both empty.
        if matches!(userinfo, "" | ":") {
            return Ok(None);
        }
        let (username, password) =
            userinfo.split_once(':').ok_or_else(|| self.error(userinfo, UrlErrorKind::MissingPassword))?;
        let password = self.decoded(password)?;
        Ok(Some(match self.decoded(username)? {
            username if username.is_empty() => Credentials::password(password),
            username => Credentials::new(username, password),
        }))
    }

    fn hosts(&self, hosts: &str, default_port: u16) -> Result<Vec<NodeAddress>, UrlError> {
        let host = |text: &str| {
            let decoded = self.decoded(text)?;
            // A path would be taken for a Unix socket.
            let parsed = if decoded.starts_with('/') {
                Err(AddressError::InvalidHost)
            } else {
                NodeAddress::parse(&decoded, default_port)
            };
            parsed.map_err(|error| self.error(text, UrlErrorKind::Address { server: text.into(), error }))
        };
        hosts.split(',').map(host).collect()
    }

    /// `path` is empty, `/`, or `/` and a number.
    fn database(&self, draft: &mut Draft, path: &str) -> Result<(), UrlError> {
        match path.strip_prefix('/') {
            None | Some("") => Ok(()),
            Some(number) => {
                let value = self.decoded(number)?;
                draft.set("db", &value).map_err(|_| self.error(number, UrlErrorKind::Database { text: number.into() }))
            }
        }
    }

    fn options(&self, draft: &mut Draft, query: &str) -> Result<(), UrlError> {
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option
                .split_once('=')
                .ok_or_else(|| self.error(option, UrlErrorKind::MissingValue { name: option.into() }))?;
            let value = self.decoded(value)?;
            draft.set(&self.decoded(name)?, &value).map_err(|kind| self.error(option, kind))?;
        }
        Ok(())
    }

    fn decoded(&self, text: &'u str) -> Result<String, UrlError> {
        let invalid = || self.error(text, UrlErrorKind::Encoding);
        for (index, _) in text.match_indices('%') {
            let digits = text.as_bytes().get(index + 1..index + 3).ok_or_else(invalid)?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return Err(invalid());
            }
        }
        Ok(percent_decode_str(text).decode_utf8().map_err(|_| invalid())?.into_owned())
    }

    /// An error about `part`, which is a part of the URL.
    fn error(&self, part: &str, kind: UrlErrorKind) -> UrlError {
        let offset = (part.as_ptr() as usize).checked_sub(self.url.as_ptr() as usize);
        UrlError::new(offset.filter(|&offset| offset <= self.url.len()).unwrap_or(self.url.len()), kind)
    }
}

/// Splits before the first of `ends`; without any, the second part is empty.
fn split_before<'t>(text: &'t str, ends: &[char]) -> (&'t str, &'t str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// What follows `part` in `whole`.
fn rest_of<'t>(whole: &'t str, part: &str) -> &'t str {
    let end = part.as_ptr() as usize - whole.as_ptr() as usize + part.len();
    &whole[end..]
}

#[cfg(test)]
mod tests;
