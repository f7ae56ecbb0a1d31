//! The keys of schedules.

use super::key::{A_STRING, A_TIME, Key, TRUE_OR_FALSE, key};

/// The keys of `[[schedules]]`.
pub const SCHEDULE: &[Key] = &[
    key("cron", A_STRING, "\"30 2 * * *\"", &["schedule", "when", "at", "time", "expression", "on_calendar"]),
    key("service", "the name of a service", "\"app\"", &["upstream", "target", "backend", "to"]),
    key("path", "a path", "\"/tasks/cleanup\"", &["url", "uri", "route", "endpoint"]),
    key("event", A_STRING, "'{\"task\": \"cleanup\"}'", &["payload", "input", "body", "data"]),
    key("name", A_STRING, "\"cleanup\"", &["id", "label", "title"]),
    key("timezone", A_STRING, "\"Europe/Berlin\"", &["time_zone", "tz", "zone", "location"]),
    key(
        "method",
        "\"POST\", \"GET\", \"PUT\", \"PATCH\", \"DELETE\" or \"HEAD\"",
        "\"POST\"",
        &["http_method", "verb"],
    ),
    key("host", A_STRING, "\"app.example.org\"", &["hostname", "authority"]),
    key("jitter", A_TIME, "\"5m\"", &["random_delay", "randomized_delay", "splay", "spread"]),
    key("timeout", A_TIME, "\"10m\"", &["deadline", "max_time", "response_timeout"]),
    key("shared", TRUE_OR_FALSE, "true", &["once", "single", "on_one_server", "exclusive"]),
    key("missed", "\"skip\" or \"run\"", "\"run\"", &["persistent", "catch_up", "misfire", "on_missed"]),
];
