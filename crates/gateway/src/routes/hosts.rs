//! Where routes stand: by host, then by path.

use rustc_hash::FxHashMap;

use crate::options::RouteSpec;

/// Paths by host.
#[derive(Default)]
pub(super) struct Hosts {
    named: FxHashMap<Box<str>, Paths>,
    /// Suffixes with their dot (`.example.org`), longest first.
    wildcards: Vec<(Box<str>, Paths)>,
    any: Paths,
}

#[derive(Default)]
pub(super) struct Paths {
    exact: FxHashMap<Box<str>, usize>,
    prefix: FxHashMap<Box<str>, usize>,
    /// Bytes of the longest prefix: there is no need to look for a longer one.
    longest: usize,
}

impl Hosts {
    /// The paths of `*.example.org`, of a host, or of those that no route names.
    pub(super) fn paths_of(&mut self, host: Option<&str>) -> &mut Paths {
        let Some(host) = host.map(str::to_ascii_lowercase) else { return &mut self.any };
        match host.strip_prefix('*') {
            None => self.named.entry(host.into()).or_default(),
            Some(suffix) => {
                let at = self.wildcards.iter().position(|(s, _)| **s == *suffix).unwrap_or_else(|| {
                    self.wildcards.push((suffix.into(), Paths::default()));
                    self.wildcards.len() - 1
                });
                &mut self.wildcards[at].1
            }
        }
    }

    /// Brings wildcards into the order in which they are tried; called when all routes have been placed.
    pub(super) fn sort(&mut self) {
        self.wildcards.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
    }

    /// Whether any route names a host, as it is or by a wildcard.
    pub(super) fn has_names(&self) -> bool {
        !self.named.is_empty() || !self.wildcards.is_empty()
    }

    /// Whether a route names this host, in lower case, as it is.
    pub(super) fn names(&self, host: &str) -> bool {
        self.named.contains_key(host)
    }

    pub(super) fn has_wildcard_for(&self, host: &str) -> bool {
        self.fitting(host).next().is_some()
    }

    /// Whether a route takes every host.
    pub(super) fn takes_any(&self) -> bool {
        !self.any.is_empty()
    }

    /// The paths of routes for every host.
    pub(super) fn of_any(&self) -> &Paths {
        &self.any
    }

    /// What `find` finds first: at this host, in lower case, then by the wildcards that fit, the longest first.
    #[inline]
    pub(super) fn find_named<R>(&self, host: &str, find: impl Fn(&Paths) -> Option<R>) -> Option<R> {
        let exact = self.named.get(host).and_then(&find);
        exact.or_else(|| self.fitting(host).find_map(find))
    }

    fn fitting(&self, host: &str) -> impl Iterator<Item = &Paths> {
        let fits = move |suffix: &str| host.len() > suffix.len() && host.ends_with(suffix);
        self.wildcards.iter().filter(move |(suffix, _)| fits(suffix)).map(|(_, paths)| paths)
    }
}

impl Paths {
    /// The place of a route's path: the one that is there, or `next`.
    pub(super) fn insert(&mut self, route: &RouteSpec, next: usize) -> usize {
        if route.exact {
            return *self.exact.entry(route.path.as_str().into()).or_insert(next);
        }
        let path = route.path.trim_end_matches('/');
        self.longest = self.longest.max(path.len());
        *self.prefix.entry(path.into()).or_insert(next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefix.is_empty()
    }

    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.find_map(path, Some)
    }

    /// The first that `take` takes, from the exact path to shorter and shorter prefixes.
    #[inline]
    pub(super) fn find_map<R>(&self, path: &str, take: impl Fn(usize) -> Option<R>) -> Option<R> {
        if !self.exact.is_empty()
            && let Some(taken) = self.exact.get(path).and_then(|index| take(*index))
        {
            return Some(taken);
        }
        let mut end = path.trim_end_matches('/').len();
        if end > self.longest {
            end = last_slash(path, self.longest + 1)?;
        }
        loop {
            if let Some(taken) = self.prefix.get(&path[..end]).and_then(|index| take(*index)) {
                return Some(taken);
            }
            end = last_slash(path, end)?;
        }
    }
}

/// Where the last slash among the first `end` bytes is.
fn last_slash(path: &str, end: usize) -> Option<usize> {
    path.as_bytes()[..end].iter().rposition(|byte| *byte == b'/')
}
