//! Bodies of requests: whatever they are, nothing panics, the cutting changes nothing, values are bounded, and what is
//! found is what a parser of whole documents finds first.

use pilotlight_json_fields::{Found, Invalid, MAX_VALUE, Progress, Scanner};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

const NAMES: [&str; 3] = ["model", "stream", "m"];

type Scanned = (Result<Progress, Invalid>, [Option<Found>; NAMES.len()]);

/// The first byte says how the rest is cut into pieces.
pub(crate) fn check(data: &[u8]) {
    let Some((&mode, document)) = data.split_first() else { return };
    let whole = scanned(document, document.len().max(1), Behind::Nothing);
    assert_eq!(whole, scanned(document, usize::from(mode & 0x7f).max(1), Behind::Nothing), "the cutting changed it");
    assert_eq!(whole, scanned(document, 1, Behind::Anything), "what follows changed it");
    for found in whole.1.iter().flatten() {
        assert!(!matches!(found, Found::Text(text) if text.len() > MAX_VALUE), "a value is too long");
    }
    match serde_json::from_slice::<Fields>(document) {
        Ok(Fields(fields)) => {
            assert_eq!(whole.0, Ok(Progress::Done), "a whole object is refused");
            let first = NAMES.map(|name| fields.iter().find(|(other, _)| other == name).map(|(_, value)| known(value)));
            assert_eq!(whole.1, first, "the fields are others");
        }
        Err(_) if serde_json::from_slice::<Value>(document).is_ok() => {
            assert_eq!(whole.0, Err(Invalid), "what is no object is taken for one");
        }
        Err(_) => {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// Bytes that are no JSON, behind a document that is over or wrong.
    Anything,
}

fn scanned(document: &[u8], step: usize, behind: Behind) -> Scanned {
    let mut scanner = Scanner::new(NAMES);
    let mut progress = scanner.feed(b"");
    for piece in document.chunks(step) {
        progress = scanner.feed(piece);
    }
    if behind == Behind::Anything && progress != Ok(Progress::More) {
        assert_eq!(scanner.feed(b"}\"\\\x00"), progress, "an answer was taken back");
    }
    (progress, NAMES.map(|name| scanner.found(name).cloned()))
}

fn known(value: &Value) -> Found {
    match value.as_str() {
        Some(text) if text.len() <= MAX_VALUE => Found::Text(text.to_owned()),
        _ => Found::Other,
    }
}

/// All fields of an object, those that are there twice as well.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}
