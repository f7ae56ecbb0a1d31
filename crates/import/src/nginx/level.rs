//! What a block of nginx says for itself and the blocks within it: directives that are inherited, as rules of a route.

use crate::directive::{Directive, is_network, milliseconds, nginx_size, time};
use crate::document::Value;
use crate::rules::{CLOSED, Rules};

use super::words::{placeholders, status_pages};

/// What a directive became.
pub(super) enum Done {
    Mapped(String),
    NotNeeded(&'static str),
    NotMapped(String),
}

pub(super) fn mapped(key: &str) -> Option<Done> {
    Some(Done::Mapped(key.to_owned()))
}

pub(super) fn not_mapped(why: &str) -> Option<Done> {
    Some(Done::NotMapped(why.to_owned()))
}

/// Compression as it is put together from several directives.
#[derive(Clone, Debug, Default)]
pub(super) struct Compress {
    is_on: bool,
    types: Vec<String>,
    min_size: Option<String>,
}

/// What is inherited.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub(super) rules: Rules,
    pub(super) root: Option<String>,
    /// `root` is an `alias`.
    pub(super) is_alias: bool,
    /// `index`, with scripts.
    pub(super) index: Vec<String>,
    /// Some location of the server runs scripts.
    pub(super) has_scripts: bool,
    /// The location is `^~`: patterns, and so scripts, do not count for it.
    pub(super) is_plain: bool,
    /// `fastcgi_param` and the like with fixed values.
    pub(super) params: Vec<(String, String)>,
    /// `SCRIPT_FILENAME` among them.
    pub(super) script: Option<String>,
    /// Statuses and the path of their page.
    pub(super) pages: Vec<(String, String)>,
    pub(super) certificates: Vec<String>,
    pub(super) keys: Vec<String>,
    compress: Compress,
    realm: Option<String>,
    users: Option<String>,
    /// `allow` (true) and `deny`, in their order.
    access: Vec<(bool, String)>,
}

/// Directives, and what forgets that a block inherited them.
type Inherited = (&'static [&'static str], fn(&mut Level));

/// Directives that a block inherits only if it has none of them itself.
const ALL_OR_NONE: [Inherited; 6] = [
    (&["add_header"], |level| {
        level.rules.keys.remove("response_fields");
        level.rules.keys.remove("hsts");
        level.rules.cache_control = None;
    }),
    (&["proxy_set_header"], |level| level.rules.service.remove("request_fields")),
    (&["allow", "deny"], |level| level.access.clear()),
    (&["error_page"], |level| level.pages.clear()),
    (&["limit_req", "limit_conn"], |level| level.rules.keys.remove("limit")),
    (&["fastcgi_param", "uwsgi_param", "scgi_param"], |level| {
        level.params.clear();
        level.script = None;
    }),
];

impl Level {
    /// What a block that has these directives begins with.
    pub(super) fn inherited(&self, directives: &[Directive]) -> Level {
        let mut level = self.clone();
        for (names, forget) in ALL_OR_NONE {
            if directives.iter().any(|directive| names.contains(&directive.name.as_str())) {
                forget(&mut level);
            }
        }
        level
    }

    /// Takes over one directive; none: it is none of these.
    pub(super) fn apply(&mut self, directive: &Directive) -> Option<Done> {
        if matches!(directive.name.as_str(), "fastcgi_param" | "uwsgi_param" | "scgi_param") {
            return Some(self.param(directive));
        }
        self.fields(directive)
            .or_else(|| self.access(directive))
            .or_else(|| self.limits(directive))
            .or_else(|| self.caching(directive))
            .or_else(|| self.files(directive))
    }

    /// The rules of a route, when all directives were taken over.
    pub(super) fn finished(&self) -> Rules {
        let mut rules = self.rules.clone();
        if let Some(realm) = &self.realm {
            match &self.users {
                Some(users) => rules.keys.insert("allow", "basic", Value::Text(users.clone())),
                None => rules.is_closed = true,
            }
            if self.users.is_some() && !realm.is_empty() {
                rules.keys.insert("allow", "realm", Value::Text(realm.clone()));
            }
        }
        match networks(&self.access) {
            Some((allowed, denied)) => (rules.allowed, rules.denied) = (allowed, denied),
            None => rules.is_closed = true,
        }
        if self.compress.is_on {
            let Compress { types, min_size, .. } = &self.compress;
            let mut table = Vec::new();
            if !types.is_empty() {
                let html = std::iter::once("text/html".to_owned()).filter(|html| !types.contains(html));
                table.push(("types".to_owned(), Value::List(html.chain(types.iter().cloned()).collect())));
            }
            if let Some(size) = min_size {
                table.push(("min_size".to_owned(), Value::Text(size.clone())));
            }
            let compress = if table.is_empty() { Value::Truth(true) } else { Value::Table(table) };
            rules.keys.set("compress", compress);
        }
        rules
    }

