//! Arguments of commands: borrowed, shared or numbers; copied once, into the lane's buffer.

use std::borrow::Cow;
use std::collections::{BTreeSet, BinaryHeap, HashSet, LinkedList, VecDeque};
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize,
};
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
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
    /// A value that no argument can be, and why: its command is not sent, but is a
    /// [`Misuse::Argument`](crate::Misuse::Argument).
    Invalid(&'static str),
}

impl Arg<'_> {
    /// Its bytes, of numbers about.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Borrowed(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
            Self::Integer(_) | Self::Unsigned(_) | Self::Double(_) => size_of::<u64>(),
            Self::Invalid(_) => 0,
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
            Self::Invalid(_) => encode::bulk(out.page(), b""),
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
            Self::Invalid(_) => Cow::Borrowed(b""),
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
            Self::Invalid(why) => Arg::Invalid(why),
        }
    }
}

/// What one of many arguments may be: everything that one argument may be but a byte, as a vector of bytes is one
/// argument and no list of numbers.
///
/// ```no_run
/// use pilotlight_redis::{Client, Commands, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let values: [&[u8]; 2] = [b"one", b"two"];
/// client.rpush("list", values).await?;
/// client.rpush("list", b"one value of nine bytes".to_vec()).await?;
/// # Ok(()) }
/// ```
pub trait Element<'a>: Into<Arg<'a>> {}

macro_rules! from_borrowed {
    ($($from:ty => $to_bytes:expr),* $(,)?) => {$(
        impl<'a> From<$from> for Arg<'a> {
            #[inline]
            fn from(value: $from) -> Self {
                let to_bytes: fn($from) -> &'a [u8] = $to_bytes;
                Self::Borrowed(to_bytes(value))
            }
        }
        impl<'a> Element<'a> for $from {}
        impl<'a> Args<'a> for $from {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                push(self.into());
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
    &'a &'a String => |text| text.as_bytes(),
    &'a Box<str> => |text| text.as_bytes(),
    &'a Box<[u8]> => |bytes| bytes,
    &'a Arc<str> => |text| text.as_bytes(),
    &'a Arc<[u8]> => |bytes| bytes,
    &'a Rc<str> => |text| text.as_bytes(),
    &'a Rc<[u8]> => |bytes| bytes,
    &'a Arc<String> => |text| text.as_bytes(),
    &'a Arc<Vec<u8>> => |bytes| bytes,
    &'a BytesMut => |bytes| bytes,
    &'a &'a Vec<u8> => |bytes| bytes,
    &'a Cow<'_, str> => |text| text.as_bytes(),
    &'a Cow<'_, [u8]> => |bytes| bytes,
}

macro_rules! from_shared {
    ($($from:ty => $to_bytes:expr),* $(,)?) => {$(
        impl<'a> From<$from> for Arg<'a> {
            #[inline]
            fn from(value: $from) -> Self {
                let to_bytes: fn($from) -> Bytes = $to_bytes;
                Self::Shared(to_bytes(value))
            }
        }
        impl<'a> Element<'a> for $from {}
        impl<'a> Args<'a> for $from {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                push(self.into());
            }
        }
    )*};
}
from_shared! {
    String => Bytes::from,
    Vec<u8> => Bytes::from,
    Bytes => |bytes| bytes,
    &'a Bytes => Bytes::clone,
    BytesMut => BytesMut::freeze,
    Box<str> => |text| Bytes::from(text.into_string()),
    Box<[u8]> => Bytes::from,
    Arc<str> => |text| Bytes::from_owner(SharedText(text)),
    Arc<[u8]> => Bytes::from_owner,
    Arc<String> => |text| Bytes::from_owner(SharedString(text)),
    Rc<str> => |text| Bytes::copy_from_slice(text.as_bytes()),
    char => |letter| Bytes::from(letter.to_string()),
    &'a char => |letter| Bytes::from(letter.to_string()),
    i128 => |number| Bytes::from(number.to_string()),
    u128 => |number| Bytes::from(number.to_string()),
}

/// An `Arc<str>` as bytes.
struct SharedText(Arc<str>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// An `Arc<String>` as bytes.
struct SharedString(Arc<String>);

impl AsRef<[u8]> for SharedString {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

macro_rules! from_number {
    ($variant:ident, $wide:ty: $($from:ty),*) => {$(
        impl From<$from> for Arg<'_> {
            #[inline]
            fn from(value: $from) -> Self {
                Self::$variant(<$wide>::from(value))
            }
        }
        impl From<&$from> for Arg<'_> {
            #[inline]
            fn from(value: &$from) -> Self {
                Self::$variant(<$wide>::from(*value))
            }
        }
        impl<'a> Args<'a> for $from {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                push(self.into());
            }
        }
    )*};
}
macro_rules! elements {
    ($($from:ty),*) => {$(
        impl<'a> Element<'a> for $from {}
        impl<'a> Element<'a> for &$from {}
        impl<'a> Args<'a> for &$from {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                push(self.into());
            }
        }
    )*};
}
from_number!(Integer, i64: i8, i16, i32, i64, u8, u16, u32);
from_number!(Unsigned, u64: u64);
from_number!(Double, f64: f32, f64);
// Not `u8`: see `Element`.
elements!(i8, i16, i32, i64, isize, u16, u32, u64, f32, f64, usize, bool);
elements!(NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64);
elements!(NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize);

