//! A `location` block: its path, and where it leads.

use crate::directive::{Directive, route_path};
use crate::document::Value;
use crate::rules::{BEYOND, CLOSED, Place, Rules, Servers, Target, below, name_of};

use super::level::Level;
use super::program::rewritten;
use super::reader::{Block, Reader, Server};
use super::server::{TO_TLS, locations};
use super::words::{Pattern, endings, forbids, pattern};
use crate::pattern::{closed_by, simple_location};

/// Directives that say where a location leads.
const LEADS: [&str; 8] =
    ["proxy_pass", "grpc_pass", "uwsgi_pass", "scgi_pass", "fastcgi_pass", "return", "try_files", "stub_status"];
/// Why a folder with programs is not served.
const PROGRAMS: &str =
    "PHP is at work in this server, and the sources in its folder must not be sent: name folders without programs";
/// Why a server with TLS is not taken over: nginx takes any certificate unless it is told otherwise.
const TLS: &str = "`https://` in `url` speaks TLS, and checks the server's certificate, which nginx does not: add it, and \
                   its authority in `tls.ca`";
/// Why a whole server is closed.
const ALL_CLOSED: &str = "all routes of the server are closed to everybody (`deny`) until you write the rule";
/// What a location reads itself.
const OWN: [&str; 7] = ["alias", "rewrite", "location", "if", "internal", "error_page", "root"];

impl<'a> Reader<'a> {
    pub(super) fn location(&mut self, directive: &'a Directive, server: &Server<'a>, outer: &Level, above: &str) {
        let label = directive.label();
        let place = match directive.args.as_slice() {
            [path] if path.starts_with('@') => return self.named(directive, server),
            [path] => plain(path, false),
            [modifier, path] if modifier == "=" => plain(path, true),
            [modifier, path] if modifier == "^~" => plain(path, false),
            [modifier, text] if modifier.starts_with('~') => match simple_location(text) {
                Some((path, exact)) => {
                    let place = Place { path, exact };
                    self.patterns.push(place.clone());
                    Some(place)
                }
                None => return self.by_pattern(directive, server, text),
            },
            _ => None,
        };
        let Some(place) = place.filter(|place| Place { path: above.to_owned(), exact: false }.covers(place)) else {
            return self.draft.not_mapped(directive.line, label, "a route's path is plain ASCII, as clients send it");
        };
        let children = directive.children();
        let mut level = outer.inherited(children);
        level.is_plain |= directive.arg(0) == "^~";
        for child in children {
            let name = child.name.as_str();
            let is_own = OWN.contains(&name) || LEADS.contains(&name);
            if !is_own || matches!(name, "root" | "error_page") {
                self.directive(child, &mut level);
            }
        }
        let alias = directive.child("alias").map(|alias| alias.arg(0).trim_end_matches('/').to_owned());
        let folder = alias.filter(|alias| !alias.contains('$')).or_else(|| level.root.clone());
        let mut of_scripts = level.clone();
        of_scripts.root = folder;
        let own = self.scripts(children, &of_scripts);
        level.is_plain &= own.is_none();
        let inner = Server { hosts: server.hosts.clone(), scripts: own.or(server.scripts), ..*server };
        let server = &inner;
        for child in locations(children) {
            if !self.is_handled(child) {
                self.location(child, server, &level, &place.path);
            }
        }
        for child in children.iter().filter(|child| child.name == "if") {
            self.odd_condition(child, &mut level);
        }
        if self.is_page(server, outer, &place) {
            self.draft.mapped(directive.line, label.as_str(), "errors, which name its file");
            if let Some(internal) = directive.child("internal") {
                self.noted(internal, "deny");
                self.forbidden(Block { line: internal.line, label: &label }, server, &level, &place);
            }
            return;
        }
        if let Some(internal) = directive.child("internal") {
            let why = "no client gets it; `cgi.sendfile` is for programs that name its files by X-Accel-Redirect";
            self.draft.not_mapped(internal.line, format!("{label} internal"), why);
        }
        if matches!(directive.arg(0), "^~" | "=") {
            self.plain.push(place.clone());
        }
        let is_open_ended = !place.exact && !directive.args.last().is_some_and(|text| text.ends_with(['/', '$']));
        if is_open_ended && (forbids(directive) || level.has_more_access_rules(outer)) {
            self.draft.not_mapped(directive.line, format!("{label} …"), BEYOND);
        }
        self.leads(directive, server, &level, &place);
        self.scripts_are_read(own, children);
    }

