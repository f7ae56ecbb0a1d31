//! `pilotlight import` on generated files, beside models of nginx, Unit and Caddy: no request is answered that the
//! server refuses, and of nginx every one by the same location.

use pilotlight_cli::import::finished;
use pilotlight_import::{Kind, import};
use proptest::prelude::*;

use crate::import_corpus::{Answers, STRANGER, has};

/// Generated files of each kind that are tried.
const CASES: u32 = 64;

/// What a location of a generated server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Proxies,
    ProxiesForTheOffice,
    DeniesAll,
    IsInternal,
    Answers404,
}

/// A generated server of nginx.
#[derive(Clone, Debug)]
struct Server {
    listens: Vec<&'static str>,
    name: Option<&'static str>,
    locations: Vec<(&'static str, Does)>,
}

const LOCATIONS: [&str; 6] = ["/", "/x/", "/x/y/", "= /e", "~ ^/x/", "^~ /x/w/"];
const PATHS: [&str; 7] = ["/", "/z", "/x/1", "/x/y/1", "/x/w/1", "/e", "/e/1"];
const HOSTS: [&str; 4] = ["a.example", "b.example", "deep.wild.example", "other.example"];
const OFFICE: &str = "10.1.1.1";

/// Number of the service of a location: that of its server and its own.
fn upstream(server: usize, location: usize) -> String {
    format!("port-{}", 3000 + server * 10 + location)
}

impl Server {
    fn text(&self, number: usize) -> String {
        let mut text = "server {\n".to_owned();
        self.listens.iter().for_each(|listen| text.push_str(&format!("    listen {listen};\n")));
        self.name.iter().for_each(|name| text.push_str(&format!("    server_name {name};\n")));
        for (at, (path, does)) in self.locations.iter().enumerate() {
            let pass = format!("proxy_pass http://127.0.0.1:{};", 3000 + number * 10 + at);
            let inside = match does {
                Does::Proxies => pass,
                Does::ProxiesForTheOffice => format!("allow 10.0.0.0/8; deny all; {pass}"),
                Does::DeniesAll => format!("deny all; {pass}"),
                Does::IsInternal => format!("internal; {pass}"),
                Does::Answers404 => "return 404;".to_owned(),
            };
            text.push_str(&format!("    location {path} {{ {inside} }}\n"));
        }
        text + "}\n"
    }

    fn listens_at(&self, address: &str) -> bool {
        self.listens.contains(&address)
    }

    /// The service that answers a client; none: the request is refused, or there is no location.
    fn answers(&self, number: usize, path: &str, client: &str) -> Option<String> {
        // An exact path, else the longest one; a pattern comes before that unless it says `^~`.
        let matches = |(_, (location, _)): &(usize, &(&str, Does))| match location.split_once(' ') {
            Some(("=", exact)) => exact == path,
            Some((_, prefix)) => path.starts_with(prefix.trim_start_matches('^')),
            None => path.starts_with(location),
        };
        let all: Vec<(usize, &(&str, Does))> = self.locations.iter().enumerate().filter(matches).collect();
        let begins = |word: &str| all.iter().find(|(_, (location, _))| location.starts_with(word));
        let longest = all.iter().filter(|(_, (location, _))| !location.starts_with('~'));
        let longest = longest.max_by_key(|(_, (location, _))| location.trim_start_matches("^~ ").len());
        let is_final = longest.is_some_and(|(_, (location, _))| location.starts_with("^~"));
        let pattern = begins("~").filter(|_| !is_final);
        let (at, (_, does)) = begins("=").or(pattern).or(longest)?;
        let is_let_in = match does {
            Does::Proxies => true,
            Does::ProxiesForTheOffice => has("10.0.0.0/8", client),
            Does::DeniesAll | Does::IsInternal | Does::Answers404 => false,
        };
        is_let_in.then(|| upstream(number, *at))
    }
}

/// The server that nginx gives a request at an address of a port to: that of the most specific address, then of the
/// host; and whether that has the host, or says that it takes any.
fn nginx<'a>(servers: &'a [Server], address: &str, port: &str, host: &str) -> Option<(usize, &'a Server, bool)> {
    let numbered: Vec<(usize, &Server)> = servers.iter().enumerate().collect();
    let specific = format!("{address}:{port}");
    let at: Vec<(usize, &Server)> = match numbered.iter().any(|(_, server)| server.listens_at(&specific)) {
        true => numbered.into_iter().filter(|(_, server)| server.listens_at(&specific)).collect(),
        false => numbered.into_iter().filter(|(_, server)| server.listens_at(port)).collect(),
    };
    let named = |name: Option<&str>| at.iter().find(|(_, server)| server.name == name);
    let of_host =
        named(Some(host)).or_else(|| named(Some("*.wild.example")).filter(|_| host.ends_with(".wild.example")));
    let (number, server) = of_host.or_else(|| at.first())?;
    Some((*number, server, of_host.is_some() || server.name.is_none()))
}

