//! Listeners, the parts of a file that have some of their own, and routes with theirs.

use std::ops::RangeInclusive;

use crate::document::Section;

/// An address of a listener, as `listen` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Door(pub(crate) String);

/// From where an address can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Everywhere,
    ThisMachine,
    /// Through the network of this address, or by this socket.
    Address(String),
}

impl Door {
    pub(crate) fn is_tls(&self) -> bool {
        self.0.starts_with("https://")
    }

    fn bare(&self) -> &str {
        self.0.split("://").last().unwrap_or(&self.0)
    }

    /// Its port; none for a Unix socket.
    pub(crate) fn port(&self) -> Option<u16> {
        let (_, port) = self.bare().rsplit_once(':').filter(|_| !self.bare().starts_with("unix:"))?;
        port.parse().ok()
    }

    pub(crate) fn from(&self) -> From {
        if self.port().is_none() {
            return From::Address(self.bare().to_owned());
        }
        let host = self.bare().rsplit_once(':').map_or("", |(host, _)| host).trim_matches(['[', ']']);
        match host {
            "0.0.0.0" | "::" => From::Everywhere,
            "localhost" | "::1" => From::ThisMachine,
            _ if host.starts_with("127.") || host.ends_with(".localhost") => From::ThisMachine,
            _ => From::Address(host.to_owned()),
        }
    }
}

/// A server, a site or a listener of the file.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Its lines.
    pub(crate) lines: RangeInclusive<usize>,
    /// How notes name it.
    pub(crate) label: String,
    pub(crate) doors: Vec<Door>,
}

/// A route and the listeners that it is for, each with the site that has it; none: all listeners.
#[derive(Clone, Debug)]
pub(crate) struct Routed {
    pub(crate) section: Section,
    pub(crate) doors: Vec<(usize, Door)>,
}

impl Routed {
    pub(crate) fn has(&self, door: &Door) -> bool {
        self.doors.iter().any(|(_, own)| own == door)
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        distinct(self.doors.iter().filter_map(|(_, door)| door.port()))
    }
}

/// A host of a listener, and the site that has its requests: the first that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// None: every host that no other site of the listener has.
    pub(crate) host: Option<String>,
    pub(crate) door: Door,
    pub(crate) site: usize,
}

/// A host that plain HTTP is sent away from, to TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToTls {
    /// None: every host that no other site of these listeners has.
    pub(crate) host: Option<String>,
    pub(crate) site: usize,
}

/// Each value once, in the order in which they came first.
pub(crate) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut kept, one| {
        if !kept.contains(&one) {
            kept.push(one);
        }
        kept
    })
}
