//! `pilotlight import` on small files in the shapes that people have (`tests/import/corpus`). Each line of a file is
//! mapped, not needed or named as not mapped; and what a file says in its first lines holds for the result:
//! `open: [CLIENT@][ADDRESS:]PORT HOST PATH` is answered, `closed: …` is refused or has no route.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use pilotlight_cli::config::parse;
use pilotlight_cli::import::finished;
use pilotlight_import::{Kind, Noted, import};
use proptest::prelude::*;

/// Files that the corpus has at least.
const MIN_FILES: usize = 45;
/// Generated files that are tried.
const CASES: u32 = 64;
/// A client from elsewhere.
const STRANGER: &str = "203.0.113.77";

/// A route of a result, as far as it says who gets there.
#[derive(Debug, Default)]
struct Route {
    host: Option<String>,
    path: String,
    is_exact: bool,
    ports: Vec<u16>,
    methods: Vec<String>,
    allowed: Vec<String>,
    denied: Vec<String>,
    /// It asks for a password, or for another server's leave, or only refuses.
    refuses_strangers: bool,
    /// Name of the service that it leads to.
    service: String,
}

/// The texts of a list in a line: `networks = ["a", "b"]`, of a key that may be quoted.
fn list(line: &str, key: &str) -> Vec<String> {
    let Some((_, rest)) = line.split_once(&format!("{key}\" = [")).or_else(|| line.split_once(&format!("{key} = [")))
    else {
        return Vec::new();
    };
    // No text has a comma, and only texts have brackets.
    let words = rest.split(',').map(str::trim);
    let is_last = |word: &&str| !word.starts_with('"') && word.contains(']') || word.contains("\"]");
    let count = words.clone().position(|word| is_last(&word)).map_or(0, |last| last + 1);
    let bare = |word: &str| match word.strip_prefix('"') {
        Some(text) => text.split('"').next().unwrap_or_default().to_owned(),
        None => word.split(']').next().unwrap_or_default().to_owned(),
    };
    words.take(count).map(bare).filter(|text| !text.is_empty()).collect()
}

impl Route {
    fn read(section: &str) -> Self {
        let mut route = Self::default();
        for line in section.lines().take_while(|line| !line.starts_with('[')) {
            let Some((key, value)) = line.split_once(" = ") else { continue };
            let text = value.trim_matches('"');
            match key {
                "host" => route.host = Some(text.to_owned()),
                "path" => route.path = text.to_owned(),
                "exact" => route.is_exact = value == "true",
                "respond" => route.refuses_strangers = true,
                "service" => route.service = text.to_owned(),
                "when" => {
                    route.ports = list(line, "ports").iter().filter_map(|port| port.parse().ok()).collect();
                    route.methods = list(line, "methods");
                }
                "deny" => route.denied = list(line, "networks"),
                "allow" => {
                    route.allowed = list(line, "networks");
                    route.refuses_strangers |= ["basic", "forward", "jwt"].iter().any(|key| line.contains(key));
                }
                _ => {}
            }
        }
        route
    }

    fn takes(&self, port: Option<u16>, host: &str, path: &str) -> bool {
        let is_host = match self.host.as_deref() {
            None => true,
            Some(own) => own == host || own.strip_prefix('*').is_some_and(|end| host.ends_with(end)),
        };
        let below = path.strip_prefix(self.path.trim_end_matches('/'));
        let is_path = match self.is_exact {
            true => self.path == path,
            false => below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        };
        let is_port = self.ports.is_empty() || port.is_some_and(|port| self.ports.contains(&port));
        is_host && is_path && is_port && (self.methods.is_empty() || self.methods.iter().any(|one| one == "GET"))
    }

    /// The most specific one is the largest.
    fn rank(&self) -> impl Ord {
        let host = self.host.as_ref().map(|host| (!host.starts_with('*'), host.len()));
        (host, self.is_exact, self.path.len(), !self.methods.is_empty(), !self.ports.is_empty())
    }

    fn admits(&self, client: &str) -> bool {
        let within = |networks: &[String]| networks.iter().any(|network| has(network, client));
        !self.refuses_strangers && !within(&self.denied) && (self.allowed.is_empty() || within(&self.allowed))
    }
}

fn has(network: &str, client: &str) -> bool {
    let (address, bits) = network.split_once('/').unwrap_or((network, "32"));
    let (Ok(address), Ok(client)) = (address.parse::<Ipv4Addr>(), client.parse::<Ipv4Addr>()) else { return false };
    let bits: u32 = bits.parse().unwrap();
    let part = |address: Ipv4Addr| u64::from(u32::from(address)) >> (32 - bits);
    part(address) == part(client)
}

/// What a result listens at, and its routes.
struct Answers {
    listen: Vec<String>,
    routes: Vec<Route>,
}

