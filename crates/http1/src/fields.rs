//! The fields of a message where they were read: ranges of the head's bytes, in a table that is used again.

use std::ops::Range;

use crate::error::Malformed;
use crate::field_lines::FieldLines;
use crate::names::Names;
use crate::target::Authority;

/// Names on which the framing of a message and its way through a proxy depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Known {
    /// Any other name.
    Other,
    /// `Connection`
    Connection,
    /// `Content-Length`
    ContentLength,
    /// `Expect`
    Expect,
    /// `Host`
    Host,
    /// `HTTP2-Settings` (RFC 7540 §3.2.1)
    Http2Settings,
    /// `Keep-Alive`
    KeepAlive,
    /// `Proxy-Connection`
    ProxyConnection,
    /// `TE`
    Te,
    /// `Transfer-Encoding`
    TransferEncoding,
    /// `Upgrade`
    Upgrade,
}

impl Known {
    /// The name's length decides first, so almost every other name costs one comparison of numbers.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Self {
        let (known, text): (Self, &[u8]) = match name.len() {
            2 => (Self::Te, b"te"),
            4 if matches!(name, [b'H' | b'h', b'o', b's', b't']) => return Self::Host,
            4 => (Self::Host, b"host"),
            6 if name[0] | 0x20 == b'e' => (Self::Expect, b"expect"),
            7 if name[0] | 0x20 == b'u' => (Self::Upgrade, b"upgrade"),
            10 if name[0] | 0x20 == b'c' => (Self::Connection, b"connection"),
            10 if name[0] | 0x20 == b'k' => (Self::KeepAlive, b"keep-alive"),
            14 if name[0] | 0x20 == b'h' => (Self::Http2Settings, b"http2-settings"),
            14 => (Self::ContentLength, b"content-length"),
            16 => (Self::ProxyConnection, b"proxy-connection"),
            17 => (Self::TransferEncoding, b"transfer-encoding"),
            _ => return Self::Other,
        };
        if name.eq_ignore_ascii_case(text) { known } else { Self::Other }
    }

    /// Whether the field belongs to one connection, whoever names it (RFC 9110 §7.6.1).
    #[inline]
    pub(crate) fn is_hop_by_hop(self) -> bool {
        match self {
            Self::Connection | Self::KeepAlive | Self::ProxyConnection | Self::Te => true,
            Self::Http2Settings | Self::TransferEncoding | Self::Upgrade => true,
            Self::Other | Self::ContentLength | Self::Expect | Self::Host => false,
        }
    }
}

/// Fields that `Connection` may name without effect: a message without them would be read differently, or as somebody
/// else's. What proxies before this one say of the client is among them: a client must not be able to take it off.
const NEVER_NOMINATED: [&[u8]; 13] = [
    b"authorization",
    b"cache-control",
    b"content-encoding",
    b"content-length",
    b"content-type",
    b"cookie",
    b"forwarded",
    b"host",
    b"set-cookie",
    b"vary",
    b"via",
    b"x-real-ip",
    b"x-request-id",
];

/// What the names of further such fields begin with.
const NEVER_NOMINATED_PREFIX: &[u8] = b"x-forwarded-";

fn may_be_nominated(name: &[u8]) -> bool {
    let has_prefix = name
        .get(..NEVER_NOMINATED_PREFIX.len())
        .is_some_and(|front| front.eq_ignore_ascii_case(NEVER_NOMINATED_PREFIX));
    !has_prefix && !NEVER_NOMINATED.iter().any(|never| name.eq_ignore_ascii_case(never))
}

#[derive(Debug, Clone, Copy)]
struct FieldRange {
    name: u32,
    name_length: u32,
    value: u32,
    value_length: u32,
    known: Known,
    is_nominated: bool,
}

impl FieldRange {
    fn name(&self) -> Range<usize> {
        self.name as usize..(self.name + self.name_length) as usize
    }

    fn value(&self) -> Range<usize> {
        self.value as usize..(self.value + self.value_length) as usize
    }

    fn line_length(&self) -> usize {
        (self.value + self.value_length + 2 - self.name) as usize
    }

    /// Whether it stands there as it would be sent: `: ` between name and value, and nothing between value and CRLF.
    #[inline]
    fn is_plain(&self, head: &[u8]) -> bool {
        let (name, value) = (self.name(), self.value());
        value.start == name.end + 2 && head.get(name.end + 1) == Some(&b' ') && head.get(value.end) == Some(&b'\r')
    }

    #[inline]
    fn is_end_to_end(&self) -> bool {
        !self.is_nominated && !self.known.is_hop_by_hop()
    }
}

/// Where the fields of one message are. Keep one for each thread or connection and use it again: it allocates while it
/// grows only.
#[derive(Debug, Default)]
pub struct FieldTable {
    places: Vec<FieldRange>,
    names: Names,
    /// The last `Host` that was found valid: most messages have the same one as the message before.
    host: String,
}

impl FieldTable {
    /// An empty table, which takes no memory yet.
    pub const fn new() -> Self {
        Self { places: Vec::new(), names: Names::NONE, host: String::new() }
    }