    /// Where it leads, by the first directive that says so.
    fn leads(&mut self, directive: &'a Directive, server: &Server<'a>, level: &Level, place: &Place) {
        let label = directive.label();
        let block = Block { line: directive.line, label: &label };
        let alias = directive.child("alias");
        let leads = directive.children().iter().find(|child| LEADS.contains(&child.name.as_str()));
        let mut level = level.clone();
        if let Some(alias) = alias {
            match alias.arg(0).contains('$') {
                true => return self.draft.not_mapped(alias.line, alias.label(), "a folder is named by its path"),
                false => (level.root, level.is_alias) = (Some(alias.arg(0).to_owned()), true),
            }
            self.noted(alias, "files.root");
        }
        match leads.map(|leads| (leads, leads.name.as_str())) {
            Some((leads, _)) if directive.child("internal").is_some() => {
                self.draft.not_mapped(leads.line, leads.label(), "no client gets it");
                self.forbidden(block, server, &level, place);
            }
            None if directive.child("internal").is_some() => self.forbidden(block, server, &level, place),
            Some((leads, "proxy_pass" | "grpc_pass")) => {
                self.proxy(directive, leads, server, &level, place);
            }
            Some((leads, "return")) if forbids(directive) => {
                self.noted(leads, "deny (403)");
                self.forbidden(block, server, &level, place);
            }
            Some((leads, "return")) => {
                if let Some((to, status)) = self.returned(leads) {
                    if place.path == "/" && self.is_to_tls(&to, server) {
                        self.sent_to_tls(&server.hosts.clone(), server);
                        self.draft.not_needed(leads.line, "return", TO_TLS);
                        return self.draft.not_needed(directive.line, label, TO_TLS);
                    }
                    self.noted(leads, "redirect");
                    let rules = self.rules(directive.line, server, &level);
                    self.emit(block, server, &rules, place, &Target::Redirect(to, status));
                } else {
                    self.lost(block, server, &level, place, "its answer is not mapped");
                }
            }
            Some((leads, "try_files")) => self.files(Some(leads), block, server, &level, place),
            Some((leads, "fastcgi_pass" | "uwsgi_pass" | "scgi_pass")) => {
                self.program(directive, leads, server, &level, place);
            }
            Some((leads, name)) => {
                self.draft.not_mapped(leads.line, leads.label(), super::table::not_mapped(name));
                self.lost(block, server, &level, place, "its application is not mapped");
            }
            None if forbids(directive) => self.forbidden(block, server, &level, place),
            None if level.root.is_some() => self.files(None, block, server, &level, place),
            None if directive.children().iter().all(|child| child.name.contains("log")) => {
                self.draft.not_needed(directive.line, label, "it only says what is logged");
            }
            None => self.lost(block, server, &level, place, "it leads nowhere"),
        }
    }

    /// A location whose target is not mapped: if not everybody had access, nobody has now, for another route might
    /// take its requests.
    pub(super) fn lost(&mut self, block: Block<'_>, server: &Server<'_>, level: &Level, place: &Place, why: &str) {
        let rules = level.finished();
        let is_open = !rules.is_closed
            && rules.allowed.is_empty()
            && rules.denied.is_empty()
            && rules.keys.get("allow").is_none();
        if !is_open {
            self.forbidden(block, server, level, place);
        }
        self.draft.not_mapped(block.line, block.label, why);
    }

    /// A path that nobody gets: where the route leads does not matter.
    pub(super) fn forbidden(&mut self, block: Block<'_>, server: &Server<'_>, level: &Level, place: &Place) {
        let mut rules = level.finished();
        rules.deny_all();
        let nowhere = Target::Redirect("/".to_owned(), 302);
        self.emit(block, server, &rules, place, &nowhere);
    }

