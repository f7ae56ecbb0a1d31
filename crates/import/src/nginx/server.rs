//! A `server` block: its addresses, names and certificates.

use crate::directive::{Directive, route_path};
use crate::document::Value;
use crate::door::{Door, ToTls};
use crate::rules::{CLOSED, Place, Rules, Target};

use super::level::{Level, mapped};
use super::program::PASSES;
use super::reader::{Address, Block, Reader, Server};
use super::words::{Pattern, is_error, pattern, redirect};

/// Why a redirect to TLS is not needed.
pub(super) const TO_TLS: &str = "plain HTTP is sent to TLS where a route of the host has it";

/// Locations in the order in which nginx looks at those of one path: patterns come before plain paths, but not before
/// `^~` and `=`.
pub(super) fn locations(directives: &[Directive]) -> Vec<&Directive> {
    let mut all: Vec<&Directive> = directives.iter().filter(|one| one.name == "location").collect();
    all.sort_by_key(|one| match one.arg(0) {
        "^~" | "=" => 0,
        modifier if modifier.starts_with('~') => 1,
        _ => 2,
    });
    all
}

/// Whether FastCGI executes files of this server, or PHP is an index.
fn has_programs(directives: &[Directive]) -> bool {
    directives.iter().any(|one| {
        let is_php =
            matches!(one.name.as_str(), "index" | "try_files") && one.args.iter().any(|word| word.contains(".php"));
        one.name.starts_with("fastcgi_") || is_php || has_programs(one.children())
    })
}

/// Whether some location leads to a program that runs scripts.
fn has_pass(directives: &[Directive]) -> bool {
    directives.iter().any(|one| one.name == PASSES[0].0 || has_pass(one.children()))
}

/// `80`, `*:80`, `[::]:80`, `127.0.0.1:80`, `127.0.0.1` or `unix:/path`.
fn listen(text: &str) -> Option<String> {
    let port = |port: &str| port.parse::<u16>().ok().filter(|port| *port > 0);
    if text.starts_with("unix:") {
        return Some(text.to_owned());
    }
    if let Some(port) = port(text) {
        return Some(format!("0.0.0.0:{port}"));
    }
    let has_port = text.rsplit_once(':').filter(|(_, end)| !end.contains(']'));
    let (host, port) = match has_port {
        Some((host, text)) => (host, port(text)?),
        None => (text, 80),
    };
    let host = if matches!(host, "*" | "") { "0.0.0.0" } else { host };
    let is_address = host == "localhost" || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    is_address.then(|| format!("{host}:{port}"))
}

impl<'a> Reader<'a> {
    pub(super) fn server(&mut self, directive: &'a Directive, outer: &Level) {
        let directives = directive.children();
        let mut level = outer.inherited(directives);
        let mut server = Server {
            directives,
            hosts: Vec::new(),
            site: 0,
            has_plain: false,
            has_tls: false,
            has_programs: has_programs(directives),
            scripts: None,
        };
        (self.plain, self.patterns, self.is_closed) = (Vec::new(), Vec::new(), false);
        level.has_scripts = has_pass(directives);
        if !self.addresses(directive, &mut server) {
            let why = "the addresses of its server cannot be mapped, and it must not be reached at others";
            return self.lost_block(directive, why);
        }
        self.names(&mut server);
        self.claim(directive, &server);
        let own = ["listen", "server_name", "location", "return", "rewrite", "if", "try_files"];
        for directive in directives.iter().filter(|one| !own.contains(&one.name.as_str())) {
            self.directive(directive, &mut level);
        }
        self.certificates(&level, &server);
        for directive in directives.iter().filter(|one| one.name == "if") {
            self.condition(directive, &server, &mut level);
        }
        if self.whole_server(&server, &level) {
            let why = "`return` of the server comes before it";
            let unreached = ["location", "try_files"];
            for one in directives.iter().filter(|one| unreached.contains(&one.name.as_str())) {
                self.each_line(one, &mut |reader, one| reader.draft.not_needed(one.line, one.label(), why));
            }
            return;
        }
        server.scripts = self.scripts(directives, &level);
        for directive in directives.iter().filter(|one| one.name == "rewrite") {
            self.rewrite(directive, &server, &level);
        }
        for directive in locations(directives) {
            if !self.is_handled(directive) {
                self.location(directive, &server, &level, "/");
            }
        }
        self.rest_of_server(&server, &level, directive.line);
        self.scripts_are_read(server.scripts, directives);
        let (plain, patterns) = (std::mem::take(&mut self.plain), std::mem::take(&mut self.patterns));
        if self.is_closed {
            self.draft.close(server.site, &plain);
        }
        for path in self.draft.without_overtaken(server.site, &patterns, &plain) {
            let why = "the pattern of another location has its requests";
            self.draft.not_mapped(directive.line, format!("location {path}"), why);
        }
    }

