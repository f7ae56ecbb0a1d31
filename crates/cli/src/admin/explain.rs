//! `pilotlight explain` as text.

use std::fmt::Write;

use serde_json::Value;

use super::certificates::{news, span};
use super::table::{printable, string};

/// What the gateway answered, as lines of name and value.
pub(super) fn text(answer: &Value) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<10}{}", printable(value));
    };
    fact(
        "request",
        &format!("{} {} (host {})", string(&answer["method"]), string(&answer["target"]), string(&answer["host"])),
    );
    certificate(&answer["certificate"], &mut fact);
    if answer["route"].is_null() {
        fact("route", &format!("none: {}; the answer is {}", string(&answer["why"]), answer["status"]));
        if answer["json"].is_object() {
            json(&answer["json"], &mut fact);
            return text;
        }
        let known: Vec<String> = answer["routes"].as_array().into_iter().flatten().map(string).collect();
        fact("", &format!("routes are {}", known.join(" ")));
        return text;
    }
    let route = &answer["route"];
    fact("route", &format!("{}: {}", string(&route["name"]), string(&route["why"])));
    if answer["json"].is_object() {
        json(&answer["json"], &mut fact);
    }
    if let Some(place) = answer["https"].as_str() {
        fact("https", &format!("by plain HTTP it is sent to {place} (308)"));
    }
    if let Some(coding) = answer["compress"]["coding"].as_str() {
        let what = if coding == "identity" { "nothing that this client takes" } else { coding };
        fact("compress", &format!("{what}, if the answer gains by it"));
    }
    if answer["files"].is_object() {
        files(&answer["files"], &mut fact);
        admission(&answer["admission"], &mut fact);
        changes(&answer["changes"], &mut fact);
        return text;
    }
    if answer["redirect"].is_object() {
        fact("redirect", &format!("{} to {}", answer["redirect"]["status"], string(&answer["redirect"]["location"])));
        admission(&answer["admission"], &mut fact);
        changes(&answer["changes"], &mut fact);
        return text;
    }
    service(&answer["service"], &mut fact);
    if route["target_for_service"] != answer["target"] {
        fact("", &format!("it sees {}", string(&route["target_for_service"])));
    }
    program(&answer["program"], &mut fact);
    admission(&answer["admission"], &mut fact);
    cache(&answer["cache"], &mut fact);
    changes(&answer["changes"], &mut fact);
    for (index, limit) in answer["limits"].as_array().into_iter().flatten().enumerate() {
        let value = if limit["value"].is_null() {
            "none".to_owned()
        } else {
            let beyond = limit["beyond"].as_str().map_or_else(|| limit["beyond"].to_string(), str::to_owned);
            format!("{}, beyond it {beyond}", amount(limit))
        };
        fact(if index == 0 { "limits" } else { "" }, &format!("{}: {value}", string(&limit["setting"])));
    }
    text
}

/// Where it goes, and what happens to it there.
fn service(service: &Value, fact: &mut impl FnMut(&str, &str)) {
    let state = service["state"].as_str().map(|state| format!("{state}: ")).unwrap_or_default();
    let then = service["then"].as_str().map(|then| format!(", {state}{then}")).unwrap_or_default();
    let address = service["address"].as_str().map(|address| format!(" at {address}"));
    let address = address.filter(|_| service["address"] != "").unwrap_or_default();
    fact("service", &format!("{}{address}{then}", string(&service["name"])));
    if let Some(place) = service["runs_in"].as_str() {
        fact("", &format!("it runs in {place}"));
    }
    servers(&service["servers"], fact);
}

/// Which servers may get it.
fn servers(servers: &Value, fact: &mut impl FnMut(&str, &str)) {
    for (index, server) in servers.as_array().into_iter().flatten().enumerate() {
        let state = match (server["state"].as_str(), server["back_in_seconds"].as_f64()) {
            (Some("in"), _) => format!("{} open", server["open"]),
            (Some("ejected"), Some(seconds)) => format!("left out for another {seconds:.1} s, as requests failed"),
            (Some("unhealthy"), _) => "left out until health requests succeed".to_owned(),
            _ => string(&server["state"]),
        };
        fact(if index == 0 { "servers" } else { "" }, &format!("{}: {state}", string(&server["address"])));
    }
}

/// The routes of which the body decides.
fn json(choice: &Value, fact: &mut impl FnMut(&str, &str)) {
    let hint = if choice["has_data"] == true { "" } else { ", which --data says here" };
    fact("json", &format!("chosen by {} of the body{hint}", string(&choice["fields"])));
    let routes: Vec<String> = choice["routes"].as_array().into_iter().flatten().map(string).collect();
    let otherwise = choice["otherwise"].as_str().map(|route| format!(", otherwise {route}")).unwrap_or_default();
    fact("", &format!("{}{otherwise}", routes.join(", ")));
}