    fn proxy(
        &mut self,
        directive: &'a Directive,
        pass: &'a Directive,
        server: &Server<'a>,
        level: &Level,
        place: &Place,
    ) {
        let label = directive.label();
        let block = Block { line: directive.line, label: &label };
        let (service, uri) = match self.service(pass) {
            Ok(found) => found,
            Err(why) => {
                self.draft.not_mapped(pass.line, pass.label(), why);
                return self.lost(block, server, level, place, "its server is not mapped");
            }
        };
        let mut rules = self.rules(directive.line, server, level);
        match uri.as_deref() {
            _ if place.path == "/" && matches!(uri.as_deref(), None | Some("/")) => {}
            None => {}
            Some("/") => rules.service.set("strip_prefix", Value::Truth(true)),
            Some(uri) => match route_path(uri) {
                Some(path) => rules.service.text("rewrite", path),
                None => {
                    let why = "a path with a query or variables cannot be put in front of the request's";
                    self.draft.not_mapped(pass.line, pass.label(), why);
                    return self.lost(block, server, level, place, "its server is not mapped");
                }
            },
        }
        for rewrite in directive.children().iter().filter(|child| child.name == "rewrite") {
            self.rewrite_within(rewrite, place, &mut rules);
        }
        self.noted(pass, "service");
        self.emit(block, server, &rules, place, &Target::Service(service));
    }

    /// `rewrite ^/api/(.*)$ /$1 break` before a proxy.
    fn rewrite_within(&mut self, rewrite: &Directive, place: &Place, rules: &mut Rules) {
        let to = rewrite.arg(1);
        let is_internal = matches!(rewrite.arg(2), "break" | "last" | "");
        let new = to.strip_suffix("/$1").map(|path| if path.is_empty() { "/" } else { path });
        match (pattern(rewrite.arg(0)), new.and_then(route_path)) {
            (Some(Pattern::Below(path)), Some(new)) if is_internal && below(&path, &place.path).is_some() => {
                if path == place.path && new == "/" {
                    rules.service.set("strip_prefix", Value::Truth(true));
                    return self.noted(rewrite, "strip_prefix");
                }
                let table = vec![("prefix".to_owned(), Value::Text(path)), ("to".to_owned(), Value::Text(new))];
                rules.service.set("rewrite", Value::Table(table));
                self.noted(rewrite, "rewrite");
            }
            _ => {
                let why = "`rewrite` of a route has `to` and `prefix`, or a `pattern` with stars";
                self.draft.not_mapped(rewrite.line, rewrite.label(), why);
            }
        }
    }

