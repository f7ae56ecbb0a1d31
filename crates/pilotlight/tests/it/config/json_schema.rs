//! The JSON Schema of the file, for editors: made from what `check` goes by (`schema`, `structure`), with what
//! `docs/configuration.md` says of each key.
//!
//! `UPDATE_EXPECTED=1 cargo test -p pilotlight --test it json_schema`, or `make generate`, writes it anew. That it
//! and `check` agree is tested on mutated files in `tests/e2e/test_schema.py`.

use std::path::Path;

use pilotlight_cli::config::commands::JSON_SCHEMA;
use pilotlight_cli::config::retired::RETIRED;
use pilotlight_cli::config::schema::{Key, Part};
use pilotlight_cli::config::structure::{Bounds, Needs, bounds, needs, section_of};
use serde_json::{Map, Value, json};

use super::docs::{chapter, reference};

const TIME: &str = "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
const SIZE: &str = "^[0-9]+ ?([KkMmGgTt][Ii]?)?[Bb]$";
const SERVICE: &str = "^[a-z0-9_-]{1,64}$";
const ERROR_STATUS: &str = "^([45][0-9][0-9]|[45]xx)$";

#[test]
fn it_is_up_to_date() {
    let made = serde_json::to_string_pretty(&document(&reference())).unwrap() + "\n";
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/src/config/pilotlight.schema.json");
        return std::fs::write(file, made).unwrap();
    }
    assert!(made == JSON_SCHEMA, "the shipped schema is not that of the keys; `make generate` writes it anew");
}

#[test]
fn every_section_is_the_value_of_a_key() {
    for part in Part::ALL {
        let is_opened =
            Part::ALL.iter().any(|outer| outer.keys().iter().any(|key| section_of(*outer, key.name) == Some(part)));
        assert!(part == Part::Top || is_opened, "no key opens {part:?}: add it to config/structure.rs");
        for key in part.keys() {
            assert_eq!(key.takes.contains("section"), section_of(part, key.name).is_some(), "{part:?} {}", key.name);
        }
        for need in needs(part) {
            let names = match need {
                Needs::Key(name) => std::slice::from_ref(name),
                Needs::OneOf(names) | Needs::SomeOf(names) => names,
            };
            assert!(names.iter().all(|name| part.keys().iter().any(|key| key.name == *name)), "{part:?} {names:?}");
        }
    }
}

#[test]
fn every_number_has_bounds() {
    // What else counts as a number: the number of a user, or of a group.
    const UNBOUNDED: [&str; 2] = ["user", "group"];
    for part in Part::ALL {
        for key in part.keys() {
            let is_number = alternatives(key.takes).iter().any(|one| one.starts_with("a number"));
            let has = bounds(part, key.name).is_some() || UNBOUNDED.contains(&key.name);
            assert_eq!(is_number, has, "{part:?} {}: see `bounds` in config/structure.rs", key.name);
        }
    }
}

fn document(reference: &str) -> Value {
    let mut definitions = Map::new();
    for part in Part::ALL {
        definitions.insert(name_of(part), section(part, reference));
    }
    let mut top = definitions.remove(&name_of(Part::Top)).unwrap();
    top["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    top["title"] = json!("pilotlight.toml");
    top["description"] = json!("The configuration of Pilotlight, a gateway for local services");
    top["definitions"] = Value::Object(definitions);
    top
}

fn name_of(part: Part) -> String {
    format!("{part:?}")
}

fn section(part: Part, reference: &str) -> Value {
    let mut properties = Map::new();
    let mut patterns = Map::new();
    for key in part.keys() {
        let mut value = shape(part, key);
        value["description"] = json!(description(part, key, reference));
        match key.name {
            "STATUS" => patterns.insert(ERROR_STATUS.to_owned(), value),
            name => properties.insert(name.to_owned(), value),
        };
    }
    for retired in RETIRED.iter().filter(|retired| retired.part == part) {
        let description = format!("Has no effect any more: {}", retired.why);
        properties.insert(retired.name.to_owned(), json!({ "deprecated": true, "description": description }));
    }
    let mut section = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !patterns.is_empty() {
        section["patternProperties"] = Value::Object(patterns);
    }
    let mut required = Vec::new();
    let mut all_of = Vec::new();
    let each = |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({ "required": [name] })).collect() };
    for need in needs(part) {
        match need {
            Needs::Key(name) => required.push(*name),
            Needs::OneOf(names) => all_of.push(json!({ "oneOf": each(names) })),
            Needs::SomeOf(names) => all_of.push(json!({ "anyOf": each(names) })),
        }
    }
    if !required.is_empty() {
        section["required"] = json!(required);
    }
    if !all_of.is_empty() {
        section["allOf"] = json!(all_of);
    }
    section
}

/// The words of the reference: what it means, its default and its range.
fn description(part: Part, key: &Key, reference: &str) -> String {
    let row = chapter(reference, part).lines().find(|line| line.starts_with(&format!("| `{}` |", key.name)));
    let cells: Vec<&str> =
        row.unwrap_or_else(|| panic!("{part:?} {}", key.name)).trim_matches('|').split(" | ").collect();
    let [_, takes, default, range, meaning] = cells.map_cells();
    let mut text = plain(meaning);
    text.push_str(&format!("\n\nTakes: {takes}."));
    if !default.is_empty() {
        text.push_str(&format!(" Default: {default}."));
    }
    if !range.is_empty() {
        text.push_str(&format!(" Range: {range}."));
    }
    text.push_str(&format!(
        "\n\nExample: `{}`",
        if key.example.starts_with('[') && key.takes.contains("section") {
            key.example.to_owned()
        } else {
            format!("{} = {}", key.name, key.example)
        }
    ));
    text
}

