//! The routes that a request may have, of which its body decides.

use std::sync::Arc;

use pilotlight_json_fields::Scanner;

use crate::json_rule::JsonRule;
use crate::routes::{Route, Table};

/// Routes of which the body decides.
pub(crate) struct Choice {
    /// The most specific first.
    pub(crate) candidates: Vec<Arc<Route>>,
    /// Where a request goes that none of them takes.
    pub(crate) plain: Option<Arc<Route>>,
}

impl Choice {
    /// `None`: no body changes anything of the route that the head leads to, `plain`.
    #[inline]
    pub(crate) fn of(table: &Table, authority: &str, path: &str, plain: Option<&Arc<Route>>) -> Option<Box<Self>> {
        if table.has_json() { Self::among(table, authority, path, plain) } else { None }
    }

    fn among(table: &Table, authority: &str, path: &str, plain: Option<&Arc<Route>>) -> Option<Box<Self>> {
        let candidates = table.json_candidates(authority, path, plain);
        (!candidates.is_empty()).then(|| Box::new(Self { candidates, plain: plain.cloned() }))
    }

    /// All routes that the request may get.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.candidates.iter().chain(&self.plain)
    }

    /// A scanner for the fields that its routes ask for.
    pub(crate) fn scanner(&self) -> Scanner {
        let mut names: Vec<&str> = self.rules().flat_map(JsonRule::names).collect();
        names.sort_unstable();
        names.dedup();
        Scanner::new(names)
    }

    /// The route for what was found.
    pub(crate) fn pick(&self, scanner: &Scanner) -> Option<&Arc<Route>> {
        let takes = |route: &&Arc<Route>| route.json.as_ref().is_some_and(|rule| rule.takes(scanner));
        self.candidates.iter().find(takes).or(self.plain.as_ref())
    }

    /// The fields, for people.
    pub(crate) fn fields(&self) -> String {
        let mut names: Vec<String> = self.rules().flat_map(JsonRule::names).map(|name| format!("`{name}`")).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    fn rules(&self) -> impl Iterator<Item = &JsonRule> {
        self.candidates.iter().filter_map(|route| route.json.as_deref())
    }
}
