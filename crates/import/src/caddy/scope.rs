//! The directives of a site, or of a `handle` within it: which handler takes the requests of a place, and by which
//! rules. Caddy tries them in an order of its own, whatever the order of the file.

use crate::directive::Directive;
use crate::rules::{BEYOND, CLOSED, Place, Target};

use super::level::{Done, Level, is_setting};
use super::matcher::{self, Matcher, Named};
use super::reader::{MAX_DIRECTIVES, Reader};

/// A directive with its matcher.
struct Item<'a> {
    directive: &'a Directive,
    /// None: all hosts of the site.
    hosts: Option<Vec<String>>,
    /// None: everywhere.
    places: Option<Vec<Place>>,
    args: Vec<String>,
    /// It refuses clients, and handles no request.
    refuses: Option<Refused>,
}

/// Clients that a directive refuses.
enum Refused {
    Networks(Vec<String>),
    AllBut(Vec<String>),
    /// Everybody, as a matcher that no route can have refuses some.
    Everybody,
}

impl Item<'_> {
    /// Whether it counts for a host; none: for those that no directive names.
    fn is_of(&self, host: Option<&str>) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| host.is_some_and(|host| hosts.iter().any(|one| one == host)))
    }

    fn covers(&self, place: &Place) -> bool {
        self.places.as_ref().is_none_or(|places| places.iter().any(|one| one.covers(place)))
    }

    /// How much of a path its matcher says, for the most specific one.
    fn weight(&self, place: &Place) -> (bool, usize, bool) {
        let covering = self.places.iter().flatten().filter(|one| one.covers(place));
        let (length, exact) = covering.map(|one| (one.path.len(), one.exact)).max().unwrap_or_default();
        (self.hosts.is_some(), length, exact)
    }
}

/// In which order Caddy tries handlers; none for what is no handler.
fn order(directive: &Directive) -> Option<u8> {
    Some(match directive.name.as_str() {
        "redir" => 0,
        "handle" | "handle_path" | "route" => 1,
        "abort" | "error" | "respond" => 2,
        "reverse_proxy" => 3,
        "php_fastcgi" => 4,
        "file_server" => 5,
        _ => return None,
    })
}

/// Whether a handler refuses requests: with an error, or by closing the connection.
pub(super) fn refuses(directive: &Directive, args: &[String]) -> bool {
    let is_error = |text: &String| text.parse::<u16>().is_ok_and(|status| (400..600).contains(&status));
    match directive.name.as_str() {
        "abort" | "error" => true,
        "respond" => args.iter().any(is_error),
        _ => false,
    }
}

/// Directives that say nothing of a route, and why.
fn other(name: &str) -> Done {
    let why = match name {
        "handle_errors" => "`errors` names a page for each status, or a service that makes it",
        "templates" => "files are sent as they are",
        "metrics" => "metrics are on the admin socket; [metrics] is for Prometheus",
        "log_skip" | "skip_log" | "log_append" | "log_name" => {
            "the access log is of all routes; `fields` says what is in it"
        }
        "map" | "vars" | "tracing" | "invoke" | "method" => "nothing is computed: a route has placeholders like {host}",
        "push" | "fs" => return Done::NotNeeded("the gateway has no use for it"),
        _ => "there is no key for it",
    };
    Done::NotMapped(why.to_owned())
}