fn servers() -> impl Strategy<Value = Vec<Server>> {
    let listen =
        prop::sample::select(vec!["80", "8090", "127.0.0.1:80", "127.0.0.1:8090", "10.0.0.5:80", "10.0.0.5:8090"]);
    let name = prop::sample::select(vec![None, Some("a.example"), Some("b.example"), Some("*.wild.example")]);
    let does = prop::sample::select(vec![
        Does::Proxies,
        Does::Proxies,
        Does::ProxiesForTheOffice,
        Does::DeniesAll,
        Does::IsInternal,
        Does::Answers404,
    ]);
    let locations = prop::collection::btree_map(prop::sample::select(LOCATIONS.to_vec()), does, 0..4);
    let server = (prop::collection::btree_set(listen, 1..3), name, locations).prop_map(|(listens, name, locations)| {
        Server { listens: listens.into_iter().collect(), name, locations: locations.into_iter().collect() }
    });
    prop::collection::vec(server, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]
    /// Whatever the servers of a file are: a request that the result answers is answered by the same location there, at
    /// the same address, or at another one of the port that this client can connect to as well.
    #[test]
    fn no_request_is_answered_that_nginx_refuses(servers in servers()) {
        let text: String = servers.iter().enumerate().map(|(number, server)| server.text(number)).collect();
        let toml = finished(&import(Kind::Nginx, &text).unwrap(), "the example").toml;
        let answers = Answers::of(&toml);
        let are_plain = servers.iter().all(|server| server.listens.iter().all(|listen| !listen.contains(':')));
        for (address, client) in [
            ("203.0.113.1", STRANGER),
            ("203.0.113.1", OFFICE),
            ("10.0.0.5", STRANGER),
            ("10.0.0.5", OFFICE),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            for (port, host, path) in cases() {
                let found = answers.by(&format!("{client}@{address}:{port} {host} {path}"));
                let at = |address: &str| {
                    let (number, server, _) = nginx(&servers, address, port, host)?;
                    server.answers(number, path, client)
                };
                let is_right = found.is_none()
                    || [address, "203.0.113.1"].iter().any(|address| at(address).as_deref() == found)
                    || client == "127.0.0.1" && at("10.0.0.5").as_deref() == found;
                prop_assert!(is_right, "{client} at {address}:{port} {host}{path}: {found:?}\n{text}\n{toml}");
                // Where ports say it all, nothing is lost of a host that a server names.
                let is_said = nginx(&servers, address, port, host).is_some_and(|(.., is_said)| is_said);
                let is_lost = are_plain && is_said && at(address).as_deref() != found;
                prop_assert!(!is_lost, "{client} at {address}:{port} {host}{path} is lost: {found:?}\n{text}\n{toml}");
            }
        }
    }
}

fn cases() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let hosts = HOSTS.iter().flat_map(|host| PATHS.iter().map(move |path| (*host, *path)));
    hosts.flat_map(|(host, path)| ["80", "8090"].map(|port| (port, host, path)))
}

/// A generated step of Unit.
#[derive(Clone, Debug)]
struct UnitStep {
    uri: Option<&'static str>,
    host: Option<&'static str>,
    source: Option<&'static str>,
    /// It takes POST alone.
    is_post: bool,
    refuses: bool,
}

