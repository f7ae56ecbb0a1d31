//! Which listeners a site answers at, and how its routes say so.
//!
//! A file may give each port a site of its own; a `pilotlight.toml` has one table of routes for all listeners. A route
//! that is not for all of them says `when = { ports = […] }`. Addresses of one port cannot be told apart by a route:
//! of those, the sites stay that most of the file is for.
//!
//! Invariant: no route is answered at a listener that its site did not have. What cannot be kept apart is left out,
//! and named.

use std::ops::RangeInclusive;

use crate::document::{Section, Value};
use crate::door::{Claim, Door, From, Routed, Site, ToTls, distinct};
use crate::model::Draft;
use crate::rules::{ALL, Place};

/// Most ports in `when` of a route.
const MAX_PORTS: usize = 16;
/// Networks of this machine.
const LOCAL: [&str; 2] = ["127.0.0.0/8", "::1"];

/// Which requests a route takes, but for its ports.
fn place(route: &Section) -> [Option<Value>; 4] {
    let methods = route.table("when").and_then(|when| when.iter().find(|(key, _)| key == "methods"));
    let [host, path, exact] = ["host", "path", "exact"].map(|key| route.get(key).cloned());
    [host, path, exact, methods.map(|(_, methods)| methods.clone())]
}

/// Whether a host, which may be a pattern, has another in it.
fn has_host(host: Option<&str>, other: &Section) -> bool {
    let other = match other.get("host") {
        Some(Value::Text(other)) => Some(other.as_str()),
        _ => None,
    };
    match (host, other) {
        (Some(host), Some(other)) => host == other || host.strip_prefix('*').is_some_and(|end| other.ends_with(end)),
        (None, _) => true,
        (Some(_), None) => false,
    }
}

impl Draft {
    /// Begins a site: the routes that follow are for its listeners.
    pub(crate) fn site(&mut self, lines: RangeInclusive<usize>, label: impl Into<String>, doors: Vec<Door>) -> usize {
        self.sites.push(Site { lines, label: label.into(), doors });
        self.sites.len() - 1
    }

    /// Takes hosts of a listener for a site, where no site before it has them.
    pub(crate) fn claim(&mut self, host: Option<String>, door: Door, site: usize) {
        if !self.claims.iter().any(|claim| claim.host == host && claim.door == door) {
            self.claims.push(Claim { host, door, site });
        }
    }

    /// Whether a site has the requests for a host at a listener. One that no site has claimed is free.
    fn has_host(&self, site: usize, host: Option<&str>, door: &Door) -> bool {
        let claim = self.claims.iter().find(|claim| claim.host.as_deref() == host && claim.door == *door);
        claim.is_none_or(|claim| claim.site == site)
    }

    /// Adds a route for the listeners of the site that was begun last. False: each of them has a route for the same
    /// host, path and `exact` already.
    pub(crate) fn route(&mut self, section: Section) -> bool {
        let of_place: Vec<&Routed> =
            self.routes.iter().filter(|other| place(&other.section) == place(&section)).collect();
        let site = self.sites.len().checked_sub(1);
        let own = site.map(|site| self.sites[site].doors.clone()).unwrap_or_default();
        let host = match section.get("host") {
            Some(Value::Text(host)) => Some(host.as_str()),
            _ => None,
        };
        let is_ours = |door: &Door| site.is_none_or(|site| self.has_host(site, host, door));
        let is_free = |door: &Door| is_ours(door) && !of_place.iter().any(|other| other.has(door));
        let free: Vec<Door> = own.into_iter().filter(is_free).collect();
        if (!of_place.is_empty() || site.is_some()) && free.is_empty() {
            return false;
        }
        let doors = free.into_iter().filter_map(|door| Some((site?, door)));
        match self.routes.iter_mut().find(|other| other.section == section) {
            Some(same) => same.doors.extend(doors),
            None => self.routes.push(Routed { section, doors: doors.collect() }),
        }
        true
    }

