//! What the DNS says of a name. It is asked by the stub resolver of the `domain` crate; which servers that makes, and
//! for how long, is decided here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use domain::base::iana::{Rcode, Rtype};
use domain::base::{Name, ParsedName};
use domain::rdata::{A, Aaaa, Cname, Srv};
use domain::resolv::StubResolver;
use domain::resolv::stub::Answer;
use domain::resolv::stub::conf::{ResolvConf, ServerConf, Transport};
use pilotlight_balance::MAX_WEIGHT;

use crate::options::{DnsOptions, ExternalAddr, Family, NameKind, ServerName, ServerSpec};

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Bytes of that file that are read.
const MAX_RESOLV_CONF: usize = 64 << 10;
/// Domains that are searched.
const MAX_SEARCHED: usize = 8;
const DNS_PORT: u16 = 53;

/// The servers that a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) servers: Vec<ServerSpec>,
    /// For how long, as the records say; `None`: there are no records.
    pub(super) ttl: Option<Duration>,
    /// Those that were left out because there are too many.
    pub(super) left_out: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("the DNS does not answer: {0}")]
    Io(#[from] io::Error),
    #[error("the DNS server says {0}")]
    Refused(Rcode),
    #[error("what the DNS answers cannot be read")]
    Malformed,
    #[error("it is no name of the DNS")]
    NoName,
}

type OwnName = Name<Vec<u8>>;

/// Addresses of one host.
#[derive(Default)]
struct Addresses {
    all: Vec<IpAddr>,
    ttl: Option<Duration>,
}

/// A record of SRV.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Service {
    priority: u16,
    weight: u16,
    port: u16,
    target: String,
}

/// Asks for the names of one service.
pub(super) struct Resolver {
    options: DnsOptions,
    /// What the system's settings were when `asked` was made.
    system: Option<String>,
    asked: Option<Asked>,
}

struct Asked {
    stub: StubResolver,
    search: Search,
}

impl Resolver {
    pub(super) fn new(options: DnsOptions) -> Self {
        Self { options, system: None, asked: None }
    }

    /// What the name stands for now. An answer that there is nothing is an answer.
    ///
    /// # Cancel safety
    /// Dropping it ends nothing but the question.
    pub(super) async fn find(&mut self, name: &ServerName) -> Result<Found, ResolveError> {
        let options = self.options.clone();
        let asked = self.asked();
        let mut empty = None;
        for candidate in asked.search.names(&name.name) {
            let found = match name.kind {
                NameKind::Addresses(port) => asked.hosts(&candidate, name, port, &options).await?,
                NameKind::Services => asked.services(&candidate, &options).await?,
            };
            if !found.servers.is_empty() {
                return Ok(found);
            }
            empty = Some(found);
        }
        empty.ok_or(ResolveError::NoName)
    }

    /// By the system's settings as they are now.
    fn asked(&mut self) -> &Asked {
        let text = self.options.servers.is_empty().then(|| read_resolv_conf(Path::new(RESOLV_CONF)));
        if self.asked.is_some() && text != self.system {
            self.asked = None;
        }
        let options = &self.options;
        self.asked.get_or_insert_with(|| {
            let system = text.as_deref().map(System::parse).unwrap_or_default();
            self.system = text;
            let servers = if options.servers.is_empty() { system.servers } else { options.servers.clone() };
            Asked { stub: stub(&servers, options.timeout), search: system.search }
        })
    }
}

fn stub(servers: &[SocketAddr], timeout: Duration) -> StubResolver {
    let mut conf = ResolvConf::new();
    conf.servers = servers.iter().map(|addr| ServerConf::new(*addr, Transport::UdpTcp)).collect();
    conf.options.timeout = timeout;
    conf.finalize();
    StubResolver::from_conf(conf)
}

impl Asked {
    async fn hosts(
        &self,
        candidate: &str,
        name: &ServerName,
        port: u16,
        options: &DnsOptions,
    ) -> Result<Found, ResolveError> {
        let Addresses { all, ttl } = self.addresses(candidate, options.family).await?;
        let host = name.name.trim_end_matches('.');
        let server = |ip: &IpAddr| server(*ip, port, name.weight, 0, host);
        let servers = all.iter().take(options.max_addresses).map(server).collect();
        Ok(Found { servers, ttl, left_out: all.len().saturating_sub(options.max_addresses) })
    }

