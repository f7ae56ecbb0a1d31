//! Patterns of `.gitignore` (gitignore(5)): names with `*`, `?` and `**`. Sets of characters are taken literally.

/// One line of such a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Its parts between slashes; `**` is for any number of folders.
    parts: Vec<String>,
    /// What it matches is not ignored.
    pub(crate) negated: bool,
    folders_only: bool,
}

impl Pattern {
    /// `None` for a line that is empty or a comment.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line = line.trim_end();
        let (negated, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (line, folders_only) = line.strip_suffix('/').map_or((line, false), |rest| (rest, true));
        let anchored = line.contains('/');
        let mut parts: Vec<String> = line.trim_start_matches('/').split('/').map(str::to_owned).collect();
        if !anchored {
            parts.insert(0, "**".to_owned()); // at any depth
        }
        Some(Self { parts, negated, folders_only })
    }

    /// Whether it is for this path, given by its parts.
    pub(crate) fn matches(&self, path: &[&str], is_folder: bool) -> bool {
        (is_folder || !self.folders_only) && parts_match(&self.parts, path)
    }
}

/// Each `**` is tried at every depth; a pattern of several has as many loops, so only the first few count.
fn parts_match(parts: &[String], path: &[&str]) -> bool {
    const MAX_PARTS: usize = 16;
    if parts.len() > MAX_PARTS {
        return false;
    }
    match (parts.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((part, rest)), _) if part == "**" => (0..=path.len()).any(|skip| parts_match(rest, &path[skip..])),
        (Some((part, rest)), Some((name, below))) => {
            name_matches(part.as_bytes(), name.as_bytes()) && parts_match(rest, below)
        }
        _ => false,
    }
}

/// `*` for any bytes, `?` for one, in linear time and with one step back (Kirk Krauss, "Matching Wildcards").
pub(crate) fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[place] => {
                at += 1;
                place += 1;
            }
            _ => match &mut star {
                Some((from, taken)) => {
                    *taken += 1;
                    (at, place) = (*from + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(line: &str, path: &str, is_folder: bool, expected: bool) {
        let parts: Vec<&str> = path.split('/').collect();
        let matches = Pattern::parse(line).is_some_and(|pattern| pattern.matches(&parts, is_folder));
        assert_eq!(matches, expected, "{line} for {path}");
    }

    #[test]
    fn lines_match_paths() {
        for (line, path, is_folder, expected) in [
            ("*.log", "a.log", false, true),
            ("*.log", "deep/er/a.log", false, true),
            ("*.log", "a.log.txt", false, false),
            ("/build", "build", true, true),
            ("/build", "src/build", true, false),
            ("build/", "src/build", true, true),
            ("build/", "src/build", false, false),
            ("doc/*.txt", "doc/a.txt", false, true),
            ("doc/*.txt", "doc/b/a.txt", false, false),
            ("a/**/b", "a/b", false, true),
            ("a/**/b", "a/x/y/b", false, true),
            ("**/tmp", "x/tmp", true, true),
            ("a?c", "abc", false, true),
            ("a*b*c", "aXbYbZc", false, true),
            ("# a", "# a", false, false),
            ("", "a", false, false),
        ] {
            check(line, path, is_folder, expected);
        }
        assert!(Pattern::parse("!keep.log").is_some_and(|pattern| pattern.negated));
    }

    proptest! {
        #[test]
        fn any_line_and_any_path_end(line in "[ab*?/!#]{0,24}", path in "[ab/]{1,24}") {
            let parts: Vec<&str> = path.split('/').collect();
            if let Some(pattern) = Pattern::parse(&line) {
                pattern.matches(&parts, true);
            }
        }

        #[test]
        fn a_name_without_wildcards_matches_itself(name in "[a-z.]{1,12}", other in "[a-z.]{1,12}") {
            prop_assert_eq!(name_matches(name.as_bytes(), other.as_bytes()), name == other);
            prop_assert!(name_matches(b"*", name.as_bytes()));
        }
    }
}
