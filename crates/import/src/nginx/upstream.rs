//! `upstream`: servers that share requests.

use super::reader::Reader;
use crate::directive::Directive;
use crate::model::Noted;
use crate::rules::{MAX_SERVERS, MAX_WEIGHT, Servers};

/// Why a method is not needed.
const DRAWN: &str = "of two servers that are drawn, the one with fewer open requests takes a request";

impl Reader<'_> {
    /// The servers of an upstream, without scheme, and how they share requests. What cannot be taken over is noted.
    pub(super) fn servers(&mut self, upstream: &Directive) -> Result<Servers, String> {
        let mut servers = Servers::default();
        for one in upstream.children().iter().filter(|one| one.name == "server") {
            let Some((address, options)) = one.args.split_first() else { continue };
            let refused = match () {
                () if options.iter().any(|option| option == "down") => Some("it is `down`: add it when it is not"),
                () if options.iter().any(|option| option == "backup") => {
                    Some("no server is only asked when the others are gone: add it to `url`, with a low weight")
                }
                () if servers.urls.contains(address) => {
                    Some("it is there already: `balance.weights` gives a larger share")
                }
                () if servers.urls.len() == MAX_SERVERS => Some("a service has up to 64 servers"),
                () => None,
            };
            match refused {
                Some(why) => self.once(one, |reader| reader.draft.not_mapped(one.line, one.label(), why)),
                None => {
                    servers.urls.push(address.clone());
                    servers.weights.push(weight(options));
                    self.once(one, |reader| reader.server_options(one, options));
                }
            }
        }
        if servers.urls.is_empty() {
            return Err("the upstream has no servers".to_owned());
        }
        for one in upstream.children().iter().filter(|one| one.name != "server") {
            servers.by = method(one).or(servers.by);
            self.once(one, |reader| reader.share(one));
        }
        Ok(servers)
    }

    /// An upstream may be named by many locations: what becomes of it is said once.
    fn once(&mut self, one: &Directive, note: impl FnOnce(&mut Self)) {
        let is_it = |noted: &Noted| noted.line == one.line && noted.option.starts_with(&one.name);
        if !self.draft.options().iter().any(is_it) {
            note(self);
        }
    }

    fn server_options(&mut self, one: &Directive, options: &[String]) {
        self.draft.mapped(one.line, "server", "url of a service");
        for option in options {
            let (name, _) = option.split_once('=').unwrap_or((option, ""));
            let why = match name {
                "weight" => {
                    self.draft.mapped(one.line, option.as_str(), "balance.weights");
                    continue;
                }
                "max_fails" | "fail_timeout" => "`balance.max_failures` and `eject_time` are for all servers",
                "max_conns" => "`max_connections` of the service is for each of its servers",
                "slow_start" => "`balance.slow_start` is for all servers",
                _ => "there is no key for it",
            };
            self.draft.not_mapped(one.line, format!("server … {option}"), why);
        }
    }

    fn share(&mut self, one: &Directive) {
        match one.name.as_str() {
            name if name.starts_with("keepalive") || name == "zone" => {
                self.draft.not_needed(one.line, name, "connections to services are kept");
            }
            "least_conn" | "random" | "least_time" => self.draft.not_needed(one.line, one.name.as_str(), DRAWN),
            _ if method(one).is_some() => self.draft.mapped(one.line, one.name.as_str(), "balance.by"),
            _ => {
                let why = "`balance` of the service says how several servers share the requests";
                self.draft.not_mapped(one.line, one.label(), why);
            }
        }
    }

    /// The first server of an upstream of programs; the others are noted.
    pub(super) fn first_server(&mut self, upstream: &Directive) -> Result<String, String> {
        let mut servers = upstream.children().iter().filter(|one| one.name == "server");
        let first = servers.next().ok_or("the upstream has no servers")?;
        self.once(first, |reader| reader.draft.mapped(first.line, "server", "url of a service"));
        for other in servers {
            let why = "only the first server is taken over: `url` may be a list, add it there";
            self.once(other, |reader| reader.draft.not_mapped(other.line, other.label(), why));
        }
        for one in upstream.children().iter().filter(|one| one.name != "server") {
            self.once(one, |reader| reader.share(one));
        }
        Ok(first.arg(0).to_owned())
    }
}

fn weight(options: &[String]) -> u64 {
    let said = options.iter().find_map(|option| option.strip_prefix("weight="));
    said.and_then(|weight| weight.parse().ok()).unwrap_or(1).clamp(1, MAX_WEIGHT)
}

/// `balance.by` of a method that keeps clients at their server.
fn method(one: &Directive) -> Option<String> {
    match (one.name.as_str(), one.arg(0)) {
        ("ip_hash", _) | ("hash", "$remote_addr" | "$binary_remote_addr") => Some("client".to_owned()),
        ("hash", key) => {
            let name = |prefix: &str| key.strip_prefix(prefix).filter(|name| !name.contains('$'));
            let cookie = name("$cookie_").map(|name| format!("cookie:{name}"));
            cookie.or_else(|| name("$http_").map(|name| format!("header:{}", name.replace('_', "-"))))
        }
        ("sticky", "cookie") => Some(format!("sticky:{}", one.arg(1))),
        _ => None,
    }
}