    async fn services(&self, candidate: &str, options: &DnsOptions) -> Result<Found, ResolveError> {
        let answer = self.query(candidate, Rtype::SRV).await?;
        let (services, mut ttl) = services(&answer)?;
        let weights = scaled(&services);
        let (mut servers, mut left_out) = (Vec::new(), 0);
        for (Service { priority, port, target, .. }, weight) in services.iter().zip(weights) {
            if servers.len() >= options.max_addresses {
                left_out += 1;
                continue;
            }
            let of_target = self.addresses(target, options.family).await?;
            ttl = shorter(ttl, of_target.ttl);
            let share = weight / u32::try_from(of_target.all.len()).unwrap_or(u32::MAX).max(1);
            let host = target.trim_end_matches('.');
            servers.extend(of_target.all.iter().map(|ip| server(*ip, *port, share.max(1), *priority, host)));
        }
        left_out += servers.len().saturating_sub(options.max_addresses);
        servers.truncate(options.max_addresses);
        Ok(Found { servers, ttl, left_out })
    }

    async fn addresses(&self, name: &str, family: Family) -> Result<Addresses, ResolveError> {
        let of = async |rtype, is_wanted: bool| match is_wanted {
            true => addresses(&self.query(name, rtype).await?),
            false => Ok(Addresses::default()),
        };
        let (four, six) = tokio::join!(of(Rtype::A, family != Family::Ipv6), of(Rtype::AAAA, family != Family::Ipv4));
        let (mut four, six) = (four?, six?);
        four.all.extend(six.all);
        four.all.sort_unstable(); // the DNS turns them round with each answer
        four.all.dedup();
        Ok(Addresses { ttl: shorter(four.ttl, six.ttl), all: four.all })
    }

    async fn query(&self, name: &str, rtype: Rtype) -> Result<Answer, ResolveError> {
        let name: OwnName = name.parse().map_err(|_| ResolveError::NoName)?;
        let answer = self.stub.query((&name, rtype)).await?;
        match answer.header().rcode() {
            Rcode::NOERROR | Rcode::NXDOMAIN => Ok(answer),
            other => Err(ResolveError::Refused(other)),
        }
    }
}

/// Those of the host that the question was about, which may be another one's alias.
fn addresses(answer: &Answer) -> Result<Addresses, ResolveError> {
    let malformed = |_| ResolveError::Malformed;
    let owner = answer.canonical_name().ok_or(ResolveError::Malformed)?;
    let mut found = Addresses { all: Vec::new(), ttl: aliases(answer)? };
    for record in answer.answer().map_err(malformed)?.limit_to::<A>() {
        let record = record.map_err(malformed)?;
        if *record.owner() == owner {
            found.ttl = shorter(found.ttl, Some(seconds(record.ttl().as_secs())));
            found.all.push(record.data().addr().into());
        }
    }
    for record in answer.answer().map_err(malformed)?.limit_to::<Aaaa>() {
        let record = record.map_err(malformed)?;
        if *record.owner() == owner {
            found.ttl = shorter(found.ttl, Some(seconds(record.ttl().as_secs())));
            found.all.push(record.data().addr().into());
        }
    }
    Ok(found)
}

/// For how long the names on the way count.
fn aliases(answer: &Answer) -> Result<Option<Duration>, ResolveError> {
    let malformed = |_| ResolveError::Malformed;
    let mut ttl = None;
    for record in answer.answer().map_err(malformed)?.limit_to::<Cname<ParsedName<_>>>() {
        ttl = shorter(ttl, Some(seconds(record.map_err(malformed)?.ttl().as_secs())));
    }
    Ok(ttl)
}

/// By priority.
fn services(answer: &Answer) -> Result<(Vec<Service>, Option<Duration>), ResolveError> {
    let malformed = |_| ResolveError::Malformed;
    let (mut all, mut ttl) = (Vec::new(), aliases(answer)?);
    for record in answer.answer().map_err(malformed)?.limit_to::<Srv<ParsedName<_>>>() {
        let record = record.map_err(malformed)?;
        ttl = shorter(ttl, Some(seconds(record.ttl().as_secs())));
        let srv = record.data();
        let target = format!("{}.", srv.target()).replace("..", ".");
        // RFC 2782: a target of "." says that the service is not there.
        if target != "." {
            all.push(Service { priority: srv.priority(), weight: srv.weight(), port: srv.port(), target });
        }
    }
    all.sort_unstable_by(|one, other| {
        (one.priority, &one.target, one.port).cmp(&(other.priority, &other.target, other.port))
    });
    Ok((all, ttl))
}

