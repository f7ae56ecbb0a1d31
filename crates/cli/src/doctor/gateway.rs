//! Whether a gateway of this file runs, answers, and is of this version.

use std::path::Path;

use serde_json::Value;

use super::bounded;
use super::finding::{Area, Finding};
use crate::admin::{self, Failure, Which};
use crate::config::{AdminSocket, Config, DEFAULT_FILE};
use crate::presence;

/// Asks it. Its process, if it runs.
pub(super) fn look(file: &Path, config: &Config) -> (Vec<Finding>, Option<u64>) {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let recorded = presence::with_file(&absolute).0.first().map(|record| u64::from(record.pid));
    if config.operate.admin.is_none() {
        let fact = match recorded {
            Some(pid) => format!("a gateway of this file runs (pid {pid}); with `admin = false` it cannot be asked"),
            None => "with `admin = false` a gateway of this file cannot be asked".to_owned(),
        };
        return (
            vec![Area::Gateway.note(fact, "take `admin = false` away for `pilotlight status` and its like")],
            recorded,
        );
    }
    if recorded.is_none() && config.operate.admin == Some(AdminSocket::InRuntimeDir) {
        let fact = format!("no gateway of this user runs with {}", file.display());
        let option =
            if file == Path::new(DEFAULT_FILE) { String::new() } else { format!(" --config {}", file.display()) };
        return (vec![Area::Gateway.note(fact, format!("`pilotlight run{option}` starts one"))], None);
    }
    let which = Which::Config(file.to_owned());
    let answer = bounded::begin(move || admin::asked(&which)).finished();
    let pid = match &answer {
        Some(Ok(status)) => status["gateway"]["pid"].as_u64(),
        _ => recorded,
    };
    (verdict(answer, env!("CARGO_PKG_VERSION")), pid)
}

fn verdict(answer: Option<Result<Value, Failure>>, own_version: &str) -> Vec<Finding> {
    let silent = |why: String| {
        Area::Gateway.problem(why, "look at its log; `pilotlight upgrade` starts another process in its place")
    };
    let status = match answer {
        Some(Ok(status)) => status,
        Some(Err(Failure::NoGateway(why))) => {
            let (fact, remedy) = why.split_once("; ").unwrap_or((&why, "start it with `pilotlight run`"));
            return vec![Area::Gateway.note(fact, remedy)];
        }
        Some(Err(error)) => return vec![silent(error.to_string())],
        None => return vec![silent(format!("the gateway did not answer within {} s", bounded::LIMIT.as_secs()))],
    };
    let gateway = &status["gateway"];
    let (pid, version) =
        (gateway["pid"].as_u64().unwrap_or(0), gateway["version"].as_str().unwrap_or("an unknown version"));
    let mut findings = vec![match version == own_version {
        true => Area::Gateway.ok(format!("it runs and answers (pid {pid}, version {version})")),
        false => Area::Gateway.note(
            format!("it runs (pid {pid}) as version {version}, and this program is {own_version}"),
            "`pilotlight upgrade` puts this one in its place, without losing a request",
        ),
    }];
    for service in status["services"].as_array().into_iter().flatten() {
        let name = service["name"].as_str().unwrap_or_default();
        if service["circuit"].as_str().or_else(|| service["circuit"]["state"].as_str()) == Some("open") {
            let fact = format!("the service {name} does not start: its requests are refused");
            findings.push(Area::Gateway.problem(fact, format!("`pilotlight logs {name}` has what it said")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_answer_means() {
        let status =
            || json!({ "gateway": { "pid": 7, "version": "1.0" }, "services": [{ "name": "a", "circuit": "closed" }] });
        let levels = |answer, version| verdict(answer, version).iter().map(|one| one.level).collect::<Vec<_>>();
        assert_eq!(levels(Some(Ok(status())), "1.0"), [Level::Ok]);
        assert_eq!(levels(Some(Ok(status())), "1.1"), [Level::Note]);
        assert_eq!(levels(None, "1.0"), [Level::Problem]);
        let nobody = Failure::NoGateway("no gateway runs; start one".to_owned());
        assert_eq!(verdict(Some(Err(nobody)), "1.0"), [Area::Gateway.note("no gateway runs", "start one")]);
        let mut open = status();
        open["services"][0]["circuit"] = json!("open");
        assert_eq!(levels(Some(Ok(open)), "1.0"), [Level::Ok, Level::Problem]);
    }
}