impl Answers {
    fn of(toml: &str) -> Self {
        let routes = toml.split("\n[[routes]]\n").skip(1).map(Route::read).collect();
        Self { listen: list(toml, "listen"), routes }
    }

    /// The service whose route answers a request, which is written like those of the corpus; empty for files and
    /// redirects.
    fn by(&self, request: &str) -> Option<&str> {
        let mut words = request.split_whitespace();
        let (at, host, path) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let (client, at) = at.split_once('@').unwrap_or(("", at));
        let (address, port) = at.rsplit_once(':').unwrap_or(("", at));
        let client = match (client, address.starts_with("127.")) {
            ("", true) => "127.0.0.1",
            ("", false) => STRANGER,
            (client, _) => client,
        };
        let listens = self.listen.iter().any(|listen| {
            let bare = listen.split("://").last().unwrap();
            let (own, own_port) = bare.rsplit_once(':').unwrap_or((bare, ""));
            let is_address = match address {
                "" => !own.starts_with("127.") && !own.ends_with("localhost"),
                address => own == address || own == "0.0.0.0",
            };
            own_port == port && is_address
        });
        let taking = self.routes.iter().rev().filter(|route| route.takes(port.parse().ok(), host, path));
        let route = taking.max_by_key(|route| route.rank()).filter(|route| listens && route.admits(client))?;
        Some(&route.service)
    }
}

/// Lines that say something and are named nowhere.
fn unnamed(kind: Kind, text: &str, options: &[Noted]) -> Vec<String> {
    let is_comment = |line: &str| match kind {
        Kind::Unit => line.starts_with("//"),
        Kind::Uwsgi => line.starts_with(['#', ';', '[']),
        _ => line.starts_with('#'),
    };
    let is_container = |line: &str| match kind {
        Kind::Unit => !line.contains(':') || line.ends_with(['{', '[']),
        Kind::Nginx => ["server {", "http {", "events {", "}"].contains(&line) || line.starts_with("} #"),
        Kind::Caddy => ["{", "}"].contains(&line),
        Kind::Gunicorn => [")", "]", "}"].contains(&line) || line.starts_with("\"\"\""),
        Kind::Uwsgi | Kind::Procfile => false,
    };
    let mut left = Vec::new();
    let mut is_inside = false;
    for (at, whole) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_start_matches('\u{feff}'))) {
        let line = whole.trim();
        let is_said = options.iter().any(|noted| noted.line == at);
        if !(line.is_empty() || is_comment(line) || is_container(line) || is_said || is_inside) {
            left.push(format!("{at}: {line}"));
        }
        // The lines of a statement or a value count for its first.
        is_inside = match kind {
            Kind::Nginx if !line.is_empty() && !is_comment(line) => {
                let code = line.split(" #").next().unwrap_or_default().trim_end();
                !code.ends_with([';', '{', '}'])
            }
            // What is below a statement is read with it, or not at all.
            Kind::Gunicorn => text.lines().nth(at).is_some_and(|next| next.starts_with([' ', '\t'])),
            Kind::Caddy => line.ends_with('\\') || line.ends_with(','),
            _ => false,
        };
    }
    left
}

#[test]
fn each_line_of_the_corpus_is_accounted_for_and_nothing_is_open_that_was_closed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import/corpus");
    let mut wrong = Vec::new();
    let mut files = 0;
    for (name, kind) in Kind::NAMES {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            files += 1;
            let file = format!("{name}/{}", path.file_name().unwrap().to_string_lossy());
            let text = fs::read_to_string(&path).unwrap();
            let imported = finished(&import(kind, &text).unwrap(), "the example");
            if let Err(report) = parse(&imported.toml, Path::new("pilotlight.toml")) {
                wrong.push(format!("{file}: {report}"));
            }
            wrong
                .extend(unnamed(kind, &text, &imported.options).iter().map(|line| format!("{file}:{line}: not named")));
            let before = wrong.len();
            let answers = Answers::of(&imported.toml);
            for line in text.lines().map(|line| line.trim_start_matches(['#', '/', ';', ' '])) {
                let (word, request) = line.split_once(": ").unwrap_or((line, ""));
                let is_right = match word {
                    "open" => answers.by(request).is_some(),
                    "closed" => answers.by(request).is_none(),
                    "named" => {
                        let named = imported.options.iter().map(|noted| format!("{noted:?}"));
                        named.into_iter().any(|noted| noted.contains("NotMapped") && noted.contains(request))
                    }
                    "has" => imported.toml.contains(request),
                    _ => true,
                };
                if !is_right {
                    wrong.push(format!("{file}: {line} does not hold"));
                }
            }
            if wrong.len() > before {
                wrong.push(imported.toml);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files >= MIN_FILES, "{files}");
}

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
