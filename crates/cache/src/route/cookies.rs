//! `Cookie`, read strictly to choose from it, and generously to find something in it.

use http::HeaderMap;
use http::header::COOKIE;

use super::names::{NamePatterns, fold};

/// The cookies of a request, if every service reads them alike: one line of `name=value; name=value` (RFC 6265 §4.2.1).
///
/// `None`: they are not in that form, or a name among them is another form of one that is asked for.
pub(super) fn strictly<'a>(request: &'a HeaderMap, names: &[String]) -> Option<Vec<(&'a str, &'a str)>> {
    let mut lines = request.get_all(COOKIE).iter();
    let Some(line) = lines.next() else { return Some(Vec::new()) };
    if lines.next().is_some() {
        return None;
    }
    let text = std::str::from_utf8(line.as_bytes()).ok()?;
    let mut found: Vec<(&str, &str)> = Vec::new();
    for pair in text.split("; ") {
        let (name, value) = pair.split_once('=')?;
        if !(is_name(name) && is_value(value)) {
            return None;
        }
        // `Theme` or `the%6de` beside `theme`: who knows which of them the service takes.
        let folded = fold(name.as_bytes());
        let is_other_form = |asked: &String| asked != name && fold(asked.as_bytes()) == folded;
        let is_twice = names.iter().any(|asked| asked == name) && found.iter().any(|(other, _)| *other == name);
        if is_twice || names.iter().any(is_other_form) {
            return None;
        }
        found.push((name, value));
    }
    Some(found)
}

/// Whether all cookies of the request have these names, in the strict form.
pub(super) fn are_all_chosen(request: &HeaderMap, names: &[String]) -> bool {
    let all = |found: Vec<(&str, &str)>| found.iter().all(|(name, _)| names.iter().any(|asked| asked == name));
    strictly(request, names).is_some_and(all)
}

/// Whether some service may find a cookie of such a name. Services have been seen to separate cookies by `;`, `,` and
/// blanks, to take a bare word for a name, and to decode names.
pub(super) fn may_have(request: &HeaderMap, patterns: &NamePatterns) -> bool {
    let is_separator = |byte: &u8| matches!(byte, b';' | b',' | b' ' | b'\t' | b'"');
    request.get_all(COOKIE).iter().any(|line| {
        line.as_bytes().split(is_separator).any(|piece| {
            let name = piece.split(|byte| *byte == b'=').next().unwrap_or_default();
            patterns.may_be(&fold(name))
        })
    })
}

/// RFC 6265 §4.1.1: a token. Without `%`, which some services decode.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte))
}

/// RFC 6265 §4.1.1: `*cookie-octet`. A value in quotes is not among them: some services take the quotes off, some do
/// not.
fn is_value(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x2b | 0x2d..=0x3a | 0x3c..=0x5b | 0x5d..=0x7e))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn request(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (COOKIE, HeaderValue::from_str(line).unwrap())).collect()
    }

    #[track_caller]
    fn check(lines: &[&str], expected: Option<&[(&str, &str)]>) {
        let request = request(lines);
        assert_eq!(strictly(&request, &["theme".to_owned()]), expected.map(<[_]>::to_vec), "{lines:?}");
    }

    #[test]
    fn one_reading_only() {
        check(&[], Some(&[]));
        check(&["a=1; theme=dark; a=2"], Some(&[("a", "1"), ("theme", "dark"), ("a", "2")]));
        check(&["theme="], Some(&[("theme", "")]));
        check(&["theme=a=b"], Some(&[("theme", "a=b")]));
        for odd in [
            "",
            "theme",
            "theme=\"dark\"",
            "a=1;theme=dark",
            "a=1 theme=dark",
            "a=1,theme=dark",
            "a=1; theme=dark;",
            "theme=dark; theme=light",
            "Theme=dark",
            "th%65me=dark",
            "a=\"; theme=dark",
            "a=1;  theme=dark",
            "=dark",
            "theme =dark",
            "theme= dark",
            "$Version=1; theme[x]=dark",
            "a=1\ttheme=dark",
            "a=\\; theme=dark",
        ] {
            check(&[odd], None);
        }
        check(&["a=1", "theme=dark"], None);
    }

    #[test]
    fn every_form_is_found() {
        let patterns = NamePatterns(vec!["session*".parse().unwrap()]);
        for there in [
            "session=1",
            "a=1;session=1",
            "a=1, session=1",
            "a=1 session",
            "SESSION_id=1",
            "%73ession=x",
            "a=\"session=1\"",
        ] {
            assert!(may_have(&request(&[there]), &patterns), "{there}");
        }
        assert!(may_have(&request(&["a=1", "session=2"]), &patterns));
        for not in ["", "a=session", "xsession=1", "ses=1"] {
            assert!(!may_have(&request(&[not]), &patterns), "{not}");
        }
    }

    #[test]
    fn whether_the_key_has_all_of_them() {
        let names = ["theme".to_owned(), "lang".to_owned()];
        assert!(are_all_chosen(&request(&["theme=dark; lang=de"]), &names));
        assert!(are_all_chosen(&request(&["lang=de"]), &names));
        assert!(!are_all_chosen(&request(&["theme=dark; session=1"]), &names));
        assert!(!are_all_chosen(&request(&["theme=\"dark\""]), &names));
        assert!(are_all_chosen(&request(&[]), &names));
        assert!(!are_all_chosen(&request(&[""]), &names));
    }
}
