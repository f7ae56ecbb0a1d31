//! What another configuration changes, by difference: a value, before anything is done.
//!
//! Services are the same by name, listeners by address, routes by host, path and kind of match.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilotlight_gateway::{RouteSpec, RouteTo, SpillSpec};
use pilotlight_stdio::StdioOptions;
use pilotlight_supervisor::ServiceSpec;
use serde_json::{Value, json};

use crate::config::{Config, Containers, Service, ServiceKind};
use crate::settings;

/// What a reload changes. What it does not name stays the same object: its connections, instances and streams with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) listen: Changes,
    pub(crate) services: Changes,
    /// Services whose instances are replaced, one after the other; they are among `services.changed`.
    pub(crate) replaced: Vec<String>,
    pub(crate) routes: Changes,
    /// Settings that count for new connections.
    pub(crate) settings: Vec<&'static str>,
    /// Settings that a running gateway cannot follow.
    pub(crate) fixed: Vec<&'static str>,
}

/// What is there in one file and not in the other, or in both with different words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
}

impl Plan {
    /// From one configuration to another.
    pub(crate) fn of(old: &Config, new: &Config) -> Self {
        let listen =
            |config: &Config| settings::listen(config).into_iter().map(|addr| (addr.to_string(), ())).collect();
        let (before, after) = (services(old), services(new));
        let replaced = after.iter().filter(|(name, new)| before.get(*name).is_some_and(|old| replaces(new, old)));
        Self {
            listen: Changes::of(&listen(old), &listen(new)),
            replaced: replaced.map(|(name, _)| name.clone()).collect(),
            services: Changes::of(&before, &after),
            routes: Changes::of(&routes(old), &routes(new)),
            settings: followed(old, new),
            fixed: fixed(old, new),
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// For programs.
    pub(crate) fn to_json(&self) -> Value {
        let changes = |Changes { added, changed, removed }: &Changes| json!({ "added": added, "changed": changed, "removed": removed });
        json!({
            "listen": changes(&self.listen),
            "services": changes(&self.services),
            "replaced": self.replaced,
            "routes": changes(&self.routes),
            "settings": self.settings,
            "needs_upgrade": self.fixed,
        })
    }
}

impl Changes {
    fn of<T: PartialEq>(old: &BTreeMap<String, T>, new: &BTreeMap<String, T>) -> Self {
        let names = |all: &BTreeMap<String, T>, is: &dyn Fn(&String, &T) -> bool| {
            all.iter().filter(|(name, value)| is(name, value)).map(|(name, _)| name.clone()).collect()
        };
        Self {
            added: names(new, &|name, _| !old.contains_key(name)),
            changed: names(new, &|name, value| old.get(name).is_some_and(|before| before != value)),
            removed: names(old, &|name, _| !new.contains_key(name)),
        }
    }
}

/// A service, without where it stands in the file.
#[derive(PartialEq)]
struct Kind<'a> {
    kind: &'a ServiceKind,
    stdio: Option<&'a StdioOptions>,
    spill: Option<&'a SpillSpec>,
}

impl<'a> Kind<'a> {
    fn of(service: &'a Service) -> Self {
        let spill = service.spill.as_ref().map(|spill| &spill.spec);
        Self { kind: &service.kind, stdio: service.stdio.as_ref(), spill }
    }
}

/// The services by their names.
fn services(config: &Config) -> BTreeMap<String, Kind<'_>> {
    let services = config.services.iter();
    services.map(|one| (one.name().to_owned(), Kind::of(one))).collect()
}

/// Whether instances must go for it.
fn replaces(new: &Kind<'_>, old: &Kind<'_>) -> bool {
    let (stdio, is_told_same) = (new.stdio.is_some(), new.stdio == old.stdio);
    match (new.kind, old.kind) {
        (ServiceKind::Managed(new), ServiceKind::Managed(old)) => {
            // The adapter gets these options at its start.
            let times = |spec: &ServiceSpec| (spec.idle_timeout, spec.start_timeout, spec.stop_grace);
            let is_told = stdio && !(is_told_same && times(new) == times(old));
            is_told || new.needs_new_instances(old)
        }
        (_, ServiceKind::Managed(_)) => true,
        (_, ServiceKind::External(_)) => false,
    }
}

/// A route, its service by name, as its number means nothing in another file.
struct Led<'a> {
    service: Option<&'a str>,
    route: &'a RouteSpec,
}

impl PartialEq for Led<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.route, other.route);
        let is_same = match (&one.to, &two.to) {
            (RouteTo::Service(a), RouteTo::Service(b)) if a != b => {
                RouteSpec { to: two.to.clone(), ..one.clone() } == *two
            }
            _ => one == two,
        };
        self.service == other.service && is_same
    }
}

/// Routes by their labels.
fn routes(config: &Config) -> BTreeMap<String, Led<'_>> {
    let one = |route| (RouteSpec::label(route), Led { service: config.service_of(route).map(Service::name), route });
    config.routes.iter().map(one).collect()
}

fn followed(old: &Config, new: &Config) -> Vec<&'static str> {
    let errors = old.errors != new.errors;
    let schedules = |config: &Config| config.schedules.iter().map(|one| Arc::clone(&one.spec)).collect::<Vec<_>>();
    let schedules = schedules(old) != schedules(new);
    let tls = settings::tls(old) != settings::tls(new);
    let words = |config: &Config| config.traces.as_ref().map(|traces| traces.words.clone());
    let traces = words(old) != words(new);
    let (old, new) = (&old.settings, &new.settings);
    let changed = [
        ("errors", errors),
        ("tls", tls),
        ("traces", traces),
        ("schedules", schedules),
        ("limits", old.limits != new.limits),
        ("dev", old.dev != new.dev),
        ("proxy_protocol", old.proxy_protocol != new.proxy_protocol),
        ("trust_forwarded", old.trust_forwarded != new.trust_forwarded),
        ("server_timing", old.server_timing != new.server_timing),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}