    /// Closes the routes of a site to everybody, but for those of one path alone and of these places.
    pub(crate) fn close(&mut self, site: usize, besides: &[Place]) {
        let everybody = Value::List(ALL.map(str::to_owned).to_vec());
        for route in self.routes.iter_mut().filter(|route| route.doors.iter().any(|(of, _)| *of == site)) {
            let is_beside =
                besides.iter().any(|place| route.section.get("path") == Some(&Value::Text(place.path.clone())));
            if !is_beside && route.section.get("exact").is_none() {
                route.section.insert("deny", "networks", everybody.clone());
            }
        }
    }

    /// Takes away the routes of a site that are below one of these patterns, which have their requests in turn; but for
    /// those of `plain` places. Returns their paths.
    pub(crate) fn without_overtaken(&mut self, site: usize, patterns: &[Place], plain: &[Place]) -> Vec<String> {
        let place_of = |section: &Section| match section.get("path") {
            Some(Value::Text(path)) => Place { path: path.clone(), exact: section.get("exact").is_some() },
            _ => Place::root(),
        };
        let is_overtaken = |place: &Place| {
            let own = patterns.iter().position(|pattern| pattern == place).unwrap_or(patterns.len());
            !plain.contains(place) && patterns[..own].iter().any(|pattern| pattern != place && pattern.covers(place))
        };
        let mut lost = Vec::new();
        for route in &mut self.routes {
            let place = place_of(&route.section);
            if is_overtaken(&place) && route.doors.iter().any(|(of, _)| *of == site) {
                route.doors.retain(|(of, _)| *of != site);
                lost.push(place.path);
            }
        }
        self.routes.retain(|route| !route.doors.is_empty());
        lost
    }

    /// Closes a place, and all routes that are below it, to everybody.
    pub(crate) fn close_below(&mut self, place: &Place) {
        let everybody = Value::List(ALL.map(str::to_owned).to_vec());
        for route in &mut self.routes {
            let is_below = match route.section.get("path") {
                Some(Value::Text(path)) => place.covers(&Place { path: path.clone(), exact: false }),
                _ => false,
            };
            if is_below {
                route.section.insert("deny", "networks", everybody.clone());
            }
        }
        let mut own = Section::default().with("path", place.path.as_str());
        if place.exact {
            own.set("exact", Value::Truth(true));
        }
        own.set("respond", Value::Number(403));
        self.route(own);
    }

    /// Says of each route which ports it is for, and leaves out what no port can say.
    pub(crate) fn settle(&mut self) {
        if self.sites.is_empty() {
            return;
        }
        self.one_address_each();
        self.without_odd_sockets();
        self.redirects_to_tls();
        if self.has_whole_hosts {
            self.rest_of_hosts();
        }
        let all = self.ports();
        let has_sockets = self.sites.iter().any(|site| site.doors.iter().any(|door| door.port().is_none()));
        let mut settled: Vec<Section> = Vec::new();
        for route in std::mem::take(&mut self.routes) {
            let has_socket = route.doors.iter().any(|(_, door)| door.port().is_none());
            let own = route.ports();
            let is_whole = all.iter().all(|port| own.contains(port)) && (has_socket || !has_sockets);
            // Clients that the site could not have had are told by where they come from.
            let (local, open): (Vec<u16>, Vec<u16>) = own.into_iter().partition(|port| self.is_local(&route, *port));
            for (ports, is_local) in [(open, false), (local, true)] {
                let is_whole = is_whole && ports.len() == all.len();
                if ports.is_empty() && !is_whole {
                    continue;
                }
                let mut section = route.section.clone();
                if is_local {
                    only_local(&mut section);
                }
                let free: Vec<u16> =
                    ports.iter().copied().filter(|port| !is_taken(&settled, &section, *port)).collect();
                let is_hidden = free.is_empty() && !ports.is_empty();
                match (is_hidden, is_whole) {
                    (true, _) => {
                        self.left_out(&route, "there is a route for the same host and path already".to_owned());
                    }
                    (false, true) => settled.push(section),
                    (false, false) if free.len() > MAX_PORTS => {
                        self.left_out(&route, format!("a route is for up to {MAX_PORTS} ports"));
                    }
                    (false, false) => {
                        section.insert("when", "ports", numbers(&free));
                        settled.push(section);
                    }
                }
            }
        }
        self.routes = settled.into_iter().map(|section| Routed { section, doors: Vec::new() }).collect();
    }

