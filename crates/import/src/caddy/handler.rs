//! Directives of Caddy that answer requests: where a route leads.

use crate::directive::Directive;
use crate::rules::{CLOSED, MAX_SERVERS, MAX_WEIGHT, Place, Servers, Target, name_of};

use super::level::{Done, Level};
use super::reader::Reader;
use super::scope::refuses;
use super::words::{placeholders, upstream};

impl Reader {
    /// What the handler that takes the requests of a place makes of them.
    pub(super) fn handler(
        &mut self,
        directive: &Directive,
        args: &[String],
        hosts: &[Option<String>],
        place: &Place,
        mut level: Level,
    ) {
        let done = match directive.name.as_str() {
            "handle" | "route" => {
                self.scope(hosts, place, &level, directive.children());
                Done::Mapped(format!("the routes of {}", place.path))
            }
            "handle_path" if level.stripped.is_some() => Done::NotMapped("a path is taken away once".to_owned()),
            "handle_path" => {
                // Deeper places of the same handler lose what its own matcher says, too.
                let whole = directive.args.iter().find_map(|text| text.strip_suffix("/*").or(text.strip_suffix('*')));
                level.stripped = Some(whole.unwrap_or(&place.path).to_owned());
                self.scope(hosts, place, &level, directive.children());
                Done::Mapped(format!("the routes of {}, strip_prefix", place.path))
            }
            "redir" => self.redirect(args, hosts, place, &level),
            "respond" if !refuses(directive, args) => {
                // It takes the requests before any service.
                self.forbidden(hosts, place, &mut level);
                Done::NotMapped(format!("without a service only redirects and errors are answered; {CLOSED}"))
            }
            "abort" | "error" | "respond" => self.forbidden(hosts, place, &mut level),
            "reverse_proxy" => self.proxy(directive, args, hosts, place, &mut level),
            "file_server" => self.files(directive, args, hosts, place, &mut level),
            _ => self.php(directive, args, hosts, place, &mut level),
        };
        self.note(directive.line, &directive.name, done);
    }

    fn forbidden(&mut self, hosts: &[Option<String>], place: &Place, level: &mut Level) -> Done {
        level.rules.deny_all();
        self.emit(hosts, place, level, &Target::Redirect("/".to_owned(), 302));
        Done::Mapped("deny (403)".to_owned())
    }

    /// A handler that is not mapped: if not everybody had access, nobody has now, for another route might take its
    /// requests.
    pub(super) fn lost(&mut self, hosts: &[Option<String>], place: &Place, level: &mut Level) {
        let rules = &level.rules;
        let has_access = rules.keys.get("allow").is_none() && rules.allowed.is_empty() && rules.denied.is_empty();
        if !has_access || rules.is_closed {
            self.forbidden(hosts, place, level);
        }
    }

