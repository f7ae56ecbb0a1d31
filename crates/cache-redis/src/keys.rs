//! Names in Redis.
//!
//! ```text
//! pilotlight:1:{HASH}           the response of a target, or what its responses vary on, or a tombstone
//! pilotlight:1:{HASH}:v:HASH    the response for one selection of those fields
//! pilotlight:1:{HASH}:b:ID      a body that is too long for its record
//! pilotlight:1:{HASH}:l         who fetches it at this moment
//! pilotlight:rate:1:HASH        until when a rate is paid for (docs/adr/0038)
//! pilotlight:schedule:1:HASH    who runs a schedule, and up to when it was dealt with (docs/adr/0061)
//! ```
//!
//! What a route adds to the key of a target ([`Key::extra`]) selects a variant, as a field of the request does
//! ([`EXTRA`]): so one name stands for all of a URL, and one tombstone is enough to invalidate it.
//!
//! All of a target is in one slot, and targets are spread over all slots. The hash is SHA-256, cut to 128 bits: all
//! gateways must agree on it without a secret to be handed around, and with a weaker one a client could make a URL
//! whose records displace another's. It is no proof: the record has the whole key, which is compared.

use http::{HeaderMap, HeaderName};
use pilotlight_cache::{Key, LanguageOrder, Selection};
use ring::digest::{Context, SHA256};

/// The longest prefix.
pub const MAX_PREFIX_BYTES: usize = 64;
/// The prefix if none is given.
pub const DEFAULT_PREFIX: &str = "pilotlight";
/// Of the names; a record's version is in the record.
pub(crate) const VERSION: &str = ":1:{";
/// Of the names of rates.
const RATES: &str = ":rate:1:";

/// Of the names of schedules.
const SCHEDULES: &str = ":schedule:1:";

/// The first half of a SHA-256.
pub(crate) type Hash = [u8; 16];

/// Stands for [`Key::extra`] among the fields that responses are selected by; what a request has under this name is not
/// looked at.
pub(crate) const EXTRA: HeaderName = HeaderName::from_static("pilotlight-key-extra");

/// What a request has for these fields.
pub(crate) fn select<'a>(
    names: impl IntoIterator<Item = &'a HeaderName> + Clone,
    key: &Key<'_>,
    request: &HeaderMap,
    order: LanguageOrder,
) -> Selection {
    let of_request = Selection::of(names.clone().into_iter().filter(|name| **name != EXTRA), request, order);
    if names.into_iter().any(|name| *name == EXTRA) { of_extra(key).and(&of_request) } else { of_request }
}

/// The selection by [`EXTRA`] alone.
pub(crate) fn of_extra(key: &Key<'_>) -> Selection {
    let value = (!key.extra.is_empty()).then(|| key.extra.as_bytes().into());
    Selection::from_fields([(EXTRA, value)])
}

/// Makes names.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: Box<str>,
    /// Not below that of records: gateways are told of every change there.
    rates: Box<str>,
    schedules: Box<str>,
}

/// The names of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) hash: Hash,
    pub(crate) base: String,
}

/// Whether a prefix can be used: printable ASCII without blanks and braces, which would change the slot.
#[must_use]
pub fn is_prefix(prefix: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
    !prefix.is_empty() && prefix.len() <= MAX_PREFIX_BYTES && prefix.bytes().all(is_fine)
}

/// The beginning of a target's hash, by which memory knows its record ([`pilotlight_cache::RecordName`]).
#[must_use]
pub fn record_name(key: &Key<'_>) -> u64 {
    number(&hash_of(key))
}

/// The same of a name in Redis: of a target's record, and of a variant of it, which stands for the target. `None` for
/// names that are not responses'.
#[must_use]
pub fn record_name_of(prefix: &str, name: &str) -> Option<u64> {
    let rest = name.strip_prefix(prefix)?.strip_prefix(VERSION)?;
    let (digits, rest) = rest.split_once('}')?;
    let is_response = rest.is_empty() || rest.starts_with(":v:");
    if !is_response {
        return None;
    }
    // 11 digits are 66 bits.
    let mut bits = 0u128;
    for digit in digits.bytes().take(11) {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        bits = bits << 6 | value as u128;
    }
    (digits.len() == 22).then_some(((bits >> 2) as u64).swap_bytes())
}

fn hashed<'a>(kind: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut name = String::with_capacity(kind.len() + 22);
    name.push_str(kind);
    push_base64(&mut name, &hash(parts));
    name
}

fn number(hash: &Hash) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(first)
}

fn hash_of(key: &Key<'_>) -> Hash {
    hash([key.scheme, key.authority, key.target].map(str::as_bytes))
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        let [prefix, rates, schedules] = [VERSION, RATES, SCHEDULES].map(|kind| format!("{prefix}{kind}").into());
        Self { prefix, rates, schedules }
    }

    /// That of a rate, for what is counted together.
    pub(crate) fn rate<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        hashed(&self.rates, parts)
    }

    /// That of a schedule.
    pub(crate) fn schedule(&self, name: &str) -> String {
        hashed(&self.schedules, [name.as_bytes()])
    }

    pub(crate) fn name(&self, key: &Key<'_>) -> Name {
        let hash = hash_of(key);
        let mut base = String::with_capacity(self.prefix.len() + 23);
        base.push_str(&self.prefix);
        push_base64(&mut base, &hash);
        base.push('}');
        Name { hash, base }
    }
}

impl Name {
    pub(crate) fn record_name(&self) -> u64 {
        number(&self.hash)
    }

