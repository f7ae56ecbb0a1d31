//! What a site says of a part of its paths, as the keys of a route: shared by nginx and Caddy, whose words differ and
//! whose meanings do not.
//!
//! Invariant: a rule of access that could not be mapped closes its route; no route is open that was not.

use crate::document::{Section, Value};
use crate::model::{Became, Draft};

/// Everybody.
pub(crate) const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];
/// What a note says of a route that was closed because its rule of access could not be mapped.
pub(crate) const CLOSED: &str = "the route is closed to everybody (`deny`) until you write the rule";

/// Why a rule of access is weaker in the result.
pub(crate) const BEYOND: &str =
    "a route's path ends with a segment: longer names beside it ARE NOT RESTRICTED by the result";

/// Whether the name of a file or snippet that is not read says that it has rules of access.
pub(crate) fn names_access(name: &str) -> bool {
    const WORDS: [&str; 13] = [
        "access",
        "acl",
        "allow",
        "auth",
        "block",
        "deny",
        "firewall",
        "geo",
        "internal",
        "password",
        "private",
        "restrict",
        "whitelist",
    ];
    let lower = name.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To the service of this name.
    Service(String),
    /// To the files of this folder.
    Files(String),
    /// To another URL, with this status.
    Redirect(String, u64),
}

/// A path of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) exact: bool,
}

impl Place {
    pub(crate) fn root() -> Self {
        Place { path: "/".to_owned(), exact: false }
    }

    /// Whether all that is at the other place is at this one.
    pub(crate) fn covers(&self, other: &Place) -> bool {
        match self.exact {
            true => self == other,
            false => self.path == "/" || below(&other.path, &self.path).is_some(),
        }
    }
}

/// What of a path is below another: empty for itself.
pub(crate) fn below<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    if prefix == "/" {
        return path.strip_prefix('/');
    }
    let rest = path.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

/// Keys of a route that are not where it leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// For whatever it leads to.
    pub(crate) keys: Section,
    /// For services only.
    pub(crate) service: Section,
    /// For files only: `index`, `fallback`, `listing`, `cache_control`.
    pub(crate) files: Section,
    /// `Cache-Control` that clients are told.
    pub(crate) cache_control: Option<String>,
    /// Networks of `allow` and of `deny`.
    pub(crate) allowed: Vec<String>,
    pub(crate) denied: Vec<String>,
    /// A rule of access could not be mapped.
    pub(crate) is_closed: bool,
}

impl Rules {
    /// Adds a field to a part (`set`, `add`) of `request_fields` or `response_fields`; a second one makes a list.
    pub(crate) fn field(&mut self, section: &'static str, part: &str, name: &str, value: &str) {
        let keys = if section == "request_fields" { &mut self.service } else { &mut self.keys };
        let mut parts = table(keys, section);
        let mut fields = match parts.iter().find(|(other, _)| other == part) {
            Some((_, Value::Table(fields))) => fields.clone(),
            _ => Vec::new(),
        };
        let old = fields.iter().position(|(other, _)| other.eq_ignore_ascii_case(name));
        let value = match old.map(|at| fields.remove(at).1) {
            Some(Value::Text(first)) if part == "add" => Value::List(vec![first, value.to_owned()]),
            Some(Value::List(mut list)) if part == "add" => {
                list.push(value.to_owned());
                Value::List(list)
            }
            _ => Value::Text(value.to_owned()),
        };
        fields.push((name.to_owned(), value));
        parts.retain(|(other, _)| other != part);
        parts.push((part.to_owned(), Value::Table(fields)));
        keys.set(section, Value::Table(parts));
    }

    /// Takes a field away.
    pub(crate) fn without_field(&mut self, section: &'static str, name: &str) {
        let keys = if section == "request_fields" { &mut self.service } else { &mut self.keys };
        let mut parts = table(keys, section);
        let mut names = match parts.iter().find(|(other, _)| other == "remove") {
            Some((_, Value::List(names))) => names.clone(),
            _ => Vec::new(),
        };
        names.push(name.to_owned());
        parts.retain(|(other, _)| other != "remove");
        parts.push(("remove".to_owned(), Value::List(names)));
        keys.set(section, Value::Table(parts));
    }