    /// Whether these rules of access are others than those of the block around it, and are some.
    pub(super) fn has_more_access_rules(&self, outer: &Level) -> bool {
        let (own, theirs) = (access(&self.finished()), access(&outer.finished()));
        own != theirs && own != access(&Rules::default())
    }

    /// Whether the rules of access of this level are none that a route can have.
    pub(super) fn has_odd_access(&self) -> bool {
        networks(&self.access).is_none()
    }

    fn fields(&mut self, directive: &Directive) -> Option<Done> {
        let (name, value) = (directive.arg(0), directive.arg(1));
        let lower = name.to_ascii_lowercase();
        match directive.name.as_str() {
            "proxy_set_header" | "grpc_set_header" => match lower.as_str() {
                "host" if value.starts_with('$') => Some(Done::NotNeeded("services are told the host of the request")),
                "upgrade" | "connection" | "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto"
                | "forwarded" | "content-length" | "te" => {
                    Some(Done::NotNeeded("the gateway writes this field itself"))
                }
                _ if value.is_empty() => {
                    self.rules.without_field("request_fields", name);
                    mapped("request_fields.remove")
                }
                _ => match placeholders(value) {
                    Some(value) => {
                        self.rules.field("request_fields", "set", name, &value);
                        mapped("request_fields.set")
                    }
                    None => {
                        not_mapped("the placeholders are {client}, {host}, {scheme}, {path}, {query} and {request_id}")
                    }
                },
            },
            "add_header" => {
                let max_age = value.strip_prefix("max-age=").and_then(|age| age.trim().parse::<u64>().ok());
                match (lower.as_str(), max_age, placeholders(value)) {
                    ("strict-transport-security", Some(age), _) if age <= 86_400_000 => {
                        self.rules.keys.text("hsts", time(age * 1000));
                        mapped("hsts")
                    }
                    ("cache-control", _, Some(value)) => {
                        self.rules.add_cache_control(&value);
                        mapped("response_fields or files.cache_control")
                    }
                    (_, _, Some(value)) => {
                        self.rules.field("response_fields", "add", name, &value);
                        mapped("response_fields.add")
                    }
                    (_, _, None) => {
                        not_mapped("the placeholders are {client}, {host}, {scheme}, {path}, {query} and {request_id}")
                    }
                }
            }
            "proxy_hide_header" => {
                self.rules.without_field("response_fields", name);
                mapped("response_fields.remove")
            }
            _ => None,
        }
    }

    fn access(&mut self, directive: &Directive) -> Option<Done> {
        let value = directive.arg(0);
        match directive.name.as_str() {
            "allow" | "deny" => {
                let is_allow = directive.name == "allow";
                self.access.push((is_allow, value.to_owned()));
                match value == "all" || is_network(value) {
                    true => mapped(if is_allow { "allow.networks" } else { "deny.networks" }),
                    false => not_mapped(&format!("it is no network; {CLOSED}")),
                }
            }
            "auth_basic" => {
                self.realm = (value != "off").then(|| value.to_owned());
                mapped("allow.realm")
            }
            "auth_basic_user_file" => {
                self.users = Some(value.to_owned());
                mapped("allow.basic (passwords by bcrypt: `htpasswd -B`)")
            }
            "satisfy" if value == "all" => Some(Done::NotNeeded("every rule of `allow` has to be satisfied")),
            "satisfy" | "auth_request" | "auth_jwt" | "limit_except" | "valid_referers" | "secure_link" => {
                self.rules.is_closed = true;
                let means = match directive.name.as_str() {
                    "auth_request" => "`allow = { forward = { url = … } }` asks another server",
                    "auth_jwt" => "`allow = { jwt = { jwks = … } }` looks at tokens",
                    _ => "there is no key for it",
                };
                not_mapped(&format!("{means}; {CLOSED}"))
            }
            _ => None,
        }
    }

