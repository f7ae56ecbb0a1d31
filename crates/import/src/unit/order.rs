//! The order of steps. Unit takes the first step that matches, the gateway the most specific host and path: a step that
//! comes later, and is more specific, must not take what an earlier one had.

use crate::document::{Section, Value};
use crate::door::distinct;
use crate::rules::Place;

/// Methods that requests usually have.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];

/// A route in the place of its step.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Its line, and how notes name it; none: it stands for a list of steps none of which matches.
    pub(super) noted: Option<(usize, String)>,
    pub(super) route: Section,
}

/// What becomes of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placed {
    Route(Section),
    /// An earlier step has all its requests.
    Hidden,
}

impl Step {
    fn host(&self) -> Option<&str> {
        match self.route.get("host") {
            Some(Value::Text(host)) => Some(host),
            _ => None,
        }
    }

    fn place(&self) -> Place {
        let path = match self.route.get("path") {
            Some(Value::Text(path)) => path.clone(),
            _ => "/".to_owned(),
        };
        Place { path, exact: self.route.get("exact").is_some() }
    }

    fn refuses(&self) -> bool {
        self.route.get("respond").is_some()
    }

    fn methods(&self) -> Option<&[String]> {
        let (_, methods) = self.route.table("when")?.iter().find(|(key, _)| key == "methods")?;
        match methods {
            Value::List(methods) => Some(methods),
            _ => None,
        }
    }

    /// Whether no request of its place gets to a later step, or none may.
    fn takes_all(&self) -> bool {
        self.methods().is_none() && (self.refuses() || self.route.get("allow").is_none())
    }

    /// Whether it is for requests of a host; `None` are those that no step names.
    fn is_for(&self, scope: Option<&str>) -> bool {
        match (self.host(), scope) {
            (None, _) => true,
            (Some(own), Some(scope)) => own == scope || own.strip_prefix('*').is_some_and(|end| scope.ends_with(end)),
            (Some(_), None) => false,
        }
    }
}

/// The routes of steps, each with its number. A step without a host has one for each host that would take its requests.
pub(super) fn placed(steps: &[Step]) -> Vec<(usize, Placed)> {
    let hosts = distinct(steps.iter().filter_map(|step| step.host().map(str::to_owned)));
    let scopes = std::iter::once(None).chain(hosts.iter().map(|host| Some(host.as_str())));
    scopes.flat_map(|scope| of_scope(steps, scope)).collect()
}

fn of_scope(steps: &[Step], scope: Option<&str>) -> Vec<(usize, Placed)> {
    let of_it: Vec<(usize, &Step)> = steps.iter().enumerate().filter(|(_, step)| step.is_for(scope)).collect();
    let mut all = Vec::new();
    for (index, (number, step)) in of_it.iter().enumerate() {
        let (before, after) = (&of_it[..index], &of_it[index + 1..]);
        let place = step.place();
        let is_own = step.host() == scope;
        let is_overtaken = |(_, later): &(usize, &Step)| later.host() == scope && later.place().covers(&place);
        let stands_for_a_list = step.noted.is_none();
        if (!is_own || stands_for_a_list) && !after.iter().any(is_overtaken) {
            continue;
        }
        if before.iter().any(|(_, earlier)| earlier.takes_all() && earlier.place().covers(&place)) {
            all.extend((is_own && !stands_for_a_list).then_some((*number, Placed::Hidden)));
            continue;
        }
        let mut route = step.route.clone();
        if let Some(host) = scope {
            route.text("host", host);
        }
        // At the same place methods come first anyway.
        let is_same = |earlier: &Step| earlier.place() == place && earlier.host() == scope;
        let refused: Vec<&String> = before
            .iter()
            .filter(|(_, earlier)| earlier.refuses() && earlier.place().covers(&place) && !is_same(earlier))
            .flat_map(|(_, earlier)| earlier.methods().unwrap_or_default())
            .collect();
        if !refused.is_empty() {
            let own = step.methods().map_or_else(|| METHODS.map(str::to_owned).to_vec(), <[String]>::to_vec);
            let left: Vec<String> = own.into_iter().filter(|method| !refused.contains(&method)).collect();
            if left.is_empty() {
                all.extend(is_own.then_some((*number, Placed::Hidden)));
                continue;
            }
            route.insert("when", "methods", Value::List(left));
        }
        all.push((*number, Placed::Route(route)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `HOST PATH KEY` with a key of the route, as the numbers of the steps and the lines of their routes.
    fn check(steps: &[&str], expected: &[(usize, &str)]) {
        let step = |text: &&str| {
            let words: Vec<&str> = text.split(' ').collect();
            let mut route = Section::default().with("path", words[1]);
            if words[0] != "-" {
                route.text("host", words[0]);
            }
            match words[2].split_once('=') {
                Some(("respond", methods)) => {
                    let methods = methods.split(',').map(str::to_owned).collect();
                    route.insert("when", "methods", Value::List(methods));
                    route.set("respond", Value::Number(405));
                }
                _ if words[2] == "respond" => route.set("respond", Value::Number(403)),
                _ => route.text("service", words[2]),
            }
            Step { noted: Some((1, String::new())), route }
        };
        let steps: Vec<Step> = steps.iter().map(step).collect();
        let shown = |placed: &Placed| match placed {
            Placed::Hidden => "hidden".to_owned(),
            Placed::Route(route) => crate::document::keys(route).replace('\n', "; ").replace("\"", ""),
        };
        let found: Vec<(usize, String)> = placed(&steps).iter().map(|(at, placed)| (*at, shown(placed))).collect();
        let expected: Vec<(usize, String)> = expected.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_an_earlier_step_has_no_later_one_takes() {
        check(&["- /a respond", "- /a/b x"], &[(0, "path = /a; respond = 403; "), (1, "hidden")]);
        check(&["- /a/b x", "- /a respond"], &[(0, "path = /a/b; service = x; "), (1, "path = /a; respond = 403; ")]);
        check(
            &["- /a respond", "h / x", "- / y"],
            &[
                (0, "path = /a; respond = 403; "),
                (2, "path = /; service = y; "),
                (0, "path = /a; respond = 403; host = h; "),
                (1, "path = /; host = h; service = x; "),
            ],
        );
        check(&["h / x", "- /a y"], &[(1, "path = /a; service = y; "), (0, "path = /; host = h; service = x; ")]);
        let others = "path = /a; service = x; when = { methods = [GET, HEAD, PUT, DELETE, PATCH, OPTIONS] }; ";
        check(
            &["- / respond=POST", "- /a x", "- / y"],
            &[
                (0, "path = /; when = { methods = [POST] }; respond = 405; "),
                (1, others),
                (2, "path = /; service = y; "),
            ],
        );
    }
}
