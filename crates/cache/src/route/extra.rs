//! The part of a key that holds values of cookies and fields, as text.
//!
//! `cookie:theme=dark header:accept-language=de,en`, behind what tells the route from others. A name without `=` was
//! not there, and `cookies=…` is all of `Cookie`, where no single value could be chosen. Several lines of a field stand
//! with `&` between them. Blanks, `&`, `%` and everything beyond visible ASCII are percent-encoded in values, so
//! different values make different texts.

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::cookies;

/// Longest text of cookies and fields in a key, bytes. A request with more goes past the cache.
pub const MAX_EXTRA_BYTES: usize = 4096;

/// The values of the chosen cookies and fields are too long for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cookies and fields that belong to the key have more than {MAX_EXTRA_BYTES} bytes")]
pub struct ExtraTooLong;

pub(super) fn extra(
    route: &str,
    names: &[String],
    fields: &[HeaderName],
    request: &HeaderMap,
) -> Result<String, ExtraTooLong> {
    let mut text = String::new();
    if !route.is_empty() {
        part(&mut text, "route", "=");
        escape(&mut text, route.as_bytes());
    }
    if !names.is_empty() {
        match cookies::strictly(request, names) {
            Some(found) => names.iter().for_each(|name| {
                part(&mut text, "cookie:", name);
                if let Some((_, value)) = found.iter().find(|(one, _)| one == name) {
                    text.push('=');
                    escape(&mut text, value.as_bytes());
                }
            }),
            None => {
                part(&mut text, "cookies", "");
                lines(&mut text, request.get_all(COOKIE).iter());
            }
        }
    }
    for name in fields {
        part(&mut text, "header:", name.as_str());
        lines(&mut text, request.get_all(name).iter());
    }
    if text.len() > MAX_EXTRA_BYTES { Err(ExtraTooLong) } else { Ok(text) }
}

fn part(text: &mut String, kind: &str, name: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(kind);
    text.push_str(name);
}

fn lines<'a>(text: &mut String, lines: impl Iterator<Item = &'a HeaderValue>) {
    for (index, line) in lines.enumerate() {
        text.push(if index == 0 { '=' } else { '&' });
        escape(text, line.as_bytes());
    }
}

fn escape(text: &mut String, value: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value {
        match byte {
            b'%' | b'&' | ..=b' ' | 0x7f.. => {
                let digit = |nibble: u8| char::from(HEX[usize::from(nibble & 0xf)]);
                text.extend(['%', digit(byte >> 4), digit(*byte)]);
            }
            byte => text.push(char::from(*byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT_LANGUAGE;
    use proptest::prelude::*;

    use super::*;

    fn request(fields: &[(HeaderName, &[u8])]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_bytes(value).unwrap())).collect()
    }

    #[test]
    fn routes_with_one_url_have_texts_of_their_own() {
        let of = |route: &str| extra(route, &[], &[ACCEPT_LANGUAGE], &request(&[]));
        assert_eq!(of("[version=\"two\" :80]"), Ok("route=[version=\"two\"%20:80] header:accept-language".to_owned()));
        assert_eq!(of(""), Ok("header:accept-language".to_owned()));
    }

    #[track_caller]
    fn check(fields: &[(HeaderName, &[u8])], expected: &str) {
        let names = ["theme".to_owned(), "lang".to_owned()];
        assert_eq!(extra("", &names, &[ACCEPT_LANGUAGE], &request(fields)), Ok(expected.to_owned()));
    }

    #[test]
    fn absent_empty_and_several() {
        check(&[], "cookie:theme cookie:lang header:accept-language");
        check(&[(COOKIE, b"theme=")], "cookie:theme= cookie:lang header:accept-language");
        check(&[(COOKIE, b"x=1; lang=de; theme=dark")], "cookie:theme=dark cookie:lang=de header:accept-language");
        check(&[(COOKIE, b"theme=\"dark\"")], "cookies=theme=\"dark\" header:accept-language");
        check(&[(COOKIE, b"theme=a; theme=b")], "cookies=theme=a;%20theme=b header:accept-language");
        check(&[(COOKIE, b"a=1"), (COOKIE, b"b=2")], "cookies=a=1&b=2 header:accept-language");
        check(&[(ACCEPT_LANGUAGE, b"")], "cookie:theme cookie:lang header:accept-language=");
        check(
            &[(ACCEPT_LANGUAGE, b"de, en&%"), (ACCEPT_LANGUAGE, b"\xe9")],
            "cookie:theme cookie:lang header:accept-language=de,%20en%26%25&%E9",
        );
    }

    #[test]
    fn too_long() {
        let value = vec![b'x'; MAX_EXTRA_BYTES];
        assert_eq!(extra("", &[], &[ACCEPT_LANGUAGE], &request(&[(ACCEPT_LANGUAGE, &value)])), Err(ExtraTooLong));
        assert_eq!(extra("", &[], &[], &request(&[(ACCEPT_LANGUAGE, &value)])), Ok(String::new()));
    }

    fn fields() -> impl Strategy<Value = Vec<(HeaderName, Vec<u8>)>> {
        let cookie = "(theme|lang|x|Theme)?=?[ab\" ;,%&=]{0,4}(; (theme|lang|x)=[ab%&]{0,2}){0,2}";
        let one = prop_oneof![
            cookie.prop_map(|value| (COOKIE, value.into_bytes())),
            "[a-b &%=,]{0,4}".prop_map(|value| (ACCEPT_LANGUAGE, value.into_bytes())),
        ];
        proptest::collection::vec(one, 0..4)
    }

    proptest! {
        /// Two requests have the same text if, and only if, every chosen value is the same, or the whole of `Cookie`
        /// is.
        #[test]
        fn different_values_make_different_texts(one in fields(), other in fields()) {
            let names = ["theme".to_owned(), "lang".to_owned()];
            let map = |list: &[(HeaderName, Vec<u8>)]| -> HeaderMap {
                list.iter().map(|(name, value)| (name.clone(), HeaderValue::from_bytes(value).unwrap())).collect()
            };
            let (one, other) = (map(&one), map(&other));
            let same = extra("", &names, &[ACCEPT_LANGUAGE], &one) == extra("", &names, &[ACCEPT_LANGUAGE], &other);
            let all = |request: &HeaderMap, name| request.get_all(name).iter().cloned().collect::<Vec<_>>();
            let chosen = |request: &HeaderMap| -> Option<Vec<Option<String>>> {
                let found = cookies::strictly(request, &names)?;
                let value = |name: &String| found.iter().find(|(one, _)| one == name).map(|(_, v)| (*v).to_owned());
                Some(names.iter().map(value).collect())
            };
            let cookies = match (chosen(&one), chosen(&other)) {
                (None, None) => all(&one, COOKIE) == all(&other, COOKIE),
                (one, other) => one == other,
            };
            prop_assert_eq!(same, cookies && all(&one, ACCEPT_LANGUAGE) == all(&other, ACCEPT_LANGUAGE));
        }
    }
}