trait Cells<'a> {
    fn map_cells(self) -> [&'a str; 5];
}

impl<'a> Cells<'a> for Vec<&'a str> {
    /// The five of a row; an empty one is written `| |`.
    fn map_cells(self) -> [&'a str; 5] {
        let mut cells = [""; 5];
        let mut at = 0;
        for cell in self {
            // Empty cells share their bars: "a | | | b".
            for (n, piece) in cell.split("| ").enumerate() {
                at += usize::from(n > 0);
                if at < 5 {
                    cells[at] = piece.trim().trim_matches('|').trim();
                }
            }
            at += 1;
        }
        cells
    }
}

/// Without the targets of links.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        plain.push(']');
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

/// "a size with its unit or \"none\"" taken apart.
fn alternatives(takes: &str) -> Vec<&str> {
    takes.split(", or ").flat_map(|part| part.split(" or ")).flat_map(|part| part.split(", ")).collect()
}

fn shape(part: Part, key: &Key) -> Value {
    let mut shapes = Vec::new();
    let mut words = Vec::new();
    for one in alternatives(key.takes) {
        match one {
            "true" | "false" => words.push(json!(one == "true")),
            _ if one.starts_with('"') && !one.contains("NAME") => words.push(json!(one.trim_matches('"'))),
            _ if one.parse::<u64>().is_ok() => words.push(json!(one.parse::<u64>().unwrap())),
            _ => shapes.push(fragment(one, part, key)),
        }
    }
    match words.as_slice() {
        [] => {}
        [Value::Bool(_), Value::Bool(_)] => shapes.push(json!({ "type": "boolean" })),
        [Value::Bool(true), Value::Bool(false), rest @ ..] => {
            shapes.extend([json!({ "type": "boolean" }), json!({ "enum": rest })]);
        }
        _ => shapes.push(json!({ "enum": words })),
    }
    match shapes.as_slice() {
        [one] => one.clone(),
        _ => json!({ "anyOf": shapes }),
    }
}

fn fragment(takes: &str, part: Part, key: &Key) -> Value {
    let section = || {
        let name = name_of(section_of(part, key.name).unwrap_or_else(|| panic!("{part:?} {}", key.name)));
        json!({ "allOf": [{ "$ref": format!("#/definitions/{name}") }] })
    };
    let string = json!({ "type": "string" });
    match takes {
        "a section" if part == Part::Top && ["services", "groups"].contains(&key.name) => {
            json!({ "type": "object", "propertyNames": { "pattern": SERVICE }, "additionalProperties": section() })
        }
        "a section" => section(),
        "a list of sections" => json!({ "type": "array", "items": section() }),
        "a time with its unit" => json!({ "type": "string", "pattern": TIME }),
        "a size with its unit" => json!({ "type": "string", "pattern": SIZE }),
        "a number" | "a number of processors" | "a number of MiB" | "a number from 0 to 1" => number(part, key),
        "a string"
        | "an address"
        | "a name"
        | "a string of JSON"
        | "a pattern of paths"
        | "a path"
        | "a folder"
        | "a URL"
        | "the name of a service"
        | "the name of a group"
        | "the path of a file"
        | "the name of a file" => string,
        "\"header:NAME\"" => json!({ "type": "string", "pattern": "^header:." }),
        "\"cookie:NAME\"" => json!({ "type": "string", "pattern": "^cookie:." }),
        "\"sticky:NAME\"" => json!({ "type": "string", "pattern": "^sticky:." }),
        "a list of strings"
        | "a list of addresses"
        | "a list of networks"
        | "a list of paths"
        | "a list of names"
        | "a list of patterns" => {
            json!({ "type": "array", "items": string })
        }
        "a list of numbers" => {
            let maximum = if part == Part::RouteWhen { 65535 } else { 1000 };
            json!({ "type": "array", "items": { "type": "integer", "minimum": 1, "maximum": maximum } })
        }
        "a list of statuses" => json!({ "type": "array", "minItems": 1, "items": {
            "anyOf": [{ "type": "integer", "minimum": 200, "maximum": 599 }, { "enum": ["2xx", "3xx", "4xx", "5xx"] }]
        } }),
        "a table of strings" if matches!(part, Part::RouteRequestFields | Part::RouteResponseFields) => {
            json!({ "type": "object", "additionalProperties": { "anyOf": [string, { "type": "array", "items": string }] } })
        }
        "a table of strings" | "a table of paths" => json!({ "type": "object", "additionalProperties": string }),
        "a table of statuses" => {
            json!({ "type": "object", "propertyNames": { "pattern": ERROR_STATUS }, "additionalProperties": { "type": "string", "pattern": TIME } })
        }
        other => panic!("{part:?} {}: no shape for {other:?}; add it here", key.name),
    }
}

fn number(part: Part, key: &Key) -> Value {
    match bounds(part, key.name) {
        Some(Bounds::Whole { min, max }) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Some(Bounds::Decimal { min, max }) => json!({ "type": "number", "minimum": min, "maximum": max }),
        None => json!({ "type": "integer", "minimum": 0 }),
    }
}