impl Reader {
    /// The routes of these hosts below a place.
    pub(super) fn scope(&mut self, hosts: &[Option<String>], base: &Place, outer: &Level, directives: &[Directive]) {
        self.directives += 1;
        if self.directives > MAX_DIRECTIVES {
            return;
        }
        let mut level = outer.clone();
        self.programs(directives, &mut level);
        let mut named = Named::new();
        for definition in directives.iter().filter(|one| one.name.starts_with('@')) {
            let matcher = matcher::named(definition);
            for one in std::iter::once(definition).chain(definition.children()) {
                self.note(one.line, &one.name, Done::Mapped("where it is named".to_owned()));
            }
            let mut words = definition.children().iter().flat_map(|one| &one.args).chain(&definition.args);
            named.insert(definition.name[1..].to_owned(), (matcher, words.any(|word| matcher::is_loose(word))));
        }
        let mut items = Vec::new();
        for directive in directives.iter().filter(|one| !one.name.starts_with('@')) {
            if matches!(directive.name.as_str(), "tls" | "bind" | "log" | "import") {
                continue;
            }
            if directive.name == "route" && directive.args.is_empty() {
                self.note(directive.line, "route", Done::Mapped("what is in it".to_owned()));
                items.extend(directive.children().iter().filter_map(|one| self.item(one, &named, &mut level)));
                continue;
            }
            items.extend(self.item(directive, &named, &mut level));
        }
        let names: std::collections::BTreeSet<String> =
            items.iter().flat_map(|item| item.hosts.iter().flatten().cloned()).collect();
        for name in names {
            let of_host: Vec<&Item<'_>> = items.iter().filter(|item| item.is_of(Some(&name))).collect();
            self.places(&[Some(name)], base, &level, &of_host);
        }
        let of_others: Vec<&Item<'_>> = items.iter().filter(|item| item.is_of(None)).collect();
        self.places(hosts, base, &level, &of_others);
    }

