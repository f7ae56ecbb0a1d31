//! Parameters that are numbers: any of Rust's, written as it is.

use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize,
};

use super::arg::Arg;

/// A whole number, of any of Rust's types of up to 64 bits: `client.incrby("n", 5_u8)`,
/// `client.lpop("l", names.len())`.
#[derive(Debug, Clone)]
pub struct Integer(Arg<'static>);

/// A number, whole or not: `client.zincrby("scores", 1, "ada")`, `client.incrbyfloat("n", 0.5_f32)`.
#[derive(Debug, Clone)]
pub struct Number(Arg<'static>);

macro_rules! from {
    ($parameter:ident: $($from:ty),*) => {$(
        impl From<$from> for $parameter {
            #[inline]
            fn from(number: $from) -> Self {
                Self(Arg::from(number))
            }
        }
        impl From<&$from> for $parameter {
            #[inline]
            fn from(number: &$from) -> Self {
                Self(Arg::from(*number))
            }
        }
    )*};
}
from!(Integer: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, bool);
from!(Integer: NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64);
from!(Integer: NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize);
from!(Number: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64);

macro_rules! of {
    ($($parameter:ident),*) => {$(
        impl $parameter {
            #[inline]
            pub(crate) fn of(number: impl Into<Self>) -> Arg<'static> {
                number.into().0
            }
        }
    )*};
}
of!(Integer, Number);
