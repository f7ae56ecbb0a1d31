//! The fields of a header section, copied once into a table that is used again.

use std::ops::Range;

use crate::class::{NameClass, ValueClass, is_method, is_scheme};
use crate::hpack::table::{ENTRY_OVERHEAD, Entry};

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    name: u32,
    value: u32,
    end: u32,
}

impl Place {
    fn name(self) -> Range<usize> {
        self.name as usize..self.value as usize
    }

    fn value(self) -> Range<usize> {
        self.value as usize..self.end as usize
    }
}

/// The places of the five pseudo-fields of requests.
#[derive(Debug, Clone, Copy, Default)]
struct Pseudo {
    method: Option<Place>,
    scheme: Option<Place>,
    authority: Option<Place>,
    path: Option<Place>,
    protocol: Option<Place>,
}

/// Where a header section is decoded to. Keep one for each thread and use it again: it allocates while it grows only.
#[derive(Debug, Default)]
pub struct FieldTable {
    text: Vec<u8>,
    places: Vec<Place>,
    pseudo: Pseudo,
    /// As RFC 9113 §6.5.2 counts it, of what was not kept as well.
    size: usize,
    is_too_large: bool,
    /// It breaks a rule whose breaking makes a message malformed (§8.1.1).
    is_malformed: bool,
    has_padding: bool,
    content_length: Option<u64>,
    /// Fields named `cookie`.
    cookies: u32,
    /// Names that it may have, by length and first letter.
    names: u64,
}

const COOKIE: &[u8] = b"cookie";

/// The bit of a name among [`FieldTable::names`].
#[inline]
fn bit(name: &[u8]) -> u64 {
    let first = name.first().map_or(0, |first| u32::from(first | 0x20));
    1 << ((name.len() as u32 * 10 + first) % 64)
}

impl FieldTable {
    /// An empty table, which takes no memory yet.
    pub const fn new() -> Self {
        let pseudo = Pseudo { method: None, scheme: None, authority: None, path: None, protocol: None };
        Self {
            text: Vec::new(),
            places: Vec::new(),
            pseudo,
            size: 0,
            is_too_large: false,
            is_malformed: false,
            has_padding: false,
            content_length: None,
            cookies: 0,
            names: 0,
        }
    }

