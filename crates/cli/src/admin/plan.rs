//! What a reload changed, as text.

use std::fmt::Write;

use serde_json::Value;

use super::table::printable;

/// Lines of what there is to say.
pub(super) fn text(answer: &Value) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |head: &str, what: &str| {
        let _ = writeln!(text, "{head:<10}{what}");
    };
    let names = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(printable).collect()
    };
    let replaced = names(&answer["replaced"]);
    for (head, key) in [("listen", "listen"), ("services", "services"), ("routes", "routes")] {
        let changes = &answer[key];
        for (mark, kind) in [("+", "added"), ("~", "changed"), ("-", "removed")] {
            for name in names(&changes[kind]) {
                let how = if key == "services" && kind == "changed" && replaced.contains(&name) {
                    ", instances are replaced"
                } else {
                    ""
                };
                line(head, &format!("{mark} {name} ({kind}{how})"));
            }
        }
    }
    let settings = names(&answer["settings"]);
    if !settings.is_empty() {
        line("settings", &format!("~ {} (for new connections)", settings.join(", ")));
    }
    let fixed = names(&answer["needs_upgrade"]);
    if !fixed.is_empty() {
        line("not yet", &format!("{}: `pilotlight upgrade` follows it, without losing a request", fixed.join(", ")));
    }
    if text.is_empty() { "reloaded: nothing has changed\n".to_owned() } else { format!("reloaded\n{text}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_changed() {
        assert_eq!(text(&json!({})), "reloaded: nothing has changed\n");
        let answer = json!({
            "listen": { "added": ["http://a"], "removed": [] }, "services": { "changed": ["x", "y"] }, "replaced": ["y"],
            "settings": ["limits"], "needs_upgrade": ["workers", "cache"],
        });
        assert_eq!(
            text(&answer),
            "reloaded\nlisten    + http://a (added)\nservices  ~ x (changed)\nservices  ~ y (changed, instances are replaced)\n\
             settings  ~ limits (for new connections)\n\
             not yet   workers, cache: `pilotlight upgrade` follows it, without losing a request\n"
        );
    }
}