    /// A directive with its matcher, if it is one that routes are made of; others are noted.
    fn item<'a>(&mut self, directive: &'a Directive, named: &Named, level: &mut Level) -> Option<Item<'a>> {
        let (matcher, args) = matcher::of(directive, named);
        let order = order(directive);
        let refuses_some = refuses(directive, &args);
        if order.is_none() && !is_setting(&directive.name) {
            self.note(directive.line, &directive.name, other(&directive.name));
            return None;
        }
        let is_access = matches!(directive.name.as_str(), "basic_auth" | "basicauth" | "forward_auth");
        if (is_access || refuses_some) && matcher::is_beyond(directive, named) {
            self.note(directive.line, &format!("{} …", directive.label()), Done::NotMapped(BEYOND.to_owned()));
        }
        let mut refuses = None;
        let (hosts, places) = match matcher {
            Matcher::Places(places) => (None, places),
            Matcher::Hosts(names) => (Some(names), None),
            Matcher::Clients { networks, are_others, places } if refuses_some => {
                let key = if are_others { "allow.networks" } else { "deny.networks" };
                self.note(directive.line, &directive.name, Done::Mapped(key.to_owned()));
                refuses = Some(if are_others { Refused::AllBut(networks) } else { Refused::Networks(networks) });
                (None, places)
            }
            Matcher::Odd { why, places: Some(places) } => {
                if !self.odd(directive, refuses_some, &why) {
                    return None;
                }
                refuses = Some(Refused::Everybody);
                (None, Some(places))
            }
            odd => {
                let why = match odd {
                    Matcher::Odd { why, .. } => why,
                    _ => "a route goes by its host and path".to_owned(),
                };
                level.rules.is_closed |= self.odd(directive, refuses_some, &why);
                return None;
            }
        };
        // Within `handle_path` a path is what is left of it.
        let prefix = level.stripped.clone().unwrap_or_default();
        let places = places.map(|places| {
            let moved = |place: Place| match prefix.is_empty() {
                true => place,
                false => Place { path: format!("{prefix}{}", place.path), ..place },
            };
            places.into_iter().map(moved).collect()
        });
        Some(Item { directive, hosts, places, args, refuses })
    }

    /// A directive whose matcher no route can have; whether it refuses requests, so that all are refused now.
    fn odd(&mut self, directive: &Directive, refuses_some: bool, why: &str) -> bool {
        let is_access = matches!(directive.name.as_str(), "basic_auth" | "basicauth" | "forward_auth");
        let is_closed = is_access || refuses_some;
        let more = if is_closed { format!("; {CLOSED}") } else { String::new() };
        self.note(directive.line, &directive.label(), Done::NotMapped(format!("{why}{more}")));
        is_closed
    }

    /// A route for each place that a directive names.
    fn places(&mut self, hosts: &[Option<String>], base: &Place, outer: &Level, items: &[&Item<'_>]) {
        let mut places = vec![base.clone()];
        for place in items.iter().flat_map(|item| item.places.iter().flatten()) {
            if base.covers(place) && !places.contains(place) {
                places.push(place.clone());
            }
        }
        for place in &places {
            let mut level = outer.clone();
            let mut settings: Vec<&&Item<'_>> = items
                .iter()
                .filter(|item| is_setting(&item.directive.name) && item.covers(place) && item.refuses.is_none())
                .collect();
            settings.sort_by_key(|item| item.weight(place));
            for item in settings {
                let done = level.apply(item.directive, &item.args);
                self.note(item.directive.line, &item.directive.name, done);
                self.users(item.directive);
            }
            for item in items.iter().filter(|item| item.covers(place)) {
                match &item.refuses {
                    Some(Refused::Networks(networks)) => level.rules.denied.extend(networks.clone()),
                    Some(Refused::AllBut(networks)) => level.rules.allow_only(networks),
                    Some(Refused::Everybody) => level.rules.is_closed = true,
                    None => {}
                }
            }
            let handlers = items.iter().filter(|item| item.covers(place) && item.refuses.is_none());
            let handlers = handlers.filter_map(|item| Some((order(item.directive)?, item)));
            let winner = handlers.min_by_key(|(order, item)| (*order, std::cmp::Reverse(item.weight(place))));
            if let Some((_, item)) = winner {
                self.handler(item.directive, &item.args, hosts, place, level);
            }
        }
        let is_php = |item: &&&Item<'_>| item.directive.name == "php_fastcgi";
        let has_site = items.iter().filter(is_php).any(|item| {
            let directive = item.directive;
            self.noted.contains(&(directive.line, directive.name.clone()))
        });
        let is_handler = |item: &&&Item<'_>| item.refuses.is_none() && order(item.directive).is_some();
        for item in items.iter().filter(is_handler) {
            // What another handler always goes before.
            let done = match has_site && item.directive.name == "file_server" {
                true => Done::NotNeeded("the gateway sends the files beside the scripts"),
                false => Done::NotMapped("another handler of this site takes its requests first".to_owned()),
            };
            let is_noted = self.noted.range((item.directive.line, String::new())..).next();
            if is_noted.is_none_or(|(line, _)| *line != item.directive.line) && base.path == "/" {
                self.note(item.directive.line, &item.directive.label(), done);
            }
        }
    }

    /// Notes what a scope with programs sends besides.
    fn programs(&mut self, directives: &[Directive], level: &mut Level) {
        let Some(php) = directives.iter().find(|one| one.name == "php_fastcgi") else { return };
        level.has_programs = true;
        if !directives.iter().any(|one| one.name == "file_server") {
            level.rules.is_closed = true;
            let why = format!(
                "the gateway sends the files beside the scripts, and there is no `file_server` for them here; {CLOSED}"
            );
            self.note(php.line, "php_fastcgi without file_server", Done::NotMapped(why));
        }
    }

    /// Users with their passwords are lines of a file.
    fn users(&mut self, directive: &Directive) {
        if matches!(directive.name.as_str(), "basic_auth" | "basicauth") {
            for user in directive.children() {
                let why = format!("write it as a line NAME:HASH into {}", super::level::USERS);
                self.note(user.line, &user.name, Done::NotMapped(why));
            }
        }
    }

    /// Adds the route of each host.
    pub(super) fn emit(&mut self, hosts: &[Option<String>], place: &Place, level: &Level, target: &Target) {
        let rules = level.rules_at(place, target);
        for host in hosts {
            self.draft.route(rules.route(host.as_deref(), place, target));
        }
    }
}
