//! `POST /purge`: what is stored goes, by URL, prefix, tag, group or as a whole.

use http::StatusCode;
use pilotlight_cache::{Address, MAX_TAG_BYTES, Mode, Purge, Scope};
use pilotlight_cache_redis::PurgeReport;
use serde_json::{Map, Value, json};

use super::refused::{Refused, refused};
use super::shared::Shared;
use super::target::Target;
use crate::cache_key;
use crate::lookup;

/// Things that one request may purge.
const MAX_PURGES: usize = 1000;

const EXAMPLE: &str = "send {\"url\": \"http://example.org/path\"}, or {\"tags\": [\"a\"], \"soft\": true}; docs/admin-api.md has all of it";
const KEYS: [&str; 7] = ["url", "urls", "prefixes", "tags", "groups", "everything", "soft"];

/// Purges what a request's body asks for, and tells what that was.
pub(super) async fn purge(shared: &Shared, body: &[u8]) -> Result<Value, Refused> {
    let bad = |what: String| refused(StatusCode::BAD_REQUEST, what);
    let asked: Map<String, Value> =
        serde_json::from_slice(body).map_err(|e| bad(format!("the body is not a JSON object: {e}; {EXAMPLE}")))?;
    let purges = read(&asked, |url| address(shared, url), |url| prefix(shared, url)).map_err(bad)?;
    let Some(cache) = &shared.common.cache else {
        return Err(refused(StatusCode::CONFLICT, "nothing is cached: the configuration says cache = false"));
    };
    let stored = cache.purge(&purges, lookup::now());
    let table = shared.common.table.load();
    let mut told = told(&purges, stored, |url| cache_key::place(&table, &url.authority, &url.target).has_extra);
    drop(table);
    if let (Some(coherence), Value::Object(map)) = (&shared.common.coherence, &mut told) {
        // In memory it has happened by now, whatever becomes of this.
        map.insert("nodes".into(), nodes(coherence.handle().publish(purges).await));
    }
    Ok(told)
}

/// Which other gateways were told.
fn nodes(told: PurgeReport) -> Value {
    match told {
        PurgeReport::Logged { number, applied, late, took } => json!({
            "number": number, "applied": applied, "late": late,
            "milliseconds": (took.as_secs_f64() * 1e6).round() / 1e3,
        }),
        PurgeReport::Waiting { why, waiting } => json!({ "error": why, "waiting": waiting }),
    }
}

fn told(purges: &[Purge], stored: usize, has_extra: impl Fn(&Address) -> bool) -> Value {
    let is_soft = purges.iter().any(|purge| purge.mode == Mode::Soft);
    let mut told = json!({
        "soft": is_soft,
        "what": purges.iter().map(|purge| purge.scope.to_string()).collect::<Vec<_>>(),
        "stored_urls": stored,
    });
    // A single URL is told about as it always was.
    if let ([Purge { scope: Scope::Url(url), .. }], Value::Object(map)) = (purges, &mut told) {
        map.insert("key".into(), url.to_string().into());
        // What is stored under keys that hold more than the URL is found out when it is asked for.
        let purged = if stored == 0 && has_extra(url) { Value::Null } else { (stored > 0).into() };
        map.insert("purged".into(), purged);
    }
    told
}

/// Where what answers a URL is stored.
fn address(shared: &Shared, url: &str) -> Result<Address, String> {
    Target::parse(shared, url).map(|target| target.with_key(shared, Address::of))
}

/// The beginning of addresses: as it is written, whatever a route makes of a whole query.
fn prefix(shared: &Shared, url: &str) -> Result<Address, String> {
    Target::parse(shared, url).map(|target| target.with_plain_key(Address::of))
}

