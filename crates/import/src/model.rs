//! What every kind of file is read into.

use std::ops::RangeInclusive;

use crate::document::{Section, Value};
use crate::door::{Claim, Door, Routed, Site, ToTls};

/// Most bytes of a file.
pub const MAX_BYTES: usize = 1 << 20;
/// Most lines of a file.
pub const MAX_LINES: usize = 20_000;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `NAME: COMMAND` lines, as Heroku, foreman, honcho and overmind read them.
    Procfile,
    /// The section `[uwsgi]` of an ini file.
    Uwsgi,
    /// The JSON document of NGINX Unit.
    Unit,
    /// Simple assignments of a `gunicorn.conf.py`, or a command line.
    Gunicorn,
    /// `server` blocks of nginx: a site file, or `nginx.conf`.
    Nginx,
    /// A Caddyfile.
    Caddy,
}

impl Kind {
    /// The kinds by their names.
    pub const NAMES: [(&str, Kind); 6] = [
        ("procfile", Kind::Procfile),
        ("uwsgi", Kind::Uwsgi),
        ("unit", Kind::Unit),
        ("gunicorn", Kind::Gunicorn),
        ("nginx", Kind::Nginx),
        ("caddy", Kind::Caddy),
    ];

    /// The kind of a file, by its name and, if that does not say, by its text.
    #[must_use]
    pub fn of(name: &str, text: &str) -> Option<Kind> {
        let lower = name.to_ascii_lowercase();
        let starts = |prefix: &str| text.trim_start().starts_with(prefix);
        Some(match () {
            () if lower.starts_with("procfile") => Kind::Procfile,
            () if lower.contains("gunicorn") => Kind::Gunicorn,
            () if lower.contains("caddyfile") || lower.ends_with(".caddy") => Kind::Caddy,
            () if lower.ends_with(".json") || is_json(text) => Kind::Unit,
            () if lower.starts_with("nginx") || is_nginx(text) => Kind::Nginx,
            () if text.lines().any(|line| line.trim() == "[uwsgi]") => Kind::Uwsgi,
            () if starts("gunicorn ") => Kind::Gunicorn,
            () if is_caddy(text) => Kind::Caddy,
            () => return None,
        })
    }
}

/// A brace with a key or the end of the object behind it: a Caddyfile may begin with a brace as well.
fn is_json(text: &str) -> bool {
    let rest = text.trim_start().strip_prefix('{').map(str::trim_start);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['"', '}', '/']))
}

/// A line that opens `server`, `http` or `upstream`, and directives that end with a semicolon.
fn is_nginx(text: &str) -> bool {
    let opens = |line: &str| {
        let head = line.split('{').next().unwrap_or(line).trim();
        line.contains('{') && (matches!(head, "server" | "http") || head.starts_with("upstream "))
    };
    text.lines().any(|line| opens(line.trim())) && text.lines().any(|line| line.contains(';'))
}

/// Words of Caddy at the beginning of a line within a block.
fn is_caddy(text: &str) -> bool {
    let words = ["reverse_proxy", "file_server", "handle", "handle_path", "php_fastcgi", "encode", "respond", "redir"];
    let is_word = |line: &str| line.split_whitespace().next().is_some_and(|word| words.contains(&word));
    text.lines().any(|line| line.trim_end().ends_with('{')) && text.lines().any(is_word)
        || text.lines().any(|line| line.trim_start().starts_with("reverse_proxy "))
}

/// Why a file cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// Its line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

/// What became of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// These keys say it.
    Mapped(String),
    /// Pilotlight does so in any case, or has no use for it, for this reason.
    NotNeeded(&'static str),
    /// It is missing in the result, for this reason.
    NotMapped(String),
}

/// An option of the file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Its line, counted from 1.
    pub line: usize,
    /// Its name, as it stands there.
    pub option: String,
    /// What became of it.
    pub became: Became,
}

/// A `pilotlight.toml` and what it was made of.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub(crate) top: Section,
    pub(crate) limits: Section,
    pub(crate) others: Vec<(&'static str, Section)>,
    pub(crate) services: Vec<(String, Section)>,
    pub(crate) routes: Vec<Routed>,
    /// Its parts that have listeners of their own.
    pub(crate) sites: Vec<Site>,
    pub(crate) to_tls: Vec<ToTls>,
    /// Whose the hosts of each listener are; empty: of every site that has routes for them.
    pub(crate) claims: Vec<Claim>,
    /// A host has the routes of its own sites alone, not those of less specific hosts for paths that it has not.
    pub(crate) has_whole_hosts: bool,
    options: Vec<Noted>,
}

impl Draft {
    /// Every option of the file, in its order.
    #[must_use]
    pub fn options(&self) -> &[Noted] {
        &self.options
    }

    pub(crate) fn note(&mut self, line: usize, option: impl Into<String>, became: Became) {
        self.options.push(Noted { line, option: option.into(), became });
    }

    /// Options in these lines that were mapped are missing in the result, for this reason.
    pub(crate) fn not_mapped_after_all(&mut self, lines: &RangeInclusive<usize>, why: &str) {
        for noted in self.options.iter_mut().filter(|noted| lines.contains(&noted.line)) {
            if matches!(noted.became, Became::Mapped(_)) {
                noted.became = Became::NotMapped(why.to_owned());
            }
        }
    }

    /// Puts what was noted into the order of the file's lines, once each.
    pub(crate) fn sort_options(&mut self) {
        self.options.sort_by_key(|noted| noted.line);
        self.options.dedup();
    }

    pub(crate) fn other(&mut self, name: &'static str) -> &mut Section {
        let at = self.others.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
            self.others.push((name, Section::default()));
            self.others.len() - 1
        });
        &mut self.others[at].1
    }

    /// Whether there is such a section.
    pub(crate) fn has_other(&self, name: &str) -> bool {
        self.others.iter().any(|(other, _)| *other == name)
    }

    /// Whether client certificates are those of this authority, or of none yet.
    pub(crate) fn is_client_authority(&mut self, file: &str) -> bool {
        let known = self.other("tls").table("client_certificates").unwrap_or_default();
        known.iter().all(|(key, value)| key != "ca" || *value == Value::Text(file.to_owned()))
    }

    /// A name that no other service has, of letters that names may have.
    pub(crate) fn service_name(&self, wanted: &str) -> String {
        let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let mut name: String =
            wanted.to_lowercase().chars().map(|c| if is_good(c) { c } else { '-' }).take(48).collect();
        if name.is_empty() {
            name.push_str("app");
        }
        let taken = |name: &str| self.services.iter().any(|(other, _)| other == name);
        if !taken(&name) {
            return name;
        }
        let first_free = (2..).map(|n| format!("{name}-{n}")).find(|name| !taken(name));
        first_free.unwrap_or(name)
    }

    /// Adds an address to listen on, once.
    pub(crate) fn listen(&mut self, address: String) -> Door {
        let mut all = match self.top.get("listen") {
            Some(Value::List(all)) => all.clone(),
            _ => Vec::new(),
        };
        if !all.contains(&address) {
            all.push(address.clone());
        }
        self.top.set("listen", Value::List(all));
        Door(address)
    }
}