/// Their weights as ours: the largest of each priority is [`MAX_WEIGHT`], and none is 0, which RFC 2782 has for "a very
/// small chance".
fn scaled(services: &[Service]) -> Vec<u32> {
    let largest = |of: &Service| {
        let alike = services.iter().filter(|one| one.priority == of.priority);
        alike.map(|one| u32::from(one.weight)).max().unwrap_or(0)
    };
    let scale = |one: &Service| match largest(one) {
        0 => 1,
        largest => (u32::from(one.weight) * MAX_WEIGHT / largest).max(1),
    };
    services.iter().map(scale).collect()
}

fn server(ip: IpAddr, port: u16, weight: u32, priority: u16, host: &str) -> ServerSpec {
    ServerSpec { addr: ExternalAddr::Tcp(ip.to_string(), port), weight, priority, host: Some(host.to_owned()) }
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(ttl.into())
}

fn read_resolv_conf(path: &Path) -> String {
    let mut text = std::fs::read(path).unwrap_or_default();
    text.truncate(MAX_RESOLV_CONF);
    String::from_utf8_lossy(&text).into_owned()
}

/// The system's settings (resolv.conf(5)), of which only those are read that are named here.
#[derive(Debug, Default, PartialEq, Eq)]
struct System {
    servers: Vec<SocketAddr>,
    search: Search,
}

/// Where names without a dot at their end are looked for.
#[derive(Debug, PartialEq, Eq)]
struct Search {
    domains: Vec<String>,
    /// A name with as many dots is first looked up as it is.
    ndots: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { domains: Vec::new(), ndots: 1 }
    }
}

impl System {
    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    found.servers.extend(address.map(|ip| SocketAddr::new(ip, DNS_PORT)));
                }
                Some("search" | "domain") => {
                    found.search.domains =
                        words.take(MAX_SEARCHED).map(|word| word.trim_matches('.').to_owned()).collect();
                }
                Some("options") => {
                    let ndots = words.find_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                    found.search.ndots = ndots.unwrap_or(found.search.ndots);
                }
                _ => {}
            }
        }
        found.servers.truncate(DnsOptions::MAX_SERVERS);
        found.search.domains.retain(|domain| !domain.is_empty());
        found
    }
}

impl Search {
    /// The names that one may stand for, in the order in which they are looked up.
    fn names(&self, name: &str) -> Vec<String> {
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let (own, below) = (format!("{name}."), self.domains.iter().map(|domain| format!("{name}.{domain}.")));
        let is_whole = name.matches('.').count() >= self.ndots;
        if is_whole { std::iter::once(own).chain(below).collect() } else { below.chain([own]).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_system() {
        let text = "# a comment\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\nnameserver ::1\nsortlist x\n\
                    search default.svc.cluster.local. svc.cluster.local .\noptions edns0 ndots:5 trust-ad\n";
        let System { servers, search } = System::parse(text);
        assert_eq!(servers, ["10.0.0.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        assert_eq!(search.names("app"), ["app.default.svc.cluster.local.", "app.svc.cluster.local.", "app."]);
        assert_eq!(search.names("app.example.org."), ["app.example.org."]);
        let plain = System::parse("nameserver 10.0.0.1\ndomain example.org");
        assert_eq!(plain.search.names("app"), ["app.example.org.", "app."]);
        assert_eq!(plain.search.names("app.test"), ["app.test.", "app.test.example.org."]);
        assert_eq!(System::parse(""), System::default());
    }

    fn service(priority: u16, weight: u16) -> Service {
        Service { priority, weight, port: 1, target: "a.".to_owned() }
    }

    #[test]
    fn weights_are_scaled_within_their_priority() {
        #[track_caller]
        fn check(services: &[(u16, u16)], expected: &[u32]) {
            let services: Vec<Service> =
                services.iter().map(|(priority, weight)| service(*priority, *weight)).collect();
            assert_eq!(scaled(&services), expected);
        }
        check(&[(0, 0), (0, 0)], &[1, 1]);
        check(&[(0, 60), (0, 20), (0, 0)], &[1000, 333, 1]);
        check(&[(0, 65535), (0, 1), (7, 5), (7, 10)], &[1000, 1, 500, 1000]);
        check(&[], &[]);
    }
}
