//! A whole file of nginx: what its blocks share, and directives that count for the block that they are in.

use std::collections::BTreeMap;

use crate::directive::{Directive, is_network, milliseconds, nginx_size, time};
use crate::document::Value;
use crate::model::Draft;
use crate::rules::{CLOSED, Place, names_access};

use super::level::{Done, Level, mapped, not_mapped};
use super::scripts::Scripts;
use super::table;
use super::words::as_of_a_proxy;

/// Files of nginx's own packages and of certbot that say nothing of the site.
const KNOWN_FILES: [&str; 10] = [
    "mime.types",
    "proxy_params",
    "proxy.conf",
    "uwsgi_params",
    "scgi_params",
    "fastcgi-php.conf",
    "fastcgi_params",
    "fastcgi.conf",
    "options-ssl-nginx.conf",
    "modules-enabled/*.conf",
];

/// A server while its locations are read.
pub(super) struct Server<'a> {
    pub(super) directives: &'a [Directive],
    /// None: every host that no other server has.
    pub(super) hosts: Vec<Option<String>>,
    /// Its number in the draft.
    pub(super) site: usize,
    pub(super) has_plain: bool,
    pub(super) has_tls: bool,
    /// FastCGI executes what is in its folder.
    pub(super) has_programs: bool,
    /// Which of the reader's scripts are run for plain locations.
    pub(super) scripts: Option<usize>,
}

/// A block, as notes name it.
#[derive(Clone, Copy)]
pub(super) struct Block<'b> {
    pub(super) line: usize,
    pub(super) label: &'b str,
}

/// A zone of `limit_req_zone` or `limit_conn_zone`.
pub(super) struct Zone {
    /// What is counted together, as `by` of [routes.limit]; none: it has no key.
    by: Option<String>,
    /// As `rate`; none for connections.
    rate: Option<String>,
}

/// An address of a server, which may be the one for hosts that no server names.
pub(super) struct Address<'a> {
    pub(super) is_default: bool,
    pub(super) listen: &'a Directive,
    pub(super) server: &'a Directive,
}

#[derive(Default)]
pub(super) struct Reader<'a> {
    pub(super) draft: Draft,
    pub(super) upstreams: BTreeMap<&'a str, &'a Directive>,
    pub(super) zones: BTreeMap<String, Zone>,
    /// What patterns lead to programs.
    pub(super) scripts: Vec<Scripts>,
    /// Locations that were read for their scripts.
    pub(super) handled: Vec<&'a Directive>,
    /// Places of the server that patterns do not count for.
    pub(super) plain: Vec<Place>,
    /// Places of the server's patterns, in their order: they come before plain paths, however long those are.
    pub(super) patterns: Vec<Place>,
    /// A pattern of the server refuses requests, and may be for every path.
    pub(super) is_closed: bool,
    /// Addresses of all servers, in their order.
    pub(super) defaults: Vec<Address<'a>>,
    /// Some listener of the file speaks TLS.
    pub(super) has_tls: bool,
    /// Where clients' addresses come from, and in which way.
    pub(super) proxies: Vec<String>,
    /// `cache_control` of files by their endings: hosts, patterns, value.
    pub(super) lifetimes: Vec<(Vec<Option<String>>, Vec<String>, String)>,
}

