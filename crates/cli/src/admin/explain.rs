//! `pilotlight explain` as text.

use std::fmt::Write;

use serde_json::Value;

use super::table::{printable, string};

/// What was told, as lines of name and value.
pub(super) fn text(told: &Value) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<10}{}", printable(value));
    };
    fact(
        "request",
        &format!("{} {} (host {})", string(&told["method"]), string(&told["target"]), string(&told["host"])),
    );
    if told["route"].is_null() {
        fact("route", &format!("none: {}; the answer is 404", string(&told["why"])));
        let known: Vec<String> = told["routes"].as_array().into_iter().flatten().map(string).collect();
        fact("", &format!("routes are {}", known.join(" ")));
        return text;
    }
    let route = &told["route"];
    fact("route", &format!("{}: {}", string(&route["name"]), string(&route["why"])));
    let service = &told["service"];
    let then =
        service["then"].as_str().map(|then| format!(", {}: {then}", string(&service["state"]))).unwrap_or_default();
    let address = service["address"].as_str().map(|address| format!(" at {address}")).unwrap_or_default();
    fact("service", &format!("{}{address}{then}", string(&service["name"])));
    if route["target_for_service"] != told["target"] {
        fact("", &format!("it sees {}", string(&route["target_for_service"])));
    }
    let cache = &told["cache"];
    let rule =
        cache["rule"].as_str().filter(|rule| !rule.is_empty()).map(|rule| format!(" ({rule})")).unwrap_or_default();
    fact("cache", &format!("{}: {}{rule}", string(&cache["verdict"]), string(&cache["why"])));
    if let Some(key) = cache["key"].as_str() {
        fact("", &format!("key {key}"));
    }
    if let Some(stored) = cache["stored"].as_object() {
        let (status, bytes, ttl) =
            (&stored["status"], &stored["body_bytes"], stored["ttl_seconds"].as_i64().unwrap_or(0));
        let fresh = if ttl < 0 { format!("stale for {} s", -ttl) } else { format!("fresh for {ttl} s more") };
        fact("", &format!("stored: {status}, {bytes} bytes, {fresh}"));
    }
    let unstored = cache["not_stored_so_far"].as_object().into_iter().flatten();
    let unstored: Vec<String> = unstored.map(|(why, count)| format!("{why} × {count}")).collect();
    if !unstored.is_empty() {
        fact("", &format!("answers of this route that were not stored: {}", unstored.join(", ")));
    }
    for (index, limit) in told["limits"].as_array().into_iter().flatten().enumerate() {
        let value = if limit["value"].is_null() {
            "none".to_owned()
        } else {
            let beyond = limit["beyond"].as_str().map_or_else(|| limit["beyond"].to_string(), str::to_owned);
            format!("{} {}, beyond it {beyond}", limit["value"], string(&limit["unit"]))
        };
        fact(if index == 0 { "limits" } else { "" }, &format!("{}: {value}", string(&limit["setting"])));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_route() {
        let told = json!({ "method": "GET", "target": "/x", "host": "h", "route": null, "why": "no route matches /x on h", "routes": ["/a", "/b"] });
        assert_eq!(
            text(&told),
            "request   GET /x (host h)\nroute     none: no route matches /x on h; the answer is 404\n          routes are /a /b\n"
        );
    }
}
