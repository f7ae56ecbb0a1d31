//! Arguments of commands: borrowed, shared or numbers; copied once, into the lane's buffer.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use pilotlight_resp::encode;

use crate::out::{MIN_SPLICE_BYTES, Out};

/// One argument. Numbers stay numbers until they are written.
#[derive(Debug, Clone)]
pub enum Arg<'a> {
    /// The caller's bytes; they are copied once, into the connection's buffer.
    Borrowed(&'a [u8]),
    /// Shared bytes: not copied at all if they are large.
    Shared(Bytes),
    /// Written in decimal.
    Integer(i64),
    /// Written in decimal.
    Unsigned(u64),
    /// Written in its shortest form that reads back equal; `inf`, `-inf` and `nan` for the rest.
    Double(f64),
}

impl Arg<'_> {
    /// Its bytes, of numbers about.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Borrowed(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
            Self::Integer(_) | Self::Unsigned(_) | Self::Double(_) => size_of::<u64>(),
        }
    }

    /// Appends the argument as a bulk string.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Out) {
        match self {
            Self::Borrowed(bytes) => encode::bulk(out.page(), bytes),
            Self::Shared(bytes) if bytes.len() < MIN_SPLICE_BYTES => encode::bulk(out.page(), bytes),
            Self::Shared(bytes) => {
                encode::bulk_header(out.page(), bytes.len());
                out.splice(bytes.clone());
                out.page().extend_from_slice(b"\r\n");
            }
            Self::Integer(number) => encode::integer_bulk(out.page(), *number),
            Self::Unsigned(number) => encode::bulk(out.page(), itoa::Buffer::new().format(*number).as_bytes()),
            Self::Double(number) => encode::double_bulk(out.page(), *number),
        }
    }

    /// The argument's bytes as they go to the server, without the bulk string's header.
    #[must_use]
    pub fn to_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Borrowed(bytes) => Cow::Borrowed(bytes),
            Self::Shared(bytes) => Cow::Borrowed(bytes),
            Self::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
            Self::Unsigned(number) => Cow::Owned(number.to_string().into_bytes()),
            Self::Double(number) => Cow::Owned(encode::double_text(*number).into_bytes()),
        }
    }

    /// The same argument, independent of what it was borrowed from.
    #[must_use]
    pub fn into_owned(self) -> Arg<'static> {
        match self {
            Self::Borrowed(bytes) => Arg::Shared(Bytes::copy_from_slice(bytes)),
            Self::Shared(bytes) => Arg::Shared(bytes),
            Self::Integer(number) => Arg::Integer(number),
            Self::Unsigned(number) => Arg::Unsigned(number),
            Self::Double(number) => Arg::Double(number),
        }
    }
}

macro_rules! from_borrowed {
    ($($from:ty => $to_bytes:expr),* $(,)?) => {$(
        impl<'a> From<$from> for Arg<'a> {
            fn from(value: $from) -> Self {
                let to_bytes: fn($from) -> &'a [u8] = $to_bytes;
                Self::Borrowed(to_bytes(value))
            }
        }
    )*};
}
from_borrowed! {
    &'a str => str::as_bytes,
    &'a [u8] => |bytes| bytes,
    &'a String => |text| text.as_bytes(),
    &'a Vec<u8> => |bytes| bytes,
    &'a &'a str => |text| text.as_bytes(),
    &'a &'a [u8] => |bytes| bytes,
}

macro_rules! from_shared {
    ($($from:ty),*) => {$(
        impl From<$from> for Arg<'_> {
            fn from(value: $from) -> Self {
                Self::Shared(Bytes::from(value))
            }
        }
    )*};
}
from_shared!(String, Vec<u8>, Bytes);

