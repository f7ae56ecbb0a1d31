//! Directives of Caddy that handle no request themselves, as rules of a route.

use crate::directive::{Directive, caddy_size, milliseconds, time};
use crate::document::Value;
use crate::rules::{CLOSED, Place, Rules, Target, below};

use super::words::{placeholders, upstream};

/// What a directive became.
pub(super) enum Done {
    Mapped(String),
    NotNeeded(&'static str),
    NotMapped(String),
}

fn mapped(key: &str) -> Done {
    Done::Mapped(key.to_owned())
}

fn not_mapped(why: &str) -> Done {
    Done::NotMapped(why.to_owned())
}

const PLACEHOLDERS: &str = "the placeholders are {client}, {host}, {scheme}, {path}, {query} and {request_id}";
/// The file that users with passwords are to be written into.
pub(super) const USERS: &str = "users.htpasswd";

/// What counts at a place.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub(super) rules: Rules,
    pub(super) root: Option<String>,
    /// The path that is taken away before a handler sees the request.
    pub(super) stripped: Option<String>,
    /// Programs are executed: no files are sent.
    pub(super) has_programs: bool,
}

/// Whether a directive is one of these.
pub(super) fn is_setting(name: &str) -> bool {
    let names = [
        "root",
        "try_files",
        "header",
        "request_header",
        "encode",
        "request_body",
        "basic_auth",
        "basicauth",
        "forward_auth",
        "uri",
        "rewrite",
    ];
    names.contains(&name)
}

impl Level {
    /// Takes over a directive with the arguments behind its matcher.
    pub(super) fn apply(&mut self, directive: &Directive, args: &[String]) -> Done {
        let arg = |index: usize| args.get(index).map_or("", String::as_str);
        match directive.name.as_str() {
            "root" if arg(0).contains('{') => not_mapped("a folder is named by its path"),
            "root" => {
                let root = arg(0).trim_end_matches('/');
                self.root = Some(if root.is_empty() { "/".to_owned() } else { root.to_owned() });
                mapped("files.root")
            }
            "try_files" => self.try_files(args),
            "header" => self.each(directive, args, Level::response_field),
            "request_header" => self.each(directive, args, Level::request_field),
            "encode" => self.encode(directive, args),
            "request_body" => match directive.child("max_size").and_then(|size| caddy_size(size.arg(0))) {
                Some(size) => {
                    self.rules.service.text("body_size", size);
                    mapped("body_size")
                }
                None => not_mapped("only `max_size` has a key"),
            },
            "basic_auth" | "basicauth" => {
                self.rules.keys.insert("allow", "basic", Value::Text(USERS.to_owned()));
                if let Some(realm) = args.get(1) {
                    self.rules.keys.insert("allow", "realm", Value::Text(realm.clone()));
                }
                Done::Mapped(format!("allow.basic = \"{USERS}\""))
            }
            "forward_auth" => self.forward_auth(directive, args),
            "uri" if arg(0) == "strip_prefix" && arg(1).starts_with('/') => {
                self.stripped = Some(arg(1).trim_end_matches('/').to_owned());
                mapped("strip_prefix")
            }
            "rewrite" => self.rewrite(arg(0)),
            _ => not_mapped("`rewrite` of a route has `to` and `prefix`, or a `pattern` with stars"),
        }
    }

    /// A directive with its fields in the line or in a block.
    fn each(&mut self, directive: &Directive, args: &[String], apply: fn(&mut Level, &str, &[String]) -> Done) -> Done {
        if let Some((name, rest)) = args.split_first() {
            return apply(self, name, rest);
        }
        let mut all = mapped("");
        for one in directive.children().iter().filter(|one| one.name != "defer") {
            match (apply(self, &one.name, &one.args), &mut all) {
                (Done::Mapped(key), Done::Mapped(keys)) if keys.is_empty() => *keys = key,
                (Done::NotMapped(why), Done::Mapped(_)) => all = Done::NotMapped(format!("{}: {why}", one.name)),
                _ => {}
            }
        }
        match all {
            Done::Mapped(key) if key.is_empty() => Done::NotNeeded("it says nothing"),
            done => done,
        }
    }

    fn response_field(&mut self, name: &str, rest: &[String]) -> Done {
        self.field("response_fields", name.trim_start_matches('>'), rest)
    }

    fn request_field(&mut self, name: &str, rest: &[String]) -> Done {
        self.field("request_fields", name, rest)
    }

    /// `-name`, `+name value` or `name value`.
    pub(super) fn field(&mut self, section: &'static str, name: &str, rest: &[String]) -> Done {
        if let Some(name) = name.strip_prefix('-') {
            self.rules.without_field(section, name);
            return Done::Mapped(format!("{section}.remove"));
        }
        let [value] = rest else { return not_mapped("parts of a field's value cannot be replaced") };
        let (name, part) = match name.strip_prefix('+') {
            Some(name) => (name, "add"),
            None => (name, "set"),
        };
        if name.starts_with('?') {
            return not_mapped("a field is set whatever the service says, or not at all");
        }
        let lower = name.to_ascii_lowercase();
        let max_age = value.strip_prefix("max-age=").and_then(|age| age.trim_end_matches(';').parse::<u64>().ok());
        match (lower.as_str(), max_age, placeholders(value)) {
            ("strict-transport-security", Some(age), _) if age <= 86_400_000 && section == "response_fields" => {
                self.rules.keys.text("hsts", time(age * 1000));
                mapped("hsts")
            }
            ("cache-control", _, Some(value)) if section == "response_fields" => {
                self.rules.cache_control = Some(value);
                mapped("response_fields or files.cache_control")
            }
            (_, _, Some(value)) => {
                self.rules.field(section, part, name, &value);
                Done::Mapped(format!("{section}.{part}"))
            }
            (_, _, None) => not_mapped(PLACEHOLDERS),
        }
    }