    fn redirect(&mut self, args: &[String], hosts: &[Option<String>], place: &Place, level: &Level) -> Done {
        let status = match args.get(1).map_or("302", String::as_str) {
            "permanent" => 301,
            "temporary" => 302,
            text => text.parse().unwrap_or(0),
        };
        let to = args.first().and_then(|to| placeholders(to));
        let is_good = |to: &String| {
            let starts = ["https://", "http://", "/", "{scheme}://"].iter().any(|start| to.starts_with(start));
            starts && !to.contains("{client}") && !to.contains("{request_id}")
        };
        let Some(to) = to.filter(is_good).filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308)) else {
            return Done::NotMapped("a redirect has a status and {host}, {scheme}, {path} and {query}".to_owned());
        };
        // A host that is sent to itself by TLS is so without a word, and as a route it would go round in circles.
        let goes_round = |host: &&Option<String>| {
            let target = to.strip_prefix("https://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
            let target = target.trim_end_matches("{path}{query}");
            let is_self = host.as_deref() == Some(target) || target == "{host}";
            is_self && host.as_ref().is_none_or(|host| self.tls_hosts.contains(host))
        };
        let others: Vec<Option<String>> = hosts.iter().filter(|host| !goes_round(host)).cloned().collect();
        if others.is_empty() {
            return Done::NotNeeded("plain HTTP is sent to TLS where a certificate names the host");
        }
        self.emit(&others, place, level, &Target::Redirect(to, status));
        Done::Mapped("redirect".to_owned())
    }

    fn proxy(
        &mut self,
        directive: &Directive,
        args: &[String],
        hosts: &[Option<String>],
        place: &Place,
        level: &mut Level,
    ) -> Done {
        let transport = directive.child("transport").filter(|transport| transport.arg(0) == "http");
        let is_h2c =
            transport.and_then(|one| one.child("versions")).is_some_and(|one| one.args.iter().any(|v| v == "h2c"));
        let has_tls = transport.is_some_and(|one| one.children().iter().any(|one| one.name.starts_with("tls")));
        let is_fastcgi = directive.child("transport").is_some_and(|transport| transport.arg(0) != "http");
        let in_block = directive.children().iter().filter(|one| one.name == "to").flat_map(|one| &one.args);
        let upstreams: Vec<String> = args.iter().chain(in_block).cloned().collect();
        let urls = upstreams.iter().map(|text| upstream(text, is_h2c)).collect::<Result<Vec<_>, _>>();
        let urls = match Some(urls).filter(|_| !upstreams.is_empty()) {
            _ if has_tls => Err("`https://` in `url` speaks TLS to services, and `tls` says whom it trusts: add it"),
            _ if upstreams.len() > MAX_SERVERS => Err("a service has up to 64 servers"),
            _ if is_fastcgi => {
                Err("which scripts it runs cannot be told: write `cgi = { root = … }`, as for `php_fastcgi`")
            }
            Some(urls) => urls,
            None => Err("a service has a URL, which is not found out"),
        };
        let mut servers = Servers::default();
        for one in directive.children().iter().filter(|one| one.name != "to") {
            if one.name == "lb_policy" && self.shared_by(one, upstreams.len(), &mut servers) {
                continue;
            }
            self.of_proxy(one, level, upstreams.first().map_or("", String::as_str));
        }
        match urls {
            Ok(urls) => {
                let name = name_of(&urls[0]);
                let service = self.draft.service_of(&name, Servers { urls, ..servers });
                self.emit(hosts, place, level, &Target::Service(service));
                Done::Mapped("service".to_owned())
            }
            Err(why) => {
                self.lost(hosts, place, level);
                Done::NotMapped(why.to_owned())
            }
        }
    }

    /// How several servers share requests, and whether that can be told.
    fn shared_by(&mut self, one: &Directive, count: usize, servers: &mut Servers) -> bool {
        const DRAWN: &str = "of two servers that are drawn, the one with fewer open requests takes a request";
        let weights: Vec<u64> = one.args.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
        let by = match (one.arg(0), one.arg(1)) {
            ("random" | "round_robin" | "least_conn" | "random_choose", _) => {
                self.note(one.line, &one.label(), Done::NotNeeded(DRAWN));
                return true;
            }
            ("weighted_round_robin", _) if weights.len() == count => {
                servers.weights = weights.into_iter().map(|weight| weight.clamp(1, MAX_WEIGHT)).collect();
                self.note(one.line, &one.label(), Done::Mapped("balance.weights".to_owned()));
                return true;
            }
            ("ip_hash" | "client_ip_hash", _) => "client".to_owned(),
            ("header", name) if !name.is_empty() => format!("header:{name}"),
            ("cookie", name) => format!("sticky:{}", if name.is_empty() { "lb" } else { name }),
            _ => return false,
        };
        servers.by = Some(by);
        self.note(one.line, &one.label(), Done::Mapped("balance.by".to_owned()));
        true
    }

    /// What stands in the block of `reverse_proxy`.
    pub(super) fn of_proxy(&mut self, one: &Directive, level: &mut Level, upstream: &str) {
        const BALANCE: &str = "`balance` of the service says how several servers share the requests";
        let done = match one.name.as_str() {
            "header_up" | "header_down" => {
                let (name, rest) = one.args.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
                let lower = name.to_ascii_lowercase();
                let value = rest.first().map_or("", String::as_str);
                match (one.name.as_str(), lower.as_str()) {
                    ("header_up", "host") if matches!(value, "{host}" | "{http.request.host}") => {
                        Done::NotNeeded("services are told the host of the request")
                    }
                    ("header_up", "host") if value.contains("upstream_hostport") => {
                        let host = upstream.split("://").last().unwrap_or(upstream).to_owned();
                        level.field("request_fields", "Host", &[host])
                    }
                    (
                        "header_up",
                        "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" | "connection" | "upgrade",
                    ) => Done::NotNeeded("the gateway writes this field itself"),
                    ("header_up", _) => level.field("request_fields", name, rest),
                    _ => level.field("response_fields", name, rest),
                }
            }
            "transport" => {
                for limit in one.children() {
                    let done = match limit.name.as_str() {
                        "response_header_timeout" => level.timeout("response_timeout", limit.arg(0)),
                        "read_timeout" => level.timeout("response_body_timeout", limit.arg(0)),
                        "versions" if limit.args.iter().any(|version| version == "h2c") => {
                            Done::Mapped("url".to_owned())
                        }
                        name if name.starts_with("tls") => continue,
                        _ => Done::NotNeeded("the gateway keeps connections to services itself"),
                    };
                    self.note(limit.line, &limit.name, done);
                }
                Done::NotNeeded("what it says stands at the route")
            }
            name if name.starts_with("health_") || name.starts_with("fail_") || name.starts_with("unhealthy_") => {
                Done::NotNeeded("whether a service is well is seen by its answers")
            }
            "max_fails" | "passive_health" => Done::NotNeeded("whether a service is well is seen by its answers"),
            "flush_interval" | "request_buffers" | "response_buffers" | "stream_timeout" | "stream_close_delay" => {
                Done::NotNeeded("bodies are streamed, in bounded memory")
            }
            name if name.starts_with("lb_") || name == "dynamic" => Done::NotMapped(BALANCE.to_owned()),
            "trusted_proxies" => Done::NotMapped("`trust_forwarded` at the top is for all routes".to_owned()),
            _ => Done::NotMapped("there is no key for it".to_owned()),
        };
        self.note(one.line, &one.label(), done);
    }

    fn files(
        &mut self,
        directive: &Directive,
        args: &[String],
        hosts: &[Option<String>],
        place: &Place,
        level: &mut Level,
    ) -> Done {
        use crate::document::Value;
        if args.iter().any(|word| word == "browse") {
            level.rules.files.set("listing", Value::Truth(true));
        }
        for one in directive.children() {
            let done = match one.name.as_str() {
                "root" => level.apply(one, &one.args),
                "browse" => {
                    level.rules.files.set("listing", Value::Truth(true));
                    Done::Mapped("files.listing".to_owned())
                }
                "index" => {
                    let name = one.args.iter().find(|name| !name.ends_with(".php") && name.as_str() != "index.html");
                    match name.filter(|_| one.arg(0) != "index.html") {
                        Some(name) => level.rules.files.text("index", name.as_str()),
                        None => level.rules.files.remove("index"),
                    }
                    Done::Mapped("files.index".to_owned())
                }
                "precompressed" => Done::NotNeeded("files with neighbours (.gz, .br, .zst) are sent as those"),
                "hide" if one.args.iter().all(|name| name.starts_with('.')) => {
                    Done::NotNeeded("files whose names begin with a dot are never sent")
                }
                "hide" => Done::NotMapped(
                    "all files of the folder are sent: keep these elsewhere; THEY ARE NOT HIDDEN by the result"
                        .to_owned(),
                ),
                _ => Done::NotMapped("there is no key for it".to_owned()),
            };
            self.note(one.line, &one.label(), done);
        }
        if level.has_programs {
            self.lost(hosts, place, level);
            let why = "PHP is at work in this site, and the sources in its folder must not be sent: name folders without programs";
            return Done::NotMapped(why.to_owned());
        }
        if place.exact {
            self.lost(hosts, place, level);
            return Done::NotMapped("a route for one path has no files: name the folder's path".to_owned());
        }
        match level.folder(place) {
            Some(root) => {
                self.emit(hosts, place, level, &Target::Files(root));
                Done::Mapped("files".to_owned())
            }
            None if level.root.is_none() => {
                level.root = Some(".".to_owned());
                let root = level.folder(place).unwrap_or_else(|| ".".to_owned());
                self.emit(hosts, place, level, &Target::Files(root));
                Done::Mapped("files = \".\", the folder of pilotlight.toml".to_owned())
            }
            None => Done::NotMapped("its folder cannot be told".to_owned()),
        }
    }
}