/// Which script would run, by the variables that tell it so, or what is answered in its place.
fn program(program: &Value, fact: &mut impl FnMut(&str, &str)) {
    if let Some(file) = program["file"].as_str() {
        fact("file", &format!("{file}, which the gateway sends"));
    }
    if let Some(to) = program["redirect"].as_str() {
        fact("redirect", &format!("308 to {to}"));
    }
    if let Some(why) = program["why"].as_str() {
        fact("script", &format!("none: {why}; the answer is {}", program["status"]));
    }
    let variables = ["SCRIPT_FILENAME", "SCRIPT_NAME", "PATH_INFO"];
    let told = variables.into_iter().filter_map(|name| Some((name, program[name].as_str()?)));
    for (index, (name, value)) in told.enumerate() {
        fact(if index == 0 { "script" } else { "" }, &format!("{name} = {value}"));
    }
}

/// Which certificate a client would get, and how the host would get one of its own.
fn certificate(told: &Value, fact: &mut impl FnMut(&str, &str)) {
    if !told.is_object() {
        return;
    }
    match told["names"].as_array() {
        None => fact("tls", &string(&told["why"])),
        Some(names) => {
            let names: Vec<String> = names.iter().take(3).map(string).collect();
            fact("tls", &format!("{}: {}", names.join(" "), string(&told["why"])));
            let source = match told["source"].as_str() {
                Some("files") => "from the file",
                Some("acme") => "by ACME from",
                _ => "by the local authority,",
            };
            fact("", &format!("{source} {}, issued by {}", string(&told["from"]), string(&told["issuer"])));
            let seconds = told["ends_in_seconds"].as_i64().unwrap_or_default();
            let end = if seconds < 0 { "was over".to_owned() } else { format!("is over in {}", span(seconds)) };
            fact("", &format!("it {end} ({})", string(&told["not_after"])));
        }
    }
    for other in told["others"].as_array().into_iter().flatten() {
        fact("", &format!("clients that do not take its key get that from {}", string(&other["from"])));
    }
    let state = &told["acme"];
    if state.is_object() {
        let news = news(state);
        fact("", &format!("ACME: {}", if news.is_empty() { "nothing is to be done" } else { &news }));
    }
    if let Some(next) = told["next"].as_str() {
        fact("", next);
    }
}

/// Access control and limits.
fn admission(rules: &Value, fact: &mut impl FnMut(&str, &str)) {
    for (index, rule) in rules.as_array().into_iter().flatten().enumerate() {
        let beyond = rule["beyond"].as_u64().map(|status| format!(", else {status}")).unwrap_or_default();
        let line = format!("{}: {}{beyond}", string(&rule["rule"]), string(&rule["value"]));
        fact(if index == 0 { "admission" } else { "" }, &line);
    }
}

/// What the route changes of requests and responses.
fn changes(changes: &Value, fact: &mut impl FnMut(&str, &str)) {
    let mut lines = Vec::new();
    lines.extend(changes["rewrite"].as_str().map(|rewrite| format!("rewrite: {rewrite}")));
    for part in ["request_fields", "response_fields"] {
        for what in ["remove", "set", "add"] {
            let names = strings(&changes[part][what]);
            if !names.is_empty() {
                lines.push(format!("{part}.{what}: {}", names.join(" ")));
            }
        }
    }
    let pages = strings(&changes["errors"]);
    lines.extend((!pages.is_empty()).then(|| format!("errors: {}", pages.join(", "))));
    for (index, line) in lines.iter().enumerate() {
        fact(if index == 0 { "changes" } else { "" }, line);
    }
}

/// As it may be written in the configuration, where that has a unit for it.
fn amount(limit: &Value) -> String {
    let (value, unit) = (&limit["value"], limit["unit"].as_str().unwrap_or_default());
    match (unit, value.as_u64(), value.as_f64()) {
        ("bytes", Some(bytes), _) => {
            let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
            let whole = units.into_iter().find(|(size, _)| bytes > 0 && bytes % size == 0);
            whole.map_or_else(|| format!("{bytes} bytes"), |(size, unit)| format!("{}{unit}", bytes / size))
        }
        ("seconds", _, Some(seconds)) => format!("{seconds}s"),
        (_, Some(1), _) => {
            format!("1 {}", printable(unit).replacen("requests", "request", 1).replace("instances", "instance"))
        }
        _ => format!("{value} {}", printable(unit)),
    }
}