macro_rules! from_word {
    ($($from:ty => $variant:ident($to:expr)),* $(,)?) => {$(
        impl From<$from> for Arg<'_> {
            #[inline]
            fn from(value: $from) -> Self {
                Self::$variant($to(value))
            }
        }
        impl From<&$from> for Arg<'_> {
            #[inline]
            fn from(value: &$from) -> Self {
                Self::$variant($to(*value))
            }
        }
        impl<'a> Args<'a> for $from {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                push(self.into());
            }
        }
    )*};
}
// `true` is 1, as a script of the server reads it.
from_word! {
    usize => Unsigned(|value| value as u64),
    isize => Integer(|value| value as i64),
    NonZeroI8 => Integer(|value: NonZeroI8| value.get().into()),
    NonZeroI16 => Integer(|value: NonZeroI16| value.get().into()),
    NonZeroI32 => Integer(|value: NonZeroI32| value.get().into()),
    NonZeroI64 => Integer(NonZeroI64::get),
    NonZeroU8 => Integer(|value: NonZeroU8| value.get().into()),
    NonZeroU16 => Integer(|value: NonZeroU16| value.get().into()),
    NonZeroU32 => Integer(|value: NonZeroU32| value.get().into()),
    NonZeroU64 => Unsigned(NonZeroU64::get),
    NonZeroUsize => Unsigned(|value: NonZeroUsize| value.get() as u64),
    bool => Integer(i64::from),
}

impl<'a> From<Cow<'a, str>> for Arg<'a> {
    fn from(value: Cow<'a, str>) -> Self {
        match value {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl<'a> From<Cow<'a, [u8]>> for Arg<'a> {
    fn from(value: Cow<'a, [u8]>) -> Self {
        match value {
            Cow::Borrowed(bytes) => bytes.into(),
            Cow::Owned(bytes) => bytes.into(),
        }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Arg<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        Self::Borrowed(value)
    }
}

impl<const N: usize> From<[u8; N]> for Arg<'_> {
    fn from(value: [u8; N]) -> Self {
        Self::Shared(Bytes::copy_from_slice(&value))
    }
}

impl<'a> From<&Arg<'a>> for Arg<'a> {
    fn from(value: &Arg<'a>) -> Self {
        value.clone()
    }
}

impl<'a> Element<'a> for Arg<'a> {}
impl<'a> Element<'a> for &Arg<'a> {}
impl<'a> Element<'a> for Cow<'a, str> {}
impl<'a> Element<'a> for Cow<'a, [u8]> {}
impl<'a, const N: usize> Element<'a> for &'a [u8; N] {}
impl<'a, const N: usize> Element<'a> for [u8; N] {}

/// One or many arguments: a single value, a tuple of them, an array, a slice, a vector or a set of them, or what an
/// iterator yields ([`each`](super::each)).
///
/// ```no_run
/// use pilotlight_redis::{Client, Commands, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// client.del("one").await?;
/// client.del(["one", "other"]).await?;
/// client.del(&["one".to_owned(), "other".to_owned()]).await?;
/// client.rpush("list", (1, "two", 3.0)).await?;
/// # Ok(()) }
/// ```
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
single!(Cow<'a, str>, Cow<'a, [u8]>, Arg<'a>);

/// No arguments.
impl<'a> Args<'a> for () {
    fn each(self, _: &mut dyn FnMut(Arg<'a>)) {}
}

/// One argument, or none.
impl<'a, T: Into<Arg<'a>>> Args<'a> for Option<T> {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().for_each(|item| push(item.into()));
    }
}

/// Arguments of several types.
macro_rules! tuple {
    ($($part:ident)*) => {
        impl<'a, $($part: Into<Arg<'a>>),*> Args<'a> for ($($part,)*) {
            #[expect(non_snake_case, reason = "the parts are named as their types")]
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                let ($($part,)*) = self;
                $(push($part.into());)*
            }
        }
    };
}
tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
tuple!(A B C D E F G);
tuple!(A B C D E F G H);

/// What holds many arguments, by value.
macro_rules! many {
    ($([$($bounds:tt)*] $many:ty),* $(,)?) => {$(
        impl<'a, T: Element<'a>, $($bounds)*> Args<'a> for $many {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                self.into_iter().for_each(|item| push(item.into()));
            }
        }
    )*};
}
many!(
    [const N: usize] [T; N], [] Vec<T>, [] Box<[T]>, [] VecDeque<T>, [] BTreeSet<T>, [S] HashSet<T, S>, [] LinkedList<T>,
    [] BinaryHeap<T>
);

/// The same, borrowed.
macro_rules! many_borrowed {
    ($([$($bounds:tt)*] $many:ty),* $(,)?) => {$(
        impl<'a, T, $($bounds)*> Args<'a> for &'a $many
        where
            &'a T: Element<'a>,
        {
            fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
                self.iter().for_each(|item| push(item.into()));
            }
        }
    )*};
}
many_borrowed!(
    [] [T], [const N: usize] [T; N], [] Vec<T>, [] Box<[T]>, [] Arc<[T]>, [] VecDeque<T>, [] BTreeSet<T>, [S] HashSet<T, S>,
    [] LinkedList<T>
);

impl<'a, const N: usize> Args<'a> for &'a [u8; N] {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.into());
    }
}

impl<'a, const N: usize> Args<'a> for [u8; N] {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.into());
    }
}

impl<'a, 'b: 'a> Args<'a> for &'b Arg<'a> {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.into());
    }
}

/// Arguments, or none: `Some(&names)`.
impl<'a, T> Args<'a> for Option<&'a [T]>
where
    &'a T: Element<'a>,
{
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        self.into_iter().flatten().for_each(|item| push(item.into()));
    }
}

#[cfg(test)]
mod tests;
