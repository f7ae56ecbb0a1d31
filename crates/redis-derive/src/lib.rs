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

mod attributes;
mod from_reply;
mod shape;
mod to_args;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Reads the type from a reply. See the crate.
///
/// ```
/// use pilotlight_redis::{FromReply, Value};
///
/// #[derive(FromReply, Debug, PartialEq)]
/// #[redis(rename_all = "kebab-case")]
/// struct User {
///     full_name: String,
///     age: Option<u8>,
///     #[redis(default)]
///     visits: u64,
///     #[redis(rename = "state")]
///     status: Status,
/// }
///
/// #[derive(FromReply, Debug, PartialEq)]
/// #[redis(rename_all = "lowercase")]
/// enum Status {
///     Active,
///     Gone,
/// }
///
/// // As HGETALL answers in RESP2.
/// let words = ["state", "active", "full-name", "Ada", "unknown", "x"];
/// let reply = Value::Array(words.iter().map(|word| Value::Bulk((*word).into())).collect());
/// let user = User::from_reply(reply).unwrap();
/// assert_eq!(user, User { full_name: "Ada".into(), age: None, visits: 0, status: Status::Active });
/// ```
///
/// What cannot be read is refused where it is written:
///
/// ```compile_fail
/// #[derive(pilotlight_redis::FromReply)]
/// enum Shape {
///     Circle(f64), // variants have no data
/// }
/// ```
/// ```compile_fail
/// #[derive(pilotlight_redis::FromReply)]
/// struct User {
///     #[redis(renamed = "x")] // no such attribute
///     name: String,
/// }
/// ```
/// ```compile_fail
/// #[derive(pilotlight_redis::FromReply)]
/// struct User {
///     socket: std::net::TcpStream, // no reply can be read as this
/// }
/// ```
#[proc_macro_derive(FromReply, attributes(redis))]
pub fn from_reply(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    from_reply::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Sends the type as arguments: references to it are `Pairs` or `Args`, a single value is an `Arg` as well. See the
/// crate.
///
/// ```
/// use pilotlight_redis::{Command, ToArgs};
///
/// #[derive(ToArgs)]
/// struct User {
///     name: String,
///     age: Option<u8>,
///     #[redis(skip)]
///     is_new: bool,
///     #[redis(flatten)]
///     address: Address,
/// }
///
/// #[derive(ToArgs)]
/// struct Address {
///     #[redis(rename = "zip-code")]
///     zip: Zip,
/// }
///
/// #[derive(ToArgs)]
/// struct Zip(u32);
///
/// let user = User { name: "Ada".into(), age: None, is_new: true, address: Address { zip: Zip(90133) } };
/// let command = Command::raw("HSET").arg("user:1").pairs(&user);
/// let words: Vec<_> = command.arguments().iter().map(|arg| String::from_utf8_lossy(&arg.to_bytes()).into_owned()).collect();
/// assert_eq!(words, ["user:1", "name", "Ada", "zip-code", "90133"]);
/// ```
///
/// ```compile_fail
/// #[derive(pilotlight_redis::ToArgs)]
/// struct User {
///     socket: std::net::TcpStream, // nothing that can be sent
/// }
/// ```
#[proc_macro_derive(ToArgs, attributes(redis))]
pub fn to_args(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    to_args::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