/// What files would answer with.
fn files(files: &Value, fact: &mut impl FnMut(&str, &str)) {
    let below = files["below"].as_str().unwrap_or("nothing: the path has dot segments");
    fact("files", &format!("{} below {}", below, string(&files["root"])));
    for (name, key) in [("index", "index"), ("fallback", "fallback")] {
        if let Some(value) = files[key].as_str() {
            fact(name, value);
        }
    }
    if files["listing"] == true {
        fact("listing", "folders without an index are listed");
    }
    for (name, key) in [("rules", "cache_control"), ("types", "types")] {
        for (index, rule) in files[key].as_array().into_iter().flatten().enumerate() {
            let rule = format!("{}: {}", string(&rule["pattern"]), string(&rule["value"]));
            fact(if index == 0 { name } else { "" }, &rule);
        }
    }
}

/// What the cache would do, and what it has.
fn cache(cache: &Value, fact: &mut impl FnMut(&str, &str)) {
    let rule =
        cache["rule"].as_str().filter(|rule| !rule.is_empty()).map(|rule| format!(" ({rule})")).unwrap_or_default();
    let by = cache["bypassed_by"].as_str().map(|key| format!(": {key}")).unwrap_or_default();
    fact("cache", &format!("{}: {}{by}{rule}", string(&cache["verdict"]), string(&cache["why"])));
    if cache["asks_redis"] == true {
        fact("", "before its service it asks cache.redis, where this does not look");
    }
    if let Some(key) = cache["key"].as_str() {
        fact("key", key);
    }
    let left_out = strings(&cache["key_parts"]["left_out"]);
    if !left_out.is_empty() {
        fact("", &format!("left out: {}", left_out.join("&")));
    }
    if cache["stored"].is_object() {
        for (index, line) in stored(&cache["stored"]).iter().enumerate() {
            fact(if index == 0 { "stored" } else { "" }, line);
        }
    }
    let variants: Vec<&Value> = cache["variants"].as_array().into_iter().flatten().collect();
    let is_all = variants.len() == 1 && variants.iter().all(|one| one["chosen"] == true);
    for (index, one) in variants.iter().enumerate().filter(|_| !is_all) {
        let mark = if one["chosen"] == true { ", this request's" } else { "" };
        let line = stored(one).into_iter().take(2).collect::<Vec<_>>().join("; ");
        let vary = vary(one).map(|vary| format!("; {vary}")).unwrap_or_default();
        fact(if index == 0 { "variants" } else { "" }, &format!("{line}{vary}{mark}"));
    }
    if let Some(why) = cache["last_not_stored"]["why"].as_str() {
        let ago = &cache["last_not_stored"]["seconds_ago"];
        fact("unstored", &format!("the last answer for this key that was not stored: {why}, {ago} s ago"));
    }
    let counts = cache["not_stored_so_far"].as_object().into_iter().flatten();
    let counts: Vec<String> = counts.map(|(why, count)| format!("{why} × {count}")).collect();
    if !counts.is_empty() {
        fact("", &format!("answers of this route that were not stored: {}", counts.join(", ")));
    }
    let rules = cache["route"].as_object().into_iter().flatten();
    for (index, (key, value)) in rules.enumerate() {
        fact(if index == 0 { "rules" } else { "" }, &format!("{key}: {}", words(value)));
    }
}

/// A stored answer, the most important first.
fn stored(stored: &Value) -> Vec<String> {
    let ttl = stored["ttl_seconds"].as_i64().unwrap_or(0);
    let fresh = if ttl < 0 { format!("stale for {} s", -ttl) } else { format!("fresh for {ttl} s more") };
    let bytes = stored["body_bytes"].as_u64().unwrap_or(0);
    let mut lines = vec![
        format!("{}, {bytes} bytes, in {}", stored["status"], string(&stored["tier"])),
        format!(
            "age {} s of {} s ({}), {fresh}",
            stored["age_seconds"],
            stored["lifetime_seconds"],
            string(&stored["lifetime_by"])
        ),
    ];
    let demands = [("no_cache", "must always be validated"), ("must_revalidate", "must not be used stale")];
    lines.extend(demands.iter().filter(|(key, _)| stored[*key] == true).map(|(_, text)| (*text).to_owned()));
    lines.extend(vary(stored));
    let validators = stored["validators"].as_object().into_iter().flatten();
    lines.extend(validators.map(|(name, value)| format!("{name} {}", string(value))));
    let tags = strings(&stored["tags"]);
    if !tags.is_empty() {
        lines.push(format!("tags {}", tags.join("; ")));
    }
    lines
}

fn vary(stored: &Value) -> Option<String> {
    let fields = stored["vary"].as_object().filter(|fields| !fields.is_empty())?;
    let one = |(name, value): (&String, &Value)| match value.as_str() {
        Some(value) => format!("{name}: {value}"),
        None => format!("no {name}"),
    };
    Some(format!("for {}", fields.iter().map(one).collect::<Vec<_>>().join(", ")))
}