    /// The service of a `proxy_pass`, and the path behind its host.
    fn service(&mut self, pass: &Directive) -> Result<(String, Option<String>), String> {
        let text = pass.arg(0);
        if text.contains('$') {
            return Err("a service has one URL, without variables".to_owned());
        }
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => ("http", rest),
            Some(("grpc", rest)) => ("h2c", rest),
            Some(("https", _)) => return Err(TLS.to_owned()),
            Some(("grpcs", _)) => return Err("gRPC is spoken to services without TLS".to_owned()),
            None if pass.name == "grpc_pass" => ("h2c", text),
            _ => return Err("it is no URL of HTTP".to_owned()),
        };
        let (address, uri) = match rest.strip_prefix("unix:") {
            Some(path) => match path.split_once(':') {
                Some((path, uri)) => (format!("unix:{path}"), Some(uri.to_owned())),
                None => (format!("unix:{path}"), None),
            },
            None => match rest.find('/') {
                Some(at) => (rest[..at].to_owned(), Some(rest[at..].to_owned())),
                None => (rest.to_owned(), None),
            },
        };
        let (wanted, servers) = match self.upstreams.get(address.as_str()).copied() {
            Some(upstream) => (address, self.servers(upstream)?),
            None => (name_of(&address), Servers { urls: vec![address], ..Servers::default() }),
        };
        let url = |address: &String| match (address.starts_with("unix:"), scheme) {
            (true, "h2c") => Err("h2c is spoken over TCP".to_owned()),
            (true, _) => Ok(address.clone()),
            (false, scheme) => Ok(format!("{scheme}://{address}")),
        };
        let urls = servers.urls.iter().map(url).collect::<Result<_, _>>()?;
        Ok((self.draft.service_of(&wanted, Servers { urls, ..servers }), uri))
    }

    /// The files of a folder, by `try_files` or without it.
    pub(super) fn files(
        &mut self,
        tries: Option<&'a Directive>,
        block: Block<'_>,
        server: &Server<'a>,
        level: &Level,
        place: &Place,
    ) {
        let last = tries.and_then(|tries| tries.args.last()).map_or("", String::as_str);
        if let (Some(name), Some(tries)) = (last.strip_prefix('@'), tries)
            && (server.scripts.is_none() || rewritten(server, name).is_none())
        {
            return self.behind_files(tries, name, server, level, place);
        }
        if self.site(tries, block, server, level, place) {
            return;
        }
        let Some(root) = &level.root else {
            return self.lost(block, server, level, place, "there is no `root` for it in this file");
        };
        if place.exact {
            let why = "a file of a folder: the route of the folder answers it, a route for one path has no files";
            return self.lost(block, server, level, place, why);
        }
        if server.has_programs && !level.is_alias {
            return self.lost(block, server, level, place, PROGRAMS);
        }
        let mut rules = self.rules(block.line, server, level);
        // `root` is in front of the whole path, `alias` and the folder of a route in front of what is below it.
        let folder = match level.is_alias || place.path == "/" {
            true => root.trim_end_matches('/').to_owned(),
            false => format!("{}{}", root.trim_end_matches('/'), place.path),
        };
        let folder = if folder.is_empty() { "/".to_owned() } else { folder };
        if let Some(tries) = tries {
            self.fallback(tries, last, place, &mut rules);
        }
        self.emit(block, server, &rules, place, &Target::Files(folder));
    }

    fn fallback(&mut self, tries: &Directive, last: &str, place: &Place, rules: &mut Rules) {
        for odd in tries.args.iter().rev().skip(1).filter(|word| !matches!(word.as_str(), "$uri" | "$uri/")) {
            let why = "the file of the path and the index of the folder are looked for, no others";
            self.draft.not_mapped(tries.line, format!("try_files {odd}"), why);
        }
        if last.starts_with('=') || last.starts_with("$uri") {
            return self.noted(tries, "files");
        }
        let file = last.split('?').next().unwrap_or(last);
        let file = below(file, &place.path).filter(|file| !file.is_empty() && !file.contains('$'));
        match file {
            Some(file) => {
                rules.files.text("fallback", file);
                self.noted(tries, "files.fallback");
            }
            None => self.draft.not_mapped(tries.line, tries.label(), "`fallback` is a file below the route's folder"),
        }
    }

    /// `try_files $uri @app`: a route leads to one of the two.
    fn behind_files(&mut self, tries: &'a Directive, name: &str, server: &Server<'a>, level: &Level, place: &Place) {
        let is_it = |one: &&Directive| one.name == "location" && one.arg(0).strip_prefix('@') == Some(name);
        let Some(named) = server.directives.iter().find(is_it) else {
            return self.draft.not_mapped(tries.line, tries.label(), "the location that it names is not there");
        };
        let why =
            "a route leads to files or to a service: it leads to the service, so give the files a path of their own";
        self.draft.not_mapped(tries.line, tries.label(), why);
        let mut level = level.inherited(named.children());
        for child in named.children().iter().filter(|child| !LEADS.contains(&child.name.as_str())) {
            self.directive(child, &mut level);
        }
        self.leads(named, server, &level, place);
    }

    /// A location that others name; what does not is left out.
    fn named(&mut self, directive: &Directive, server: &Server<'_>) {
        let name = directive.arg(0);
        let is_named = |one: &Directive| one.name == "try_files" && one.args.last().is_some_and(|last| last == name);
        let deep = |one: &Directive| is_named(one) || one.children().iter().any(is_named);
        if server.scripts.is_some() && rewritten(server, name.trim_start_matches('@')).is_some() {
            return self.draft.mapped(directive.line, directive.label(), "cgi.fallback");
        }
        if !server.directives.iter().any(deep) {
            self.draft.not_mapped(directive.line, directive.label(), "no `try_files` leads to it");
        }
    }

    /// A location by a pattern: lifetimes of files by their endings, and hidden files; nothing else has a route.
    fn by_pattern(&mut self, directive: &'a Directive, server: &Server<'a>, text: &str) {
        let label = directive.label();
        let is_hidden = text.trim_start_matches('^').trim_start_matches("(.*)?").starts_with("/\\.");
        if is_hidden && forbids(directive) {
            let why = "files whose names begin with a dot are never sent";
            if has_application(server.directives) {
                let why = format!("{why}; to a service such paths ARE NOT FORBIDDEN by the result");
                return self.each_line(directive, &mut |reader, one| {
                    reader.draft.not_mapped(one.line, one.label(), why.as_str());
                });
            }
            return self.each_line(directive, &mut |reader, one| reader.draft.not_needed(one.line, one.label(), why));
        }
        let harmless = ["expires", "add_header", "access_log", "log_not_found", "try_files", "etag", "tcp_nodelay"];
        let is_lifetime = directive.children().iter().all(|child| harmless.contains(&child.name.as_str()));
        if let Some(endings) = endings(text).filter(|_| is_lifetime) {
            return self.lifetimes(directive, server, &endings);
        }
        if !refuses(directive) {
            let why = "a route goes by its path, not by a pattern: write a route for each path";
            return self.lost_block(directive, why);
        }
        let places = closed_by(text);
        let why = match places.contains(&Place::root()) {
            true => format!("a route goes by its path, not by a pattern: {ALL_CLOSED}"),
            false => format!("a route goes by its path, not by a pattern; {CLOSED}"),
        };
        self.each_line(directive, &mut |reader, one| reader.draft.not_mapped(one.line, one.label(), why.as_str()));
        self.patterns.extend(places.iter().cloned());
        for place in places {
            match place == Place::root() {
                true => self.is_closed = true,
                false => {
                    self.forbidden(Block { line: directive.line, label: &label }, server, &Level::default(), &place);
                }
            }
        }
    }

    /// `location ~* \.(css|js)$ { expires 30d; }`: `cache_control` of the routes of this server that lead to files.
    fn lifetimes(&mut self, directive: &'a Directive, server: &Server<'a>, endings: &[String]) {
        let mut level = Level::default();
        for child in directive.children() {
            match child.name.as_str() {
                "add_header" if !child.arg(0).eq_ignore_ascii_case("cache-control") => {
                    self.draft.not_mapped(child.line, child.label(), "fields are of a route, not of an ending");
                }
                "try_files" => self.draft.not_needed(child.line, "try_files", "files that are not there are 404"),
                _ => self.directive(child, &mut level),
            }
        }
        self.draft.mapped(directive.line, directive.label(), "files.cache_control");
        if let Some(value) = level.rules.cache_control {
            let hosts = server.hosts.clone();
            self.lifetimes.push((hosts, endings.iter().map(|end| format!("*.{end}")).collect(), value));
        }
    }

    /// Whether the location is only there for a page of `error_page`.
    fn is_page(&self, server: &Server<'_>, outer: &Level, place: &Place) -> bool {
        let of_location =
            |one: &Directive| one.name == "error_page" && one.args.last().is_some_and(|page| *page == place.path);
        place.exact
            && (outer.pages.iter().any(|(_, page)| *page == place.path)
                || server.directives.iter().any(|one| of_location(one) || one.children().iter().any(of_location)))
    }

    /// The rules of a route with its pages for errors.
    pub(super) fn rules(&mut self, line: usize, server: &Server<'_>, level: &Level) -> Rules {
        let mut rules = level.finished();
        if level.has_odd_access() {
            let why = format!("the order of these rules says what two lists cannot; {}", crate::rules::CLOSED);
            self.draft.not_mapped(line, "allow, deny", why);
        }
        for (status, page) in &level.pages {
            let of_page = |one: &&Directive| one.name == "location" && one.args.last() == Some(page);
            let location = server.directives.iter().find(of_page);
            let own = location.and_then(|one| one.child("root")).map(|root| root.arg(0).to_owned());
            match own.or_else(|| level.root.clone()) {
                Some(root) => {
                    let file = format!("{}{page}", root.trim_end_matches('/'));
                    rules.keys.insert("errors", status, Value::Text(file));
                }
                None => {
                    let option = format!("error_page {status}");
                    self.draft.not_mapped(line, option, "its file has no `root` in this file");
                }
            }
        }
        rules
    }
}

/// Whether a block refuses some requests, by whatever rule.
fn refuses(directive: &Directive) -> bool {
    const ACCESS: [&str; 9] = [
        "allow",
        "deny",
        "auth_basic",
        "auth_request",
        "auth_jwt",
        "satisfy",
        "limit_except",
        "valid_referers",
        "secure_link",
    ];
    let is_rule = |child: &Directive| ACCESS.contains(&child.name.as_str()) && !matches!(child.arg(0), "off");
    forbids(directive)
        || directive.children().iter().any(|child| is_rule(child) || child.name == "if" && refuses(child))
}

/// Whether a service that is no folder of scripts gets requests.
fn has_application(directives: &[Directive]) -> bool {
    let names = ["proxy_pass", "grpc_pass", "uwsgi_pass", "scgi_pass"];
    directives.iter().any(|one| names.contains(&one.name.as_str()) || has_application(one.children()))
}

fn plain(path: &str, exact: bool) -> Option<Place> {
    let normal = route_path(path)?;
    // A slash at the end has a meaning for the path alone only.
    let path = if exact && path.len() > 1 && path.ends_with('/') { path.to_owned() } else { normal };
    Some(Place { path, exact })
}