    /// Begins the site of a server with its addresses. False: it has some, none of which can be mapped.
    fn addresses(&mut self, block: &Directive, server: &mut Server<'_>) -> bool {
        let mut doors = Vec::new();
        let mut has_listen = false;
        for directive in server.directives.iter().filter(|one| one.name == "listen") {
            has_listen = true;
            let has = |word: &str| directive.args.iter().any(|other| other == word);
            if has("quic") {
                self.draft.not_mapped(directive.line, directive.label(), "HTTP/3 is not spoken");
                continue;
            }
            let Some(address) = listen(directive.arg(0)) else {
                self.draft.not_mapped(directive.line, directive.label(), "it is no address with a port");
                continue;
            };
            server.has_tls |= has("ssl");
            server.has_plain |= !has("ssl");
            let scheme = if has("ssl") && !address.starts_with("unix:") { "https://" } else { "" };
            doors.push(self.draft.listen(format!("{scheme}{address}")));
            if let Some(port) = address.strip_prefix("[::]:").filter(|_| has("ipv6only=off")) {
                doors.push(self.draft.listen(format!("{scheme}0.0.0.0:{port}")));
            }
            self.draft.mapped(directive.line, "listen", "listen");
            if has("proxy_protocol") && self.draft.top.get("proxy_protocol").is_none() {
                let why = "`proxy_protocol` lists the networks of load balancers, for all listeners";
                self.draft.not_mapped(directive.line, "listen … proxy_protocol", why);
            }
        }
        if !has_listen {
            server.has_plain = true;
            doors.push(self.draft.listen("0.0.0.0:80".to_owned()));
            self.draft.mapped(block.line, "server", "listen = \"0.0.0.0:80\"");
        }
        let is_reached = !doors.is_empty();
        if is_reached {
            server.site = self.draft.site(block.line..=block.last_line(), "server", doors);
        }
        is_reached
    }

    /// Notes every line of a block.
    pub(super) fn each_line(&mut self, one: &Directive, note: &mut dyn FnMut(&mut Self, &Directive)) {
        note(self, one);
        for child in one.children() {
            self.each_line(child, note);
        }
    }

    /// Notes every line of a block that is left out.
    pub(super) fn lost_block(&mut self, block: &Directive, why: &'static str) {
        self.each_line(block, &mut |reader, one| reader.draft.not_mapped(one.line, one.label(), why));
    }

    fn names(&mut self, server: &mut Server<'_>) {
        let is_default = server
            .directives
            .iter()
            .any(|one| one.name == "listen" && one.args.iter().any(|word| word.starts_with("default")));
        for directive in server.directives.iter().filter(|one| one.name == "server_name") {
            for name in &directive.args {
                let below = name.strip_prefix('.').or_else(|| name.strip_prefix("*."));
                let is_host = |name: &str| !name.is_empty() && !name.contains(|c: char| "*~$^()\\_/:".contains(c));
                match (below, name.as_str()) {
                    (None, "_" | "") => {}
                    (Some(below), _) if is_host(below) => {
                        if name.starts_with('.') {
                            server.hosts.push(Some(below.to_lowercase()));
                        }
                        server.hosts.push(Some(format!("*.{}", below.to_lowercase())));
                    }
                    (None, name) if is_host(name) => server.hosts.push(Some(name.to_lowercase())),
                    _ => {
                        let why = "a host is a name, or `*.` before one";
                        self.draft.not_mapped(directive.line, format!("server_name {name}"), why);
                    }
                }
            }
            self.draft.mapped(directive.line, "server_name", "host");
        }
        if server.hosts.is_empty() || is_default {
            server.hosts.push(None);
        }
        server.hosts.dedup();
    }