    fn left_out(&mut self, route: &Routed, why: String) {
        let Some(site) = route.doors.first().map(|(site, _)| self.sites[*site].clone()) else { return };
        let path = match route.section.get("path") {
            Some(Value::Text(path)) => path.as_str(),
            _ => "/",
        };
        self.not_mapped(*site.lines.start(), format!("{}, {path}", site.label), why);
    }

    /// Whether clients may name any address as theirs, so that it does not say where they connected.
    fn is_trusting(&self) -> bool {
        ["trust_forwarded", "proxy_protocol"].iter().any(|key| match self.top.get(key) {
            Some(Value::List(networks)) => networks.iter().any(|network| network.ends_with("/0")),
            other => other.is_some(),
        })
    }

    /// The ports of all sites.
    fn ports(&self) -> Vec<u16> {
        distinct(self.sites.iter().flat_map(|site| &site.doors).filter_map(Door::port))
    }

    /// Whether a route is for this machine alone at a port that others reach as well.
    fn is_local(&self, route: &Routed, port: u16) -> bool {
        let is_at = |door: &Door| door.port() == Some(port);
        let is_own = |door: &Door| !is_at(door) || door.from() == From::ThisMachine;
        let mut all = self.sites.iter().flat_map(|site| &site.doors);
        !self.is_trusting()
            && route.doors.iter().all(|(_, door)| is_own(door))
            && all.any(|door| is_at(door) && door.from() != From::ThisMachine)
    }

    /// Where sites have different addresses of one port: those of most sites stay. Sockets of a file without ports are
    /// addresses as well.
    fn one_address_each(&mut self) {
        let ports = self.ports();
        let groups = if ports.is_empty() { vec![None] } else { ports.into_iter().map(Some).collect() };
        for port in groups {
            let is_told = |from: &From| *from == From::ThisMachine && !self.is_trusting();
            let froms = |site: &Site| {
                let own = site.doors.iter().filter(|door| door.port() == port).map(Door::from);
                distinct(own.filter(|from| !is_told(from)))
            };
            let sets: Vec<Vec<From>> = self.sites.iter().map(froms).collect();
            let sites_of = |from: &From| -> Vec<bool> { sets.iter().map(|set| set.contains(from)).collect() };
            let weight = |from: &From| (sites_of(from).iter().filter(|has| **has).count(), *from == From::Everywhere);
            let all = distinct(sets.iter().flatten().cloned());
            let Some(best) = all.iter().rev().max_by_key(|from| weight(from)) else { continue };
            let odd: Vec<From> = all.iter().filter(|from| sites_of(from) != sites_of(best)).cloned().collect();
            let is_odd = |door: &Door| door.port() == port && odd.contains(&door.from());
            let why = "a route goes by the port, not by the address, and others have the port at another address";
            self.leave(&is_odd, why);
        }
    }

    /// Unix sockets have no port: beside ports they stay only for sites that are for all listeners.
    fn without_odd_sockets(&mut self) {
        const WHY: &str =
            "a route goes by the port, which a Unix socket does not have, and it is not for all listeners";
        let is_socket = |door: &Door| door.port().is_none();
        let all = distinct(self.sites.iter().flat_map(|site| site.doors.clone()));
        let has_all = |site: &Site| all.iter().all(|door| site.doors.contains(door));
        let full: Vec<bool> = self.sites.iter().map(has_all).collect();
        match full.contains(&true) {
            false => self.leave(&is_socket, WHY),
            true => {
                for at in (0..full.len()).filter(|at| !full[*at]) {
                    self.leave_of(at, &is_socket, WHY);
                }
            }
        }
    }