/// What the body asks for, in the order of [`KEYS`].
fn read(
    asked: &Map<String, Value>,
    address: impl Fn(&str) -> Result<Address, String>,
    begin: impl Fn(&str) -> Result<Address, String>,
) -> Result<Vec<Purge>, String> {
    if let Some(unknown) = asked.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("`{unknown}` means nothing here; there is {}; {EXAMPLE}", KEYS.join(", ")));
    }
    let flag = |name: &str| match asked.get(name) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| format!("`{name}` is true or false")),
    };
    let mode = if flag("soft")? { Mode::Soft } else { Mode::Hard };
    let mut scopes = Vec::new();
    if let Some(url) = asked.get("url") {
        scopes.push(Scope::Url(address(text("url", url)?)?));
    }
    for url in list(asked, "urls")? {
        scopes.push(Scope::Url(address(text("urls", url)?)?));
    }
    for prefix in list(asked, "prefixes")? {
        let prefix = text("prefixes", prefix)?;
        // As people write it.
        scopes.push(Scope::Prefix(begin(prefix.strip_suffix('*').unwrap_or(prefix))?));
    }
    for tag in list(asked, "tags")? {
        scopes.push(Scope::Tag(name("tags", tag)?));
    }
    for group in list(asked, "groups")? {
        let part = |key: &str| {
            group
                .get(key)
                .ok_or_else(|| format!("`groups` holds objects with `origin` and `name`, and one has no `{key}`"))
        };
        let Address { scheme, authority, .. } = address(text("groups.origin", part("origin")?)?)?;
        scopes.push(Scope::Group { scheme, authority, name: name("groups.name", part("name")?)? });
    }
    if flag("everything")? {
        scopes.push(Scope::Everything);
    }
    match scopes.len() {
        0 => Err(format!("the body names nothing to purge; {EXAMPLE}")),
        1..=MAX_PURGES => Ok(scopes.into_iter().map(|scope| Purge { scope, mode }).collect()),
        count => Err(format!("{count} purges are more than the {MAX_PURGES} of one request")),
    }
}

fn list<'a>(asked: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], String> {
    match asked.get(name) {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("`{name}` is a list")),
    }
}

fn text<'a>(name: &str, value: &'a Value) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("`{name}` holds something that is no string"))
}

fn name(of: &str, value: &Value) -> Result<String, String> {
    let text = text(of, value)?;
    match text.len() {
        0 => Err(format!("`{of}` holds an empty name, which no response has")),
        1..=MAX_TAG_BYTES => Ok(text.to_owned()),
        length => Err(format!("`{of}` holds a name of {length} bytes; a tag has at most {MAX_TAG_BYTES}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Result<&[&str], &str>) {
        let asked: Map<String, Value> = serde_json::from_str(body).unwrap();
        let address = |url: &str| match url.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let [scheme, authority, target] = [scheme, authority, target].map(str::to_owned);
                Ok(Address { scheme, authority, target })
            }
            None => Err(format!("{url:?} is not a URL")),
        };
        let found = read(&asked, address, address);
        let told = |purge: &Purge| format!("{:?} {}", purge.mode, purge.scope);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.iter().map(told).collect::<Vec<_>>(), expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn what_can_be_asked_for() {
        check(r#"{"url": "http://h/a"}"#, Ok(&["Hard http://h/a"]));
        check(
            r#"{"urls": ["http://h/a", "http://h/b"], "prefixes": ["http://h/c/*", "http://h/"], "tags": ["x", "y z"],
                "groups": [{"origin": "http://h", "name": "g"}], "everything": true, "soft": true}"#,
            Ok(&[
                "Soft http://h/a",
                "Soft http://h/b",
                "Soft http://h/c/*",
                "Soft http://h/*",
                "Soft tag x",
                "Soft tag y z",
                "Soft group g of http://h",
                "Soft everything",
            ]),
        );
    }

    #[test]
    fn what_cannot() {
        check("{}", Err("names nothing to purge"));
        check(r#"{"everything": false}"#, Err("names nothing to purge"));
        check(r#"{"tag": ["x"]}"#, Err("`tag` means nothing here; there is url, urls, prefixes, tags"));
        check(r#"{"tags": "x"}"#, Err("`tags` is a list"));
        check(r#"{"tags": [1]}"#, Err("`tags` holds something that is no string"));
        check(r#"{"tags": [""]}"#, Err("an empty name"));
        check(&format!(r#"{{"tags": ["{}"]}}"#, "x".repeat(MAX_TAG_BYTES + 1)), Err("at most 1024"));
        check(r#"{"tags": ["x"], "soft": 1}"#, Err("`soft` is true or false"));
        check(r#"{"groups": [{"name": "g"}]}"#, Err("no `origin`"));
        check(r#"{"urls": ["x"]}"#, Err("\"x\" is not a URL"));
        let many = vec!["\"x\""; MAX_PURGES + 1].join(",");
        check(&format!(r#"{{"tags": [{many}]}}"#), Err("1001 purges are more than the 1000"));
    }
}
