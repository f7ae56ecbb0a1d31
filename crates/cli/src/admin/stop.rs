//! What `pilotlight stop` says: what it stopped, and how the requests in flight ended.

use serde_json::Value;

/// What became of the instances that there were, and what there is now.
pub(super) fn said(service: &str, now: &Value) -> String {
    let count = |name: &str| now["stop"][name].as_u64().unwrap_or_default();
    let mut text = format!("{service} stopped: {}", number_of(count("instances"), "instance"));
    if count("killed") > 0 {
        text.push_str(&format!(" ({} killed after stop_grace)", count("killed")));
    }
    match (count("finished"), count("cut")) {
        (0, 0) => {}
        (finished, 0) => text.push_str(&format!("; {} in flight finished", number_of(finished, "request"))),
        (finished, cut) => text.push_str(&format!(
            "; {} in flight finished, {cut} cut after its drain_timeout",
            number_of(finished, "request")
        )),
    }
    match now["state"].as_str() {
        Some("stopped") => text.push_str("; its next request starts it"),
        _ => text.push_str(&format!("; a request has started it again: instance {}", now["last_instance"])),
    }
    text
}

fn number_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What one stop did: the difference of the counters.
pub(super) fn difference(before: &Value, now: &Value) -> Value {
    let names = ["instances", "finished", "cut", "killed"];
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    names.into_iter().map(|name| (name, number(&now[name]).saturating_sub(number(&before[name])))).collect()
}

/// The instances that there were when a stop was asked for and that have not gone.
pub(super) fn still_there<'a>(before: &Value, now: &'a Value) -> impl Iterator<Item = &'a Value> {
    let last = before["last_instance"].as_u64().unwrap_or_default();
    let instances = now["instances"].as_array().into_iter().flatten();
    instances.filter(move |one| one["number"].as_u64().is_some_and(|number| number <= last))
}

/// What a stop waits for, as the rest of a sentence.
pub(super) fn waits_for(before: &Value, now: &Value) -> String {
    let one = |one: &Value| {
        let in_flight = number_of(one["in_flight"].as_u64().unwrap_or_default(), "request");
        format!(": instance {} still has {in_flight} in flight", one["number"])
    };
    still_there(before, now).map(one).collect()
}