    /// Leaves out a listener, and what is reached by it alone.
    fn leave(&mut self, is_it: &dyn Fn(&Door) -> bool, why: &str) {
        if let Some(Value::List(listen)) = self.top.get("listen").cloned() {
            let kept = listen.into_iter().filter(|text| !is_it(&Door(text.clone()))).collect();
            self.top.set("listen", Value::List(kept));
        }
        for at in 0..self.sites.len() {
            self.leave_of(at, is_it, why);
        }
    }

    fn leave_of(&mut self, at: usize, is_it: &dyn Fn(&Door) -> bool, why: &str) {
        let site = &mut self.sites[at];
        let (lost, kept): (Vec<Door>, Vec<Door>) = site.doors.iter().cloned().partition(is_it);
        if lost.is_empty() {
            return;
        }
        site.doors = kept;
        let Site { lines, label, doors } = site.clone();
        let services = self.services_of_routes();
        for route in &mut self.routes {
            route.doors.retain(|(site, door)| *site != at || !is_it(door));
        }
        self.routes.retain(|route| !route.doors.is_empty());
        let rest = if doors.is_empty() { "it is left out" } else { "it is answered at its other addresses" };
        if doors.is_empty() {
            self.not_mapped_after_all(&lines, "its site is left out");
            let now = self.services_of_routes();
            self.services.retain(|(name, _)| !services.contains(name) || now.contains(name));
        }
        let names = lost.iter().map(|door| door.0.as_str()).collect::<Vec<_>>().join(", ");
        self.not_mapped(*lines.start(), format!("{label}, listening at {names}"), format!("{why}: {rest}"));
    }

    fn services_of_routes(&self) -> Vec<String> {
        let name = |route: &Routed| match route.section.get("service") {
            Some(Value::Text(name)) => Some(name.clone()),
            _ => None,
        };
        self.routes.iter().filter_map(name).collect()
    }

    /// Routes for TLS get the port that their host is sent away from; a host without such a route gets a redirect.
    fn redirects_to_tls(&mut self) {
        let redirected = Value::Text("redirect".to_owned());
        for ToTls { host, site } in std::mem::take(&mut self.to_tls) {
            let is_plain = |door: &&Door| !door.is_tls() && door.port().is_some();
            let is_ours = |door: &&Door| self.has_host(site, host.as_deref(), door);
            let doors: Vec<Door> = self.sites[site].doors.iter().filter(is_plain).filter(is_ours).cloned().collect();
            // Hosts that have routes of their own there are not sent anywhere.
            let others: Vec<Option<Value>> = self
                .routes
                .iter()
                .filter(|route| doors.iter().any(|door| route.has(door)))
                .map(|route| route.section.get("host").cloned())
                .collect();
            let name = host.clone().map(Value::Text);
            let is_of = |route: &Routed| {
                let of = route.section.get("host");
                let is_free = of == name.as_ref() || !others.iter().any(|other| other.as_ref() == of);
                is_free && has_host(host.as_deref(), &route.section)
            };
            let is_tls = |route: &Routed| {
                let is_sent = route.section.get("https") == Some(&redirected);
                !route.doors.is_empty() && (is_sent || route.doors.iter().all(|(_, door)| door.is_tls()))
            };
            let taken: Vec<(usize, Door)> = (0..self.routes.len())
                .flat_map(|at| doors.iter().map(move |door| (at, door.clone())))
                .filter(|(at, door)| {
                    let own = place(&self.routes[*at].section);
                    self.routes.iter().any(|other| place(&other.section) == own && other.has(door))
                })
                .collect();
            let mut has_own = false;
            for (at, route) in self.routes.iter_mut().enumerate().filter(|(_, route)| is_of(route) && is_tls(route)) {
                has_own |= route.section.get("host") == name.as_ref();
                route.section.set("https", redirected.clone());
                let free = doors.iter().filter(|door| !taken.contains(&(at, (*door).clone())));
                route.doors.extend(free.map(|door| (site, door.clone())));
            }
            if !has_own && !doors.is_empty() {
                self.redirect_to_tls(host, site, doors);
            }
        }
    }