    fn limits(&mut self, directive: &Directive) -> Option<Done> {
        let value = directive.arg(0);
        match directive.name.as_str() {
            "client_max_body_size" => {
                match (value, nginx_size(value)) {
                    ("0", _) => self.rules.service.text("body_size", "none"),
                    (_, Some(size)) => self.rules.service.text("body_size", size),
                    (_, None) => return not_mapped("it is no size"),
                }
                mapped("body_size")
            }
            "proxy_read_timeout" | "grpc_read_timeout" => {
                let Some(ms) = milliseconds(value).filter(|ms| *ms > 0) else { return not_mapped("it is no time") };
                let text = time(ms.min(86_400_000));
                self.rules.service.text("response_timeout", text.as_str());
                self.rules.service.text("response_body_timeout", text);
                mapped("response_timeout, response_body_timeout")
            }
            "limit_rate" => match nginx_size(value) {
                Some(size) => {
                    self.rules.keys.insert("limit", "bandwidth", Value::Text(format!("{size}/s")));
                    mapped("limit.bandwidth")
                }
                None => not_mapped("it is no size"),
            },
            "gzip" | "brotli" | "zstd" => {
                self.compress.is_on = value == "on" || (self.compress.is_on && directive.name != "gzip");
                mapped("compress")
            }
            "gzip_types" | "brotli_types" | "zstd_types" => {
                let types = directive.args.iter().filter(|one| one.contains('/'));
                for one in types {
                    if !self.compress.types.contains(one) {
                        self.compress.types.push(one.clone());
                    }
                }
                mapped("compress.types")
            }
            "gzip_min_length" | "brotli_min_length" => match nginx_size(value) {
                Some(size) => {
                    self.compress.min_size = Some(size);
                    mapped("compress.min_size")
                }
                None => not_mapped("it is no size"),
            },
            _ => None,
        }
    }

    fn caching(&mut self, directive: &Directive) -> Option<Done> {
        let value = directive.arg(0);
        let service = &mut self.rules.service;
        match directive.name.as_str() {
            "proxy_cache" if value == "off" => {
                service.set("cache", Value::Truth(false));
                mapped("cache")
            }
            "proxy_cache" => {
                Some(Done::NotNeeded("answers that allow it are cached, unless a route says `cache = false`"))
            }
            "proxy_cache_valid" => {
                let (statuses, last) = directive.args.split_at(directive.args.len().saturating_sub(1));
                let ms = last.first().and_then(|text| milliseconds(text)).filter(|ms| *ms >= 1000);
                let Some(lifetime) = ms.map(|ms| time(ms.min(365 * 86_400_000))) else {
                    return not_mapped("a lifetime is a second at least");
                };
                let is_good = |status: &String| matches!(status.as_str(), "200" | "301" | "302" | "any");
                if statuses.is_empty() || statuses.iter().any(is_good) {
                    service.insert("cache", "default_ttl", Value::Text(lifetime.clone()));
                }
                let can_be_kept = ["404", "410", "451", "500", "501", "502", "503", "504"];
                for status in statuses.iter().filter(|status| can_be_kept.contains(&status.as_str())) {
                    let mut errors = match service.get("cache") {
                        Some(Value::Table(table)) => match table.iter().find(|(name, _)| name == "errors") {
                            Some((_, Value::Table(errors))) => errors.clone(),
                            _ => Vec::new(),
                        },
                        _ => Vec::new(),
                    };
                    errors.retain(|(other, _)| other != status);
                    errors.push((status.clone(), Value::Text(lifetime.clone())));
                    service.insert("cache", "errors", Value::Table(errors));
                }
                mapped("cache.default_ttl, cache.errors")
            }
            "proxy_cache_bypass" | "proxy_no_cache" => {
                let names = |prefix: &str| -> Vec<String> {
                    let names = directive.args.iter().filter_map(|word| word.strip_prefix(prefix));
                    names
                        .map(|name| if prefix == "$http_" { name.replace('_', "-") } else { name.to_owned() })
                        .collect()
                };
                let (cookies, headers, query) = (names("$cookie_"), names("$http_"), names("$arg_"));
                if cookies.len() + headers.len() + query.len() < directive.args.len() {
                    return not_mapped("[routes.cache.bypass] goes by cookies, fields and parameters");
                }
                let lists = [("cookies", cookies), ("headers", headers), ("query", query)];
                let table = lists.into_iter().filter(|(_, names)| !names.is_empty());
                let table = table.map(|(key, names)| (key.to_owned(), Value::List(names))).collect();
                service.insert("cache", "bypass", Value::Table(table));
                mapped("cache.bypass")
            }
            _ => None,
        }
    }