impl UnitStep {
    fn text(&self, number: usize) -> String {
        let mut conditions = Vec::new();
        for (key, value) in [("uri", self.uri), ("host", self.host), ("source", self.source)] {
            conditions.extend(value.map(|value| format!("\"{key}\": \"{value}\"")));
        }
        conditions.extend(self.is_post.then(|| "\"method\": \"POST\"".to_owned()));
        let action = match self.refuses {
            true => "\"return\": 403".to_owned(),
            false => format!("\"proxy\": \"http://127.0.0.1:{}\"", 3000 + number),
        };
        format!("{{ \"match\": {{ {} }}, \"action\": {{ {action} }} }}", conditions.join(", "))
    }

    fn takes(&self, host: &str, path: &str, client: &str) -> bool {
        let is_path = self.uri.is_none_or(|uri| match uri.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == uri,
        });
        let is_host =
            self.host.is_none_or(|own| own == host || own.strip_prefix('*').is_some_and(|end| host.ends_with(end)));
        is_path && is_host && self.source.is_none_or(|network| has(network, client)) && !self.is_post
    }
}

fn unit_steps() -> impl Strategy<Value = Vec<UnitStep>> {
    let uri = prop::sample::select(vec![None, Some("/*"), Some("/x/*"), Some("/x/y/*"), Some("/e")]);
    let host = prop::sample::select(vec![None, None, Some("a.example"), Some("*.wild.example")]);
    let source = prop::sample::select(vec![None, None, Some("10.0.0.0/8")]);
    let step = (uri, host, source, prop::bool::weighted(0.1), any::<bool>());
    let step = step.prop_map(|(uri, host, source, is_post, refuses)| UnitStep { uri, host, source, is_post, refuses });
    prop::collection::vec(step, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]
    /// Whatever the steps of a listener are: no request is answered that Unit refuses or finds no step for.
    #[test]
    fn no_request_is_answered_that_unit_refuses(steps in unit_steps()) {
        let routes: Vec<String> = steps.iter().enumerate().map(|(number, step)| step.text(number)).collect();
        let text = format!("{{ \"listeners\": {{ \"*:80\": {{ \"pass\": \"routes\" }} }}, \"routes\": [ {} ] }}", routes.join(",\n"));
        let toml = finished(&import(Kind::Unit, &text).unwrap(), "the example").toml;
        let answers = Answers::of(&toml);
        for client in [STRANGER, OFFICE] {
            for (_, host, path) in cases().filter(|(port, ..)| *port == "80") {
                let found = answers.by(&format!("{client}@80 {host} {path}"));
                let first = steps.iter().find(|step| step.takes(host, path, client));
                let is_open = first.is_some_and(|step| !step.refuses);
                prop_assert!(found.is_none() || is_open, "{client} at {host}{path}: {found:?}\n{text}\n{toml}");
            }
        }
    }
}

