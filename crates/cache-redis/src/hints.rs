//! Which targets are known to have variants, and by which fields, so that a variant is found with one round trip.
//!
//! A guess may be wrong or forgotten: it costs a round trip, never a response.

use std::rc::Rc;

use http::HeaderName;

use crate::keys::Hash;

/// Targets that are remembered; an older one gives its place to a newer one with the same hash bits.
const PLACES: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// None before the first.
    places: Vec<Option<(Hash, Rc<[HeaderName]>)>>,
}

impl Hints {
    pub(crate) fn of(&self, hash: &Hash) -> Option<Rc<[HeaderName]>> {
        let (known, names) = self.places.get(place(hash))?.as_ref()?;
        (known == hash).then(|| Rc::clone(names))
    }

    pub(crate) fn set(&mut self, hash: Hash, names: Rc<[HeaderName]>) {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        self.places[place(&hash)] = Some((hash, names));
    }

    pub(crate) fn forget(&mut self, hash: &Hash) {
        if self.of(hash).is_some() {
            self.places[place(hash)] = None;
        }
    }
}

fn place(hash: &Hash) -> usize {
    usize::from(u16::from_le_bytes([hash[0], hash[1]])) % PLACES
}
