//! `pilotlight purge`.

use std::io::Write;

use serde_json::{Map, Value, json};

use super::client::{Client, Failure};
use super::report::{Report, report_change};
use super::table;
use crate::config::commands::Outcome;

/// What is purged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// URLs as clients write them.
    pub urls: Vec<String>,
    /// Beginnings of URLs.
    pub prefixes: Vec<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Groups, each `NAME@ORIGIN`.
    pub groups: Vec<String>,
    /// Everything.
    pub everything: bool,
    /// It becomes stale instead of being gone.
    pub soft: bool,
}

/// `pilotlight purge`.
///
/// # Errors
/// No gateway, something in it means nothing, or the output cannot be written.
pub fn purge(client: &Client, purged: &Purged, report: Report, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let answer = client.post("/purge", Some(&body(purged)))?;
    report_change(client.gateway(), answer, report, text, out)?;
    Ok(Outcome::Done)
}

fn body(purged: &Purged) -> Value {
    let Purged { urls, prefixes, tags, groups, everything, soft } = purged;
    let mut body = Map::new();
    // A single URL is what every version of the interface knows.
    match &urls[..] {
        [] => {}
        [one] => drop(body.insert("url".into(), json!(one))),
        _ => drop(body.insert("urls".into(), json!(urls))),
    }
    for (name, list) in [("prefixes", prefixes), ("tags", tags)] {
        if !list.is_empty() {
            body.insert(name.into(), json!(list));
        }
    }
    if !groups.is_empty() {
        // A name may have an @, an origin has none.
        let part = |group: &String| match group.rsplit_once('@') {
            Some((name, origin)) => json!({ "name": name, "origin": origin }),
            None => json!({ "name": group, "origin": "/" }),
        };
        body.insert("groups".into(), groups.iter().map(part).collect());
    }
    for (name, flag) in [("everything", everything), ("soft", soft)] {
        if *flag {
            body.insert(name.into(), json!(true));
        }
    }
    body.into()
}

fn text(answer: &Value) -> String {
    let what = answer["what"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let what: Vec<String> = what.map(table::printable).collect();
    let is_soft = answer["soft"].as_bool() == Some(true);
    let nodes = answer.get("nodes").filter(|nodes| !nodes.is_null());
    let done = if is_soft { "made stale" } else { "purged" };
    // About one URL it is known whether this gateway had anything; of the others, and of Redis, it is not.
    let mut text = match (&what[..], answer["purged"].as_bool()) {
        ([url], Some(false)) if nodes.is_none() => format!("nothing was stored for {url}\n"),
        ([url], Some(false)) => format!("{done} {url} (this gateway had nothing of it in memory)\n"),
        _ => what.iter().map(|one| format!("{done} {one}\n")).collect(),
    };
    if let Some(nodes) = nodes {
        text.push_str(&self::nodes(nodes));
    }
    text
}

/// Who else was told.
fn nodes(nodes: &Value) -> String {
    let names = |key: &str| -> Vec<String> {
        nodes[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(table::printable).collect()
    };
    if let Some(why) = nodes["error"].as_str() {
        let waiting = nodes["waiting"].as_u64().unwrap_or_default();
        let waiting = if waiting == 1 { "1 purge waits".to_owned() } else { format!("{waiting} purges wait") };
        return format!("other gateways were not told yet ({waiting} for Redis): {}\n", table::printable(why));
    }
    let mut text = format!("told to other gateways, number {}\n", nodes["number"]);
    let (applied, late) = (names("applied"), names("late"));
    if !applied.is_empty() {
        text.push_str(&format!("applied by {} within {} ms\n", applied.join(", "), nodes["milliseconds"]));
    }
    if !late.is_empty() {
        text.push_str(&format!("not yet applied by {}\n", late.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(answer: &Value, expected: &str) {
        assert_eq!(text(answer), expected);
    }

    #[test]
    fn what_is_asked() {
        let one = Purged { urls: vec!["/a".into()], ..Purged::default() };
        assert_eq!(body(&one), json!({ "url": "/a" }));
        let all = Purged {
            urls: vec!["/a".into(), "/b".into()],
            prefixes: vec!["/c/".into()],
            tags: vec!["t".into()],
            groups: vec!["g".into(), "g@x@http://h".into()],
            everything: true,
            soft: true,
        };
        let expected = json!({
            "urls": ["/a", "/b"], "prefixes": ["/c/"], "tags": ["t"],
            "groups": [{ "name": "g", "origin": "/" }, { "name": "g@x", "origin": "http://h" }],
            "everything": true, "soft": true,
        });
        assert_eq!(body(&all), expected);
    }

    #[test]
    fn what_is_told() {
        check_text(&json!({ "what": ["http://h/a"], "purged": true, "soft": false }), "purged http://h/a\n");
        check_text(&json!({ "what": ["http://h/a"], "purged": false }), "nothing was stored for http://h/a\n");
        check_text(
            &json!({ "what": ["tag a", "http://h/*"], "soft": true, "nodes": null }),
            "made stale tag a\nmade stale http://h/*\n",
        );
        let nodes = json!({ "number": 7, "applied": ["a", "b"], "late": ["c"], "milliseconds": 3.5 });
        check_text(
            &json!({ "what": ["tag a"], "nodes": nodes }),
            "purged tag a\ntold to other gateways, number 7\napplied by a, b within 3.5 ms\nnot yet applied by c\n",
        );
        let nodes = json!({ "error": "cannot connect", "waiting": 2 });
        check_text(
            &json!({ "what": ["tag a"], "nodes": nodes }),
            "purged tag a\nother gateways were not told yet (2 purges wait for Redis): cannot connect\n",
        );
        check_text(
            &json!({ "what": ["http://h/a"], "purged": false, "nodes": { "error": "cannot connect", "waiting": 1 } }),
            "purged http://h/a (this gateway had nothing of it in memory)\n\
             other gateways were not told yet (1 purge waits for Redis): cannot connect\n",
        );
    }
}
