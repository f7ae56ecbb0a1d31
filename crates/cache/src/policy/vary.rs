//! `Vary`: which request a stored response belongs to (RFC 9111 §4.1).

use std::hash::{Hash, Hasher};

use http::header::{ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, VARY};
use http::{HeaderMap, HeaderName};

use super::fields;
use super::options::LanguageOrder;
use super::unstored::Unstored;
use crate::request_fields::RequestFields;

/// A response that varies on more fields than this is not stored.
pub const MAX_VARY_FIELDS: usize = 16;

/// Selecting fields (RFC 9111 §4.1): the fields a response varies on and the normalised values they had in the request
/// it was made for.
///
/// Invariant: sorted by name, each name once, so that equal selections compare equal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    fields: Box<[Selecting]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Selecting {
    name: HeaderName,
    /// The normalised value; `None` if the request had no such field.
    value: Option<Box<[u8]>>,
    /// Whether the order of the value's members was dropped.
    unordered: bool,
}

impl Selecting {
    fn of(request: &HeaderMap, name: HeaderName, order: LanguageOrder) -> Self {
        let unordered = is_unordered(&name, order);
        let value = request.contains_key(&name).then(|| match unordered {
            true => sorted(request, &name),
            false => normalised(request, &name).collect(),
        });
        Self { name, value, unordered }
    }

    fn matches(&self, request: &impl RequestFields) -> bool {
        match &self.value {
            // RFC 9111 §4.1: a field that was absent must be absent.
            None => !request.has(&self.name),
            Some(_) if !request.has(&self.name) => false,
            Some(value) if self.unordered => *value == sorted(request, &self.name),
            Some(value) => normalised(request, &self.name).eq(value.iter().copied()),
        }
    }
}

impl Selection {
    /// Reads `Vary` of `response` and what it selects in `request`. `Cookie` is refused unless the key has all cookies
    /// of the request and the service calls the response public.
    pub(crate) fn capture(
        response: &HeaderMap,
        request: &HeaderMap,
        refused: Option<&HeaderName>,
        order: LanguageOrder,
    ) -> Result<Self, Unstored> {
        let mut fields: Vec<Selecting> = Vec::new();
        for member in fields::members(response, &VARY) {
            // RFC 9111 §4.1: a stored response with "*" among its members always fails to match.
            if member == b"*" {
                return Err(Unstored::VaryAny);
            }
            let Ok(name) = HeaderName::from_bytes(member) else {
                return Err(Unstored::Malformed);
            };
            // Stricter than the RFC: a store of one response per cookie is never useful and always a risk.
            if Some(&name) == refused {
                return Err(Unstored::VaryCookie);
            }
            if fields.iter().any(|field| field.name == name) {
                continue;
            }
            if fields.len() == MAX_VARY_FIELDS {
                return Err(Unstored::VaryTooLong);
            }
            fields.push(Selecting::of(request, name, order));
        }
        fields.sort_unstable_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        Ok(Self { fields: fields.into_boxed_slice() })
    }

    /// What `request` has for these fields.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a HeaderName>, request: &HeaderMap, order: LanguageOrder) -> Self {
        Self::sorted_by_name(names.into_iter().map(|name| Selecting::of(request, name.clone(), order)).collect())
    }

    /// Fields with values that are normalised already, `None` where the request had no such field; of a name that comes
    /// twice the first counts.
    pub fn from_fields(fields: impl IntoIterator<Item = (HeaderName, Option<Box<[u8]>>)>) -> Self {
        let one = |(name, value)| Selecting { name, value, unordered: false };
        Self::sorted_by_name(fields.into_iter().map(one).collect())
    }

    /// The same, compared by what the order of languages means here. Values in another order than that match nothing.
    pub(crate) fn ordered_by(mut self, order: LanguageOrder) -> Self {
        for field in &mut self.fields {
            field.unordered = is_unordered(&field.name, order);
        }
        self
    }

    fn sorted_by_name(mut fields: Vec<Selecting>) -> Self {
        fields.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        fields.dedup_by(|later, first| later.name == first.name);
        Self { fields: fields.into_boxed_slice() }
    }

    /// The fields in their order, with their values.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&HeaderName, Option<&[u8]>)> {
        self.fields.iter().map(|field| (&field.name, field.value.as_deref()))
    }

    /// Whether the selecting fields of `request` have the values they had when the response was stored.
    pub(crate) fn matches(&self, request: &impl RequestFields) -> bool {
        self.fields.iter().all(|field| field.matches(request))
    }

    /// The fields of both; for those that both have, the values of `self`. The body of an updated response (§4.3.4)
    /// stays tied to the requests it was made for, even if the update names fewer fields.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut fields = self.fields.to_vec();
        fields.extend(other.fields.iter().filter(|new| self.fields.iter().all(|old| old.name != new.name)).cloned());
        fields.sort_unstable_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        Self { fields: fields.into_boxed_slice() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Feeds what this `Vary` selects in `request` to a hasher, so that requests which select the same collapse.
    pub(crate) fn hash_selection(&self, request: &HeaderMap, state: &mut impl Hasher) {
        for field in &self.fields {
            field.name.hash(state);
            request.contains_key(&field.name).hash(state);
            match field.unordered {
                true => sorted(request, &field.name).hash(state),
                false => normalised(request, &field.name).for_each(|byte| state.write_u8(byte)),
            }
        }
    }

    /// Bytes held, for the store's budget.
    pub(crate) fn weight(&self) -> usize {
        let one = |field: &Selecting| field.name.as_str().len() + field.value.as_deref().map_or(0, <[u8]>::len);
        self.fields.iter().map(|field| size_of::<Selecting>() + one(field)).sum()
    }
}

