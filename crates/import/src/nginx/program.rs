//! `fastcgi_pass`, `uwsgi_pass` and `scgi_pass`: which program gets the requests of a location, and which scripts it
//! runs.
//!
//! nginx sends a request to the first location by a pattern that matches, so `location ~ \.php$` has the scripts of
//! every plain location beside it. Here a service has a folder with its scripts and the files beside them, so each
//! plain location of the same folder becomes a route to that service.
//!
//! Invariant: no script runs that nginx would not have run. Where patterns say what `run` cannot, only the front
//! controllers run.

use crate::directive::{Directive, route_path};
use crate::document::Value;
use crate::program::{Program, Protocol, Site};
use crate::rules::{Place, Target, below, name_of};

use super::level::Level;
use super::reader::{Block, Reader, Server};
use super::scripts::{Script, Scripts};
use super::words::{forbids, script_names};

/// The directives that lead to a program.
pub(super) const PASSES: [(&str, Protocol); 3] =
    [("fastcgi_pass", Protocol::FastCgi), ("uwsgi_pass", Protocol::Uwsgi), ("scgi_pass", Protocol::Scgi)];
const CLOSED_SCRIPTS: &str = "`run` has the front controllers only until you write which scripts may run";

impl<'a> Reader<'a> {
    /// The scripts that patterns among these directives lead to a program, if there are any. `level` is that of the
    /// block which they are in.
    pub(super) fn scripts(&mut self, directives: &'a [Directive], level: &Level) -> Option<usize> {
        let locations = directives.iter().filter(|one| one.name == "location" && is_of_scripts(one));
        let mut forbidden_before = false;
        let mut found: Option<usize> = None;
        for location in locations {
            match (location.child("fastcgi_pass"), found) {
                (Some(pass), None) => {
                    let restricted = forbidden_before && location.arg(0).starts_with('~');
                    found = self.scripts_of(location, pass, level, restricted);
                }
                (Some(_), Some(at)) if location.arg(0).starts_with('~') => {
                    self.restrict(at, level);
                    let why = format!("one program runs the scripts of a folder; {CLOSED_SCRIPTS}");
                    self.draft.not_mapped(location.line, location.label(), why);
                    self.handled.push(location);
                }
                (Some(_), Some(at)) => {
                    self.another(at, location);
                }
                (None, None) if forbids(location) => {
                    forbidden_before = true;
                    self.forbidding(location, directives);
                }
                (None, Some(_)) if forbids(location) => {
                    self.draft.mapped(location.line, location.label(), "cgi.run, or a location before it");
                    self.handled.push(location);
                }
                _ => {}
            }
        }
        found
    }

    /// One more script, by its path.
    fn another(&mut self, at: usize, location: &'a Directive) {
        let site = self.scripts.get_mut(at).and_then(|scripts| scripts.program.site.as_mut());
        if let Some(run) = site.and_then(|site| site.run.as_mut()) {
            run.extend(script_names(location).unwrap_or_default());
        }
        self.draft.mapped(location.line, location.label(), "cgi.run");
        self.handled.push(location);
    }

    pub(super) fn is_handled(&self, location: &Directive) -> bool {
        self.handled.iter().any(|one| std::ptr::eq(*one, location))
    }

    /// A pattern that forbids scripts before those that run.
    fn forbidding(&mut self, location: &'a Directive, directives: &[Directive]) {
        let has_program = directives.iter().any(|one| is_of_scripts(one) && one.child("fastcgi_pass").is_some());
        if has_program {
            let why = format!("a pattern is no path; {CLOSED_SCRIPTS}");
            self.draft.not_mapped(location.line, location.label(), why);
            self.handled.push(location);
        }
    }

    fn restrict(&mut self, at: usize, level: &Level) {
        if let Some(site) = self.scripts.get_mut(at).and_then(|scripts| scripts.program.site.as_mut()) {
            site.run = Some(front_controllers(level));
        }
    }

    fn scripts_of(
        &mut self,
        location: &'a Directive,
        pass: &'a Directive,
        outer: &Level,
        is_restricted: bool,
    ) -> Option<usize> {
        let children = location.children();
        let mut level = outer.inherited(children);
        for child in children.iter().filter(|child| child.name != "fastcgi_pass") {
            self.in_scripts(child, &mut level);
        }
        self.handled.push(location);
        let root = match level.script() {
            Script::Folder(root) => Some(root),
            Script::Program => level.root.clone(),
            Script::One(_) | Script::Odd => None,
        };
        let Some(root) = root else {
            let why = "the folder of the scripts cannot be told: there is no `root` for them in this file";
            self.draft.not_mapped(location.line, location.label(), why);
            return None;
        };
        let (wanted, address) = match self.program_address(pass) {
            Ok(found) => found,
            Err(why) => {
                self.draft.not_mapped(pass.line, pass.label(), why);
                self.draft.not_mapped(location.line, location.label(), "its program is not mapped");
                return None;
            }
        };
        self.noted(pass, "service");
        let names = script_names(location);
        let run = match (names, is_restricted) {
            (Some(names), _) if !names.is_empty() => Some(names),
            (Some(_), false) => None,
            (Some(_), true) => Some(front_controllers(&level)),
            (None, _) => {
                let why = format!("a pattern is no path; {CLOSED_SCRIPTS}");
                self.draft.not_mapped(location.line, location.label(), why);
                Some(front_controllers(&level))
            }
        };
        let mut rules = level.finished();
        rules.is_closed |= level.has_more_access_rules(outer);
        if rules.is_closed {
            let why = format!("rules of access for scripts alone; {}", crate::rules::CLOSED);
            self.draft.not_mapped(location.line, location.label(), why);
        }
        let site = Site { root: root.clone(), index: Vec::new(), fallback: None, run };
        let program = Program { protocol: Protocol::FastCgi, address, params: level.params.clone(), site: Some(site) };
        self.scripts.push(Scripts { wanted, program, rules, root, line: location.line, is_used: false });
        Some(self.scripts.len() - 1)
    }