/// A value as words.
fn words(value: &Value) -> String {
    match value {
        Value::Array(list) => list.iter().map(words).collect::<Vec<_>>().join(" "),
        Value::Object(map) => {
            map.iter().map(|(name, value)| format!("{name} {}", words(value))).collect::<Vec<_>>().join(", ")
        }
        Value::String(_) => string(value),
        other => other.to_string(),
    }
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(string).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_cache_has() {
        let answer = json!({
            "verdict": "hit", "why": "a stored answer is fresh", "rule": "RFC 9111 §4.2", "bypassed_by": null,
            "key": "http://h/x?a=1 cookie:theme=dark", "key_parts": { "left_out": ["utm_source=x", "fbclid=1"] },
            "stored": { "status": 200, "body_bytes": 12, "tier": "memory", "age_seconds": 3, "lifetime_seconds": 60,
                        "lifetime_by": "max-age", "ttl_seconds": 57, "must_revalidate": true, "no_cache": false,
                        "vary": { "accept": null, "accept-language": "de" }, "validators": { "ETag": "\"v\"" }, "chosen": true },
            "variants": [],
            "last_not_stored": { "why": "set-cookie", "seconds_ago": 9 },
            "not_stored_so_far": { "set-cookie": 2 },
            "route": { "errors_seconds": { "404": 60.0 }, "key.ignore_query": ["utm_*", "fbclid"], "key.sort_query": true },
        });
        let mut text = String::new();
        cache(&answer, &mut |name: &str, value: &str| text.push_str(&format!("{name:<10}{value}\n")));
        let expected = "\
cache     hit: a stored answer is fresh (RFC 9111 §4.2)
key       http://h/x?a=1 cookie:theme=dark
          left out: utm_source=x&fbclid=1
stored    200, 12 bytes, in memory
          age 3 s of 60 s (max-age), fresh for 57 s more
          must not be used stale
          for no accept, accept-language: de
          ETag \"v\"
unstored  the last answer for this key that was not stored: set-cookie, 9 s ago
          answers of this route that were not stored: set-cookie × 2
rules     errors_seconds: 404 60.0
          key.ignore_query: utm_* fbclid
          key.sort_query: true
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_not_looked_at() {
        let mut text = String::new();
        let answer =
            json!({ "verdict": "miss", "why": "nothing", "rule": null, "asks_redis": true, "key": "http://h/" });
        cache(&answer, &mut |name: &str, value: &str| text.push_str(&format!("{name:<10}{value}\n")));
        let expected = "\
cache     miss: nothing
          before its service it asks cache.redis, where this does not look
key       http://h/
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_a_service_with_scripts_runs() {
        let check = |told: Value, expected: &str| {
            let mut text = String::new();
            program(&told, &mut |name: &str, value: &str| text.push_str(&format!("{name:<10}{value}\n")));
            assert_eq!(text, expected);
        };
        check(
            json!({ "SCRIPT_FILENAME": "/srv/a.php", "SCRIPT_NAME": "/a.php", "PATH_INFO": "/x" }),
            "script    SCRIPT_FILENAME = /srv/a.php\n          SCRIPT_NAME = /a.php\n          PATH_INFO = /x\n",
        );
        check(json!({ "SCRIPT_NAME": "", "PATH_INFO": null, "SCRIPT_FILENAME": null }), "script    SCRIPT_NAME = \n");
        check(json!({ "file": "/srv/a.css" }), "file      /srv/a.css, which the gateway sends\n");
        check(json!({ "redirect": "/docs/" }), "redirect  308 to /docs/\n");
        check(
            json!({ "status": 404, "why": "there is no file for /x" }),
            "script    none: there is no file for /x; the answer is 404\n",
        );
        check(Value::Null, "");
    }

    #[test]
    fn limits_as_they_are_written() {
        let check = |value: Value, unit: &str, expected: &str| {
            assert_eq!(amount(&json!({ "value": value, "unit": unit })), expected);
        };
        check(json!(32_768), "bytes", "32KiB");
        check(json!(1_073_741_824), "bytes", "1GiB");
        check(json!(1500), "bytes", "1500 bytes");
        check(json!(0), "bytes", "0 bytes");
        check(json!(10.0), "seconds", "10s");
        check(json!(0.25), "seconds", "0.25s");
        check(json!(1), "instances", "1 instance");
        check(json!(1), "requests of one instance", "1 request of one instance");
        check(json!(1024), "requests of one worker", "1024 requests of one worker");
    }

    #[test]
    fn no_route() {
        let answer = json!({ "method": "GET", "target": "/x", "host": "h", "route": null, "why": "no route matches /x on h", "status": 404, "routes": ["/a", "/b"] });
        assert_eq!(
            text(&answer),
            "request   GET /x (host h)\nroute     none: no route matches /x on h; the answer is 404\n          routes are /a /b\n"
        );
    }
}
