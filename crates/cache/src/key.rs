//! The primary cache key (RFC 9111 §2): the target URI, and what a route adds to it. GET and HEAD share it; no other
//! method is stored.

use std::hash::{Hash, Hasher};

use quick_cache::Equivalent;

/// The target URI of a request, borrowed, so that looking it up allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// `http` or `https`, lower case.
    pub scheme: &'a str,
    /// Host and port, lower case, without the scheme's default port.
    pub authority: &'a str,
    /// Path and query as received, or as the route's rules make it.
    pub target: &'a str,
    /// What the route adds of the request's fields ([`crate::KeyRules::extra`]); empty in the ordinary case.
    pub extra: &'a str,
}

impl Key<'_> {
    pub(crate) fn to_stored(self) -> StoredKey {
        let length = self.scheme.len() + self.authority.len() + self.target.len() + self.extra.len();
        let mut text = String::with_capacity(length);
        text.push_str(self.scheme);
        text.push_str(self.authority);
        let target_at = text.len();
        text.push_str(self.target);
        let extra_at = text.len();
        text.push_str(self.extra);
        StoredKey { text: text.into_boxed_str(), authority_at: self.scheme.len(), target_at, extra_at }
    }
}

/// Invariant: hashes like the stored key that it is equivalent to.
impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The length keeps the parts apart. Two writes instead of the six that `str::hash` makes of three.
        state.write(self.authority.as_bytes());
        state.write(self.target.as_bytes());
        state.write_usize(self.authority.len() << 8 | self.scheme.len() & 0xff);
        if !self.extra.is_empty() {
            state.write(self.extra.as_bytes());
            state.write_usize(self.extra.len());
        }
    }
}

impl Equivalent<StoredKey> for Key<'_> {
    fn equivalent(&self, key: &StoredKey) -> bool {
        let Self { scheme, authority, target, extra } = self;
        // By bytes: of a part of a text it would be looked at where its characters begin.
        scheme.len() == key.authority_at
            && key.authority_at + authority.len() == key.target_at
            && key.target_at + target.len() == key.extra_at
            && [scheme, authority, target, extra]
                .into_iter()
                .try_fold(key.text.as_bytes(), |rest, part| rest.strip_prefix(part.as_bytes()))
                .is_some_and(<[u8]>::is_empty)
    }
}

/// A key that owns its text, in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredKey {
    text: Box<str>,
    authority_at: usize,
    target_at: usize,
    extra_at: usize,
}

impl StoredKey {
    pub(crate) fn as_key(&self) -> Key<'_> {
        let part = |from, to| self.text.get(from..to).unwrap_or_default();
        Key {
            scheme: part(0, self.authority_at),
            authority: part(self.authority_at, self.target_at),
            target: part(self.target_at, self.extra_at),
            extra: part(self.extra_at, self.text.len()),
        }
    }

    /// Bytes of text held.
    pub(crate) fn weight(&self) -> usize {
        self.text.len()
    }
}

impl Hash for StoredKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_key().hash(state);
    }
}

/// The hash of a key, by the cache's own hasher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyHash {
    /// The same for one of the key's variants, which have hashes of their own (0 while it is not known what the
    /// resource varies on).
    pub(crate) fn of_variant(self, selection: u64) -> Self {
        Self(self.0 ^ selection)
    }

    /// The same for what it gives to requests with credentials.
    pub(crate) fn with_credentials(self) -> Self {
        Self(self.0 ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Some of its bits, from `from` on, as an index into `count` places, a power of two.
    pub(crate) fn bits(self, from: u32, count: usize) -> usize {
        // The mask leaves fewer than 16 bits.
        (self.0 >> from) as usize & (count - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn borrowed_and_stored_keys_agree(
            a in "[ab/:é]{0,4}", b in "[ab/:é]{0,4}", c in "[ab/:é]{0,4}", d in "[ab/:é]{0,4}",
        ) {
            let key = Key { scheme: &a, authority: &b, target: &c, extra: &d };
            let stored = key.to_stored();
            let hasher = RandomState::new();
            prop_assert_eq!(stored.as_key(), key);
            prop_assert_eq!(hasher.hash_one(key), hasher.hash_one(&stored));
            prop_assert!(key.equivalent(&stored));
            for moved in [Key { scheme: &b, authority: &a, ..key }, Key { target: &d, extra: &c, ..key }] {
                prop_assert_eq!(moved.equivalent(&stored), moved == key);
                prop_assert_eq!(hasher.hash_one(moved) == hasher.hash_one(key), moved == key);
            }
        }
    }
}