    fn encode(&mut self, directive: &Directive, args: &[String]) -> Done {
        let in_block = directive.children().iter().map(|one| &one.name);
        let known = ["zstd", "br", "gzip"];
        let mut names: Vec<String> =
            args.iter().chain(in_block).filter(|name| known.contains(&name.as_str())).cloned().collect();
        names.dedup();
        let mut table = Vec::new();
        if !names.is_empty() {
            table.push(("algorithms".to_owned(), Value::List(names)));
        }
        if let Some(size) = directive.child("minimum_length").and_then(|length| caddy_size(length.arg(0))) {
            table.push(("min_size".to_owned(), Value::Text(size)));
        }
        let compress = if table.is_empty() { Value::Truth(true) } else { Value::Table(table) };
        self.rules.keys.set("compress", compress);
        mapped("compress")
    }

    fn try_files(&mut self, args: &[String]) -> Done {
        let Some((last, others)) = args.split_last() else { return not_mapped("it names no file") };
        let is_usual = |text: &String| matches!(text.as_str(), "{path}" | "{path}/" | "{http.request.uri.path}");
        let file = last.trim_start_matches('/');
        if file.contains(['{', '=']) || file.is_empty() || !last.starts_with('/') {
            return match last.starts_with('=') || is_usual(last) {
                true => mapped("files"),
                false => not_mapped("the file of the path and the index of the folder are looked for, no others"),
            };
        }
        if file.ends_with(".php") {
            self.has_programs = true;
            return not_mapped("a script as the last one is `fallback` in `cgi` of its service");
        }
        self.rules.files.text("fallback", file);
        match others.iter().all(is_usual) {
            true => mapped("files.fallback"),
            false => not_mapped("the file of the path and the index of the folder are looked for, no others"),
        }
    }

    fn rewrite(&mut self, to: &str) -> Done {
        let whole = to.strip_suffix("{uri}").or_else(|| to.strip_suffix("{path}"));
        match (whole.and_then(crate::directive::route_path), crate::directive::route_path(to)) {
            (Some(prefix), _) => {
                let table =
                    vec![("prefix".to_owned(), Value::Text("/".to_owned())), ("to".to_owned(), Value::Text(prefix))];
                self.rules.service.set("rewrite", Value::Table(table));
                mapped("rewrite")
            }
            (None, Some(path)) => {
                let table =
                    vec![("pattern".to_owned(), Value::Text("/**".to_owned())), ("to".to_owned(), Value::Text(path))];
                self.rules.service.set("rewrite", Value::Table(table));
                mapped("rewrite")
            }
            _ => not_mapped("`rewrite` of a route has `to` and `prefix`, or a `pattern` with stars"),
        }
    }

    fn forward_auth(&mut self, directive: &Directive, args: &[String]) -> Done {
        let url = args.first().map(|text| upstream(text, false));
        let uri = directive.child("uri").map_or("/", |uri| uri.arg(0));
        let fields: Vec<String> = directive
            .children()
            .iter()
            .filter(|one| one.name == "copy_headers")
            .flat_map(|one| one.args.clone())
            .collect();
        let is_plain = !uri.contains('{') && fields.iter().all(|field| !field.contains('>'));
        match url {
            Some(Ok(url)) if is_plain && url.starts_with("http:") => {
                let mut table = vec![("url".to_owned(), Value::Text(format!("{url}{uri}")))];
                if !fields.is_empty() {
                    table.push(("fields".to_owned(), Value::List(fields)));
                }
                self.rules.keys.insert("allow", "forward", Value::Table(table));
                mapped("allow.forward")
            }
            _ => {
                self.rules.is_closed = true;
                Done::NotMapped(format!("`allow = {{ forward = {{ url = … }} }}` asks another server; {CLOSED}"))
            }
        }
    }

    /// The rules of a route to this target at a place.
    pub(super) fn rules_at(&self, place: &Place, target: &Target) -> Rules {
        let mut rules = self.rules.clone();
        if let (Target::Service(_), Some(stripped)) = (target, self.stripped.as_deref()) {
            if stripped == place.path {
                rules.service.set("strip_prefix", Value::Truth(true));
            } else if below(&place.path, stripped).is_some() {
                let texts = [("prefix", stripped), ("to", "/")];
                let table = texts.map(|(key, text)| (key.to_owned(), Value::Text(text.to_owned())));
                rules.service.set("rewrite", Value::Table(table.to_vec()));
            }
        }
        rules
    }

    /// The folder of the files at a place.
    pub(super) fn folder(&self, place: &Place) -> Option<String> {
        let root = self.root.as_deref()?;
        let path = match &self.stripped {
            Some(stripped) => below(&place.path, stripped).map(|rest| format!("/{rest}"))?,
            None => place.path.clone(),
        };
        match path.as_str() {
            "/" => Some(root.to_owned()),
            path => Some(format!("{}{path}", root.trim_end_matches('/'))),
        }
    }

    /// A time of `transport http`.
    pub(super) fn timeout(&mut self, key: &'static str, text: &str) -> Done {
        match milliseconds(text).filter(|ms| *ms > 0) {
            Some(ms) => {
                self.rules.service.text(key, time(ms.min(86_400_000)));
                mapped(key)
            }
            None => not_mapped("it is no time"),
        }
    }
}