    fn files(&mut self, directive: &Directive) -> Option<Done> {
        let value = directive.arg(0);
        match directive.name.as_str() {
            "root" if value.contains('$') => not_mapped("a folder is named by its path"),
            "root" => {
                self.root = Some(value.trim_end_matches('/').to_owned());
                mapped("files.root")
            }
            "index" if self.has_scripts => {
                self.index.clone_from(&directive.args);
                mapped("cgi.index")
            }
            "index" => {
                let names: Vec<&String> = directive.args.iter().filter(|name| !name.ends_with(".php")).collect();
                match names.first().map(|name| name.as_str()) {
                    None => return not_mapped("files are sent as they are, not executed"),
                    Some("index.html") => self.rules.files.remove("index"),
                    Some(name) => self.rules.files.text("index", name),
                }
                mapped("files.index")
            }
            "autoindex" => {
                match value {
                    "on" => self.rules.files.set("listing", Value::Truth(true)),
                    _ => self.rules.files.remove("listing"),
                }
                mapped("files.listing")
            }
            "autoindex_exact_size" | "autoindex_localtime" | "autoindex_format" => {
                Some(Done::NotNeeded("a list has sizes and times that people read, and JSON for programs"))
            }
            "expires" => match expires(directive) {
                Some(value) => {
                    self.rules.add_cache_control(&value);
                    mapped("response_fields or files.cache_control")
                }
                None if value == "off" => mapped("nothing: that is so without a word"),
                None => not_mapped("only times from now on have a key"),
            },
            "error_page" => match status_pages(&directive.args) {
                Some(pages) => {
                    self.pages.extend(pages);
                    mapped("errors")
                }
                None => not_mapped("a page is a file, with the status of the error"),
            },
            "proxy_intercept_errors" => {
                self.rules.keys.insert("errors", "intercept", Value::Truth(value == "on"));
                mapped("errors.intercept")
            }
            _ => None,
        }
    }
}

fn expires(directive: &Directive) -> Option<String> {
    match (directive.arg(0), directive.args.len()) {
        ("max", 1) => Some("max-age=315360000".to_owned()),
        ("epoch", 1) => Some("no-cache".to_owned()),
        (text, 1) if text.starts_with('-') => Some("no-cache".to_owned()),
        (text, 1) => milliseconds(text).map(|ms| format!("max-age={}", ms / 1000)),
        _ => None,
    }
}

/// Networks of `allow` and of `deny`; none if the order of the directives says what two lists cannot.
fn networks(access: &[(bool, String)]) -> Option<(Vec<String>, Vec<String>)> {
    // The first that matches counts, so what comes behind `all` never does.
    let end = access.iter().position(|(_, network)| network == "all").unwrap_or(access.len());
    let denies_others = access.get(end).is_some_and(|(is_allow, _)| !is_allow);
    let mut lists = (Vec::new(), Vec::new());
    for (is_allow, network) in &access[..end] {
        if !is_network(network) {
            return None;
        }
        match is_allow {
            true => lists.0.push(network.clone()),
            // An allowed part of a network that is denied: `deny` would go before it.
            false if !lists.0.is_empty() => return None,
            false => lists.1.push(network.clone()),
        }
    }
    match denies_others {
        false => lists.0.clear(),
        true if lists.0.is_empty() => lists.1 = vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()],
        true => {}
    }
    Some(lists)
}

/// What rules say of access.
pub(super) fn access(rules: &Rules) -> (bool, Vec<String>, Vec<String>, Option<Value>) {
    (rules.is_closed, rules.allowed.clone(), rules.denied.clone(), rules.keys.get("allow").cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rules: &[&str], expected: Option<(&[&str], &[&str])>) {
        let access: Vec<(bool, String)> = rules
            .iter()
            .filter_map(|rule| rule.split_once(' '))
            .map(|(word, network)| (word == "allow", network.to_owned()))
            .collect();
        let lists = networks(&access);
        let expected = expected.map(|(allowed, denied)| {
            let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
            (texts(allowed), texts(denied))
        });
        assert_eq!(lists, expected, "{rules:?}");
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        check(&[], Some((&[], &[])));
        check(&["allow 10.0.0.0/8", "deny all"], Some((&["10.0.0.0/8"], &[])));
        check(&["deny 10.9.0.0/16", "allow 10.0.0.0/8", "deny all"], Some((&["10.0.0.0/8"], &["10.9.0.0/16"])));
        check(&["deny 10.0.0.0/8"], Some((&[], &["10.0.0.0/8"])));
        check(&["deny 10.0.0.0/8", "allow all"], Some((&[], &["10.0.0.0/8"])));
        check(&["deny all"], Some((&[], &["0.0.0.0/0", "::/0"])));
        check(&["deny all", "allow 10.0.0.0/8"], Some((&[], &["0.0.0.0/0", "::/0"])));
        check(&["allow 10.0.0.5", "deny 10.0.0.0/8"], None);
        check(&["allow unix:", "deny all"], None);
    }
}