    /// A directive of a location of scripts.
    fn in_scripts(&mut self, child: &Directive, level: &mut Level) {
        const EXISTING: &str = "a script runs if its file is there";
        let text = child.label();
        match child.name.as_str() {
            "try_files" if child.args.last().is_some_and(|last| last.starts_with('=')) => {
                self.draft.not_needed(child.line, "try_files", EXISTING);
            }
            "if" if text.contains("-f $") => self.draft.not_needed(child.line, text, EXISTING),
            "set" if child.arg(1).contains("$fastcgi_path_info") => {
                self.draft.not_needed(child.line, text, "the gateway tells it");
            }
            "internal" => {
                let why = "a script of `run` can be asked for by its own name as well";
                self.draft.not_mapped(child.line, text, why);
            }
            "if" => self.odd_condition(child, level),
            "try_files" | "rewrite" | "return" | "location" | "alias" => {
                self.lost_block(child, "scripts have no conditions");
            }
            _ => self.directive(child, level),
        }
    }

    /// A name for the program of a pass, and its address.
    fn program_address(&mut self, pass: &Directive) -> Result<(String, String), String> {
        let text = pass.arg(0);
        if text.contains('$') {
            return Err("a service has one URL, without variables".to_owned());
        }
        let address = match text.split_once("://") {
            Some(("uwsgi" | "scgi" | "fastcgi", rest)) => rest,
            Some(("unix:", _)) => text,
            Some((scheme, _)) if !scheme.starts_with("unix") => {
                return Err("services are spoken to without TLS".to_owned());
            }
            _ => text,
        };
        let upstream = self.upstreams.get(address).copied();
        let (wanted, address) = match upstream {
            Some(upstream) => (address.to_owned(), self.first_server(upstream)?),
            None => (name_of(address), address.to_owned()),
        };
        let address = match address.strip_prefix("unix:") {
            Some(path) => format!("unix:/{}", path.trim_start_matches('/')),
            None if address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => address,
            None => return Err("an address is a host and a port, or `unix:` and a path".to_owned()),
        };
        Ok((wanted, address))
    }

    /// A location that leads to a program by itself: `uwsgi_pass`, or a front controller.
    pub(super) fn program(
        &mut self,
        directive: &'a Directive,
        pass: &'a Directive,
        server: &Server<'a>,
        level: &Level,
        place: &Place,
    ) {
        let label = directive.label();
        let block = Block { line: directive.line, label: &label };
        let protocol = PASSES.iter().find(|(name, _)| *name == pass.name).map_or(Protocol::FastCgi, |(_, is)| *is);
        let mut params = level.params.clone();
        let found = match level.script() {
            Script::Program => self.program_address(pass),
            Script::One(file) => {
                params.push(("SCRIPT_FILENAME".to_owned(), file));
                self.program_address(pass)
            }
            Script::Folder(_) => {
                Err("its scripts have no suffix: write `cgi = { root = … }` and which of them run".to_owned())
            }
            Script::Odd => Err("which script it runs cannot be told".to_owned()),
        };
        let (wanted, address) = match found {
            Ok(found) => found,
            Err(why) => {
                self.draft.not_mapped(pass.line, pass.label(), why);
                return self.lost(block, server, level, place, "its application is not mapped");
            }
        };
        let service = self.draft.program(&wanted, &Program { protocol, address, params, site: None });
        self.noted(pass, "service");
        let rules = self.rules(directive.line, server, level);
        self.emit(block, server, &rules, place, &Target::Service(service));
    }

