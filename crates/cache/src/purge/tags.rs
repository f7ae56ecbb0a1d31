//! What a response can be purged by besides its URL: tags and groups.
//!
//! A tag is a name for the whole cache, whoever gave it: `Cache-Tag` (separated by commas) and `Surrogate-Key` (by
//! spaces) are two spellings of the same. A group (RFC 9875) belongs to the origin of its response. Both are held as
//! keyed hashes of 64 bits: responses of different names share one with a probability that does not matter, and then
//! one purge too many.

use std::convert::Infallible;

use http::{HeaderMap, HeaderName};
use sfv::BareItemFromInput;
use sfv::visitor::{EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ListVisitor};

use super::scope::{Mode, Purge, Scope};
use crate::key::Key;

/// Tags and groups of one response that are kept apart; RFC 9875 §2 asks for 32 at least. A response with more counts
/// as having every tag.
pub const MAX_TAGS: usize = 256;
/// The length of a tag or a group; RFC 9875 §2 asks for 32 characters at least. A response with a longer one counts as
/// having every tag.
pub const MAX_TAG_BYTES: usize = 1024;

const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
const CACHE_GROUPS: HeaderName = HeaderName::from_static("cache-groups");
const CACHE_GROUP_INVALIDATION: HeaderName = HeaderName::from_static("cache-group-invalidation");

/// What becomes of `Cache-Tag` and `Surrogate-Key` on the way to clients. The fields of RFC 9875 are for every cache on
/// the way, and always stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TagFields {
    /// They are removed: they are between the service and this cache.
    #[default]
    Removed,
    /// They are passed on.
    Kept,
}

/// What a response can be purged by.
#[derive(Debug)]
pub(super) enum Tags {
    None,
    These(Box<[u64]>),
    /// More than are kept apart: any purge of a tag is one of this response.
    Every,
}

/// What a hash is made of.
#[derive(Hash)]
pub(super) enum Named<'a> {
    Tag(&'a [u8]),
    Group { scheme: &'a str, authority: &'a str, name: &'a str },
}

impl Tags {
    pub(super) fn of(headers: &HeaderMap, key: &Key<'_>, hash: impl Fn(Named<'_>) -> u64) -> Self {
        if [&CACHE_TAG, &SURROGATE_KEY, &CACHE_GROUPS].iter().all(|name| !headers.contains_key(*name)) {
            return Self::None;
        }
        let mut all = Vec::new();
        let mut is_within = true;
        let mut add = |bytes: usize, named: Named<'_>| {
            is_within &= bytes <= MAX_TAG_BYTES && all.len() < MAX_TAGS;
            if is_within {
                all.push(hash(named));
            }
        };
        for (name, separator) in [(CACHE_TAG, b','), (SURROGATE_KEY, b' ')] {
            let lines = headers.get_all(name).iter();
            let members = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == separator));
            for tag in members.map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty()) {
                add(tag.len(), Named::Tag(tag));
            }
        }
        // RFC 9875 §2.1: the same string, in the same origin.
        for name in strings(headers, &CACHE_GROUPS) {
            add(name.len(), Named::Group { scheme: key.scheme, authority: key.authority, name: &name });
        }
        match (is_within, all.is_empty()) {
            (false, _) => Self::Every,
            (true, true) => Self::None,
            (true, false) => Self::These(all.into()),
        }
    }

    pub(super) fn weight(&self) -> usize {
        match self {
            Self::None | Self::Every => 0,
            Self::These(all) => size_of_val(&**all),
        }
    }
}

/// Whether a field is between a service and this cache.
pub(crate) fn is_tag_field(name: &HeaderName) -> bool {
    *name == CACHE_TAG || *name == SURROGATE_KEY
}

/// Removes those fields.
pub(crate) fn remove_tag_fields(headers: &mut HeaderMap) {
    headers.remove(CACHE_TAG);
    headers.remove(SURROGATE_KEY);
}

/// The groups that a response to an unsafe request invalidates (RFC 9875 §3). Those of the response's own origin are
/// meant: groups have no other (§2.1).
pub(crate) fn invalidated_groups(key: &Key<'_>, response: &HeaderMap) -> Vec<Purge> {
    let group = |name| Scope::Group { scheme: key.scheme.to_owned(), authority: key.authority.to_owned(), name };
    let names = strings(response, &CACHE_GROUP_INVALIDATION);
    // Hard, as RFC 9111 §4.4 has it for URLs: what is invalid is not used without validation, and never stale.
    names.into_iter().map(|name| Purge { scope: group(name), mode: Mode::Hard }).collect()
}