    pub(crate) fn variant(&self, selection: &Selection) -> String {
        let parts = selection.fields().flat_map(|(name, value)| {
            let presence: &[u8] = if value.is_some() { b"+" } else { b"-" };
            [name.as_str().as_bytes(), presence, value.unwrap_or_default()]
        });
        let mut name = self.with(":v:", 22);
        push_base64(&mut name, &hash(parts));
        name
    }

    pub(crate) fn body(&self, id: u64) -> String {
        let mut name = self.with(":b:", 11);
        push_base64(&mut name, &id.to_le_bytes());
        name
    }

    pub(crate) fn lease(&self) -> String {
        self.with(":l", 0)
    }

    fn with(&self, suffix: &str, more: usize) -> String {
        let mut name = String::with_capacity(self.base.len() + suffix.len() + more);
        name.push_str(&self.base);
        name.push_str(suffix);
        name
    }
}

/// A hash of parts, each with its length before it.
fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Hash {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    let mut hash = Hash::default();
    hash.copy_from_slice(&context.finish().as_ref()[..16]);
    hash
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// RFC 4648 §5, without padding.
fn push_base64(to: &mut String, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], chunk.get(1).copied().unwrap_or(0), chunk.get(2).copied().unwrap_or(0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..=chunk.len() {
            to.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const KEY: Key<'_> = Key { scheme: "http", authority: "example.org", target: "/a?b", extra: "" };

    #[test]
    fn names_are_stable() {
        let name = Keys::new("shop").name(&KEY);
        // Whoever changes this changes what all running gateways find: raise the version instead.
        assert_eq!(name.base, "shop:1:{OSmUd6mxNGp3Oqz8RzV9bg}");
        assert_eq!(name.body(1), format!("{}:b:AQAAAAAAAAA", name.base));
        assert_eq!(name.lease(), format!("{}:l", name.base));
    }

    #[test]
    fn names_of_rates() {
        let (keys, name) = (Keys::new("shop"), Keys::new("shop").name(&KEY));
        let rate = |parts: &[&str]| keys.rate(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(rate(&["/", "client"]), "shop:rate:1:Rv1xxVBlwM0SV59rf2l44g");
        assert_ne!(rate(&["/a", "b"]), rate(&["/", "ab"]), "parts stay apart");
        // Not even one that has the same hash is a record, nor are gateways told of it as of one.
        let same = rate(&[KEY.scheme, KEY.authority, KEY.target]);
        assert!(name.base.contains(&same["shop:rate:1:".len()..]) && !same.starts_with("shop:1:"), "{same}");
        assert_eq!(record_name_of("shop", &same), None);
    }

    #[test]
    fn what_a_route_adds_to_a_key_selects_a_variant() {
        let (name, accept) = (Keys::new("p").name(&KEY), HeaderName::from_static("accept"));
        let (a, b) = (Key { extra: "a", ..KEY }, Key { extra: "b", ..KEY });
        assert_eq!(Keys::new("p").name(&a), name);
        let request: HeaderMap = [(EXTRA, HeaderValue::from_static("a"))].into_iter().collect();
        let variant = |key: &Key<'_>| name.variant(&select([&accept, &EXTRA], key, &request, LanguageOrder::Counts));
        assert_ne!(variant(&a), variant(&b));
        assert_ne!(variant(&a), variant(&KEY), "a field of the client's is no part of the key");
    }

    #[test]
    fn parts_of_a_key_stay_apart() {
        let keys = Keys::new("p");
        let moved = Key { authority: "example.org/", target: "a?b", ..KEY };
        assert_ne!(keys.name(&KEY), keys.name(&moved));
    }

    #[test]
    fn a_variant_is_named_by_what_is_selected() {
        let name = Keys::new("p").name(&KEY);
        let accept = HeaderName::from_static("accept");
        let select = |value: Option<&'static str>| {
            let request: HeaderMap =
                value.map(|value| (accept.clone(), HeaderValue::from_static(value))).into_iter().collect();
            name.variant(&Selection::of([&accept], &request, LanguageOrder::Counts))
        };
        assert_eq!(select(Some("a, b")), select(Some("a,b")), "normalised");
        assert_ne!(select(Some("a")), select(Some("b")));
        assert_ne!(select(None), select(Some("")));
    }

    #[test]
    fn base64_as_the_rfc_has_it() {
        let text = |bytes: &[u8]| {
            let mut text = String::new();
            push_base64(&mut text, bytes);
            text
        };
        assert_eq!([text(b"f"), text(b"fo"), text(b"foo"), text(b"foob")], ["Zg", "Zm8", "Zm9v", "Zm9vYg"]);
        assert_eq!(text(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn memory_and_redis_know_a_record_by_the_same_number() {
        let selection = Selection::of([&HeaderName::from_static("accept")], &HeaderMap::new(), LanguageOrder::Counts);
        for target in ["/", "/a", "/b?c", "/ä"] {
            let key = Key { target, ..KEY };
            let name = Keys::new("p").name(&key);
            assert_eq!(record_name_of("p", &name.base), Some(record_name(&key)));
            assert_eq!(record_name_of("p", &name.variant(&selection)), Some(record_name(&key)));
            for other in [name.lease(), name.body(1), name.base.replace('}', ""), "p:log".to_owned()] {
                assert_eq!(record_name_of("p", &other), None, "{other}");
            }
            assert_eq!(record_name_of("other", &name.base), None);
        }
    }

    #[test]
    fn prefixes() {
        for fine in ["pilotlight", "a:b", "x"] {
            assert!(is_prefix(fine), "{fine}");
        }
        for wrong in ["", "a b", "{a}", "ä", &"x".repeat(65)] {
            assert!(!is_prefix(wrong), "{wrong}");
        }
    }
}
