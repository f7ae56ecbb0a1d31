//! Which releases go.

use crate::name::Name;
use crate::release::{Release, State};

/// Releases kept that were not used, for whoever looks into why.
pub const FAILED_KEPT: usize = 2;

/// The releases that go, of all from the newest to the oldest: beyond the newest `keep`, and of those that failed
/// beyond [`FAILED_KEPT`]. Never the current one, the one to go back to, and those that are `in_use`.
pub(crate) fn surplus(all: &[Release], keep: usize, in_use: &[Name]) -> Vec<Name> {
    let previous = previous(all);
    let is_safe = |release: &Release| {
        release.state == State::Current || Some(&release.name) == previous || in_use.contains(&release.name)
    };
    let (failed, good): (Vec<_>, Vec<_>) = all.iter().partition(|release| matches!(release.state, State::Failed(_)));
    let beyond = good.into_iter().skip(keep).chain(failed.into_iter().skip(FAILED_KEPT));
    beyond.filter(|release| !is_safe(release)).map(|release| release.name.clone()).collect()
}

/// The release to go back to: the newest that is older than the current one and has been the current one.
pub(crate) fn previous(all: &[Release]) -> Option<&Name> {
    let current = all.iter().position(|release| release.state == State::Current)?;
    all[current + 1..].iter().find(|release| release.state == State::Served).map(|release| &release.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Release> {
        let state = |kind: &str| match kind {
            "c" => State::Current,
            "s" => State::Served,
            "f" => State::Failed("why".to_owned()),
            _ => State::New,
        };
        let one = |word: &str| {
            let (name, kind) = word.split_once(':').unwrap();
            Release { name: Name::parse(name).unwrap(), state: state(kind) }
        };
        text.split(' ').map(one).collect()
    }

    #[track_caller]
    fn check(releases: &str, keep: usize, in_use: &str, expected: &str) {
        let in_use: Vec<Name> = in_use.split(' ').filter_map(Name::parse).collect();
        let gone: Vec<String> = surplus(&all(releases), keep, &in_use).iter().map(ToString::to_string).collect();
        assert_eq!(gone.join(" "), expected);
    }

    #[test]
    fn what_goes() {
        check("5:c 4:s 3:s 2:s 1:s", 5, "", "");
        check("5:c 4:s 3:s 2:s 1:s", 3, "", "2 1");
        check("5:c 4:s 3:s 2:s 1:s", 1, "", "3 2 1"); // 4 is where a rollback goes
        check("5:s 4:s 3:c 2:s 1:s", 1, "", "4 1");
        check("5:c 4:s 3:s 2:s 1:s", 2, "1", "3 2");
        check("5:c 4:f 3:f 2:f 1:s", 2, "", "2");
        check("5:n 4:n 3:n 2:s 1:s", 2, "", "3 2 1"); // nothing is current
    }

    #[test]
    fn where_a_rollback_goes() {
        let check = |releases: &str, expected: Option<&str>| {
            assert_eq!(previous(&all(releases)).map(Name::as_str), expected);
        };
        check("3:c 2:s 1:s", Some("2"));
        check("3:s 2:c 1:s", Some("1"));
        check("4:c 3:f 2:n 1:s", Some("1")); // what was never used is no way back
        check("3:s 2:s 1:c", None);
        check("3:n 2:s", None);
    }
}
