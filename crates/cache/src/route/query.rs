//! The query of a target as it stands in the key.

use std::borrow::Cow;

use super::names::{NamePatterns, fold, is_plain};

/// Which parameters of a query count, and whether their order does. The default: all of them, as they stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryRules {
    /// Which parameters count.
    pub parameters: Parameters,
    /// Whether parameters of different names may change places. Those of one name never do.
    pub sort: bool,
}

/// Which parameters of a query count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Parameters {
    /// Every one.
    #[default]
    All,
    /// All but these.
    Except(NamePatterns),
    /// These only, none if there is none. What some service may read as one of them counts, too.
    Only(NamePatterns),
}

impl QueryRules {
    /// The target as it stands in the key. What stays is not changed by a byte.
    ///
    /// A query with a `;` stays as it is: some services separate parameters by it, so that one parameter to us is two
    /// to them.
    pub(super) fn canonical<'a>(&self, target: &'a str) -> Cow<'a, str> {
        let has_rules = self.sort || self.parameters != Parameters::All;
        let Some((path, query)) = target.split_once('?').filter(|_| has_rules) else {
            return Cow::Borrowed(target);
        };
        if query.contains(';') {
            return Cow::Borrowed(target);
        }
        let all = query.split('&').count();
        let mut kept: Vec<&str> = query.split('&').filter(|parameter| self.counts(parameter)).collect();
        let is_sorted = !self.sort || kept.is_sorted_by_key(|parameter| place(parameter));
        if kept.len() == all && is_sorted {
            return Cow::Borrowed(target);
        }
        if !is_sorted {
            // Stable, and by the form in which names are equal to some service: it gets those in the order that was
            // meant.
            kept.sort_by_cached_key(|parameter| place(parameter));
        }
        match kept.is_empty() {
            true => Cow::Borrowed(path),
            false => Cow::Owned(format!("{path}?{}", kept.join("&"))),
        }
    }

    fn counts(&self, parameter: &str) -> bool {
        let name = name(parameter);
        match &self.parameters {
            Parameters::All => true,
            Parameters::Except(ignored) => !ignored.are(name),
            Parameters::Only(allowed) => !is_plain(name) || allowed.may_be(&fold(name.as_bytes())),
        }
    }
}

fn name(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(name, _)| name)
}