macro_rules! from_number {
    ($variant:ident, $wide:ty: $($from:ty),*) => {$(
        impl From<$from> for Arg<'_> {
            fn from(value: $from) -> Self {
                Self::$variant(<$wide>::from(value))
            }
        }
        impl From<&$from> for Arg<'_> {
            fn from(value: &$from) -> Self {
                Self::$variant(<$wide>::from(*value))
            }
        }
    )*};
}
// Not `u8`: a vector of bytes would be a list of numbers.
from_number!(Integer, i64: i16, i32, i64, u16, u32);
from_number!(Unsigned, u64: u64);
from_number!(Double, f64: f32, f64);

impl From<usize> for Arg<'_> {
    fn from(value: usize) -> Self {
        Self::Unsigned(value as u64)
    }
}

impl<'a> From<&'a Bytes> for Arg<'a> {
    fn from(value: &'a Bytes) -> Self {
        Self::Shared(value.clone())
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Arg<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        Self::Borrowed(value)
    }
}

impl<'a> From<&Arg<'a>> for Arg<'a> {
    fn from(value: &Arg<'a>) -> Self {
        value.clone()
    }
}

/// One or many arguments: a single value, an array, a slice or a vector of them.
pub trait Args<'a> {
    /// Gives each argument to `push`, in order.
    fn each(self, push: &mut dyn FnMut(Arg<'a>));
}

macro_rules! single {
    ($($single:ty),*) => {$(
        impl<'a> Args<'a> for $single {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                push(self.into());
            }
        }
    )*};
}
single!(&'a str, &'a [u8], &'a String, &'a Bytes, String, Bytes, i32, i64, u32, u64, usize, f64, Arg<'a>);

impl<'a> Args<'a> for Vec<u8> {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.into());
    }
}

impl<'a, const N: usize> Args<'a> for &'a [u8; N] {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.into());
    }
}

/// No arguments.
impl<'a> Args<'a> for () {
    fn each(self, _: &mut dyn FnMut(Arg<'a>)) {}
}

impl<'a, T: Into<Arg<'a>>, const N: usize> Args<'a> for [T; N] {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|item| push(item.into()));
    }
}

impl<'a, T: Into<Arg<'a>>> Args<'a> for Vec<T> {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|item| push(item.into()));
    }
}

macro_rules! many_borrowed {
    ($($item:ty),*) => {$(
        impl<'a> Args<'a> for &'a [$item] {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                self.iter().for_each(|item| push(item.into()));
            }
        }
        impl<'a> Args<'a> for &'a Vec<$item> {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                self.iter().for_each(|item| push(item.into()));
            }
        }
    )*};
}
many_borrowed!(String, Vec<u8>, Bytes, &'a str, &'a [u8], i64, u64, f64);

/// Pairs of arguments (`MSET`, `HSET`, `XADD`, …): an array, a vector or a map of them.
pub trait Pairs<'a> {
    /// Gives each argument to `push`, first and second in turn.
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>));
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>> Pairs<'a> for (A, B) {
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.0.into());
        push(self.1.into());
    }
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>, const N: usize> Pairs<'a> for [(A, B); N] {
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|pair| pair.each_pair(push));
    }
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>> Pairs<'a> for Vec<(A, B)> {
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|pair| pair.each_pair(push));
    }
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>, S> Pairs<'a> for HashMap<A, B, S> {
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|pair| pair.each_pair(push));
    }
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>> Pairs<'a> for BTreeMap<A, B> {
    fn each_pair(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|pair| pair.each_pair(push));
    }
}

/// Triples of arguments (`GEOADD`): one, an array or a vector of them.
pub trait Triples<'a> {
    /// Gives each argument to `push`, in order.
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>));
}

impl<'a, A: Into<Arg<'a>>, B: Into<Arg<'a>>, C: Into<Arg<'a>>> Triples<'a> for (A, B, C) {
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.0.into());
        push(self.1.into());
        push(self.2.into());
    }
}

impl<'a, T: Triples<'a>, const N: usize> Triples<'a> for [T; N] {
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|triple| triple.each_triple(push));
    }
}

impl<'a, T: Triples<'a>> Triples<'a> for Vec<T> {
    fn each_triple(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|triple| triple.each_triple(push));
    }
}