/// A List of Strings (RFC 9875 §2, §3). Members of other types have no meaning and are passed over; a field that is no
/// List is ignored as a whole (RFC 9651 §4.2).
fn strings(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let mut lines = headers.get_all(name).iter();
    let Some(first) = lines.next() else { return Vec::new() };
    let mut text = first.as_bytes().to_vec();
    // RFC 9651 §4.2: several lines are one, joined by commas.
    for line in lines {
        text.extend_from_slice(b", ");
        text.extend_from_slice(line.as_bytes());
    }
    sfv::Parser::new(&text).parse_list_with_visitor(Strings(Vec::new())).unwrap_or_default()
}

struct Strings(Vec<String>);

impl<'de> ListVisitor<'de> for Strings {
    type Out = Vec<String>;
    type Error = Infallible;

    fn entry(&mut self) -> Result<impl EntryVisitor<'de>, Self::Error> {
        Ok(Member(&mut self.0))
    }

    fn finish(self) -> Result<Self::Out, Self::Error> {
        Ok(self.0)
    }
}

struct Member<'a>(&'a mut Vec<String>);

impl<'de> EntryVisitor<'de> for Member<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Self::Error> {
        Ok(|item: BareItemFromInput<'de>| {
            if let BareItemFromInput::String(text) = item {
                self.0.push(text.as_str().to_owned());
            }
            // Parameters have no meaning.
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Self::Error> {
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use http::HeaderValue;

    use super::*;

    fn map(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    /// The tags and groups that are found, in their order.
    #[track_caller]
    fn check(fields: &[(&'static str, &str)], expected: &[&str]) {
        let key = Key { scheme: "http", authority: "example.org", target: "/", extra: "" };
        let hasher = RandomState::new();
        let found = Tags::of(&map(fields), &key, |named| hasher.hash_one(named));
        let wanted = expected.iter().map(|name| match name.strip_prefix("group ") {
            Some(name) => hasher.hash_one(Named::Group { scheme: "http", authority: "example.org", name }),
            None => hasher.hash_one(Named::Tag(name.as_bytes())),
        });
        let wanted: Vec<u64> = wanted.collect();
        match found {
            Tags::None => assert!(expected.is_empty(), "{fields:?}"),
            Tags::These(found) => assert_eq!(*found, wanted, "{fields:?}"),
            Tags::Every => assert_eq!(expected, ["every"], "{fields:?}"),
        }
    }

    #[test]
    fn spellings() {
        check(&[], &[]);
        check(&[("cache-tag", "a, b,c d ,, e")], &["a", "b", "c d", "e"]);
        check(&[("surrogate-key", " a  b,c d ")], &["a", "b,c", "d"]);
        check(&[("cache-tag", "a"), ("cache-tag", "b"), ("surrogate-key", "a")], &["a", "b", "a"]);
        check(&[("cache-tag", " , ")], &[]);
        check(&[("cache-groups", r#""a", "b c";p=1, "\"q\"""#)], &["group a", "group b c", "group \"q\""]);
        check(&[("cache-groups", r#""a""#), ("cache-groups", r#""b""#)], &["group a", "group b"]);
    }

    #[test]
    fn groups_of_other_types_have_no_meaning_and_what_is_no_list_is_ignored() {
        check(&[("cache-groups", r#"a, "b", 1, ("c"), ?1"#)], &["group b"]);
        for broken in [r#""a", "#, r#""a" "b""#, r#""a"#, "\"\u{e9}\""] {
            check(&[("cache-groups", broken)], &[]);
        }
    }

    #[test]
    fn at_and_beyond_the_limits() {
        let long = "x".repeat(MAX_TAG_BYTES);
        check(&[("cache-tag", &long)], &[&long]);
        check(&[("cache-tag", &format!("{long}x"))], &["every"]);
        check(&[("cache-groups", &format!("\"{long}x\""))], &["every"]);
        let many: Vec<String> = (0..MAX_TAGS).map(|n| n.to_string()).collect();
        check(&[("surrogate-key", &many.join(" "))], &many.iter().map(String::as_str).collect::<Vec<_>>());
        check(&[("surrogate-key", &many.join(" ")), ("cache-tag", "one more")], &["every"]);
    }

    #[test]
    fn a_group_is_no_tag_and_belongs_to_an_origin() {
        let hasher = RandomState::new();
        let group = |scheme, authority| hasher.hash_one(Named::Group { scheme, authority, name: "a" });
        let all = [
            hasher.hash_one(Named::Tag(b"a")),
            group("http", "one.example"),
            group("http", "two.example"),
            group("https", "one.example"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one));
        }
    }
}