    /// Takes the hosts of a server at its addresses, where no server before it has them. Those that no server names are
    /// for the default of the address: the one that says so, else the first.
    fn claim(&mut self, block: &Directive, server: &Server<'_>) {
        let doors = self.draft.sites.get(server.site).map(|site| site.doors.clone()).unwrap_or_default();
        let bare = |door: &Door| door.0.trim_start_matches("https://").to_owned();
        for door in doors {
            let at = |one: &&Address<'_>| listen(one.listen.arg(0)) == Some(bare(&door));
            let said = self.defaults.iter().filter(at).find(|one| one.is_default);
            let default = said.or_else(|| self.defaults.iter().find(at)).map(|one| one.server);
            let is_default = default.is_none_or(|default| std::ptr::eq(default, block));
            // The default has them, whether it has routes for them or not.
            let others = is_default.then_some(None);
            for host in server.hosts.iter().filter(|host| host.is_some()).cloned().chain(others) {
                self.draft.claim(host, door.clone(), server.site);
            }
        }
    }

    fn certificates(&mut self, level: &Level, server: &Server<'_>) {
        if !server.has_tls {
            return;
        }
        let tls = self.draft.other("tls");
        let mut pairs = match tls.get("certificates") {
            Some(Value::Tables(pairs)) => pairs.clone(),
            _ => Vec::new(),
        };
        for (certificate, key) in level.certificates.iter().zip(&level.keys) {
            let text = |text: &String| Value::Text(text.clone());
            let pair = vec![("certificate".to_owned(), text(certificate)), ("key".to_owned(), text(key))];
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        if !pairs.is_empty() {
            tls.set("certificates", Value::Tables(pairs));
        }
    }

    /// `return` of the server itself, which comes before all locations; whether there is one.
    fn whole_server(&mut self, server: &Server<'a>, level: &Level) -> bool {
        let Some(directive) = server.directives.iter().find(|one| one.name == "return") else { return false };
        let block = Block { line: directive.line, label: "return" };
        if is_error(directive.arg(0)) {
            let sent = |host: &Option<String>| {
                self.draft.to_tls.iter().any(|one| one.site == server.site && one.host == *host)
            };
            let hosts: Vec<_> = server.hosts.iter().filter(|host| host.is_some() && !sent(host)).cloned().collect();
            match hosts.is_empty() {
                true => {
                    let why = "what no route takes is answered with 404";
                    self.draft.not_needed(directive.line, "return", why);
                }
                // A route for every host would take its requests.
                false => self.forbidden(block, &Server { hosts, ..*server }, level, &Place::root()),
            }
            return true;
        }
        let Some((to, status)) = self.returned(directive) else { return true };
        // A host that is sent to itself by TLS is so without a word, and as a route it would go round in circles.
        let one = |host: &Option<String>| Server { hosts: vec![host.clone()], ..*server };
        let (to_tls, others): (Vec<_>, Vec<_>) =
            server.hosts.iter().cloned().partition(|host| self.is_to_tls(&to, &one(host)));
        self.sent_to_tls(&to_tls, server);
        if others.is_empty() {
            self.draft.not_needed(directive.line, "return", TO_TLS);
            return true;
        }
        let others = Server { hosts: others, ..*server };
        self.emit(block, &others, &level.finished(), &Place::root(), &Target::Redirect(to, status));
        true
    }

    /// Whether a redirect of this server leads to the same host by TLS.
    pub(super) fn is_to_tls(&self, to: &str, server: &Server<'_>) -> bool {
        let Some(rest) = to.strip_prefix("https://").filter(|_| self.has_tls && !server.has_tls) else { return false };
        let host = rest.strip_suffix("{path}{query}").unwrap_or(rest);
        host == "{host}" || server.hosts.iter().flatten().all(|other| other == host) && !server.hosts.contains(&None)
    }

    /// Hosts that a plain server sends to TLS.
    pub(super) fn sent_to_tls(&mut self, hosts: &[Option<String>], server: &Server<'_>) {
        let all = hosts.iter().map(|host| ToTls { host: host.clone(), site: server.site });
        self.draft.to_tls.extend(all);
    }

    /// Where a `return` leads, with its status; what leads nowhere is noted.
    pub(super) fn returned(&mut self, directive: &Directive) -> Option<(String, u64)> {
        let (status, to) = match directive.args.as_slice() {
            [to] if to.parse::<u64>().is_err() => (302, to.as_str()),
            [status, to] => (status.parse().unwrap_or(0), to.as_str()),
            _ => (0, ""),
        };
        let found = redirect(to).filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308));
        if found.is_none() {
            let why = "without a service only redirects are answered, to {host}, {scheme}, {path} and {query}";
            self.draft.not_mapped(directive.line, directive.label(), why);
        }
        found.map(|to| (to, status))
    }

    /// `if ($host = www.example.org) { return 301 … }`, as certbot writes it, and the same for the scheme.
    fn condition(&mut self, directive: &'a Directive, server: &Server<'a>, level: &mut Level) {
        let condition = directive.args.join(" ");
        let condition = condition.trim_start_matches('(').trim_end_matches(')').trim();
        let words: Vec<&str> = condition.split_whitespace().collect();
        let returned = match directive.children() {
            [returned] if returned.name == "return" && !is_error(returned.arg(0)) => returned,
            _ => return self.odd_condition(directive, level),
        };
        match (words.as_slice(), self.returned(returned)) {
            (["$host" | "$http_host", "=", host], Some((to, status))) => {
                let hosts = vec![Some(host.trim_matches('"').to_lowercase())];
                let one = Server { hosts, ..*server };
                if self.is_to_tls(&to, &one) {
                    self.sent_to_tls(&one.hosts, server);
                    return self.each_line(directive, &mut |reader, one| {
                        reader.draft.not_needed(one.line, one.name.as_str(), TO_TLS);
                    });
                }
                self.noted(returned, "redirect");
                let rules = Level::default().finished();
                let block = Block { line: directive.line, label: "if" };
                self.emit(block, &one, &rules, &Place::root(), &Target::Redirect(to, status));
            }
            (["$scheme", "=" | "!=", ..], Some((to, _))) if to.starts_with("https://") => {
                self.each_line(directive, &mut |reader, one| {
                    reader.draft.not_needed(one.line, one.name.as_str(), TO_TLS);
                });
            }
            _ => self.lost_block(directive, "a route has no conditions"),
        }
    }

    /// A condition that no route has: what refuses some requests closes the routes.
    pub(super) fn odd_condition(&mut self, directive: &Directive, level: &mut Level) {
        let refuses = directive.children().iter().any(|one| one.name == "return" && is_error(one.arg(0)));
        let more = if refuses { format!("; {CLOSED}") } else { String::new() };
        level.rules.is_closed |= refuses;
        self.each_line(directive, &mut |reader, one| {
            reader.draft.not_mapped(one.line, one.label(), format!("a route has no conditions{more}"));
        });
    }

    /// `rewrite` of the server that sends clients elsewhere.
    fn rewrite(&mut self, directive: &Directive, server: &Server<'_>, level: &Level) {
        let to = directive.arg(1);
        let status = match directive.arg(2) {
            "permanent" => 301,
            "redirect" => 302,
            _ if to.contains("://") => 302,
            _ => {
                let why = "write `rewrite` into the route: `to` and `prefix`, or `pattern`";
                return self.draft.not_mapped(directive.line, directive.label(), why);
            }
        };
        let (to, query) = match to.strip_suffix('?') {
            Some(to) => (to, ""),
            None => (to, if to.contains("$request_uri") || to.contains('?') { "" } else { "{query}" }),
        };
        let place = match pattern(directive.arg(0)) {
            Some(Pattern::All) => Some((Place::root(), to.replace("/$1", "{path}").replace("$1", "{path}"))),
            Some(Pattern::Exactly(path)) => Some((Place { path, exact: true }, to.to_owned())),
            Some(Pattern::Below(path)) if !to.contains("$1") => Some((Place { path, exact: false }, to.to_owned())),
            _ => None,
        };
        let place = place.and_then(|(place, to)| Some((place, redirect(&to)? + query)));
        match place {
            Some((place, to)) if place == Place::root() && self.is_to_tls(&to, server) => {
                self.sent_to_tls(&server.hosts.clone(), server);
                self.draft.not_needed(directive.line, "rewrite", TO_TLS);
            }
            Some((place, to)) => {
                let block = Block { line: directive.line, label: "rewrite" };
                self.emit(block, server, &level.finished(), &place, &Target::Redirect(to, status));
            }
            None => {
                let why = "a redirect has {host}, {scheme}, {path} and {query}, not parts of a pattern";
                self.draft.not_mapped(directive.line, directive.label(), why);
            }
        }
    }

    /// What no location answers: the files of the server's folder.
    fn rest_of_server(&mut self, server: &Server<'a>, level: &Level, line: usize) {
        let is_whole = |one: &Directive| match one.name.as_str() {
            "location" => matches!(one.args.as_slice(), [path] if path == "/") || one.args.join(" ") == "^~ /",
            "return" => true,
            _ => false,
        };
        let tries = server.directives.iter().find(|one| one.name == "try_files");
        let has_root = level.root.is_some() && !server.directives.iter().any(is_whole);
        if has_root || tries.is_some() {
            self.files(tries, Block { line, label: "server" }, server, level, &Place::root());
        }
    }

    /// Adds the route of each host.
    pub(super) fn emit(
        &mut self,
        block: Block<'_>,
        server: &Server<'_>,
        rules: &Rules,
        place: &Place,
        target: &Target,
    ) {
        let Block { line, label: option } = block;
        let is_good =
            route_path(&place.path).is_some() || place.exact && route_path(place.path.trim_end_matches('/')).is_some();
        if !is_good {
            return self.draft.not_mapped(line, option, "a route's path is plain ASCII, as clients send it");
        }
        let mut added = 0;
        for host in &server.hosts {
            let mut rules = rules.clone();
            if server.has_plain && server.has_tls {
                rules.keys.text("https", "allow");
            }
            added += usize::from(self.draft.route(rules.route(host.as_deref(), place, target)));
        }
        let exact = if place.exact { " alone" } else { "" };
        match added {
            0 => {
                let why = "there is a route for the same host and path already, or another server has the host";
                self.draft.not_mapped(line, option, why);
            }
            _ => self.draft.mapped(line, option, format!("[[routes]] of {}{exact}", place.path)),
        }
    }

    /// Notes a directive as mapped.
    pub(super) fn noted(&mut self, directive: &Directive, key: &str) {
        if let Some(done) = mapped(key) {
            self.done(directive, done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_nginx_writes_them() {
        for (text, expected) in [
            ("80", Some("0.0.0.0:80")),
            ("*:8080", Some("0.0.0.0:8080")),
            ("[::]:443", Some("[::]:443")),
            ("[::1]", Some("[::1]:80")),
            ("127.0.0.1:8000", Some("127.0.0.1:8000")),
            ("127.0.0.1", Some("127.0.0.1:80")),
            ("localhost:8000", Some("localhost:8000")),
            ("unix:/run/a.sock", Some("unix:/run/a.sock")),
            ("example.org:80", None),
            ("99999", None),
        ] {
            assert_eq!(listen(text).as_deref(), expected, "{text}");
        }
    }
}
