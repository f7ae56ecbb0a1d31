//! Replies against the `reply_schema` of the servers' own descriptions of their commands: the parts of JSON Schema that
//! these use.
//!
//! The schemas describe replies of RESP3. A reply becomes JSON as the servers' own validator has it: all kinds of
//! strings are `string`, doubles and integers `number`, sets `array`, maps `object`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value as Json;

use crate::Value;

/// By command.
static SCHEMAS: LazyLock<HashMap<String, Json>> = LazyLock::new(|| {
    [include_str!("../../../data/commands/valkey.json"), include_str!("../../../data/commands/supplement.json")]
        .iter()
        .flat_map(|text| serde_json::from_str::<HashMap<String, Json>>(text).unwrap())
        .filter_map(|(name, mut description)| Some((name, description.get_mut("reply_schema")?.take())))
        .collect()
});

/// Where servers differ from their own descriptions: the command, and what is said of it then.
const DEVIATIONS: &[(&str, &str)] = &[
    // Null of what is not there is left out.
    ("GEOHASH", "[1]: it is no \"string\""),
    ("LMOVE", "it is no \"string\""),
    ("OBJECT REFCOUNT", "it is no \"integer\""),
    // So are the nulls of a group in which nothing is pending.
    ("XPENDING", "none of [0]: it is no \"array\"; [1]: it is no \"string\""),
];

/// Fails the test unless the reply is one that the command's description has. Commands without a description of their
/// replies pass.
#[track_caller]
pub(super) fn check(name: &str, reply: &Value) {
    let Some(schema) = SCHEMAS.get(name) else { return };
    if let Err(why) = fits(schema, schema, reply)
        && !DEVIATIONS.contains(&(name, &why))
    {
        panic!("{name}: {why}\nreply: {reply:?}\nschema: {schema}");
    }
}

/// Whether it fits; else why not, with the path to it.
fn fits(root: &Json, schema: &Json, reply: &Value) -> Result<(), String> {
    for (word, wanted) in schema.as_object().ok_or("a schema is an object")? {
        match word.as_str() {
            "description" | "additionalItems" | "additionalProperties" | "patternProperties" | "properties" => {}
            "$ref" => match wanted.as_str() {
                Some("#") => fits(root, root, reply)?,
                other => return Err(format!("an unknown reference: {other:?}")),
            },
            "type" => {
                let is_it = match wanted {
                    Json::Array(all) => all.iter().any(|one| is_type(one, reply)),
                    one => is_type(one, reply),
                };
                ensure(is_it, || format!("it is no {wanted}"))?;
            }
            "const" => ensure(is_equal(wanted, reply), || format!("it is not {wanted}"))?,
            "pattern" => {
                ensure(text(reply).is_none_or(|text| matches(wanted.as_str(), text)), || format!("not like {wanted}"))?;
            }
            "minimum" => {
                let least = wanted.as_f64();
                ensure(number(reply).is_none_or(|it| Some(it) >= least), || format!("less than {wanted}"))?;
            }
            "minItems" => {
                ensure(items(reply).is_none_or(|it| it.len() >= count(wanted)), || format!("too few: {wanted}"))?;
            }
            "maxItems" => {
                ensure(items(reply).is_none_or(|it| it.len() <= count(wanted)), || format!("too many: {wanted}"))?;
            }
            "uniqueItems" => {
                let is_twice = |all: &[Value]| all.iter().enumerate().any(|(at, it)| all[..at].contains(it));
                ensure(wanted != true || !items(reply).is_some_and(is_twice), || "something is twice".to_owned())?;
            }
            "anyOf" | "oneOf" => {
                let choices = wanted.as_array().ok_or("choices are a list")?;
                let why: Vec<String> = choices.iter().filter_map(|choice| fits(root, choice, reply).err()).collect();
                // Several may fit: an empty list is a list of anything.
                ensure(why.len() < choices.len(), || format!("none of {}", why.join("; ")))?;
            }
            "items" => elements(root, schema, wanted, reply)?,
            other => return Err(format!("{other} is not understood")),
        }
    }
    members(root, schema, reply)
}

/// The elements of a list: each by one schema, or by place.
fn elements(root: &Json, schema: &Json, wanted: &Json, reply: &Value) -> Result<(), String> {
    let Some(items) = items(reply) else { return Ok(()) };
    let places = wanted.as_array();
    for (at, item) in items.iter().enumerate() {
        let schema = match places {
            None => Some(wanted),
            Some(places) => places.get(at).or_else(|| schema.get("additionalItems")),
        };
        match schema {
            None | Some(Json::Bool(true)) => {}
            Some(Json::Bool(false)) => return Err(format!("[{at}]: one too many")),
            Some(schema) => fits(root, schema, item).map_err(|why| format!("[{at}]: {why}"))?,
        }
    }
    Ok(())
}

/// The pairs of a map: by name, by a pattern of names, or as all others.
fn members(root: &Json, schema: &Json, reply: &Value) -> Result<(), String> {
    let Value::Map(pairs) = reply else { return Ok(()) };
    for (name, value) in pairs {
        // JSON has no other names than texts.
        let name = &match name {
            Value::Integer(number) => number.to_string(),
            name => text(name).ok_or("a name is no text")?.to_owned(),
        };
        let named = schema.get("properties").and_then(|all| all.get(name));
        let patterned = || {
            let patterns = schema.get("patternProperties")?.as_object()?;
            patterns.iter().find(|(pattern, _)| matches(Some(pattern), name)).map(|(_, schema)| schema)
        };
        match named.or_else(patterned).or_else(|| schema.get("additionalProperties")) {
            None | Some(Json::Bool(true)) => {}
            Some(Json::Bool(false)) => return Err(format!("{name}: not described")),
            Some(schema) => fits(root, schema, value).map_err(|why| format!("{name}: {why}"))?,
        }
    }
    Ok(())
}

