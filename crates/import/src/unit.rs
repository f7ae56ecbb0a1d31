//! NGINX Unit: the JSON document of its configuration.

mod application;
mod order;
mod settings;

use crate::document::{Section, Value};
use crate::json::{self, Json, Kind};
use crate::model::{Became, Draft, ImportError};
use crate::rules::{BEYOND, MAX_SERVERS, MAX_WEIGHT, Servers};
use crate::settings::{address, short};

use order::{Placed, Step, placed};

const OWN: &str = "the gateway and its supervisor do this themselves";
/// Steps of routes that lead to further routes.
const MAX_STEPS: usize = 1000;

pub(crate) fn read(text: &str) -> Result<Draft, ImportError> {
    let document =
        json::parse(text).map_err(|line| ImportError { line, message: "this is no JSON from here on".to_owned() })?;
    if !matches!(document.value, Kind::Table(_)) {
        return Err(ImportError { line: 1, message: "a JSON object is expected".to_owned() });
    }
    let mut reader =
        Reader { draft: Draft::default(), document: &document, steps: 0, read: Vec::new(), added: Vec::new() };
    // Applications first: routes name their services.
    for (name, value) in document.table() {
        match name.as_str() {
            "applications" => value.table().iter().for_each(|(name, app)| reader.application(name, app)),
            "settings" => reader.settings(value),
            "access_log" => reader.access_log(value),
            "listeners" | "routes" | "upstreams" | "$schema" => {}
            "certificates" => {
                reader.not_mapped(value, name, "write [tls] with certificates = { certificate = …, key = … }");
            }
            _ => reader.not_mapped(value, name, "there is no section for it"),
        }
    }
    for (name, value) in at(&document, "listeners").map_or(&[][..], Json::table) {
        reader.listener(name, value);
    }
    reader.unread_steps();
    let mut draft = reader.draft;
    draft.settle();
    draft.merge_listeners();
    draft.sort_options();
    Ok(draft)
}

fn at<'a>(json: &'a Json, name: &str) -> Option<&'a Json> {
    json.table().iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

struct Reader<'a> {
    draft: Draft,
    document: &'a Json,
    steps: usize,
    /// Steps that some listener leads to.
    read: Vec<&'a Json>,
    /// Routes of the listener that is read, in the order of their steps.
    added: Vec<Step>,
}

impl<'a> Reader<'a> {
    fn mapped(&mut self, at: &Json, option: &str, to: &str) {
        self.draft.note(at.line, option, Became::Mapped(to.to_owned()));
    }

    fn not_needed(&mut self, at: &Json, option: &str, why: &'static str) {
        self.draft.note(at.line, option, Became::NotNeeded(why));
    }

    fn not_mapped(&mut self, at: &Json, option: &str, why: &str) {
        self.draft.note(at.line, option, Became::NotMapped(why.to_owned()));
    }

    fn listener(&mut self, name: &str, value: &'a Json) {
        let Some(listen) = address(name) else {
            let why = "it is no address, and its routes must not be reached at others";
            return self.lost(name, value, why);
        };
        let scheme = if at(value, "tls").is_some() && !listen.starts_with("unix:") { "https://" } else { "" };
        let door = self.draft.listen(format!("{scheme}{listen}"));
        self.draft.site(value.line..=value.line, format!("listener {name}"), vec![door]);
        self.mapped(value, name, "listen");
        for (key, one) in value.table() {
            match key.as_str() {
                "pass" => match one.text() {
                    Some(target) => {
                        let target = target.to_owned();
                        self.pass(one, &target, &Section::default().with("path", "/"));
                        self.place_routes();
                    }
                    None => self.not_mapped(one, key, "it is no text"),
                },
                "tls" => {
                    let tls = self.draft.other("tls");
                    tls.entry("certificates", "certificate", "cert.pem");
                    tls.entry("certificates", "key", "key.pem");
                    self.not_mapped(
                        one,
                        "tls",
                        "Unit keeps certificates itself: export them, and name the two files in [tls]",
                    );
                }
                "forwarded" | "client_ip" => {
                    let networks = at(one, "source").map(Json::texts).unwrap_or_default();
                    let list = networks.into_iter().filter(|text| !text.starts_with('!')).map(str::to_owned).collect();
                    self.draft.top.set("trust_forwarded", Value::List(list));
                    self.mapped(one, key, "trust_forwarded");
                }
                "backlog" => self.not_needed(one, key, OWN),
                _ => self.not_mapped(one, key, "there is no key for it"),
            }
        }
    }

    /// Notes a value that is left out, and all that is in it.
    fn lost(&mut self, name: &str, value: &Json, why: &str) {
        self.not_mapped(value, name, why);
        for (key, one) in value.table() {
            self.lost(key, one, why);
        }
        for one in value.list() {
            self.lost(name, one, why);
        }
    }