impl<'a> Reader<'a> {
    /// What has to be known before the servers are read, wherever it stands.
    pub(super) fn gather(&mut self, directives: &'a [Directive], depth: usize) {
        for directive in directives {
            match directive.name.as_str() {
                "http" if depth == 0 => self.gather(directive.children(), 1),
                "upstream" => {
                    self.upstreams.entry(directive.arg(0)).or_insert(directive);
                }
                "limit_req_zone" | "limit_conn_zone" => self.zone(directive),
                "server" => {
                    for listen in directive.children().iter().filter(|child| child.name == "listen") {
                        self.has_tls |= listen.args.iter().any(|word| word == "ssl");
                        let is_default = listen.args.iter().any(|word| word.starts_with("default"));
                        self.defaults.push(Address { is_default, listen, server: directive });
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn zone(&mut self, directive: &Directive) {
        let by = match directive.arg(0) {
            "$binary_remote_addr" | "$remote_addr" => Some("client".to_owned()),
            "$server_name" | "$host" | "$http_host" => Some("route".to_owned()),
            other => {
                let field = other.strip_prefix("$http_").map(|name| format!("header:{}", name.replace('_', "-")));
                field.or_else(|| other.strip_prefix("$cookie_").map(|name| format!("cookie:{name}")))
            }
        };
        let word = |prefix: &str| directive.args.iter().find_map(|word| word.strip_prefix(prefix));
        let rate = word("rate=")
            .and_then(|rate| rate.strip_suffix("r/s").map(|n| (n, "s")).or(rate.strip_suffix("r/m").map(|n| (n, "m"))));
        let rate = rate.filter(|(number, _)| number.parse::<u32>().is_ok_and(|n| (1..=1_000_000).contains(&n)));
        let rate = rate.map(|(number, unit)| format!("{number}/{unit}"));
        if let Some(name) = word("zone=").and_then(|zone| zone.split(':').next()) {
            self.zones.insert(name.to_owned(), Zone { by, rate });
        }
    }

    /// Writes lifetimes by endings into the routes that lead to files of the same hosts.
    pub(super) fn lifetimes_of_files(&mut self) {
        for (hosts, patterns, value) in std::mem::take(&mut self.lifetimes) {
            let is_of =
                |host: Option<&Value>| hosts.iter().any(|other| other.clone().map(Value::Text).as_ref() == host);
            for route in self.draft.routes.iter_mut().map(|route| &mut route.section) {
                if !is_of(route.get("host")) {
                    continue;
                }
                let root = match route.get("files") {
                    Some(Value::Text(root)) => root.clone(),
                    Some(Value::Table(_)) => String::new(),
                    _ => continue,
                };
                if !root.is_empty() {
                    route.set("files", Value::Table(vec![("root".to_owned(), Value::Text(root))]));
                }
                let mut table = match route.get("files") {
                    Some(Value::Table(files)) => match files.iter().find(|(key, _)| key == "cache_control") {
                        Some((_, Value::Table(table))) => table.clone(),
                        _ => Vec::new(),
                    },
                    _ => Vec::new(),
                };
                for pattern in &patterns {
                    if !table.iter().any(|(other, _)| other == pattern) {
                        table.push((pattern.clone(), Value::Text(value.clone())));
                    }
                }
                route.insert("files", "cache_control", Value::Table(table));
            }
        }
    }

    /// A file, or its block `http`.
    pub(super) fn block(&mut self, directives: &'a [Directive], outer: &Level, depth: usize) {
        let mut level = outer.inherited(directives);
        for directive in directives.iter().filter(|one| !matches!(one.name.as_str(), "http" | "server")) {
            self.directive(directive, &mut level);
        }
        if depth > 0
            && let Some(size) = level.rules.service.get("body_size").cloned()
        {
            self.draft.limits.set("body_size", size);
            level.rules.service.remove("body_size");
        }
        for directive in directives {
            match directive.name.as_str() {
                "http" if depth == 0 => self.block(directive.children(), &level, 1),
                "server" => self.server(directive, &level),
                _ => {}
            }
        }
    }

    /// A directive that counts for the block that it is in.
    pub(super) fn directive(&mut self, directive: &Directive, level: &mut Level) {
        let renamed = as_of_a_proxy(directive);
        let known = renamed.as_ref().unwrap_or(directive);
        let is_known = |value: &str| KNOWN_FILES.iter().any(|file| value.ends_with(file));
        if directive.name == "include" && !is_known(directive.arg(0)) && names_access(directive.arg(0)) {
            level.rules.is_closed = true;
            let why = format!("one file is read, and the name of this one says that it has rules of access; {CLOSED}");
            return self.draft.not_mapped(directive.line, directive.label(), why);
        }
        let done = level
            .apply(known)
            .or_else(|| self.rate(directive, level))
            .or_else(|| self.tls(directive, level))
            .or_else(|| self.of_the_gateway(directive))
            .or_else(|| table::not_needed(&known.name).map(Done::NotNeeded))
            .unwrap_or_else(|| Done::NotMapped(table::not_mapped(&directive.name).to_owned()));
        match (&done, directive.name.as_str()) {
            (_, "events") => {
                for child in directive.children() {
                    self.directive(child, level);
                }
            }
            // Its servers are noted where it is named.
            (_, "upstream") => {}
            (Done::NotMapped(why), _) => {
                for child in directive.children() {
                    let why = why.as_str();
                    self.each_line(child, &mut |reader, one| reader.draft.not_mapped(one.line, one.label(), why));
                }
            }
            (Done::NotNeeded(why), _) => {
                for child in directive.children() {
                    self.each_line(child, &mut |reader, one| reader.draft.not_needed(one.line, one.label(), why));
                }
            }
            (Done::Mapped(_), _) => {}
        }
        self.done(directive, done);
    }

    pub(super) fn done(&mut self, directive: &Directive, done: Done) {
        match done {
            Done::Mapped(to) => self.draft.mapped(directive.line, directive.name.as_str(), to),
            Done::NotNeeded(why) => self.draft.not_needed(directive.line, directive.name.as_str(), why),
            Done::NotMapped(why) => self.draft.not_mapped(directive.line, directive.label(), why),
        }
    }

    pub(super) fn rate(&mut self, directive: &Directive, level: &mut Level) -> Option<Done> {
        let number =
            |prefix: &str| directive.args.iter().find_map(|word| word.strip_prefix(prefix)?.parse::<u64>().ok());
        let keys = &mut level.rules.keys;
        match directive.name.as_str() {
            "limit_req_zone" | "limit_conn_zone" => {
                let by = directive.arg(0);
                let is_good = self.zones.values().any(|zone| zone.by.is_some());
                match is_good {
                    true => mapped("limit, where the zone is used"),
                    false => not_mapped(&format!("requests cannot be counted by {by}")),
                }
            }
            "limit_req" => {
                let zone = directive.args.iter().find_map(|word| self.zones.get(word.strip_prefix("zone=")?));
                let Some(Zone { by: Some(by), rate: Some(rate) }) = zone else {
                    return not_mapped("its zone is not in this file, or counts by what has no key here");
                };
                if matches!(keys.get("limit"), Some(Value::Table(table)) if table.iter().any(|(key, _)| key == "rate"))
                {
                    return not_mapped("a route has one rate");
                }
                keys.insert("limit", "rate", Value::Text(rate.clone()));
                keys.insert("limit", "burst", Value::Number(number("burst=").unwrap_or(0).min(999_999) + 1));
                keys.insert("limit", "by", Value::Text(by.clone()));
                mapped("limit.rate, limit.burst (at once, where nginx says beyond the first), limit.by")
            }
            "limit_conn" => {
                let by = self.zones.get(directive.arg(0)).and_then(|zone| zone.by.clone());
                let count = directive.arg(1).parse::<u64>().ok().filter(|count| (1..=1_000_000).contains(count));
                let (Some(by), Some(count)) = (by, count) else {
                    return not_mapped("its zone is not in this file, or counts by what has no key here");
                };
                keys.insert("limit", "concurrent", Value::Number(count));
                keys.insert("limit", "by", Value::Text(by));
                mapped("limit.concurrent")
            }
            _ => None,
        }
    }

    pub(super) fn tls(&mut self, directive: &Directive, level: &mut Level) -> Option<Done> {
        let value = directive.arg(0);
        match directive.name.as_str() {
            "ssl_certificate" | "ssl_certificate_key" if value.starts_with("data:") || value.contains('$') => {
                not_mapped("a certificate is a file")
            }
            "ssl_certificate" => {
                level.certificates.push(value.to_owned());
                mapped("tls.certificates")
            }
            "ssl_certificate_key" => {
                level.keys.push(value.to_owned());
                mapped("tls.certificates")
            }
            "ssl_protocols" => {
                let has_old = directive.args.iter().any(|word| word != "TLSv1.3");
                if !has_old && self.has_tls {
                    self.draft.other("tls").text("min_version", "1.3");
                }
                mapped("tls.min_version")
            }
            "ssl_client_certificate" if self.has_tls && !self.draft.is_client_authority(value) => {
                level.rules.is_closed = true;
                not_mapped(&format!("there is one authority of client certificates for all hosts; {CLOSED}"))
            }
            "ssl_client_certificate" if self.has_tls => {
                let ca = Value::Text(value.to_owned());
                self.draft.other("tls").insert("client_certificates", "ca", ca);
                mapped("tls.client_certificates.ca")
            }
            "ssl_verify_client" if value == "off" => Some(Done::NotNeeded("that is so without a word")),
            "ssl_verify_client" if matches!(value, "on" | "optional") && self.has_tls => {
                let mode = if value == "on" { "required" } else { "optional" };
                let tls = self.draft.other("tls");
                let is_required = matches!(tls.get("client_certificates"), Some(Value::Table(all))
                    if all.contains(&("mode".to_owned(), Value::Text("required".to_owned()))));
                if !is_required {
                    tls.insert("client_certificates", "mode", Value::Text(mode.to_owned()));
                }
                mapped("tls.client_certificates.mode, for all hosts")
            }
            "ssl_verify_client" => not_mapped("a certificate is required or optional, and checked"),
            _ => None,
        }
    }

    pub(super) fn of_the_gateway(&mut self, directive: &Directive) -> Option<Done> {
        let value = directive.arg(0);
        let limits = |draft: &mut Draft, key: &'static str, most: u64| match milliseconds(value) {
            Some(ms) if ms > 0 => {
                draft.limits.text(key, time(ms.clamp(1000, most)));
                mapped(&format!("limits.{key}"))
            }
            _ => not_mapped("it is no time of a second or more"),
        };
        match directive.name.as_str() {
            "keepalive_timeout" => limits(&mut self.draft, "keepalive_timeout", 3_600_000),
            "client_header_timeout" => limits(&mut self.draft, "header_timeout", 600_000),
            "client_body_timeout" | "send_timeout" => limits(&mut self.draft, "body_timeout", 3_600_000),
            "large_client_header_buffers" => {
                let size = nginx_size(directive.arg(1)).filter(|size| size.ends_with("KiB"));
                let each: u64 = size?.trim_end_matches("KiB").parse().ok()?;
                let all = each.saturating_mul(value.parse().ok()?).clamp(1, 56);
                self.draft.limits.text("header_size", format!("{all}KiB"));
                mapped("limits.header_size")
            }
            "worker_processes" => {
                if let Ok(count) = value.parse::<u64>() {
                    self.draft.top.set("workers", Value::Number(count.clamp(1, 256)));
                }
                mapped("workers")
            }
            "worker_connections" => {
                let count = value.parse::<u64>().ok()?;
                self.draft.limits.set("connections", Value::Number(count.clamp(1, 1_000_000)));
                mapped("limits.connections")
            }
            "access_log" => self.access_log(directive),
            "set_real_ip_from" => {
                self.proxies.push(value.to_owned());
                self.trust("trust_forwarded")
            }
            "real_ip_header" => match value.to_ascii_lowercase().as_str() {
                "x-forwarded-for" => self.trust("trust_forwarded"),
                "proxy_protocol" => {
                    self.draft.top.remove("trust_forwarded");
                    self.trust("proxy_protocol")
                }
                _ => not_mapped("clients are named by X-Forwarded-For, Forwarded or the PROXY protocol"),
            },
            "include" => Some(match KNOWN_FILES.iter().any(|file| value.ends_with(file)) {
                true => Done::NotNeeded("it says nothing that the gateway has to be told"),
                false => {
                    Done::NotMapped("one file is read: put its lines in this place, or import it by itself".to_owned())
                }
            }),
            "upstream" | "keepalive" => Some(Done::NotNeeded("it is read where it is named")),
            "map" if value == "$http_upgrade" => Some(Done::NotNeeded("upgrades are passed on by themselves")),
            "charset" if value.eq_ignore_ascii_case("utf-8") => Some(Done::NotNeeded("texts are sent as UTF-8")),
            "proxy_redirect" if matches!(value, "off" | "default") => {
                Some(Done::NotNeeded("`Location` of an answer stays as it is"))
            }
            _ => None,
        }
    }

    /// The networks in `set_real_ip_from`, as the value of this key.
    pub(super) fn trust(&mut self, key: &'static str) -> Option<Done> {
        let key = if self.draft.top.get("proxy_protocol").is_some() { "proxy_protocol" } else { key };
        let good = self.proxies.iter().filter(|text| is_network(text)).cloned().collect();
        self.draft.top.set(key, Value::List(good));
        mapped(key)
    }

    pub(super) fn access_log(&mut self, directive: &Directive) -> Option<Done> {
        let path = directive.arg(0);
        if path == "off" {
            return Some(Done::NotNeeded("there is no access log but by [access_log], which is for all routes"));
        }
        if path.contains('$') || path.starts_with("syslog:") {
            return not_mapped("an access log is a file, or the standard output");
        }
        let path = if path == "/dev/stdout" { "stdout" } else { path };
        let log = self.draft.other("access_log");
        match log.get("path") {
            Some(Value::Text(there)) if there != path => {
                not_mapped("there is one access log for all hosts; `host` is among its fields")
            }
            _ => {
                log.text("path", path);
                mapped("access_log.path")
            }
        }
    }
}
