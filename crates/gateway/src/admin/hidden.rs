//! Credentials in URLs, which nobody is shown.

use std::borrow::Cow;

/// What is shown in their place.
const HIDDEN: &str = "(hidden)";
/// Parameters of a URL whose values are credentials.
const PARAMETERS: [&str; 12] = [
    "password",
    "passwd",
    "pass",
    "pwd",
    "secret",
    "client_secret",
    "token",
    "access_token",
    "auth",
    "api_key",
    "apikey",
    "credentials",
];

/// The text with what stands before the `@` of each URL in it, and the values of parameters that are named like
/// credentials, hidden.
#[must_use]
pub fn hide_credentials(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find("://") else { return Cow::Borrowed(text) };
    let (mut shown, mut rest) = (text[..first].to_owned(), &text[first..]);
    while let Some(after) = rest.strip_prefix("://") {
        shown.push_str("://");
        let next = after.find("://").unwrap_or(after.len());
        let url = &after[..next];
        let end = url.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>')).unwrap_or(url.len());
        one(&url[..end], &mut shown);
        shown.push_str(&url[end..]);
        rest = &after[next..];
    }
    Cow::Owned(shown)
}

/// A URL behind its `://`.
fn one(url: &str, shown: &mut String) {
    let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
    // The last one: whoever wrote an `@` into a password has not escaped it. Nor a slash: then the rest has the `@`.
    let host = match url[..authority].rfind('@') {
        Some(at) => Some(at),
        None if url[..authority].contains(':') && !has_port(&url[..authority]) => url.rfind('@'),
        None => None,
    };
    let rest = match host {
        Some(at) => {
            shown.push_str(HIDDEN);
            &url[at..]
        }
        None => url,
    };
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    shown.push_str(path);
    for (index, parameter) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((name, _)) if PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known)) => {
                shown.push_str(name);
                shown.push('=');
                shown.push_str(HIDDEN);
            }
            _ => shown.push_str(parameter),
        }
    }
}

fn has_port(authority: &str) -> bool {
    authority.ends_with(']')
        || authority.rsplit(':').next().is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(hide_credentials(text), expected);
    }

    #[test]
    fn urls() {
        check("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0");
        check("redis://user:kingfisher@host:6379/0", "redis://(hidden)@host:6379/0");
        check("redis://:king@fisher@host", "redis://(hidden)@host");
        check("redis://:king/fisher@host/3", "redis://(hidden)@host/3");
        check("redis://a:7/b@c", "redis://a:7/b@c");
        check("http://[::1]/a@b", "http://[::1]/a@b");
        check(
            "--db=postgres://u:p@h/d,https://v:q@i?x=1&token=t&y",
            "--db=postgres://(hidden)@h/d,https://(hidden)@i?x=1&token=(hidden)&y",
        );
        check("a://b ://c@d \"e://f@g\"", "a://b ://(hidden)@d \"e://(hidden)@g\"");
        check("redis://h?Password=kingfisher", "redis://h?Password=(hidden)");
        check("nothing at all", "nothing at all");
    }

    proptest! {
        #[test]
        fn no_password_is_shown(password in "[A-Za-z0-9!$:;,.@_~-]{8,20}") {
            let url = format!("before redis://me:{password}@host:1/2 after");
            prop_assert_eq!(hide_credentials(&url), "before redis://(hidden)@host:1/2 after");
        }

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,40}(://)?\\PC{0,40}") {
            let _ = hide_credentials(&text);
        }
    }
}
