//! Values as JSON text.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::read::FromReply;
use crate::command::{Arg, Args, Element};
use crate::error::ReplyError;
use bytes::Bytes;
use pilotlight_resp::Value;

/// A value that is JSON on the server: as argument what serde writes, as reply what it reads.
///
/// An argument is a reference, `Json(&value)`. What cannot be written as JSON (a map whose keys are no strings) is not
/// sent ([`Misuse::Argument`](crate::Misuse::Argument)); what cannot be read is an
/// [`ErrorKind::Reply`](crate::ErrorKind::Reply) that says where.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error};
/// use pilotlight_redis::reply::Json;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct User {
///     name: String,
///     visits: u64,
/// }
///
/// # async fn example(client: &Client) -> Result<(), Error> {
/// client.set("user:1", Json(&User { name: "Ada".into(), visits: 1 })).await?;
/// let user: Option<Json<User>> = client.get("user:1").read_as().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromReply for Json<T> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let text = Bytes::from_reply(value)?;
        serde_json::from_slice(&text).map(Self).map_err(|error| ReplyError {
            expected: std::any::type_name::<T>(),
            found: "something else, or no JSON",
            server: None,
            detail: Some(error.to_string().into()),
        })
    }
}

impl<'a, T: Serialize + ?Sized> From<Json<&T>> for Arg<'a> {
    fn from(Json(value): Json<&T>) -> Self {
        serde_json::to_vec(value).map_or(Arg::Invalid("the value cannot be written as JSON"), Arg::from)
    }
}

impl<'a, T: Serialize> From<&Json<T>> for Arg<'a> {
    fn from(Json(value): &Json<T>) -> Self {
        Arg::from(Json(value))
    }
}

impl<'a, T: Serialize + ?Sized> Element<'a> for Json<&T> {}
impl<'a, T: Serialize> Element<'a> for &Json<T> {}

impl<'a, T: Serialize + ?Sized> Args<'a> for Json<&T> {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.into());
    }
}

impl<'a, T: Serialize> Args<'a> for &Json<T> {
    fn each(self, push: &mut dyn FnMut(Arg<'a>)) {
        push(self.into());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::command::Command;

    #[test]
    fn what_is_written_is_read() {
        let value = vec![Some(1), None];
        let arg = Arg::from(Json(&value));
        assert_eq!(&arg.to_bytes()[..], b"[1,null]");
        let reply = Value::Bulk(Bytes::copy_from_slice(&arg.to_bytes()));
        assert_eq!(Json::<Vec<Option<i32>>>::from_reply(reply).unwrap(), Json(value));
        assert_eq!(Command::raw("RPUSH").arg("k").args([Json("a"), Json("b")]).arguments().len(), 3);
        assert_eq!(&Arg::from(&Json(true)).to_bytes()[..], b"true");
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        let error = Json::<Vec<u8>>::from_reply(Value::Bulk("[1,\"x\"]".into())).unwrap_err();
        assert!(error.to_string().contains("line 1 column 6"), "{error}");
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let map = HashMap::from([((1, 2), 3)]);
        assert!(matches!(Arg::from(Json(&map)), Arg::Invalid(_)));
        assert!(Command::raw("SET").arg("k").arg(Json(&map)).is_refused());
    }
}