    /// A place whose folder has scripts: the files beside them, and the scripts, unless `is_plain`. False: they have
    /// another folder.
    pub(super) fn site(
        &mut self,
        tries: Option<&'a Directive>,
        block: Block<'_>,
        server: &Server<'a>,
        level: &Level,
        place: &Place,
    ) -> bool {
        let Some(mut scripts) = server.scripts.and_then(|at| self.scripts.get(at)).cloned() else { return false };
        if level.root.as_deref().map(|root| root.trim_end_matches('/')) != Some(&scripts.root) || place.exact {
            return false;
        }
        if let Some(used) = server.scripts.and_then(|at| self.scripts.get_mut(at)) {
            used.is_used = true;
        }
        let mut rules = self.rules(block.line, server, level);
        rules.fill(&scripts.rules);
        // `alias` is in front of what is below the place, `root` in front of the whole path.
        let prefix = if level.is_alias { place.path.as_str() } else { "/" };
        let fallback = tries.and_then(|tries| self.front_controller(tries, server, prefix));
        if let Some(site) = &mut scripts.program.site {
            site.index = index(level);
            site.fallback = fallback;
            if level.is_plain {
                site.run = Some(Vec::new());
            }
            if level.is_alias && place.path != "/" {
                match site.root.strip_suffix(&place.path) {
                    Some(root) if !root.is_empty() => {
                        site.fallback = site.fallback.take().map(|file| format!("{}/{file}", &place.path[1..]));
                        site.root = root.to_owned();
                    }
                    _ => rules.service.set("strip_prefix", Value::Truth(true)),
                }
            }
        }
        let service = self.draft.program(&scripts.wanted, &scripts.program);
        self.emit(block, server, &rules, place, &Target::Service(service));
        true
    }

    /// The script that `try_files` ends with, below the folder.
    fn front_controller(&mut self, tries: &'a Directive, server: &Server<'a>, prefix: &str) -> Option<String> {
        let last = tries.args.last().map_or("", String::as_str);
        let last = last.strip_prefix('@').map_or(Some(last), |name| rewritten(server, name)).unwrap_or_default();
        for odd in tries.args.iter().rev().skip(1).filter(|word| !matches!(word.as_str(), "$uri" | "$uri/")) {
            let why = "the script, the file and the index of the path are looked for, no others";
            self.draft.not_mapped(tries.line, format!("try_files {odd}"), why);
        }
        if last.starts_with('=') || matches!(last, "$uri" | "$uri/") {
            self.noted(tries, "cgi.root");
            return None;
        }
        let (file, query) = match last.split_once(['?', '$']) {
            Some((file, query)) => (file, query),
            None => (last, ""),
        };
        let is_good = |file: &&str| file.ends_with(".php") && route_path(&format!("/{file}")).is_some();
        let Some(file) = below(file, prefix).filter(is_good) else {
            self.draft.not_mapped(tries.line, tries.label(), "`fallback` is a script below the folder");
            return None;
        };
        match matches!(query, "" | "$args" | "$query_string" | "is_args$args" | "is_args$query_string") {
            true => self.noted(tries, "cgi.fallback"),
            false => {
                let why = "the front controller gets path and query of the request, no others";
                self.draft.not_mapped(tries.line, tries.label(), why);
            }
        }
        Some(file.to_owned())
    }

    /// Says what became of the scripts of a block when all its locations have been read.
    pub(super) fn scripts_are_read(&mut self, at: Option<usize>, directives: &[Directive]) {
        let Some(scripts) = at.and_then(|at| self.scripts.get(at)) else { return };
        let (line, is_used) = (scripts.line, scripts.is_used);
        let label = directives.iter().find(|one| one.line == line && one.name == "location").map(Directive::label);
        let label = label.unwrap_or_else(|| "location".to_owned());
        match is_used {
            true => self.draft.mapped(line, label, "cgi of services"),
            false => {
                let why = "scripts are run for a route of their folder, and none leads there";
                self.draft.not_mapped(line, label, why);
            }
        }
    }
}

/// Whether a location is there for scripts: by a pattern or a path with `.php` in it.
fn is_of_scripts(location: &Directive) -> bool {
    let text = location.args.last().map(|text| text.replace('\\', "")).unwrap_or_default();
    match location.arg(0) {
        modifier if modifier.starts_with('~') => text.contains(".php"),
        _ => text.ends_with(".php"),
    }
}

/// Where `location @name { rewrite ^ /index.php; }` leads.
pub(super) fn rewritten<'a>(server: &Server<'a>, name: &str) -> Option<&'a str> {
    let is_it = |one: &&Directive| one.name == "location" && one.arg(0).strip_prefix('@') == Some(name);
    let rewrite = server.directives.iter().find(is_it)?.child("rewrite")?;
    Some(rewrite.arg(1)).filter(|to| to.contains(".php"))
}

/// What may run if nobody knows.
fn front_controllers(level: &Level) -> Vec<String> {
    let mut names: Vec<String> = level.index.iter().filter(|name| name.ends_with(".php")).cloned().collect();
    if names.is_empty() {
        names.push("index.php".to_owned());
    }
    names
}

/// `cgi.index` of a level; nginx has `index.html` without a word.
fn index(level: &Level) -> Vec<String> {
    let is_good = |name: &&String| !name.starts_with('/') && !name.contains('$');
    let names: Vec<String> = level.index.iter().filter(is_good).cloned().collect();
    if names.is_empty() { vec!["index.html".to_owned()] } else { names }
}