    /// Takes over keys of another that are not among these.
    pub(crate) fn fill(&mut self, other: &Rules) {
        for (own, theirs) in [(&mut self.keys, &other.keys), (&mut self.service, &other.service)] {
            for (key, value) in theirs.entries().filter(|(key, _)| *key != "allow") {
                if own.get(key).is_none() {
                    own.set(key, value.clone());
                }
            }
        }
        self.is_closed |= other.is_closed;
    }

    /// Adds to what clients are told as `Cache-Control`.
    pub(crate) fn add_cache_control(&mut self, value: &str) {
        self.cache_control = Some(match self.cache_control.take() {
            Some(old) => format!("{old}, {value}"),
            None => value.to_owned(),
        });
    }

    /// The route of these rules.
    pub(crate) fn route(&self, host: Option<&str>, place: &Place, target: &Target) -> Section {
        let mut rules = self.clone();
        if let Some(value) = rules.cache_control.take() {
            match target {
                Target::Files(_) => rules.files.entry("cache_control", "*", value),
                _ => rules.field("response_fields", "set", "Cache-Control", &value),
            }
        }
        rules.whole(host, place, target)
    }

    fn whole(self, host: Option<&str>, place: &Place, target: &Target) -> Section {
        let mut route = Section::default();
        if let Some(host) = host {
            route.text("host", host);
        }
        route.text("path", place.path.as_str());
        if place.exact {
            route.set("exact", Value::Truth(true));
        }
        match target {
            Target::Service(name) => route.text("service", name.as_str()),
            Target::Files(root) => {
                let mut files = vec![("root".to_owned(), Value::Text(root.clone()))];
                files.extend(self.files.entries().map(|(key, value)| (key.to_owned(), value.clone())));
                match files.len() {
                    1 => route.text("files", root.as_str()),
                    _ => route.set("files", Value::Table(files)),
                }
            }
            Target::Redirect(to, status) => {
                let table =
                    vec![("to".to_owned(), Value::Text(to.clone())), ("status".to_owned(), Value::Number(*status))];
                route.set("redirect", Value::Table(table));
            }
        }
        route.extend(self.keys);
        if matches!(target, Target::Service(_)) {
            route.extend(self.service);
        }
        if place.path == "/" {
            route.remove("strip_prefix");
        }
        if !self.allowed.is_empty() {
            route.insert("allow", "networks", Value::List(self.allowed));
        }
        let denied = if self.is_closed { ALL.map(str::to_owned).to_vec() } else { self.denied };
        if !denied.is_empty() {
            route.insert("deny", "networks", Value::List(denied));
        }
        route
    }

    /// Lets in clients of these networks alone; of those that a rule before let in, nobody can be told.
    pub(crate) fn allow_only(&mut self, networks: &[String]) {
        self.is_closed |= !self.allowed.is_empty() && self.allowed != networks;
        self.allowed = networks.to_vec();
    }

    /// Nobody has access.
    pub(crate) fn deny_all(&mut self) {
        self.denied = ALL.map(str::to_owned).to_vec();
    }
}

fn table(keys: &mut Section, name: &str) -> Vec<(String, Value)> {
    match keys.get(name) {
        Some(Value::Table(table)) => table.clone(),
        _ => Vec::new(),
    }
}

/// Servers of one service.
#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) urls: Vec<String>,
    /// Theirs, in their order; 1 is what they have by themselves.
    pub(crate) weights: Vec<u64>,
    /// `balance.by`, unless it is the usual one.
    pub(crate) by: Option<String>,
}

/// Most servers of a service, and the largest weight.
pub(crate) const MAX_SERVERS: usize = 64;
pub(crate) const MAX_WEIGHT: u64 = 1000;

impl Servers {
    fn section(mut self) -> Section {
        let mut section = Section::default();
        if self.urls.len() == 1 {
            return section.with("url", self.urls.remove(0));
        }
        section.set("url", Value::List(self.urls));
        if let Some(by) = self.by {
            section.insert("balance", "by", Value::Text(by));
        }
        if self.weights.iter().any(|weight| *weight != 1) {
            section.insert("balance", "weights", Value::Numbers(self.weights));
        }
        section
    }
}

impl Draft {
    /// The service with these servers, which may be there already.
    pub(crate) fn service_of(&mut self, wanted: &str, servers: Servers) -> String {
        let section = servers.section();
        if let Some((name, _)) = self.services.iter().find(|(_, there)| *there == section) {
            return name.clone();
        }
        let name = self.service_name(wanted);
        self.services.push((name.clone(), section));
        name
    }