/// A generated directive of Caddy, for a path or everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    AsksForAPassword(&'static str),
    HandlesByRefusing(&'static str),
    HandlesByProxy(&'static str),
    Refuses(&'static str),
    RefusesOutsiders(&'static str),
    Proxies(&'static str),
}

impl Says {
    fn path(self) -> &'static str {
        match self {
            Says::AsksForAPassword(path)
            | Says::HandlesByRefusing(path)
            | Says::HandlesByProxy(path)
            | Says::Refuses(path)
            | Says::RefusesOutsiders(path)
            | Says::Proxies(path) => path,
        }
    }

    fn text(self, number: usize) -> String {
        let proxy = format!("reverse_proxy 127.0.0.1:{}", 3000 + number);
        match self {
            Says::AsksForAPassword(path) => format!("\tbasic_auth {path} {{\n\t\tada hash\n\t}}\n"),
            Says::HandlesByRefusing(path) => format!("\thandle {path} {{\n\t\trespond 403\n\t}}\n"),
            Says::HandlesByProxy(path) => format!("\thandle {path} {{\n\t\t{proxy}\n\t}}\n"),
            Says::Refuses(path) => format!("\trespond {path} 403\n"),
            Says::RefusesOutsiders(path) => {
                let path = if path == "*" { "/*" } else { path };
                format!(
                    "\t@out{number} {{\n\t\tpath {path}\n\t\tnot remote_ip 10.0.0.0/8\n\t}}\n\tabort @out{number}\n"
                )
            }
            Says::Proxies(path) => format!("\treverse_proxy {path} 127.0.0.1:{}\n", 3000 + number),
        }
    }

    fn is_for(self, path: &str) -> bool {
        path.starts_with(self.path().trim_end_matches('*'))
    }
}

/// What Caddy does with a request of a site: directives in its own order, those of one kind by the length of their
/// paths. Whether a service answers.
fn caddy(directives: &[Says], path: &str, client: &str) -> bool {
    let mut of_it: Vec<Says> = directives.iter().copied().filter(|says| says.is_for(path)).collect();
    of_it.sort_by_key(|says| std::cmp::Reverse(says.path().len()));
    let has_any = |is: fn(&Says) -> bool| of_it.iter().any(is);
    let handle = of_it.iter().find(|says| matches!(says, Says::HandlesByRefusing(_) | Says::HandlesByProxy(_)));
    match handle {
        _ if has_any(|says| matches!(says, Says::AsksForAPassword(_))) => false,
        Some(says) => matches!(says, Says::HandlesByProxy(_)),
        None if has_any(|says| matches!(says, Says::Refuses(_))) => false,
        None if has_any(|says| matches!(says, Says::RefusesOutsiders(_))) && !has("10.0.0.0/8", client) => false,
        None => has_any(|says| matches!(says, Says::Proxies(_))),
    }
}

const SITES: [(&str, &str, Option<&str>); 5] = [
    ("http://a.example", "80", Some("a.example")),
    (":80", "80", None),
    ("http://*.wild.example", "80", Some("*.wild.example")),
    (":8090", "8090", None),
    ("http://a.example:8090", "8090", Some("a.example")),
];

fn caddy_sites() -> impl Strategy<Value = Vec<(usize, Vec<Says>)>> {
    let path = || prop::sample::select(vec!["*", "/x/*", "/x/y/*"]);
    let says = prop_oneof![
        path().prop_map(Says::AsksForAPassword),
        path().prop_map(Says::HandlesByRefusing),
        path().prop_map(Says::HandlesByProxy),
        path().prop_map(Says::Refuses),
        path().prop_map(Says::RefusesOutsiders),
        path().prop_map(Says::Proxies),
        Just(Says::Proxies("*")),
    ];
    let directives = prop::collection::vec(says, 0..4);
    prop::collection::btree_map(0..SITES.len(), directives, 1..4).prop_map(|sites| sites.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]
    /// Whatever the sites are: no request is answered that Caddy refuses or has no handler for.
    #[test]
    fn no_request_is_answered_that_caddy_refuses(sites in caddy_sites()) {
        let mut text = String::new();
        for (index, (site, directives)) in sites.iter().enumerate() {
            let inside: String = directives.iter().enumerate().map(|(at, says)| says.text(index * 10 + at)).collect();
            text.push_str(&format!("{} {{\n{inside}}}\n", SITES[*site].0));
        }
        let toml = finished(&import(Kind::Caddy, &text).unwrap(), "the example").toml;
        let answers = Answers::of(&toml);
        for client in [STRANGER, OFFICE] {
            for (port, host, path) in cases() {
                let found = answers.by(&format!("{client}@{port} {host} {path}"));
                let rank = |name: Option<&str>| match name {
                    Some(name) if name == host => Some(2),
                    Some(name) => name.strip_prefix('*').filter(|end| host.ends_with(end)).map(|_| 1),
                    None => Some(0),
                };
                let at = sites.iter().filter(|(site, _)| SITES[*site].1 == port);
                let chosen = at.filter_map(|(site, says)| Some((rank(SITES[*site].2)?, says))).max_by_key(|(rank, _)| *rank);
                let is_open = chosen.is_some_and(|(_, says)| caddy(says, path, client));
                prop_assert!(found.is_none() || is_open, "{client} at {port} {host}{path}: {found:?}\n{text}\n{toml}");
            }
        }
    }
}
