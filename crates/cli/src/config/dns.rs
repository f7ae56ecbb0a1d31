//! `[services.NAME.dns]`: servers that are followed by name.

use std::net::{IpAddr, SocketAddr};

use pilotlight_gateway::{DnsOptions, ExternalAddr, Family, NameKind, ServerName, ServerSpec};

use super::diagnostic::{Code, Diagnostic};
use super::readers::{read_words, word};
use super::schema::Part;
use super::section::{Field, Section, a_number, a_time, noted};
use super::shown::shown;
use super::value::Rejected;

const DNS_PORT: u16 = 53;

/// One of the servers of a `url`.
pub(super) struct Written {
    pub(super) place: Place,
    pub(super) weight: u32,
}

/// Where it is.
#[derive(PartialEq, Eq)]
pub(super) enum Place {
    At(ExternalAddr),
    /// The servers that SRV records of this name tell.
    Srv(String),
}

/// The servers of a service, and the names that stand for some.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) servers: Vec<ServerSpec>,
    pub(super) names: Vec<ServerName>,
    pub(super) dns: Option<DnsOptions>,
}

impl Servers {
    /// Whether there may be no server at some time.
    pub(super) fn may_be_none(&self) -> bool {
        self.servers.is_empty()
    }
}

/// Which of what `url` lists is followed by name: with the section all names, without it those of SRV records alone.
pub(super) fn read(section: &Section<'_>, written: Vec<Written>, found: &mut Vec<Diagnostic>) -> Servers {
    let options = options(section, found);
    let mut read = Servers::default();
    for Written { place, weight } in written {
        match place {
            Place::Srv(name) => read.names.push(ServerName { name, kind: NameKind::Services, weight }),
            Place::At(ExternalAddr::Tcp(name, port)) if options.is_some() && is_followed(&name) => {
                read.names.push(ServerName { name, kind: NameKind::Addresses(port), weight });
            }
            Place::At(addr) => read.servers.push(ServerSpec { weight, ..ServerSpec::new(addr) }),
        }
    }
    if let Some(field) = section.field("dns").filter(|_| read.names.is_empty()) {
        let message = "`dns` has no effect: `url` has no name that could be followed";
        let help = "write a host by its name, url = \"http://app.example.org:9000\", or take `dns` away";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
    }
    read.dns = (!read.names.is_empty()).then(|| options.unwrap_or_default());
    read
}

/// The names of this machine are not in the DNS.
fn is_followed(host: &str) -> bool {
    host.parse::<IpAddr>().is_err() && host != "localhost"
}

fn options(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> Option<DnsOptions> {
    const FAMILIES: [(&str, Family); 3] = [("both", Family::Both), ("ipv4", Family::Ipv4), ("ipv6", Family::Ipv6)];
    let part = section.part("dns", Part::ServiceDns, "in the service's dns", found)?;
    let mut options = DnsOptions::default();
    part.set("min_ttl", a_time(&DnsOptions::TTL), &mut options.min_ttl, found);
    part.set("max_ttl", a_time(&DnsOptions::TTL), &mut options.max_ttl, found);
    part.set("timeout", a_time(&DnsOptions::TIMEOUT), &mut options.timeout, found);
    part.set("max_addresses", a_number(&DnsOptions::MAX_ADDRESSES), &mut options.max_addresses, found);
    if let Some(field) = part.field("family") {
        options.family = word(&field, &FAMILIES, found).unwrap_or_default();
    }
    if let Some(field) = part.field("servers") {
        options.servers = servers(&field, found).unwrap_or_default();
    }
    if let Some(field) = part.field("min_ttl").filter(|_| options.min_ttl > options.max_ttl) {
        let message = "`min_ttl` is longer than `max_ttl`, so an answer would count for both";
        let help = "make it the shorter one of the two";
        found.push(Diagnostic::error(Code::Conflict, field.at, message).help(help));
    }
    Some(options)
}

fn servers(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<SocketAddr>> {
    let list = noted(field.value.as_array().ok_or_else(|| field.wrong_type()), found)?;
    let words = read_words(field, list, found)?;
    if words.len() > DnsOptions::MAX_SERVERS {
        let message =
            format!("`servers` has {} servers of the DNS, and {} are asked", words.len(), DnsOptions::MAX_SERVERS);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return None;
    }
    let server = |(text, at): (String, _)| {
        let address = text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse().ok()?, DNS_PORT)));
        let wrong = || {
            let rejected = Rejected::help(
                format!("{} is no address of a DNS server", shown(&text)),
                "write an IP address, with a port if that is not 53: \"10.0.0.53\", \"[::1]:5353\"",
            );
            Field { at, ..field.clone() }.rejected(rejected)
        };
        noted(address.ok_or_else(wrong), found)
    };
    words.into_iter().map(server).collect()
}