    /// The fields that were decoded last.
    pub fn fields(&self) -> Fields<'_> {
        Fields { table: self }
    }

    pub(crate) fn clear(&mut self) {
        let Self { text, places, .. } = std::mem::take(self);
        (self.text, self.places) = (text, places);
        self.text.clear();
        self.places.clear();
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.size == 0
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    pub(crate) fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Adds a field, unless the section is larger than `max_kept` with it.
    #[inline]
    pub(crate) fn push(&mut self, field: Entry<'_>, max_kept: usize) {
        let Entry { name, value, name_class, value_class } = field;
        self.size += name.len() + value.len() + ENTRY_OVERHEAD;
        if self.size > max_kept {
            self.is_too_large = true;
            return;
        }
        let begin = self.text.len();
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        let place = Place { name: begin as u32, value: (begin + name.len()) as u32, end: self.text.len() as u32 };
        match value_class {
            ValueClass::Plain => {}
            ValueClass::Padded => self.has_padding = true,
            ValueClass::Invalid => self.is_malformed = true,
        }
        let pseudo = match name_class {
            NameClass::Method => &mut self.pseudo.method,
            NameClass::Scheme => &mut self.pseudo.scheme,
            NameClass::Authority => &mut self.pseudo.authority,
            NameClass::Path => &mut self.pseudo.path,
            NameClass::Protocol => &mut self.pseudo.protocol,
            class => {
                self.check(class, place);
                self.names |= bit(&self.text[place.name()]);
                return self.places.push(place);
            }
        };
        // RFC 9113 §8.3: each once, before all others.
        self.is_malformed |= pseudo.replace(place).is_some() || !self.places.is_empty();
    }

    fn check(&mut self, class: NameClass, place: Place) {
        let value = &self.text[place.value()];
        match class {
            NameClass::OtherPseudo | NameClass::Invalid | NameClass::OfConnection => self.is_malformed = true,
            NameClass::Te => self.is_malformed |= !value.eq_ignore_ascii_case(b"trailers"),
            NameClass::ContentLength if self.content_length.is_none() => {
                let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                let number = std::str::from_utf8(value).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
                self.content_length = number;
                self.is_malformed |= number.is_none();
            }
            NameClass::Cookie => self.cookies += 1,
            _ => {}
        }
    }

    /// Makes one field of the cookies that came in several, where the first of them was. RFC 9113 §8.2.3: whatever is
    /// not HTTP/2 sees them so; what compares requests must not see how a client has split them.
    #[inline]
    pub(crate) fn combine_cookies(&mut self) {
        if self.cookies > 1 {
            self.combine();
        }
    }

    #[cold]
    fn combine(&mut self) {
        let mut all = COOKIE.to_vec();
        let mut is_first = true;
        let Self { text, places, .. } = self;
        places.retain(|place| {
            if text[place.name()] != *COOKIE {
                return true;
            }
            all.extend_from_slice(if is_first { b"" } else { b"; " });
            all.extend_from_slice(&text[place.value()]);
            std::mem::take(&mut is_first)
        });
        let begin = text.len();
        if let Some(place) = places.iter_mut().find(|place| text[place.name()] == *COOKIE) {
            text.extend_from_slice(&all);
            *place = Place { name: begin as u32, value: (begin + COOKIE.len()) as u32, end: text.len() as u32 };
        }
        self.cookies = 1;
    }

    /// Whether these are no fields of a request (§8.3.1).
    pub(crate) fn is_no_request(&self) -> bool {
        let Pseudo { method, scheme, authority, path, protocol } = self.pseudo;
        let text = |place: Place| &self.text[place.value()];
        let Some(method) = method.map(text) else { return true };
        let is_tunnel = method == b"CONNECT" && protocol.is_none();
        let has_target = match is_tunnel {
            true => scheme.is_none() && path.is_none() && authority.is_some(),
            // RFC 8441 §4: all of them, and :authority.
            false if protocol.is_some() => {
                method == b"CONNECT" && authority.is_some() && scheme.is_some() && path.is_some()
            }
            false => scheme.is_some() && path.is_some(),
        };
        let is_empty = path.is_some_and(|path| text(path).is_empty());
        let is_scheme = scheme.is_none_or(|scheme| is_scheme(text(scheme)));
        self.is_malformed || !has_target || is_empty || !is_scheme || !is_method(method)
    }

    /// Whether these are no trailers (§8.1).
    pub(crate) fn is_no_trailers(&self) -> bool {
        let Pseudo { method, scheme, authority, path, protocol } = self.pseudo;
        let has_pseudo = [method, scheme, authority, path, protocol].iter().any(Option::is_some);
        self.is_malformed || self.is_too_large || has_pseudo
    }
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'b> {
    /// A token in lower case.
    pub name: &'b [u8],
    /// Without control bytes.
    pub value: &'b [u8],
}

/// The fields of a message, in their order; pseudo-fields apart.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'b> {
    table: &'b FieldTable,
}

impl<'b> Fields<'b> {
    /// All but pseudo-fields.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Field<'b>> + Clone {
        let text = &self.table.text;
        let field = |place: &Place| Field {
            name: text.get(place.name()).unwrap_or_default(),
            value: text.get(place.value()).unwrap_or_default(),
        };
        self.table.places.iter().map(field)
    }

    /// How many there are, without pseudo-fields.
    pub fn len(self) -> usize {
        self.table.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether there may be a field with this name, in lower case: `false` is certain.
    #[inline]
    pub fn may_have(self, name: &[u8]) -> bool {
        self.table.names & bit(name) != 0
    }

    /// Values of the fields with this name, in their order.
    pub fn all(self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.iter().filter(move |field| field.name == name.as_bytes()).map(|field| field.value)
    }

    /// Whether a value begins or ends with white space (RFC 9113 §8.2.1).
    pub fn has_padding(self) -> bool {
        self.table.has_padding
    }

    /// `:method`, a token.
    #[inline]
    pub fn method(self) -> Option<&'b [u8]> {
        self.pseudo(self.table.pseudo.method)
    }

    /// `:scheme`, of letters and digits.
    #[inline]
    pub fn scheme(self) -> Option<&'b [u8]> {
        self.pseudo(self.table.pseudo.scheme)
    }

    /// `:authority`, without control bytes.
    #[inline]
    pub fn authority(self) -> Option<&'b [u8]> {
        self.pseudo(self.table.pseudo.authority)
    }

    /// `:path`, not empty, without control bytes.
    #[inline]
    pub fn path(self) -> Option<&'b [u8]> {
        self.pseudo(self.table.pseudo.path)
    }

    /// `:protocol` (RFC 8441 §4), without control bytes.
    #[inline]
    pub fn protocol(self) -> Option<&'b [u8]> {
        self.pseudo(self.table.pseudo.protocol)
    }

    #[inline]
    fn pseudo(self, place: Option<Place>) -> Option<&'b [u8]> {
        place.and_then(|place| self.table.text.get(place.value()))
    }
}
