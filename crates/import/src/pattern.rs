//! Regular expressions of paths, as far as routes can stand for them.

use crate::directive::route_path;
use crate::rules::Place;

/// Places that have all paths of a pattern: each of its alternatives, or the folder that it begins with.
pub(crate) fn closed_by(text: &str) -> Vec<Place> {
    let all: Option<Vec<Place>> =
        alternatives(text).iter().map(|one| simple_location(one).map(|(path, exact)| Place { path, exact })).collect();
    all.unwrap_or_else(|| vec![Place { path: folder_of(text), exact: false }])
}

/// A pattern of `location ~` as a path and whether it is that alone: `^/admin` and `^/admin$`.
pub(crate) fn simple_location(text: &str) -> Option<(String, bool)> {
    let rest = text.strip_prefix('^')?.replace("\\.", ".").replace("\\-", "-").replace("\\/", "/");
    for (end, exact) in
        [("(/.*)?$", false), ("/.*$", false), ("/(.*)$", false), ("/.*", false), ("/?$", true), ("$", true)]
    {
        if let Some(path) = rest.strip_suffix(end) {
            return route_path(path).map(|path| (path, exact));
        }
    }
    route_path(&rest).map(|path| (path, false))
}

/// The patterns that `^/(a|b)$` stands for, if it has one group of them.
fn alternatives(text: &str) -> Vec<String> {
    let group = text.split_once('(').and_then(|(head, rest)| Some((head, rest.split_once(')')?)));
    let Some((head, (inner, tail))) = group.filter(|(_, (inner, _))| inner.contains('|')) else {
        return vec![text.to_owned()];
    };
    let inner = inner.strip_prefix("?:").unwrap_or(inner);
    let is_word = |word: &str| !word.is_empty() && !word.contains(['(', '[', '*', '+', '?', '|', '$', '^']);
    match inner.split('|').all(is_word) {
        true => inner.split('|').map(|word| format!("{head}{word}{tail}")).collect(),
        false => vec![text.to_owned()],
    }
}

/// The deepest folder that has all paths of a pattern.
fn folder_of(text: &str) -> String {
    let Some(rest) = text.strip_prefix('^') else { return "/".to_owned() };
    let end = rest.find(|c: char| "*+?()[]{}|$\\.".contains(c)).unwrap_or(rest.len());
    let folder = rest[..end].rsplit_once('/').map_or("", |(folder, _)| folder);
    route_path(folder).unwrap_or_else(|| "/".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_patterns_are_paths() {
        assert_eq!(simple_location("^/admin"), Some(("/admin".to_owned(), false)));
        assert_eq!(simple_location("^/robots\\.txt$"), Some(("/robots.txt".to_owned(), true)));
        assert_eq!(simple_location("^/(a|b)/"), None);
    }

    #[test]
    fn what_a_pattern_may_be_for_is_closed() {
        let check = |text: &str, expected: &[(&str, bool)]| {
            let places = closed_by(text);
            let found: Vec<(&str, bool)> = places.iter().map(|place| (place.path.as_str(), place.exact)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("^/admin", &[("/admin", false)]);
        check("^/(admin|manage)(/.*)?$", &[("/admin", false), ("/manage", false)]);
        check("^/uploads/.*\\.php$", &[("/uploads", false)]);
        check("^/a/[0-9]+$", &[("/a", false)]);
        check("\\.sql$", &[("/", false)]);
        check("^/user[0-9]+", &[("/", false)]);
    }
}