fn fixed(old: &Config, new: &Config) -> Vec<&'static str> {
    let changed = [
        ("workers", settings::workers(old) != settings::workers(new)),
        ("io_uring", old.io_uring != new.io_uring),
        ("tls.acme", old.acme != new.acme),
        ("cache", (&old.cache, &old.cache_redis) != (&new.cache, &new.cache_redis)),
        ("containers.socket", old.containers.socket != new.containers.socket),
        ("admin", old.operate.admin != new.operate.admin),
        ("metrics", old.operate.metrics != new.operate.metrics),
        ("log", old.operate.log != new.operate.log),
        ("service_log", old.operate.service_log != new.operate.service_log),
        ("access_log", old.operate.access_log != new.operate.access_log),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}

/// The configuration that a gateway has after it followed another one: what it cannot follow stays as it was.
pub(crate) fn followed_config(old: &Config, new: Config) -> Config {
    let Config { workers, io_uring, acme, cache, cache_redis, operate, containers, .. } = old.clone();
    let containers = Containers { socket: containers.socket, ..new.containers };
    Config { workers, io_uring, acme, cache, cache_redis, operate, containers, ..new }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const BASE: &str = r#"
listen = ["127.0.0.1:1", "127.0.0.1:2"]
workers = 2
[services.a]
command = ["a"]
transport = "pipe"
[services.b]
url = "http://127.0.0.1:9"
[[routes]]
path = "/"
service = "a"
[[routes]]
path = "/b"
service = "b"
"#;

    fn config(text: &str) -> Config {
        crate::config::parse(text, Path::new("/x/pilotlight.toml")).unwrap_or_else(|e| panic!("{e:?}")).config
    }

    #[track_caller]
    fn check(edits: &[(&str, &str)], expected: impl FnOnce(&mut Plan)) {
        let new = edits.iter().fold(BASE.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        let mut plan = Plan::default();
        expected(&mut plan);
        assert_eq!(Plan::of(&config(BASE), &config(&new)), plan);
    }

    fn named(name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    #[test]
    fn the_same_in_other_words_changes_nothing() {
        check(&[], |_| {});
        check(
            &[(
                "listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]",
                "# moved\n\nlisten = [\"127.0.0.1:2\", \"127.0.0.1:1\"]",
            )],
            |_| {},
        );
        check(&[("command = [\"a\"]", "command = [\"a\"]\nidle_timeout = \"15m\"")], |_| {});
        assert!(Plan::of(&config(BASE), &config(BASE)).is_empty());
    }

    #[test]
    fn listeners_by_address() {
        check(&[("127.0.0.1:2", "127.0.0.1:3")], |plan| {
            (plan.listen.added, plan.listen.removed) = (named("http://127.0.0.1:3"), named("http://127.0.0.1:2"));
        });
    }

    #[test]
    fn services_by_name() {
        check(&[("command = [\"a\"]", "command = [\"a\", \"-v\"]")], |plan| {
            plan.services.changed = named("a");
            plan.replaced = named("a");
        });
        check(&[("command = [\"a\"]", "command = [\"a\"]\nidle_timeout = \"1m\"")], |plan| {
            plan.services.changed = named("a");
        });
        check(&[("127.0.0.1:9", "127.0.0.1:8")], |plan| plan.services.changed = named("b"));
        check(&[("command = [\"a\"]\ntransport = \"pipe\"", "url = \"http://127.0.0.1:7\"")], |plan| {
            plan.services.changed = named("a");
            plan.replaced = named("a");
        });
        check(&[("services.b", "services.c"), ("service = \"b\"", "service = \"c\"")], |plan| {
            (plan.services.added, plan.services.removed) = (named("c"), named("b"));
            plan.routes.changed = named("/b");
        });
    }

    #[test]
    fn routes_by_host_and_path() {
        check(&[("path = \"/b\"", "path = \"/b\"\nexact = true")], |plan| {
            (plan.routes.added, plan.routes.removed) = (named("=/b"), named("/b"));
        });
        check(&[("path = \"/b\"", "path = \"/b\"\nstrip_prefix = true")], |plan| plan.routes.changed = named("/b"));
    }

    #[test]
    fn a_general_limit_is_no_change_of_the_routes_that_follow_it() {
        check(&[("[services.a]", "[limits]\nresponse_timeout = \"9s\"\nbody_size = \"1MiB\"\n[services.a]")], |plan| {
            plan.settings = vec!["limits"];
        });
    }

    #[test]
    fn settings_that_are_followed_and_those_that_are_not() {
        check(&[("workers = 2", "workers = 3\ndev = true\n[limits]\nconnections = 7")], |plan| {
            plan.fixed = vec!["workers"];
            plan.settings = vec!["limits", "dev"];
        });
        check(&[("[services.a]", "[errors]\n404 = \"404.html\"\n[services.a]")], |plan| plan.settings = vec!["errors"]);
        check(
            &[("[services.a]", "[cache]\nmemory = \"1MiB\"\n[access_log]\npath = \"stdout\"\n[services.a]")],
            |plan| {
                plan.fixed = vec!["cache", "access_log"];
            },
        );
        check(&[("[services.a]", "[containers]\nsocket = \"/x\"\ndiscover = true\n[services.a]")], |plan| {
            plan.fixed = vec!["containers.socket"];
        });
    }
}