/// RFC 9111 §4.1: values match if one can be turned into the other by adding or removing whitespace where the field's
/// syntax allows it, by combining lines, and by folding the case of fields that are case-insensitive.
///
/// Whitespace is dropped around commas only and never inside quotes, so values that differ otherwise stay different.
fn normalised<'a>(request: &'a impl RequestFields, name: &'a HeaderName) -> impl Iterator<Item = u8> + 'a {
    let folds = [&ACCEPT, &ACCEPT_CHARSET, &ACCEPT_ENCODING, &ACCEPT_LANGUAGE].contains(&name);
    request.lines(name).enumerate().flat_map(move |(index, line)| {
        let separator = (index > 0).then_some(b',');
        separator
            .into_iter()
            .chain(Trimmed { rest: line.trim_ascii(), quoted: false, escaped: false })
            .map(move |byte| if folds { byte.to_ascii_lowercase() } else { byte })
    })
}

fn is_unordered(name: &HeaderName, order: LanguageOrder) -> bool {
    order == LanguageOrder::Ignored && *name == ACCEPT_LANGUAGE
}

/// The members of a normalised value in the order of their bytes, for fields whose own order means nothing.
fn sorted(request: &impl RequestFields, name: &HeaderName) -> Box<[u8]> {
    let value: Vec<u8> = normalised(request, name).collect();
    let mut members: Vec<&[u8]> = value.split(|byte| *byte == b',').collect();
    members.sort_unstable();
    members.join(&b',').into_boxed_slice()
}

/// The bytes of a line without the whitespace beside its commas.
struct Trimmed<'a> {
    rest: &'a [u8],
    quoted: bool,
    escaped: bool,
}

impl Iterator for Trimmed<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        if self.quoted {
            self.quoted = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            return Some(byte);
        }
        match byte {
            b'"' => self.quoted = true,
            b',' => self.rest = self.rest.trim_ascii_start(),
            b' ' | b'\t' if self.comma_follows() => return self.next_comma(),
            _ => {}
        }
        Some(byte)
    }
}

