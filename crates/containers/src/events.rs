//! What becomes of containers, as the engine tells it, and other answers that are one JSON value after the other.

use crate::call::Answer;
use crate::error::EngineError;
use crate::limits::MAX_LINE;
use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Something has become of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub id: String,
    /// `start`, `die`, `oom`, `pause`, `health_status: healthy`, …
    pub action: String,
}

/// Events, as they come.
#[derive(Debug)]
pub struct Events(pub(crate) Values);

#[derive(Deserialize)]
struct Told {
    /// Docker and Podman send both; the older name is alone in some versions.
    #[serde(rename = "Action", default)]
    action: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(rename = "Actor", default)]
    actor: Actor,
}

#[derive(Default, Deserialize)]
struct Actor {
    #[serde(rename = "ID", default)]
    id: String,
}

impl Events {
    /// The next event; `None` when the engine ends the stream.
    ///
    /// # Errors
    /// The connection broke.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Event>, EngineError> {
        let told = self.0.next::<Told>().await?;
        Ok(told.map(Event::from))
    }
}

impl From<Told> for Event {
    fn from(Told { action, status, actor }: Told) -> Self {
        Self { id: actor.id, action: action.or(status).unwrap_or_default() }
    }
}

/// JSON values behind each other.
#[derive(Debug)]
pub(crate) struct Values {
    answer: Answer,
    read: BytesMut,
}

impl Values {
    pub(crate) fn new(answer: Answer) -> Self {
        Self { answer, read: BytesMut::new() }
    }

    /// The next value. Cancel safe.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, EngineError> {
        loop {
            match first(&mut self.read) {
                Ok(Some(value)) => return Ok(Some(value)),
                Ok(None) if self.read.len() > MAX_LINE => return Err(self.answer.unreadable("a value is too long")),
                Ok(None) => {}
                Err(error) => return Err(self.answer.unreadable(error.to_string())),
            }
            match self.answer.next().await? {
                Some(read) => self.add(&read),
                None => return Ok(None),
            }
        }
    }

    fn add(&mut self, read: &Bytes) {
        self.read.extend_from_slice(read);
    }
}

/// Takes the first value, if it is complete.
fn first<T: DeserializeOwned>(read: &mut BytesMut) -> serde_json::Result<Option<T>> {
    let mut values = serde_json::Deserializer::from_slice(read).into_iter();
    let value = match values.next() {
        None => return Ok(None),
        Some(Err(error)) if error.is_eof() => return Ok(None),
        Some(value) => value?,
    };
    let used = values.byte_offset();
    let _ = read.split_to(used);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_each_other_with_lines_between_or_without() {
        let mut read = BytesMut::from(
            &br#"{"Action":"die","Actor":{"ID":"a1"}}
{"status":"start","Actor":{"ID":"b2"}}{"Action":"heal"#[..],
        );
        let next =
            |read: &mut BytesMut| first::<Told>(read).unwrap().map(Event::from).map(|event| (event.action, event.id));
        assert_eq!(next(&mut read), Some(("die".to_owned(), "a1".to_owned())));
        assert_eq!(next(&mut read), Some(("start".to_owned(), "b2".to_owned())));
        assert_eq!(next(&mut read), None);
        read.extend_from_slice(b"th\"}");
        assert_eq!(next(&mut read), Some(("health".to_owned(), String::new())));
        let podman = r#"{"status":"died","id":"c3","from":"i","Type":"container","Action":"died","Actor":{"ID":"c3"}}"#;
        assert_eq!(next(&mut BytesMut::from(podman)), Some(("died".to_owned(), "c3".to_owned())));
        assert!(first::<Told>(&mut BytesMut::from(&b"nonsense"[..])).is_err());
    }
}