    /// The fields of the message that was read into this table last, when its bytes have moved to `head` since (a head
    /// that was frozen, for example). Names and values are those of `head`; where it is too short, they are empty.
    pub fn fields<'b>(&'b self, head: &'b [u8]) -> Fields<'b> {
        Fields::new(head, self)
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.names = Names::NONE;
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Checks the value of `Host`; [`FieldTable::host`] is it from then on.
    #[inline]
    pub(crate) fn check_host(&mut self, host: &[u8]) -> Result<(), Malformed> {
        if self.host.as_bytes() != host {
            let text = Authority::parse(host).ok_or(Malformed::Host)?.text;
            self.host.clear();
            self.host.push_str(text);
        }
        Ok(())
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Adds a field; the ranges are those of a head, so they fit.
    #[inline]
    pub(crate) fn push(&mut self, head: &[u8], name: Range<usize>, value: Range<usize>) {
        let text = &head[name.clone()];
        let known = Known::of(text);
        self.names.add(text);
        self.places.push(FieldRange {
            name: name.start as u32,
            name_length: name.len() as u32,
            value: value.start as u32,
            value_length: value.len() as u32,
            known,
            is_nominated: false,
        });
    }

    /// The fields that matter here: what each is, and its value.
    #[inline]
    pub(crate) fn known<'b>(&self, head: &'b [u8]) -> impl Iterator<Item = (Known, &'b [u8])> + use<'_, 'b> {
        let known = self.places.iter().filter(|place| place.known != Known::Other);
        known.map(|place| (place.known, head.get(place.value()).unwrap_or_default()))
    }

    /// Marks what `option`, a member of `Connection`, names.
    pub(crate) fn nominate(&mut self, head: &[u8], option: &[u8]) {
        if !may_be_nominated(option) {
            return;
        }
        for place in &mut self.places {
            place.is_nominated |= head[place.name()].eq_ignore_ascii_case(option);
        }
    }
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'b> {
    /// A token, as it was written: ASCII.
    pub name: &'b [u8],
    /// Without the white space around it.
    pub value: &'b [u8],
    /// Which of the names that matter here it is.
    pub known: Known,
}

/// The fields of a message, in their order.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'b> {
    head: &'b [u8],
    table: &'b FieldTable,
}

impl<'b> Fields<'b> {
    pub(crate) fn new(head: &'b [u8], table: &'b FieldTable) -> Self {
        Self { head, table }
    }

    /// All of them.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Field<'b>> {
        self.table.places.iter().map(move |place| self.field(place))
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether there may be a field with this name: `false` is certain.
    #[inline]
    pub fn may_have(self, name: &[u8]) -> bool {
        self.table.names.may_have(name)
    }

    /// Values of the fields with this name, in their order.
    pub fn all(self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        let same = move |field: &Field<'_>| field.name.eq_ignore_ascii_case(name.as_bytes());
        self.iter().filter(same).map(|field| field.value)
    }

    /// The value of the one field with this name; `None` if there is none, or several.
    pub fn one(self, name: &str) -> Option<&'b [u8]> {
        let mut values = self.all(name);
        values.next().filter(|_| values.next().is_none())
    }

    /// Those that a proxy passes on: neither hop-by-hop nor named by `Connection` (RFC 9110 §7.6.1).
    #[inline]
    pub fn end_to_end(self) -> EndToEnd<'b> {
        EndToEnd { fields: self, next: 0 }
    }

    /// Copies those that a proxy passes on and for which `keep` says yes. Lines that stand side by side are copied as
    /// one.
    #[inline]
    pub fn copy_to(self, lines: &mut FieldLines, keep: impl Fn(&Field<'b>) -> bool) {
        let Self { head, table } = self;
        let places = &table.places;
        let mut next = 0;
        while let Some(first) = places.get(next) {
            next += 1;
            let field = self.field(first);
            if !first.is_end_to_end() || !keep(&field) {
                continue;
            }
            if !first.is_plain(head) {
                lines.push(field.name, field.value);
                continue;
            }
            let (from, begin) = (next - 1, first.name as usize);
            let mut end = begin + first.line_length();
            while let Some(place) = places.get(next)
                && place.is_end_to_end()
                && place.is_plain(head)
                && keep(&self.field(place))
            {
                next += 1;
                end += place.line_length();
            }
            let lengths = places[from..next].iter().map(|place| (place.name_length as usize, place.line_length()));
            lines.push_lines(head.get(begin..end).unwrap_or_default(), table.names, lengths);
        }
    }

    #[inline]
    fn field(self, place: &FieldRange) -> Field<'b> {
        let name = self.head.get(place.name()).unwrap_or_default();
        Field { name, value: self.head.get(place.value()).unwrap_or_default(), known: place.known }
    }
}

/// Iterates over what a proxy passes on.
#[derive(Debug, Clone)]
pub struct EndToEnd<'b> {
    fields: Fields<'b>,
    next: usize,
}

impl<'b> Iterator for EndToEnd<'b> {
    type Item = Field<'b>;

    #[inline]
    fn next(&mut self) -> Option<Field<'b>> {
        loop {
            let place = self.fields.table.places.get(self.next)?;
            self.next += 1;
            if place.is_end_to_end() {
                return Some(self.fields.field(place));
            }
        }
    }
}

/// Members of a list field (RFC 9110 §5.6.1), without the white space around them; empty ones are left out.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}
