//! Which requests a directive is for: `/path*`, `*`, or a named matcher.

use std::collections::BTreeMap;

use crate::directive::{Directive, is_network, route_path};
use crate::rules::Place;

/// What a matcher says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Matcher {
    /// These places; none: all of the site.
    Places(Option<Vec<Place>>),
    /// These hosts.
    Hosts(Vec<String>),
    /// Clients of these networks, or of all others; of these places, or of all of the site.
    Clients { networks: Vec<String>, are_others: bool, places: Option<Vec<Place>> },
    /// Something that no route goes by, at these places at most.
    Odd { why: String, places: Option<Vec<Place>> },
}

/// Something that no route goes by, anywhere.
pub(super) fn odd(why: impl Into<String>) -> Matcher {
    Matcher::Odd { why: why.into(), places: None }
}

/// Named matchers of a block, and whether some path of each is [loose](is_loose).
pub(super) type Named = BTreeMap<String, (Matcher, bool)>;

/// Whether a path is for longer names beside its own: `/admin*` for `/administrator`.
pub(super) fn is_loose(text: &str) -> bool {
    text.strip_suffix('*').is_some_and(|path| path.starts_with('/') && !path.ends_with('/'))
}

/// Whether the matcher of a directive is for longer names than its route.
pub(super) fn is_beyond(directive: &Directive, named: &Named) -> bool {
    directive.args.first().is_some_and(|text| match text.strip_prefix('@') {
        Some(name) => named.get(name).is_some_and(|(_, is_loose)| *is_loose),
        None => is_loose(text),
    })
}

/// The matcher that a directive begins with, and the arguments behind it.
pub(super) fn of(directive: &Directive, named: &Named) -> (Matcher, Vec<String>) {
    let rest = || directive.args[1..].to_vec();
    match directive.args.first().map(String::as_str) {
        Some("*") => (Matcher::Places(None), rest()),
        Some(text) if text.starts_with('/') => (paths(&[text.to_owned()]), rest()),
        Some(text) if text.starts_with('@') => {
            let unknown = || odd(format!("the matcher {text} is not there"));
            (named.get(&text[1..]).map_or_else(unknown, |(matcher, _)| matcher.clone()), rest())
        }
        _ => (Matcher::Places(None), directive.args.clone()),
    }
}

/// `/a`, `/a/*` and `/a*` as places.
fn paths(texts: &[String]) -> Matcher {
    let place = |text: &String| {
        let (text, exact) = match text.strip_suffix('*') {
            Some(text) => (text, false),
            None => (text.as_str(), true),
        };
        let path = route_path(text)?;
        // A slash at the end has a meaning for the path alone only.
        let path = if exact && path.len() > 1 && text.ends_with('/') { text.to_owned() } else { path };
        Some(Place { path, exact })
    };
    let all: Option<Vec<Place>> = texts.iter().map(place).collect();
    match all {
        Some(all) if all.contains(&Place::root()) => Matcher::Places(None),
        Some(all) if !all.is_empty() => Matcher::Places(Some(all)),
        _ => odd("a route's path is itself and what is below it: no patterns"),
    }
}

/// `@name path /a* /b`, or with a block of conditions.
pub(super) fn named(definition: &Directive) -> Matcher {
    let lines: Vec<(&str, &[String])> = match definition.block.as_deref() {
        Some(block) => block.iter().map(|one| (one.name.as_str(), one.args.as_slice())).collect(),
        None => match definition.args.split_first() {
            Some((kind, rest)) => vec![(kind.as_str(), rest)],
            None => Vec::new(),
        },
    };
    match lines.as_slice() {
        [("path", texts)] => paths(texts),
        [("host", hosts)] if hosts.iter().all(|host| !host.contains('{')) => Matcher::Hosts(hosts.to_vec()),
        [("remote_ip" | "client_ip", networks)] => clients(networks, false),
        [("not", words)] if matches!(words.first().map(String::as_str), Some("remote_ip" | "client_ip")) => {
            clients(&words[1..], true)
        }
        [(kind, _)] => odd(format!("a route goes by host and path, not by {kind}")),
        lines => several(lines),
    }
}

/// Conditions that all have to hold: a path and clients, or a path and something else.
fn several(lines: &[(&str, &[String])]) -> Matcher {
    let why = "a route goes by host and path, not by several conditions";
    let path = lines.iter().find(|(kind, _)| *kind == "path");
    let places = match path.map(|(_, texts)| paths(texts)) {
        Some(Matcher::Places(places)) => places,
        _ => return odd(why),
    };
    let others: Vec<_> = lines.iter().filter(|(kind, _)| *kind != "path").collect();
    let found = match others.as_slice() {
        [("remote_ip" | "client_ip", networks)] => clients(networks, false),
        [("not", words)] if matches!(words.first().map(String::as_str), Some("remote_ip" | "client_ip")) => {
            clients(&words[1..], true)
        }
        _ => odd(why),
    };
    match found {
        Matcher::Clients { networks, are_others, .. } => Matcher::Clients { networks, are_others, places },
        _ => Matcher::Odd { why: why.to_owned(), places },
    }
}

fn clients(words: &[String], are_others: bool) -> Matcher {
    let private = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "::1", "fd00::/8"];
    let words = words.iter().filter(|word| *word != "forwarded");
    let networks: Vec<String> = words
        .flat_map(|word| match word.as_str() {
            "private_ranges" => private.map(str::to_owned).to_vec(),
            word => vec![word.to_owned()],
        })
        .collect();
    match networks.iter().all(|network| is_network(network)) {
        true => Matcher::Clients { networks, are_others, places: None },
        false => odd("a network is written like 10.0.0.0/8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(words: &str) -> Matcher {
        let mut words = words.split_whitespace().map(str::to_owned);
        named(&Directive { name: words.next().unwrap_or_default(), args: words.collect(), ..Directive::default() })
    }

    #[test]
    fn matchers_are_places_hosts_or_clients() {
        let place = |path: &str, exact| Place { path: path.to_owned(), exact };
        assert_eq!(matcher("@a path /a/* /b"), Matcher::Places(Some(vec![place("/a", false), place("/b", true)])));
        assert_eq!(matcher("@a path /*"), Matcher::Places(None));
        assert_eq!(matcher("@a host b.example"), Matcher::Hosts(vec!["b.example".to_owned()]));
        assert_eq!(
            matcher("@a not remote_ip 10.0.0.0/8"),
            Matcher::Clients { networks: vec!["10.0.0.0/8".to_owned()], are_others: true, places: None }
        );
        for odd in ["@a path *.php", "@a method POST", "@a", "@a remote_ip x"] {
            assert!(matches!(matcher(odd), Matcher::Odd { .. }), "{odd}");
        }
    }
}