    /// Takes away addresses that another one covers, and the plain one of two that are the same but for TLS.
    pub(crate) fn merge_listeners(&mut self) {
        let Some(Value::List(all)) = self.top.get("listen").cloned() else { return };
        let bare = |text: &String| text.split("://").last().unwrap_or(text).to_owned();
        let is_covered = |text: &String| {
            let address = bare(text);
            let Some((host, port)) = address.rsplit_once(':').filter(|_| !address.starts_with("unix:")) else {
                return false;
            };
            let wildcard = if host.starts_with('[') { "[::]" } else { "0.0.0.0" };
            let is_plain_twin =
                !text.contains("://") && all.iter().any(|other| other != text && bare(other) == address);
            is_plain_twin || host != wildcard && all.iter().any(|other| bare(other) == format!("{wildcard}:{port}"))
        };
        // Every name below `localhost` is one address.
        let socket = |text: &String| match text.split_once(".localhost:") {
            Some((_, port)) => format!("localhost:{port}"),
            None => bare(text),
        };
        let is_first = |index: usize| all[..index].iter().all(|other| socket(other) != socket(&all[index]));
        let left = all.iter().enumerate().filter(|(index, text)| is_first(*index) && !is_covered(text));
        let left = left.map(|(_, text)| text.clone()).collect();
        self.top.set("listen", Value::List(left));
    }

    pub(crate) fn mapped(&mut self, line: usize, option: impl Into<String>, to: impl Into<String>) {
        self.note(line, option, Became::Mapped(to.into()));
    }

    pub(crate) fn not_needed(&mut self, line: usize, option: impl Into<String>, why: &'static str) {
        self.note(line, option, Became::NotNeeded(why));
    }

    pub(crate) fn not_mapped(&mut self, line: usize, option: impl Into<String>, why: impl Into<String>) {
        self.note(line, option, Became::NotMapped(why.into()));
    }
}

/// A name for the service at an address: `127.0.0.1:3000` is `port-3000`, `api:80` is `api`.
pub(crate) fn name_of(address: &str) -> String {
    let address = address.split("://").last().unwrap_or(address);
    if let Some(path) = address.strip_prefix("unix:").or_else(|| address.starts_with('/').then_some(address)) {
        let file = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        return file.trim_end_matches(".sock").trim_end_matches(".socket").to_owned();
    }
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "80"));
    let is_number = host.is_empty() || host.chars().all(|c| c.is_ascii_digit() || ".:[]".contains(c));
    match is_number || host == "localhost" {
        true => format!("port-{port}"),
        false => host.split('.').next().unwrap_or(host).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_cover_what_is_below_them() {
        let place = |path: &str, exact| Place { path: path.to_owned(), exact };
        assert!(Place::root().covers(&place("/a", true)));
        assert!(place("/a", false).covers(&place("/a/b", false)));
        assert!(!place("/a", false).covers(&place("/ab", false)));
        assert!(!place("/a", true).covers(&place("/a", false)));
    }

    #[test]
    fn a_closed_route_denies_everybody_whatever_was_allowed() {
        let mut rules = Rules { allowed: vec!["10.0.0.0/8".to_owned()], is_closed: true, ..Rules::default() };
        rules.service.text("timeout", "1s");
        let route = rules.route(Some("a.example"), &Place::root(), &Target::Files("/srv".to_owned()));
        let lines = crate::document::keys(&route);
        assert_eq!(
            lines,
            "host = \"a.example\"\npath = \"/\"\nfiles = \"/srv\"\nallow = { \"networks\" = [\"10.0.0.0/8\"] }\n\
             deny = { \"networks\" = [\"0.0.0.0/0\", \"::/0\"] }\n"
        );
    }

    #[test]
    fn services_are_named_after_their_addresses() {
        for (address, name) in [
            ("127.0.0.1:3000", "port-3000"),
            ("[::1]:80", "port-80"),
            ("api.internal:8080", "api"),
            ("unix:/run/app/web.sock", "web"),
            ("h2c://localhost:50051", "port-50051"),
        ] {
            assert_eq!(name_of(address), name, "{address}");
        }
    }
}