    /// Where a listener or a step leads, for a route that has its host and path.
    fn pass(&mut self, from: &Json, target: &str, route: &Section) {
        let mut words = target.split('/');
        match (words.next().unwrap_or_default(), words.next()) {
            ("applications", Some(name)) => {
                let service =
                    self.draft.services.iter().find(|(other, _)| *other == plain(name)).map(|(name, _)| name.clone());
                match service {
                    Some(service) => self.add(from, "pass", route.clone().with("service", service)),
                    None => {
                        self.not_mapped(from, "pass", &format!("the application {} could not be mapped", short(name)));
                    }
                }
            }
            ("upstreams", Some(name)) => self.upstream(from, name, route),
            ("routes", name) => {
                let routes = at(self.document, "routes");
                let steps = name.map_or(routes, |name| routes.and_then(|routes| at(routes, name)));
                self.mapped(from, "pass", "the routes below");
                for step in steps.map_or(&[][..], Json::list) {
                    self.steps += 1;
                    if self.steps > MAX_STEPS {
                        self.not_mapped(step, "routes", "there are too many steps");
                        return;
                    }
                    self.step(step, route);
                }
                // Requests that none of them takes are not found, whatever steps come after the one that led here.
                let mut rest = route.clone();
                rest.set("respond", Value::Number(404));
                self.added.push(Step { noted: None, route: rest });
            }
            _ => self.not_mapped(from, "pass", "it leads to nothing that is known"),
        }
    }

    fn upstream(&mut self, from: &Json, name: &str, route: &Section) {
        let servers = at(self.document, "upstreams").and_then(|all| at(all, name)).and_then(|one| at(one, "servers"));
        let mut used = Servers::default();
        for (server, one) in servers.map_or(&[][..], Json::table) {
            match at(one, "weight").map_or(Some(1), Json::number) {
                Some(weight) if (1..=MAX_WEIGHT).contains(&weight) && used.urls.len() < MAX_SERVERS => {
                    used.urls.push(format!("http://{server}").replace("http://unix:", "unix:"));
                    used.weights.push(weight);
                }
                _ => self.not_mapped(
                    one,
                    server,
                    "a weight is a whole number from 1 to 1000: add it to `url` and `weights`",
                ),
            }
        }
        if used.urls.is_empty() {
            return self.not_mapped(from, "pass", "the upstream has no servers");
        }
        let service = self.draft.service_of(name, used);
        self.add(from, "pass", route.clone().with("service", service));
    }

    fn external(&mut self, name: &str, url: &str) -> String {
        let name = self.draft.service_name(name);
        let url = url.replace("http://unix:", "unix:");
        self.draft.services.push((name.clone(), Section::default().with("url", url)));
        name
    }

    fn add(&mut self, from: &Json, option: &str, route: Section) {
        self.added.push(Step { noted: Some((from.line, option.to_owned())), route });
    }

    /// Adds the routes of a listener, when all its steps have been read.
    fn place_routes(&mut self) {
        let steps = std::mem::take(&mut self.added);
        for (number, placed) in placed(&steps) {
            let is_there = match placed {
                Placed::Route(route) => self.draft.route(route),
                Placed::Hidden => false,
            };
            let Some((line, option)) = steps[number].noted.clone() else { continue };
            let became = match is_there {
                true => Became::Mapped("a route".to_owned()),
                false => Became::NotMapped("an earlier step has its requests".to_owned()),
            };
            self.draft.note(line, option, became);
        }
    }

    /// Notes steps that no listener leads to.
    fn unread_steps(&mut self) {
        let routes = at(self.document, "routes");
        let named = routes.map_or(&[][..], Json::table).iter().flat_map(|(_, steps)| steps.list());
        for step in routes.map_or(&[][..], Json::list).iter().chain(named) {
            if !self.read.iter().any(|read| std::ptr::eq(*read, step)) {
                self.lost("step", step, "no listener of the result leads to it");
            }
        }
    }