fn place(parameter: &str) -> String {
    fold(name(parameter).as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patterns(list: &[&str]) -> NamePatterns {
        NamePatterns(list.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn ignoring(list: &[&str], sort: bool) -> QueryRules {
        QueryRules { parameters: Parameters::Except(patterns(list)), sort }
    }

    fn only(list: &[&str]) -> QueryRules {
        QueryRules { parameters: Parameters::Only(patterns(list)), sort: false }
    }

    #[track_caller]
    fn check(rules: &QueryRules, target: &str, expected: &str) {
        assert_eq!(rules.canonical(target), expected, "{target}");
    }

    #[test]
    fn no_rules_change_nothing() {
        for target in ["/", "/?", "/a?b&a", "/a?&&", "*"] {
            assert!(matches!(QueryRules::default().canonical(target), Cow::Borrowed(same) if same == target));
        }
    }

    #[test]
    fn ignored_parameters_are_left_out() {
        let rules = ignoring(&["utm_*", "fbclid"], false);
        check(&rules, "/a?utm_source=x&b=1&fbclid=2&utm_=", "/a?b=1");
        check(&rules, "/a?utm_source=x", "/a");
        check(&rules, "/a?utm_source", "/a");
        check(&rules, "/a", "/a");
        check(&rules, "/a?", "/a?");
        check(&rules, "/a?b=1&&c", "/a?b=1&&c");
        check(&rules, "/a?x=1?utm_source=2", "/a?x=1?utm_source=2");
        check(&rules, "/utm_x?a", "/utm_x?a");
        // Other than as it was promised: it counts.
        check(&rules, "/a?UTM_source=x&ut%6d_x=1", "/a?UTM_source=x&ut%6d_x=1");
        check(&rules, "/a?fbclid[]=1", "/a?fbclid[]=1");
    }

    #[test]
    fn a_parameter_cannot_hide_another() {
        // A service that separates by `;` reads page=2.
        check(&ignoring(&["utm_*"], true), "/a?utm_x=1;page=2", "/a?utm_x=1;page=2");
        check(&only(&["page"]), "/a?x=1;page=2", "/a?x=1;page=2");
    }

    #[test]
    fn only_some_parameters() {
        check(&only(&["page", "q"]), "/a?x=1&page=2&y&q=", "/a?page=2&q=");
        check(&only(&[]), "/a?x=1&page=2", "/a");
        // Whatever some service may read as `page` counts.
        for same in
            ["Page=2", "p%61ge=2", "page[]=2", "page%5b0%5d=2", "+page=2", "page%00=2", "x%5by%5d=1", "é=1", "=2"]
        {
            check(&only(&["page"]), &format!("/a?{same}&x=1"), &format!("/a?{same}"));
        }
    }

    #[test]
    fn order() {
        let rules = QueryRules { sort: true, ..QueryRules::default() };
        check(&rules, "/a?b=1&a=2&b=0&a=1", "/a?a=2&a=1&b=1&b=0");
        check(&rules, "/a?B=1&b=2", "/a?B=1&b=2");
        check(&rules, "/a?b=2&B=1", "/a?b=2&B=1");
        check(&rules, "/a?b[1]=x&a=1&b[0]=y", "/a?a=1&b[1]=x&b[0]=y");
        check(&ignoring(&["x"], true), "/a?c&x&b&x=1&a", "/a?a&b&c");
    }

    fn query() -> impl Strategy<Value = String> {
        let name = proptest::sample::select(vec!["a", "b", "A", "utm_a", "utm_b", "%61", "utm%5fa", "c[]", "", "x;a"]);
        let parameter = (name, "(=[a-b%&;=]{0,2})?").prop_map(|(name, value)| format!("{name}{value}"));
        proptest::collection::vec(parameter, 0..6).prop_map(|all| format!("/p?{}", all.join("&")))
    }

    fn rules() -> impl Strategy<Value = QueryRules> {
        let list = || proptest::sample::subsequence(vec!["a", "b", "utm_*", "c*"], 0..4);
        let parameters = prop_oneof![
            Just(Parameters::All),
            list().prop_map(|list| Parameters::Except(patterns(&list))),
            list().prop_map(|list| Parameters::Only(patterns(&list))),
        ];
        (parameters, any::<bool>()).prop_map(|(parameters, sort)| QueryRules { parameters, sort })
    }

    proptest! {
        #[test]
        fn canonical_is_canonical(rules in rules(), target in query()) {
            let once = rules.canonical(&target).into_owned();
            prop_assert_eq!(rules.canonical(&once), once.as_str());
        }

        #[test]
        fn what_stays_stays_as_it_is(rules in rules(), target in query()) {
            let before: Vec<&str> = target.split_once('?').unwrap().1.split('&').collect();
            let after = rules.canonical(&target).into_owned();
            let mut left = before.clone();
            for parameter in after.split_once('?').map(|(_, query)| query.split('&')).into_iter().flatten() {
                let at = left.iter().position(|one| *one == parameter);
                prop_assert!(at.is_some(), "{:?} of {:?} was not in {:?}", parameter, after, target);
                left.remove(at.unwrap());
            }
        }

        /// Targets share a key only if all that counts is the same, name by name in the same order.
        #[test]
        fn different_parameters_stay_different(rules in rules(), one in query(), other in query()) {
            let counting = |target: &str| -> Vec<String> {
                let query = target.split_once('?').unwrap().1;
                let all: Vec<&str> = query.split('&').collect();
                let mut list: Vec<String> = all.into_iter()
                    .filter(|one| query.contains(';') || rules.counts(one)).map(str::to_owned).collect();
                if rules.sort && !query.contains(';') {
                    list.sort_by_key(|one| place(one));
                }
                list
            };
            let same = rules.canonical(&one) == rules.canonical(&other);
            prop_assert_eq!(same, counting(&one) == counting(&other));
        }

        #[test]
        fn nothing_is_too_odd(rules in rules(), target in any::<String>()) {
            rules.canonical(&target);
        }
    }
}
