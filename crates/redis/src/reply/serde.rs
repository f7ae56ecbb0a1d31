//! Replies as serde sees them.

use std::fmt;

use bytes::Bytes;
use pilotlight_resp::Value;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::collections::elements;
use super::read::{FromReply, mismatch, wrong_length};
use crate::error::ReplyError;

/// A reply that is read by serde: a struct or map from a hash, a tuple or list from an array, numbers, booleans and
/// enums without data from strings, an `Option` from null.
///
/// Its type says what a string is: one that is to be an integer is parsed. `#[serde(flatten)]` and
/// `#[serde(untagged)]` hide the type, and see strings. An `Option` of it is `None` for an empty array or map, too:
/// `HGETALL` says nothing else of a key that does not exist.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error};
/// use pilotlight_redis::reply::Serde;
///
/// #[derive(serde::Deserialize)]
/// struct User {
///     name: String,
///     visits: u64,
/// }
///
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let Serde(user) = client.hgetall("user:1").read_as::<Serde<User>>().await?;
/// println!("{} was here {} times", user.name, user.visits);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Serde<T>(pub T);

impl<T: DeserializeOwned> FromReply for Serde<T> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        T::deserialize(Reply(value)).map(Self).map_err(|Problem(mut error)| {
            if error.expected.is_empty() {
                error.expected = std::any::type_name::<T>();
            }
            error
        })
    }

    fn is_nothing(value: &Value) -> bool {
        super::derive::is_empty(value)
    }
}

struct Reply(Value);

#[derive(Debug)]
struct Problem(ReplyError);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Problem {}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let detail = Some(message.to_string().into());
        Self(ReplyError { expected: "", found: "something else", server: None, detail })
    }
}

impl From<ReplyError> for Problem {
    fn from(error: ReplyError) -> Self {
        Self(error)
    }
}

impl IntoDeserializer<'_, Problem> for Reply {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// A number, of whatever the reply is.
macro_rules! numbers {
    ($($method:ident $visit:ident $number:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            visitor.$visit(<$number>::from_reply(self.0)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reply {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Boolean(yes) => visitor.visit_bool(yes),
            Value::Double(number) => visitor.visit_f64(number),
            Value::Simple(_) | Value::Bulk(_) | Value::Verbatim { .. } | Value::BigNumber(_) => {
                let bytes = Bytes::from_reply(self.0)?;
                match std::str::from_utf8(&bytes) {
                    Ok(text) => visitor.visit_str(text),
                    Err(_) => visitor.visit_bytes(&bytes),
                }
            }
            Value::Array(_) | Value::Set(_) | Value::Push(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.deserialize_map(visitor),
            Value::Attributed(attributed) => Self(attributed.value).deserialize_any(visitor),
            Value::Error(_) | Value::Skipped(_) => Err(mismatch("a value", &self.0).into()),
        }
    }

    numbers! {
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_bool(match &self.0 {
            Value::Bulk(text) if text == "true" => true,
            Value::Bulk(text) if text == "false" => false,
            _ => bool::from_reply(self.0)?,
        })
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_string(String::from_reply(self.0)?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let bytes = Bytes::from_reply(self.0)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => visitor.visit_str(text),
            Err(_) => visitor.visit_bytes(&bytes),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_char(char::from_reply(self.0)?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_byte_buf(Bytes::from_reply(self.0)?.into())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        <()>::from_reply(self.0)?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let mut items = SeqDeserializer::new(elements(self.0, "an array")?.into_iter().map(Reply));
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let pairs = pairs(self.0)?.into_iter().map(|(name, value)| (Reply(name), Reply(value)));
        visitor.visit_map(MapDeserializer::new(pairs))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.deserialize_map(visitor)
    }

    /// A word is a variant without data.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_enum(String::from_reply(self.0)?.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { u128 unit_struct }
}

/// Of a map, a flat array, or an array of pairs.
fn pairs(value: Value) -> Result<Vec<(Value, Value)>, ReplyError> {
    match value {
        Value::Map(pairs) => Ok(pairs),
        Value::Attributed(attributed) => pairs(attributed.value),
        other => {
            let items = elements(other, "a map")?;
            if items.len() % 2 != 0 && !matches!(items.first(), Some(Value::Array(_))) {
                return Err(wrong_length("a flat array of names and values"));
            }
            FromReply::from_elements(items)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Debug;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    struct User {
        name: String,
        age: u8,
        score: Option<f64>,
        #[serde(default)]
        is_admin: bool,
        #[serde(rename = "state")]
        status: Status,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Status {
        Active,
        Gone,
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// As RESP3, as RESP2, and as an array of pairs.
    fn forms(fields: &[(&str, &str)]) -> [Value; 3] {
        let pairs: Vec<_> = fields.iter().map(|(name, value)| (bulk(name), bulk(value))).collect();
        let flat = pairs.iter().cloned().flat_map(|(name, value)| [name, value]).collect();
        let nested = pairs.iter().cloned().map(|(name, value)| Value::Array(vec![name, value])).collect();
        [Value::Map(pairs), Value::Array(flat), Value::Array(nested)]
    }

    #[track_caller]
    fn check<T: DeserializeOwned + Debug + PartialEq>(value: Value, expected: T) {
        assert_eq!(Serde::<T>::from_reply(value).unwrap(), Serde(expected));
    }

    #[test]
    fn a_struct_of_a_hash() {
        let fields = [("state", "active"), ("name", "Ada"), ("age", "36"), ("is_admin", "true"), ("new", "x")];
        for form in forms(&fields) {
            let user = User { name: "Ada".into(), age: 36, score: None, is_admin: true, status: Status::Active };
            check(form, user);
        }
        for form in forms(&[]) {
            assert_eq!(Option::<Serde<User>>::from_reply(form).unwrap(), None);
        }
    }

    #[test]
    fn other_shapes() {
        for form in forms(&[("a", "1"), ("b", "2")]) {
            check(form, HashMap::from([("a".to_owned(), 1_u64), ("b".to_owned(), 2)]));
        }
        check(Value::Array(vec![bulk("a"), Value::Integer(2), Value::Null]), ("a".to_owned(), 2, None::<i64>));
        check(Value::Set(vec![bulk("1.5")]), vec![1.5]);
        check(bulk("gone"), Status::Gone);
        check(Value::Null, None::<String>);
        check(bulk("c"), 'c');
        check(Value::Simple("OK".into()), ());
        check(Value::Double(0.5), 0.5_f32);
    }

    #[track_caller]
    fn check_fails<T: DeserializeOwned + Debug>(value: Value, words: &str) {
        let error = Serde::<T>::from_reply(value).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_fails::<User>(forms(&[("name", "Ada"), ("state", "gone")])[0].clone(), "missing field `age`");
        check_fails::<Status>(bulk("asleep"), "unknown variant `asleep`");
        check_fails::<(i64, i64)>(Value::Array(vec![Value::Integer(1)]), "tuple of size 2");
        check_fails::<Vec<i64>>(Value::Array(vec![bulk("x")]), "an integer (i64)");
        check_fails::<User>(Value::Error("WRONGTYPE not that".into()), "an error");
        check_fails::<HashMap<String, String>>(Value::Array(vec![bulk("a")]), "names and values");
    }
}
