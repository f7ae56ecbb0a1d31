//! `pilotlight import` on small files in the shapes that people have (`tests/import/corpus`). Each line of a file is
//! mapped, not needed or named as not mapped; and what a file says in its first lines holds for the result:
//! `open: [CLIENT@][ADDRESS:]PORT HOST PATH` is answered, `closed: …` is refused or has no route.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use pilotlight_cli::config::parse;
use pilotlight_cli::import::finished;
use pilotlight_import::{Kind, Noted, import};

/// Files that the corpus has at least.
const MIN_FILES: usize = 45;
/// A client from elsewhere.
pub(crate) const STRANGER: &str = "203.0.113.77";

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

/// Whether a client is in a network of IPv4.
pub(crate) fn has(network: &str, client: &str) -> bool {
    let (address, bits) = network.split_once('/').unwrap_or((network, "32"));
    let (Ok(address), Ok(client)) = (address.parse::<Ipv4Addr>(), client.parse::<Ipv4Addr>()) else { return false };
    let bits: u32 = bits.parse().unwrap();
    let part = |address: Ipv4Addr| u64::from(u32::from(address)) >> (32 - bits);
    part(address) == part(client)
}

/// What a result listens at, and its routes.
pub(crate) struct Answers {
    listen: Vec<String>,
    routes: Vec<Route>,
}

impl Answers {
    pub(crate) fn of(toml: &str) -> Self {
        let routes = toml.split("\n[[routes]]\n").skip(1).map(Route::read).collect();
        Self { listen: list(toml, "listen"), routes }
    }

    /// The service whose route answers a request, which is written like those of the corpus; empty for files and
    /// redirects.
    pub(crate) fn by(&self, request: &str) -> Option<&str> {
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
