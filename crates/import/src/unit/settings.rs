//! Settings of Unit itself, and its access log.

use crate::json::Json;
use crate::settings::seconds;

use super::{OWN, Reader, at};

impl Reader<'_> {
    pub(super) fn settings(&mut self, settings: &Json) {
        for (key, one) in at(settings, "http").map_or(&[][..], Json::table) {
            let time = |max: u64| one.number().and_then(|time| seconds(time.clamp(1, max)));
            let (name, value) = match key.as_str() {
                "header_read_timeout" => ("header_timeout", time(600)),
                "body_read_timeout" | "send_timeout" => ("body_timeout", time(3600)),
                "idle_timeout" => ("keepalive_timeout", time(3600)),
                "max_body_size" => ("body_size", one.number().map(|bytes| format!("{}B", bytes.max(1)))),
                "discard_unsafe_fields" | "server_version" | "log_route" | "body_buffer_size" | "body_temp_path" => {
                    self.not_needed(one, key, OWN);
                    continue;
                }
                "static" => {
                    self.not_needed(one, key, "types of files go by their ends");
                    continue;
                }
                _ => ("", None),
            };
            match value {
                Some(value) => {
                    self.draft.limits.text(name, value);
                    self.mapped(one, key, &format!("limits.{name}"));
                }
                None => self.not_mapped(one, key, "there is no key for it"),
            }
        }
    }

    pub(super) fn access_log(&mut self, one: &Json) {
        let path = one.text().or_else(|| at(one, "path").and_then(Json::text)).unwrap_or("access.log").to_owned();
        self.draft.other("access_log").text("path", path);
        self.mapped(one, "access_log", "access_log.path");
        if let Some(format) = at(one, "format") {
            self.not_mapped(format, "format", "`fields` in [access_log] says what is logged");
        }
    }
}
