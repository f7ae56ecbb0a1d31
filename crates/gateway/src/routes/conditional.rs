//! Routes of which more decides than host and path.

use super::hosts::{Hosts, Paths};
use crate::conditions::Conditions;
use crate::options::RouteSpec;

/// All routes of a table without a JSON rule, by their places: what stands at one host and path is tried in the order
/// of what it asks for.
pub(super) struct Conditional {
    hosts: Hosts,
    /// The routes of each place.
    places: Vec<Vec<usize>>,
}

impl Conditional {
    /// `None`: no route has conditions.
    pub(super) fn of(routes: &[RouteSpec]) -> Option<Box<Self>> {
        routes.iter().any(|route| route.when.is_some()).then(|| {
            let mut all = Self { hosts: Hosts::default(), places: Vec::new() };
            for (index, route) in routes.iter().enumerate().filter(|(_, route)| route.json.is_none()) {
                let next = all.places.len();
                let place = all.hosts.paths_of(route.host.as_deref()).insert(route, next);
                if place == next {
                    all.places.push(Vec::new());
                }
                all.places[place].push(index);
            }
            all.hosts.sort();
            let rank = |index: &usize| routes.get(*index).and_then(|route| route.when.as_deref()).map(Conditions::rank);
            // Stable: the order of the file decides between equals. None is the least.
            all.places.iter_mut().for_each(|place| place.sort_by_key(|index| std::cmp::Reverse(rank(index))));
            Box::new(all)
        })
    }

    /// Whether one of them takes every host.
    pub(super) fn takes_any_host(&self) -> bool {
        self.hosts.takes_any()
    }

    /// The first that `holds` takes, by host and path, the most specific place first.
    pub(super) fn find<R>(&self, host: &str, path: &str, holds: impl Fn(usize) -> Option<R>) -> Option<R> {
        let of_place = |place: usize| self.places.get(place)?.iter().find_map(|index| holds(*index));
        let in_paths = |paths: &Paths| paths.find_map(path, of_place);
        self.hosts.find_named(host, in_paths).or_else(|| in_paths(self.hosts.of_any()))
    }
}