    fn step(&mut self, step: &'a Json, outer: &Section) {
        self.read.push(step);
        let conditions = at(step, "match").map_or(&[][..], Json::table);
        let action = at(step, "action");
        let refusal = action.and_then(|action| at(action, "return")).and_then(refusal);
        let is_restricted = refusal.is_some() || at(step, "match").is_some_and(|of| at(of, "source").is_some());
        let mut routes = vec![outer.clone()];
        let mut odd = None;
        // Paths and hosts first: what refuses requests by something else refuses all of these.
        let is_place = |key: &str| matches!(key, "uri" | "host");
        let (places, others): (Vec<_>, Vec<_>) = conditions.iter().partition(|(key, _)| is_place(key));
        for (key, one) in places.into_iter().chain(others) {
            let found = match key.as_str() {
                "uri" => self.paths(one, &routes, is_restricted),
                "host" => self.hosts(one, &routes),
                _ => self.condition(key, one, &routes),
            };
            match found {
                Some(found) => routes = found,
                None => odd = Some((key, one)),
            }
        }
        match (odd, refusal, action) {
            (Some((key, one)), Some(status), Some(action)) => {
                let why = "a route goes by host and path: it refuses all requests there until you write the rule";
                self.not_mapped(one, key, why);
                self.rest(action);
                if let Some(from) = at(action, "return") {
                    self.all(from, "return", routes, &[("respond", Value::Number(status))]);
                }
            }
            (Some((key, one)), None, action) => {
                self.not_mapped(one, key, "a route goes by host and path: its step is left out");
                if let Some(action) = action {
                    self.lost("action", action, "its step is left out");
                }
            }
            (None, _, Some(action)) => routes.into_iter().for_each(|route| self.action(action, route)),
            _ => {}
        }
    }

    /// Routes with each of these paths; none: no route has one of them.
    fn paths(&mut self, one: &Json, routes: &[Section], is_restricted: bool) -> Option<Vec<Section>> {
        let paths: Vec<(String, bool)> = one.texts().into_iter().map(path).collect::<Option<_>>()?;
        if is_restricted && one.texts().iter().any(|text| text.ends_with('*') && !text.ends_with("/*")) {
            self.not_mapped(one, "uri", BEYOND);
        }
        self.mapped(one, "uri", "path");
        let with = |route: &Section, (path, exact): &(String, bool)| {
            let mut route = route.clone().with("path", path.as_str());
            if *exact {
                route.set("exact", Value::Truth(true));
            }
            route
        };
        Some(routes.iter().flat_map(|route| paths.iter().map(move |path| with(route, path))).collect())
    }

    fn hosts(&mut self, one: &Json, routes: &[Section]) -> Option<Vec<Section>> {
        let hosts = one.texts();
        let is_good = |host: &&str| {
            !host.contains(['*', '~', '!']) || (host.starts_with("*.") && !host[1..].contains(['*', '~', '!']))
        };
        if hosts.is_empty() || !hosts.iter().all(is_good) {
            return None;
        }
        self.mapped(one, "host", "host");
        Some(routes.iter().flat_map(|route| hosts.iter().map(|host| route.clone().with("host", *host))).collect())
    }

    fn condition(&mut self, key: &str, one: &Json, routes: &[Section]) -> Option<Vec<Section>> {
        let (name, value) = match (key, one.texts().as_slice()) {
            ("source", networks) if !networks.is_empty() && networks.iter().all(|text| !text.contains('!')) => {
                let list = Value::List(networks.iter().map(|&text| text.to_owned()).collect());
                ("allow", Value::Table(vec![("networks".to_owned(), list)]))
            }
            ("scheme", ["http"]) => ("https", Value::Text("redirect".to_owned())),
            ("method", methods) if !methods.is_empty() && methods.iter().all(|word| is_method(word)) => {
                let list = Value::List(methods.iter().map(|&text| text.to_owned()).collect());
                ("when", Value::Table(vec![("methods".to_owned(), list)]))
            }
            _ => return None,
        };
        let to = match name {
            "allow" => "allow.networks",
            "when" => "when.methods",
            _ => "https = \"redirect\"",
        };
        self.mapped(one, key, to);
        let mut routes = routes.to_vec();
        routes.iter_mut().for_each(|route| route.set(name, value.clone()));
        Some(routes)
    }