fn ensure(is_so: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(why()) }
}

fn is_type(name: &Json, reply: &Value) -> bool {
    match name.as_str() {
        Some("null") => matches!(reply, Value::Null),
        Some("integer") => matches!(reply, Value::Integer(_)),
        Some("number") => number(reply).is_some(),
        Some("string") => text(reply).is_some(),
        Some("array") => items(reply).is_some(),
        Some("object") => matches!(reply, Value::Map(_)),
        Some("boolean") => matches!(reply, Value::Boolean(_)),
        other => panic!("an unknown type: {other:?}"),
    }
}

fn is_equal(wanted: &Json, reply: &Value) -> bool {
    match wanted {
        Json::String(wanted) => text(reply) == Some(wanted),
        Json::Number(wanted) => number(reply) == wanted.as_f64(),
        other => panic!("an unknown constant: {other}"),
    }
}

/// Bytes that are no text are some text all the same, to which no pattern or constant applies.
fn text(reply: &Value) -> Option<&str> {
    match reply {
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => {
            Some(std::str::from_utf8(text).unwrap_or("\u{fffd}"))
        }
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "no constant or bound is that large")]
fn number(reply: &Value) -> Option<f64> {
    match reply {
        Value::Integer(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        _ => None,
    }
}

fn items(reply: &Value) -> Option<&[Value]> {
    match reply {
        Value::Array(items) | Value::Set(items) => Some(items),
        _ => None,
    }
}

fn count(wanted: &Json) -> usize {
    usize::try_from(wanted.as_u64().unwrap()).unwrap()
}

/// The few patterns that there are. They are looked for anywhere in the text.
fn matches(pattern: Option<&str>, text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match pattern {
        Some("^.*$") => true,
        Some("[0-9]+") => text.bytes().any(|byte| byte.is_ascii_digit()),
        Some("[0-9]+-[0-9]+") => {
            text.as_bytes().windows(3).any(|it| it[0].is_ascii_digit() && it[1] == b'-' && it[2].is_ascii_digit())
        }
        Some("OK" | "OK*") => text.contains("OK"),
        Some("^BUMPED [0-9]*$") => text.strip_prefix("BUMPED ").is_some_and(digits),
        Some("^STILL [0-9]*$") => text.strip_prefix("STILL ").is_some_and(digits),
        Some("^[0-9]*(.[0-9]*)?$") => text.split_once('.').map_or(digits(text), |(a, b)| digits(a) && digits(b)),
        Some("^db\\.\\d+$") => text.strip_prefix("db.").is_some_and(|rest| !rest.is_empty() && digits(rest)),
        other => panic!("an unknown pattern: {other:?}"),
    }
}

#[test]
fn replies_of_another_shape_do_not_fit() {
    let b = |text: &'static str| Value::Bulk(text.into());
    let entry = |id| Value::Array(vec![b(id), Value::Array(vec![b("f"), b("v")])]);
    let check = |name: &str, reply: &Value| fits(&SCHEMAS[name], &SCHEMAS[name], reply);
    assert_eq!(check("SET", &Value::Simple("OK".into())), Ok(()));
    assert!(check("SET", &Value::Integer(1)).is_err());
    assert_eq!(check("GET", &Value::Null), Ok(()));
    assert!(check("GET", &Value::Array(vec![])).is_err());
    assert!(check("EXPIRE", &Value::Integer(2)).is_err());
    assert_eq!(check("HGETALL", &Value::Map(vec![(b("f"), b("v"))])), Ok(()));
    assert_eq!(
        check("HGETALL", &Value::Map(vec![(b("f"), Value::Integer(1))])),
        Err("f: it is no \"string\"".to_owned())
    );
    assert!(check("HGETALL", &Value::Array(vec![])).is_err());
    assert_eq!(check("XRANGE", &Value::Array(vec![entry("1-1")])), Ok(()));
    assert!(check("XRANGE", &Value::Array(vec![entry("1")])).is_err());
    assert!(check("XRANGE", &Value::Array(vec![entry("1-1"), entry("1-1")])).unwrap_err().contains("twice"));
    assert!(check("HMGET", &Value::Array(vec![])).is_err(), "at least one was asked for");
    assert!(check("CLUSTER SLOTS", &Value::Array(vec![Value::Array(vec![Value::Integer(0)])])).is_err());
}

#[test]
fn all_schemas_are_understood() {
    // Each reply reaches other words of them.
    let replies = [
        Value::Null,
        Value::Integer(1),
        Value::Double(1.5),
        Value::Bulk("1-1".into()),
        Value::Array(vec![Value::Bulk("a".into()), Value::Integer(1), Value::Array(vec![Value::Null])]),
        Value::Map(vec![(Value::Bulk("name".into()), Value::Array(vec![]))]),
    ];
    for (name, schema) in &*SCHEMAS {
        for reply in &replies {
            if let Err(why) = fits(schema, schema, reply) {
                assert!(!why.contains("not understood") && !why.contains("unknown"), "{name}: {why}");
            }
        }
    }
    assert!(SCHEMAS.len() > 380, "{} schemas", SCHEMAS.len());
}