    /// What a host has no route for is not found, where a less specific host would take it.
    fn rest_of_hosts(&mut self) {
        let of_routes = self.routes.iter().filter_map(|route| match route.section.get("host") {
            Some(Value::Text(host)) => Some(host.clone()),
            _ => None,
        });
        let hosts = distinct(of_routes.chain(self.claims.iter().filter_map(|claim| claim.host.clone())));
        for host in hosts {
            let mut rest = Section::default().with("host", host.as_str()).with("path", "/");
            rest.set("respond", Value::Number(404));
            let has = |route: &Routed| route.section.get("host") == rest.get("host");
            let is_whole = |route: &Routed| place(&route.section) == place(&rest);
            let is_less_specific = |route: &Routed| match route.section.get("host") {
                None => true,
                Some(Value::Text(other)) => {
                    other.strip_prefix('*').is_some_and(|end| host.ends_with(end)) && !has(route)
                }
                Some(_) => false,
            };
            let of_routes = self.routes.iter().filter(|route| has(route)).flat_map(|route| route.doors.clone());
            let claims = self.claims.iter().filter(|claim| claim.host.as_ref() == Some(&host));
            let is_there = |claim: &&Claim| self.sites[claim.site].doors.contains(&claim.door);
            let own = distinct(of_routes.chain(claims.filter(is_there).map(|claim| (claim.site, claim.door.clone()))));
            let is_open = |door: &Door| {
                let at = |is: &dyn Fn(&Routed) -> bool| self.routes.iter().any(|route| is(route) && route.has(door));
                !at(&is_whole) && at(&is_less_specific)
            };
            let doors: Vec<(usize, Door)> = own.into_iter().filter(|(_, door)| is_open(door)).collect();
            if !doors.is_empty() {
                self.routes.push(Routed { section: rest, doors });
            }
        }
    }

    fn redirect_to_tls(&mut self, host: Option<String>, site: usize, doors: Vec<Door>) {
        let to = vec![
            ("to".to_owned(), Value::Text("https://{host}{path}{query}".to_owned())),
            ("status".to_owned(), Value::Number(301)),
        ];
        let mut section = Section::default();
        if let Some(host) = host {
            section.text("host", host);
        }
        section.text("path", "/");
        section.set("redirect", Value::Table(to));
        let is_taken =
            |door: &Door| self.routes.iter().any(|other| place(&other.section) == place(&section) && other.has(door));
        let doors: Vec<(usize, Door)> =
            doors.into_iter().filter(|door| !is_taken(door)).map(|door| (site, door)).collect();
        if !doors.is_empty() {
            self.routes.push(Routed { section, doors });
        }
    }
}

fn numbers(ports: &[u16]) -> Value {
    Value::Numbers(ports.iter().map(|port| u64::from(*port)).collect())
}

/// Whether a route before has this port for the same host, path and `exact`.
fn is_taken(settled: &[Section], section: &Section, port: u16) -> bool {
    let is_its = |value: &Value| matches!(value, Value::Numbers(ports) if ports.contains(&u64::from(port)));
    let ports =
        |other: &Section| other.table("when")?.iter().find(|(key, _)| key == "ports").map(|(_, ports)| is_its(ports));
    settled.iter().filter(|other| place(other) == place(section)).any(|other| ports(other).unwrap_or(true))
}

/// Lets in nobody but this machine, and of it nobody whom the route did not let in.
fn only_local(section: &mut Section) {
    let own = section.table("allow").and_then(|allow| allow.iter().find(|(key, _)| key == "networks"));
    let is_local = |network: &&String| network.starts_with("127.") || network.as_str() == "::1";
    let networks: Vec<String> = match own {
        Some((_, Value::List(own))) => own.iter().filter(is_local).cloned().collect(),
        _ => LOCAL.map(str::to_owned).to_vec(),
    };
    match networks.is_empty() {
        true => section.insert("deny", "networks", Value::List(ALL.map(str::to_owned).to_vec())),
        false => section.insert("allow", "networks", Value::List(networks)),
    }
}
