//! `#[derive(FromReply)]` and `#[derive(ToArgs)]` of `pilotlight-redis`, which has them with its feature `derive`.
//!
//! A derived type is read from, and written to, what the commands of Redis take and give, without a format between:
//!
//! | type | as a reply | as arguments |
//! |---|---|---|
//! | struct with named fields | a map, or a flat array of names and values (`HGETALL`), in any order | pairs (`HSET`, `XADD`) |
//! | the same with `#[redis(array)]` | an array, in this order | values, in this order |
//! | struct with one field without a name | what the field is read from | what the field is sent as |
//! | tuple struct | an array, or so many elements of a flat one | values, in this order |
//! | enum without data | a string | a string |
//!
//! | attribute | of | |
//! |---|---|---|
//! | `rename_all = "camelCase"` | struct, enum | names in this style: `lowercase`, `UPPERCASE`, `camelCase`, `PascalCase`, `snake_case`, `SCREAMING_SNAKE_CASE`, `kebab-case`, `SCREAMING-KEBAB-CASE` |
//! | `array` | struct | values in the order of the fields, without names |
//! | `crate = "path"` | any | where `pilotlight_redis` is |
//! | `rename = "name"` | field, variant | its name |
//! | `default`, `default = "function"` | field | what it is where it is missing |
//! | `skip` | field | it is neither read (but `Default::default()`) nor sent |
//! | `flatten` | field | its own fields are among these: another derived struct, or a map of what is left |
//! | `other` | variant | read from any other word |
//!
//! A field that is an `Option` is `None` where it is missing or null, and not sent while it is `None`. Any other field
//! that is missing is an error that names it. Names that no field has are passed over.
//!
//! The examples stand where `pilotlight_redis` exports the macros. A macro is compiled for the machine that compiles,
//! so an example here would compile the whole client a second time for it.

mod attributes;
mod from_reply;
mod shape;
mod to_args;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `pilotlight_redis::FromReply`: reads the type from a reply.
#[proc_macro_derive(FromReply, attributes(redis))]
pub fn from_reply(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    from_reply::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `pilotlight_redis::ToArgs`: sends the type as arguments. References to it are `Pairs` or `Args`; a single
/// value is also an `Arg`.
#[proc_macro_derive(ToArgs, attributes(redis))]
pub fn to_args(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    to_args::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
