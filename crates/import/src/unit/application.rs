//! Applications of NGINX Unit, as services.

use crate::document::Value;
use crate::json::Json;
use crate::model::Became;
use crate::procfile::words_or_shell;
use crate::python::Python;
use crate::settings::seconds;

use super::{OWN, Reader, at};

impl<'a> Reader<'a> {
    pub(super) fn application(&mut self, name: &str, app: &'a Json) {
        let kind = at(app, "type").and_then(Json::text).unwrap_or_default();
        let line = app.line;
        let mut python = Python::default();
        let is_python = kind.starts_with("python");
        if kind == "external" {
            let program = at(app, "executable").and_then(Json::text).unwrap_or_default();
            let mut words = words_or_shell(program);
            words.extend(at(app, "arguments").map(Json::texts).unwrap_or_default().into_iter().map(str::to_owned));
            python.command = Some(words).filter(|words| !words.is_empty());
            python.service.text("transport", "http");
            python.service.text("socket", "port");
        } else if !is_python {
            let why = format!(
                "there is no SDK for {kind:?}: write the command of a server for it, with transport = \"http\" and socket = \"port\""
            );
            return self.draft.note(line, name, Became::NotMapped(why));
        }
        for (key, one) in app.table() {
            self.key_of_application(key, one, &mut python);
        }
        let routes = self.draft.routes.len();
        let is_there = python.finish(name, &mut self.draft).is_some();
        self.draft.routes.truncate(routes); // listeners and routes say who gets there
        match is_there {
            true => self.draft.note(line, name, Became::Mapped("[services.NAME]".to_owned())),
            false => self.draft.note(line, name, Became::NotMapped("it has no `module`".to_owned())),
        }
    }

    fn key_of_application(&mut self, key: &str, one: &Json, python: &mut Python) {
        let text = one.text().map(str::to_owned);
        let to = match (key, text, one.number()) {
            ("type", ..) => "transport",
            ("executable" | "arguments", ..) => "command",
            ("module", Some(module), _) => {
                python.module = Some(module);
                "command"
            }
            ("callable", Some(callable), _) => {
                python.callable = Some(callable);
                "command"
            }
            ("home", Some(home), _) => {
                python.environment = Some(home);
                "command"
            }
            ("path", ..) => {
                python.paths.extend(one.texts().into_iter().map(str::to_owned));
                "env.PYTHONPATH"
            }
            ("prefix", Some(prefix), _) => {
                python.mount = Some(prefix);
                "command"
            }
            ("working_directory", Some(folder), _) => {
                python.service.text("dir", folder);
                "dir"
            }
            ("user" | "group", Some(name), _) => {
                python.service.text(if key == "user" { "user" } else { "group" }, name);
                "user, group"
            }
            ("threads", _, Some(count)) => {
                python.threads = Some(count.clamp(1, 100_000));
                "concurrency"
            }
            ("processes", ..) => return self.processes(one, python),
            ("limits", ..) => return self.limits(one, python),
            ("environment", ..) => {
                for (name, value) in one.table() {
                    python.service.entry("env", name.as_str(), value.text().unwrap_or_default());
                }
                "env"
            }
            ("stdout" | "stderr", ..) => {
                return self.not_needed(one, key, "`pilotlight logs` has what a service prints");
            }
            ("protocol" | "thread_stack_size", ..) => return self.not_needed(one, key, OWN),
            ("isolation", ..) => {
                return self.not_mapped(one, key, "`sandbox`, `limits` and `cgroup` of a service are the means here");
            }
            _ => return self.not_mapped(one, key, "there is no key for it"),
        };
        self.mapped(one, key, to);
    }

    fn processes(&mut self, one: &Json, python: &mut Python) {
        if let Some(count) = one.number() {
            python.instances = Some(count.clamp(1, 256));
            return self.mapped(one, "processes", "max_instances");
        }
        for (key, value) in one.table() {
            match (key.as_str(), value.number()) {
                ("max", Some(count)) => {
                    python.instances = Some(count.clamp(1, 256));
                    self.mapped(value, "processes.max", "max_instances");
                }
                ("spare", Some(count)) => {
                    python.service.set("spare", Value::Number(count.min(1)));
                    self.mapped(value, "processes.spare", "spare");
                }
                ("idle_timeout", Some(time)) => {
                    python.service.text("scale_down_after", seconds(time.clamp(1, 86_400)).unwrap_or_default());
                    self.mapped(value, "processes.idle_timeout", "scale_down_after");
                }
                _ => self.not_mapped(value, key, "there is no key for it"),
            }
        }
    }

    fn limits(&mut self, one: &Json, python: &mut Python) {
        for (key, value) in one.table() {
            match (key.as_str(), value.number()) {
                ("timeout", Some(time)) => {
                    python.service.text("max_request_time", seconds(time).unwrap_or_else(|| "none".to_owned()));
                    self.mapped(value, "limits.timeout", "max_request_time");
                }
                ("requests", Some(count)) => {
                    python.service.set("max_requests", Value::Number(count.max(1)));
                    self.mapped(value, "limits.requests", "max_requests");
                }
                _ => self.not_mapped(value, key, "there is no key for it"),
            }
        }
    }
}