impl Trimmed<'_> {
    fn comma_follows(&self) -> bool {
        // Longer runs are left as they are: that keeps this linear, and equal values still compare equal.
        const MAX_RUN: usize = 16;
        let run = self.rest.iter().take(MAX_RUN).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.rest.get(run) == Some(&b',')
    }

    fn next_comma(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.next()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::COOKIE;
    use proptest::prelude::*;

    use super::*;

    fn request(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_str(v).unwrap())).collect()
    }

    fn vary(value: &'static str, for_request: &HeaderMap) -> Result<Selection, Unstored> {
        Selection::capture(&request(&[("vary", value)]), for_request, Some(&COOKIE), LanguageOrder::Counts)
    }

    #[track_caller]
    fn check(value: &'static str, stored: &[(&'static str, &str)], asked: &[(&'static str, &str)], expected: bool) {
        let vary = vary(value, &request(stored)).unwrap();
        assert_eq!(vary.matches(&request(asked)), expected, "{value}: {stored:?} against {asked:?}");
    }

    #[test]
    fn matching() {
        check("", &[], &[("accept", "x")], true);
        check("x-a", &[("x-a", "1")], &[("x-a", "1"), ("x-b", "2")], true);
        check("x-a", &[("x-a", "1")], &[("x-a", "2")], false);
        check("x-a", &[("x-a", "a")], &[("x-a", "A")], false);
        check("x-a", &[], &[], true);
        check("x-a", &[], &[("x-a", "")], false);
        check("x-a", &[("x-a", "")], &[], false);
        check("X-A, x-b", &[("x-a", "1"), ("x-b", "2")], &[("x-b", "2"), ("x-a", "1")], true);
        check("x-a, x-b", &[("x-a", "1"), ("x-b", "2")], &[("x-a", "1")], false);
    }

    #[test]
    fn normalisation() {
        check("x-a", &[("x-a", "1, 2")], &[("x-a", "1"), ("x-a", "2")], true);
        check("x-a", &[("x-a", "1 ,\t2")], &[("x-a", "1,2")], true);
        check("x-a", &[("x-a", "1 2")], &[("x-a", "12")], false);
        check("x-a", &[("x-a", "1,2")], &[("x-a", "2,1")], false);
        check("x-a", &[("x-a", "\"1, 2\"")], &[("x-a", "\"1,2\"")], false);
        check("x-a", &[("x-a", "\"a\\\"b, c\"")], &[("x-a", "\"a\\\"b,c\"")], false);
        check("accept-language", &[("accept-language", "en-GB, de")], &[("accept-language", "EN-gb,DE")], true);
    }

    #[test]
    fn order_of_languages() {
        let of = |order, stored: &str, asked: &str| {
            let vary = request(&[("vary", "accept-language")]);
            let stored = Selection::capture(&vary, &request(&[("accept-language", stored)]), None, order).unwrap();
            stored.matches(&request(&[("accept-language", asked)]))
        };
        assert!(!of(LanguageOrder::Counts, "en, de", "de, en"));
        assert!(of(LanguageOrder::Ignored, "en, de", "DE ,en"));
        assert!(of(LanguageOrder::Ignored, "en;q=0.5, de", "de, en;q=0.5"));
        assert!(!of(LanguageOrder::Ignored, "en;q=0.5, de", "de;q=0.5, en"));
        assert!(!of(LanguageOrder::Ignored, "en, de", "en"));
    }

    #[test]
    fn refused() {
        let none = HeaderMap::new();
        assert_eq!(vary("*", &none), Err(Unstored::VaryAny));
        assert_eq!(vary("x-a, *", &none), Err(Unstored::VaryAny));
        assert_eq!(vary("Cookie", &none), Err(Unstored::VaryCookie));
        assert_eq!(vary("x a", &none), Err(Unstored::Malformed));
        let names: Vec<String> = (0..=MAX_VARY_FIELDS).map(|n| format!("x-{n}")).collect();
        let response = request(&[("vary", &names.join(","))]);
        let capture = |response| Selection::capture(response, &none, Some(&COOKIE), LanguageOrder::Counts);
        assert_eq!(capture(&response), Err(Unstored::VaryTooLong));
        let response = request(&[("vary", &names.get(1..).unwrap().join(","))]);
        assert!(capture(&response).is_ok());
    }

    #[test]
    fn order_and_repetition_of_names_do_not_matter() {
        let asked = request(&[("x-a", "1")]);
        assert_eq!(vary("x-b, X-A, x-a", &asked), vary("x-a, x-b", &asked));
    }

    #[test]
    fn both_selections() {
        let asked = request(&[("x-a", "1"), ("x-b", "2")]);
        let both = vary("x-b", &asked).unwrap().and(&vary("x-a, x-b", &asked).unwrap());
        assert_eq!(Ok(both), vary("x-a, x-b", &asked));
    }

    proptest! {
        #[test]
        fn a_request_matches_itself_and_others_only_if_equal_without_whitespace(
            a in "[ab,\" \\\\]{0,12}", b in "[ab,\" \\\\]{0,12}",
        ) {
            let (first, second) = (request(&[("x-a", &a)]), request(&[("x-a", &b)]));
            let vary = vary("x-a", &first).unwrap();
            prop_assert!(vary.matches(&first));
            let bare = |text: &str| text.replace(' ', "");
            if vary.matches(&second) {
                prop_assert_eq!(bare(&a), bare(&b));
            }
        }
    }
}