    /// Adds these routes with further keys.
    fn all(&mut self, from: &Json, option: &str, routes: Vec<Section>, keys: &[(&'static str, Value)]) {
        for mut route in routes {
            keys.iter().for_each(|(key, value)| route.set(key, value.clone()));
            self.add(from, option, route);
        }
    }

    /// Notes what an action says beside the status that it refuses with.
    fn rest(&mut self, action: &Json) {
        for (key, one) in action.table().iter().filter(|(key, _)| key != "return") {
            self.not_mapped(one, key, "the requests are refused");
        }
    }

    fn action(&mut self, action: &'a Json, mut route: Section) {
        if let Some(headers) = at(action, "response_headers") {
            let table = headers
                .table()
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), Value::Text(value.text()?.to_owned()))));
            let table: Vec<_> = table.collect();
            if !table.is_empty() {
                route.set("response_fields", Value::Table(vec![("set".to_owned(), Value::Table(table))]));
            }
            self.mapped(headers, "response_headers", "response_fields.set");
        }
        for (key, one) in action.table() {
            match (key.as_str(), one.texts().first().copied()) {
                ("pass", Some(target)) => {
                    let target = target.to_owned();
                    self.pass(one, &target, &route);
                }
                ("proxy", Some(url)) => {
                    let service = self.external("upstream", url);
                    self.add(one, key, route.clone().with("service", service));
                }
                ("share", Some(_)) if at(action, "types").is_some() => {
                    self.not_mapped(one, key, "files of some types only were sent, and a route has all of its folder");
                    self.all(one, "share", vec![route.clone()], &[("respond", Value::Number(403))]);
                }
                ("share", Some(share)) => self.share(action, one, share, &route),
                ("types", _) => {
                    self.not_mapped(one, key, "the route is refused with 403 until you name a folder of them");
                }
                ("return", _) => self.returned(action, one, &route),
                ("location" | "index" | "response_headers" | "fallback", _) => {}
                ("rewrite", _) => {
                    self.not_mapped(one, key, "`rewrite` of a route has `to`, and `pattern` for parts of the path");
                }
                ("chroot" | "follow_symlinks" | "traverse_mounts", _) => {
                    self.not_needed(one, key, "no file outside of the folder is opened");
                }
                _ => self.not_mapped(one, key, "there is no key for it"),
            }
        }
        if let Some(fallback) = at(action, "fallback") {
            // What no file answers: a route of its own, where it has another path.
            match at(fallback, "share").and_then(Json::text) {
                Some(_) => {
                    self.not_mapped(fallback, "fallback", "`fallback` in [routes.files] names a file below `root`");
                }
                None => self.not_mapped(
                    fallback,
                    "fallback",
                    "a route leads to files or to a service: write a path for the files",
                ),
            }
        }
    }

    /// `/www$uri`: there the whole path goes on from the folder, here what is behind the path of the route.
    fn share(&mut self, action: &Json, at_share: &Json, share: &str, route: &Section) {
        let folder = share.strip_suffix("$uri").or_else(|| share.strip_suffix("${uri}"));
        let Some(folder) = folder.filter(|folder| !folder.contains('$')) else {
            return self.not_mapped(at_share, "share", "a folder is named by its path");
        };
        if route.get("exact").is_some() {
            return self.not_mapped(at_share, "share", "the files of a route are those below its path");
        }
        let path = match route.get("path") {
            Some(Value::Text(path)) => path.trim_end_matches('/'),
            _ => "",
        };
        let root = format!("{}{path}", folder.trim_end_matches('/'));
        if root.is_empty() {
            return self.not_mapped(at_share, "share", "a folder is named by its path");
        }
        let mut files = vec![("root".to_owned(), Value::Text(root))];
        if let Some(index) = at(action, "index") {
            files.push(("index".to_owned(), Value::Text(index.text().unwrap_or("index.html").to_owned())));
            self.mapped(index, "index", "files.index");
        }
        let mut route = route.clone();
        route.set("files", Value::Table(files));
        self.add(at_share, "share", route);
        if at_share.list().len() > 1 {
            self.not_mapped(at_share, "share", "a route has one folder");
        }
    }

    fn returned(&mut self, action: &Json, status: &Json, route: &Section) {
        let location = at(action, "location").and_then(Json::text);
        let code = status.number().unwrap_or_default();
        if let Some(refusal) = refusal(status) {
            return self.all(status, "return", vec![route.clone()], &[("respond", Value::Number(refusal))]);
        }
        let (Some(location), 301 | 302 | 303 | 307 | 308) = (location, code) else {
            return self.not_mapped(status, "return", "only redirects are answered without a service");
        };
        let mut to = location.to_owned();
        for (name, here) in [("host", "{host}"), ("request_uri", "{path}{query}"), ("uri", "{path}")] {
            to = to.replace(&format!("${{{name}}}"), here).replace(&format!("${name}"), here);
        }
        if to.contains('$') {
            return self.not_mapped(status, "location", "the placeholders are {host}, {scheme}, {path} and {query}");
        }
        let table = vec![("to".to_owned(), Value::Text(to)), ("status".to_owned(), Value::Number(code))];
        let mut route = route.clone();
        route.set("redirect", Value::Table(table));
        if let Some(location) = at(action, "location") {
            self.mapped(location, "location", "redirect.to");
        }
        self.add(status, "return", route);
    }
}

fn is_method(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

/// The status that a `return` refuses requests with.
fn refusal(status: &Json) -> Option<u64> {
    status.number().filter(|status| (400..600).contains(status))
}

fn plain(name: &str) -> String {
    Draft::default().service_name(name)
}

/// `/api/*` and `/api*` are a path and what is below it, `/api` is the path alone.
fn path(pattern: &str) -> Option<(String, bool)> {
    let (path, exact) = match pattern.strip_suffix('*') {
        Some(path) => (path.trim_end_matches('/'), false),
        None => (pattern, true),
    };
    let path = if path.is_empty() { "/" } else { path };
    (path.starts_with('/') && !path.contains(['*', '~', '!', '%'])).then(|| (path.to_owned(), exact))
}
