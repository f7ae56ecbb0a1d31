//! uWSGI: the section `[uwsgi]` of an ini file.

use crate::document::{Section, Value};
use crate::model::{Became, Draft};
use crate::origin::Origin;
use crate::pattern::closed_by;
use crate::python::Python;
use crate::rules::{CLOSED, Place};
use crate::settings::{Given, To, address, apply, short};

/// Longest value of an option that another one names.
const MAX_VALUE: usize = 4096;
/// Longest value with others in it.
const MAX_FILLED: usize = 64 * 1024;
const OWN: &str = "the gateway and its supervisor do this themselves";
const PIPE: &str = "the gateway speaks HTTP itself, and the pipe to the service";
const LOGS: &str = "`pilotlight logs` has what a service prints; `access_log` is off unless asked for";
const NO_ROUTING: &str = "internal routing has no counterpart: routes have `redirect`, `rewrite`, `allow` and fields";
const NOT_A_SERVER: &str = "it answers no requests: have a service manager run it beside Pilotlight";

#[rustfmt::skip]
const OPTIONS: &[(&[&str], To)] = &[
    (&["processes", "workers", "p"], To::Instances),
    (&["threads", "gevent", "async", "asyncio"], To::Concurrency),
    (&["cheaper", "cheaper-initial"], To::Kept),
    (&["harakiri"], To::ServiceTime("max_request_time")),
    (&["idle"], To::ServiceTime("idle_timeout")),
    (&["reload-mercy", "worker-reload-mercy"], To::ServiceTime("drain_timeout")),
    (&["max-worker-lifetime"], To::ServiceTime("max_age")),
    (&["max-requests"], To::ServiceNumber("max_requests", 1, 1_000_000_000_000)),
    (&["reload-on-rss", "evil-reload-on-rss"], To::Megabytes("max_memory")),
    (&["limit-as"], To::ProcessMegabytes("address_space")),
    (&["limit-nproc"], To::ProcessLimit("processes")),
    (&["max-fd"], To::ProcessLimit("open_files")),
    (&["listen", "l"], To::Queue),
    (&["buffer-size", "b"], To::LimitBytes("header_size", 1 << 10, 56 << 10)),
    (&["limit-post"], To::LimitBytes("body_size", 1, 1 << 50)),
    (&["http-timeout", "socket-timeout"], To::LimitTime("response_timeout")),
    (&["http-keepalive"], To::LimitTime("keepalive_timeout")),
    (&["uid"], To::ServiceText("user")),
    (&["gid"], To::ServiceText("group")),
    (&["chdir", "chdir2"], To::ServiceText("dir")),
    (&["env"], To::Variable),
    (&["pythonpath", "python-path", "pp"], To::PythonPath),
    (&["http", "http-socket"], To::Listen),
    (&["req-logger", "logger-req"], To::Missing("`path` in [access_log] says where requests are logged")),
    (&["log-format", "logformat"], To::Missing("`fields` in [access_log] says what is logged")),
    (&["socket", "s", "uwsgi-socket", "chmod-socket", "chown-socket", "abstract-socket", "http-to", "protocol"], To::NotNeeded(PIPE)),
    (&["master", "vacuum", "die-on-term", "thunder-lock", "no-orphans", "need-app", "strict", "single-interpreter", "enable-threads",
       "close-on-exec", "ignore-sigpipe", "ignore-write-errors", "disable-write-exception", "post-buffering", "offload-threads",
       "log-master", "harakiri-verbose", "so-keepalive", "memory-report", "py-call-osafterfork", "http-auto-chunked",
       "http-raw-body", "http-websockets", "manage-script-name", "cheap", "die-on-idle", "procname", "procname-prefix",
       "procname-prefix-spaced", "auto-procname", "autoload", "plugin-dir", "plugins-dir", "reuse-port", "lazy", "lazy-apps",
       "wsgi-env-behavior", "wsgi-env-behaviour", "cheaper-algo", "cheaper-step", "threads-stacksize", "add-gid",
       "max-worker-lifetime-delta", "max-requests-delta", "min-worker-lifetime", "http-chunked-input", "static-gzip-all"], To::NotNeeded(OWN)),
    (&["logto", "logto2", "daemonize", "daemonize2", "logger", "disable-logging", "log-5xx", "log-4xx", "log-slow", "log-date",
       "log-x-forwarded-for", "logdate", "log-maxsize", "log-reopen", "log-zero", "touch-logreopen"], To::NotNeeded(LOGS)),
    (&["pidfile", "pidfile2", "safe-pidfile"], To::NotNeeded("`pilotlight status` names the process")),
    (&["touch-reload", "py-autoreload", "python-autoreload", "py-auto-reload", "fs-reload", "touch-chain-reload", "touch-workers-reload"],
     To::Missing("`pilotlight restart NAME` replaces the instances after a change")),
    (&["stats", "stats-server", "stats-http"], To::NotNeeded("`pilotlight status`; for Prometheus [metrics]")),
    (&["mule", "mules", "spooler", "spooler-processes", "cron", "cron2", "unique-cron", "attach-daemon", "attach-daemon2",
       "smart-attach-daemon", "legion-cron", "timer"], To::Missing(NOT_A_SERVER)),
    (&["response-route", "error-route", "collect-header"], To::Missing(NO_ROUTING)),
    (&["emperor", "vassals-dir"], To::Missing("one Pilotlight has all services: import the file of each vassal")),
    (&["ini", "include", "inherit"], To::Missing("import that file as well")),
    (&["rack", "psgi", "php-docroot", "lua", "jwsgi", "go"], To::Missing("write the command of a server for it: transport = \"http\", socket = \"port\"")),
    (&["umask", "cgroup", "namespace", "chroot"], To::Missing("`sandbox` and `cgroup` of a service are the means here")),
    (&["catch-exceptions"], To::Missing("`dev = true` shows what a service printed")),
    (&["paste", "ini-paste", "pecan"], To::Missing("name the application: MODULE:APP")),
];

pub(crate) fn read(text: &str, origin: Origin<'_>) -> Draft {
    let mut draft = Draft::default();
    let mut python = Python::default();
    let mut mounts: Vec<(String, String)> = Vec::new();
    let mut section = String::new();
    let mut variables: Vec<(String, String)> = Vec::new();
    for (at, whole) in text.lines().enumerate() {
        let line = at + 1;
        let code = whole.trim();
        if code.is_empty() || code.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = code.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
            continue;
        }
        let (name, value) = code.split_once('=').map_or((code, "true"), |(name, value)| (name.trim(), value.trim()));
        if section != "uwsgi" {
            draft.note(line, name, Became::NotMapped(format!("it is in the section [{section}], not in [uwsgi]")));
            continue;
        }
        let is_pattern = ["log-format", "logformat"].contains(&name);
        let value = match filled(value, &variables, origin) {
            Ok(value) => value,
            Err(_) if is_pattern => value.to_owned(),
            Err(why) => {
                draft.note(line, format!("{name} = {}", short(value)), Became::NotMapped(why));
                continue;
            }
        };
        if ["set-placeholder", "set-ph", "set", "var"].contains(&name) {
            variables.extend(value.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
            draft.note(line, name, Became::Mapped("where it is used".to_owned()));
        } else {
            one(Given { line, name, value: &value }, &mut python, &mut mounts, &mut draft);
            variables.push((name.to_owned(), value));
        }
    }
    finish(python, mounts, &mut draft);
    draft
}

/// With `%(name)` in place of what an option above says, `$(NAME)` of a variable, and `%d` and the like of the file's
/// path; or what is not known.
fn filled(value: &str, variables: &[(String, String)], origin: Origin<'_>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = value;
    while let Some(start) = rest.find(['%', '$']) {
        let (before, after) = rest.split_at(start);
        filled.push_str(before);
        let named = after.get(1..).and_then(|after| after.strip_prefix('(')).and_then(|name| name.split_once(')'));
        rest = match (after.starts_with('%'), named) {
            (true, Some((name, behind))) => {
                let known = variables.iter().rev().find(|(other, _)| other == name);
                let (_, known) = known.ok_or_else(|| format!("no option above it says what %({name}) is"))?;
                filled.extend(known.chars().take(MAX_VALUE));
                behind
            }
            (false, Some((name, behind))) => {
                let value = origin.value(name).ok_or_else(|| {
                    format!("the variable {name} has no value here, or is a secret: a service has `env`, and `secrets`")
                })?;
                filled.push_str(&value);
                behind
            }
            (true, None) => {
                let mut letters = after[1..].chars();
                match letters.next() {
                    Some(letter) if letter.is_ascii_alphabetic() => {
                        let of_path = magic(letter, origin);
                        filled.push_str(&of_path.ok_or_else(|| format!("it is not known here what %{letter} is"))?);
                    }
                    Some('%') => filled.push('%'),
                    Some(other) => filled.extend(['%', other]),
                    None => filled.push('%'),
                }
                letters.as_str()
            }
            (false, None) => {
                filled.push('$');
                &after[1..]
            }
        };
        if filled.len() > MAX_FILLED {
            return Err("it is too long".to_owned());
        }
    }
    Ok(filled + rest)
}

/// What a letter behind `%` says of the file's path.
fn magic(letter: char, origin: Origin<'_>) -> Option<String> {
    let file = origin.file?;
    let name = file.file_name()?.to_str()?;
    Some(match letter {
        'p' => file.to_str()?.to_owned(),
        's' => name.to_owned(),
        'd' => format!("{}/", origin.folder()?.to_str()?.trim_end_matches('/')),
        'c' => origin.folder()?.file_name()?.to_str()?.to_owned(),
        'e' => file.extension()?.to_str()?.to_owned(),
        'n' => file.file_stem()?.to_str()?.to_owned(),
        _ => return None,
    })
}

fn one(given: Given<'_>, python: &mut Python, mounts: &mut Vec<(String, String)>, draft: &mut Draft) {
    let name = given.name.replace('_', "-").to_ascii_lowercase();
    let value = given.value.to_owned();
    let keys = match name.as_str() {
        "module" | "wsgi" | "w" => {
            python.module = Some(value);
            "command"
        }
        "wsgi-file" | "file" => {
            let (folder, file) = value.rsplit_once('/').unwrap_or(("", &value));
            if !folder.is_empty() {
                python.paths.push(folder.to_owned());
            }
            python.module = Some(file.trim_end_matches(".py").replace('/', "."));
            "command"
        }
        "callable" => {
            python.callable = Some(value);
            "command"
        }
        "home" | "virtualenv" | "venv" | "pyhome" | "h" => {
            python.environment = Some(value);
            "command"
        }
        "plugin" | "plugins" if value.contains("python") || value.contains("http") || value.contains("logfile") => {
            return draft.note(given.line, given.name, Became::NotNeeded(OWN));
        }
        "mount" => match value.split_once('=') {
            Some((path, module)) => {
                mounts.push((path.to_owned(), module.to_owned()));
                "a route and its service"
            }
            None => {
                return draft.note(given.line, given.name, Became::NotMapped("PATH=MODULE:APP is expected".to_owned()));
            }
        },
        "static-map" | "static-map2" | "static-index" | "static-expires" | "check-static" | "static-expires-uri" => {
            return statics(given, &name, draft);
        }
        "https" | "https-socket" => return https(given, draft),
        name if name.starts_with("route") || name == "final-route" => return routing(given, name, python, draft),
        "add-header" => {
            let Some((field, value)) = value.split_once(':') else {
                return draft.note(given.line, given.name, Became::NotMapped("NAME: VALUE is expected".to_owned()));
            };
            python.fields.push((field.trim().to_owned(), value.trim().to_owned()));
            "response_fields.set of the route"
        }
        "http-to-https" => {
            python.redirects = true;
            "https = \"redirect\" of the route"
        }
        _ => {
            let to = OPTIONS.iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, to)| *to);
            match to {
                Some(to) => apply(to, given, python, draft),
                None => draft.note(given.line, given.name, Became::NotMapped("there is no key for it".to_owned())),
            }
            return;
        }
    };
    draft.note(given.line, given.name, Became::Mapped(keys.to_owned()));
}

/// `/path=/folder`, and what counts for all of them.
fn statics(given: Given<'_>, name: &str, draft: &mut Draft) {
    let value = given.value;
    let became = match (name, value.split_once('=')) {
        ("static-map" | "static-map2", Some((path, folder))) if path.starts_with('/') && !folder.is_empty() => {
            let is_new = draft.route(Section::default().with("path", path).with("files", folder));
            if is_new {
                Became::Mapped("files of a route".to_owned())
            } else {
                Became::NotMapped("there is a route for this path already".to_owned())
            }
        }
        ("check-static", _) => {
            Became::NotMapped(format!("write a route for the paths of these files: files = \"{value}\""))
        }
        ("static-index", _) if value == "index.html" => Became::NotNeeded("`index` of [routes.files] is index.html"),
        _ => Became::NotMapped("`index` and `cache_control` in [routes.files] say it".to_owned()),
    };
    draft.note(given.line, given.name, became);
}

/// `route = PATTERN ACTION` and the like: what refuses requests closes the paths that it may be for.
fn routing(given: Given<'_>, name: &str, python: &mut Python, draft: &mut Draft) {
    const REFUSES: [&str; 7] = ["deny:", "break:4", "break:5", "return:4", "return:5", "basicauth:", "ldapauth:"];
    let refuses = REFUSES.iter().any(|action| given.value.contains(action)) || given.value.contains("radius:");
    let why = match refuses {
        true => format!("{NO_ROUTING}; {CLOSED}"),
        false => NO_ROUTING.to_owned(),
    };
    draft.note(given.line, given.name, Became::NotMapped(why));
    if refuses {
        let pattern = given.value.split_whitespace().next().unwrap_or_default();
        let of_path = matches!(name, "route" | "route-uri");
        python.closed.extend(if of_path { closed_by(pattern) } else { vec![Place::root()] });
    }
}

/// `ADDRESS,CERTIFICATE,KEY`.
fn https(given: Given<'_>, draft: &mut Draft) {
    let mut parts = given.value.split(',');
    let (Some(at), Some(certificate), Some(key)) = (parts.next().and_then(address), parts.next(), parts.next()) else {
        let why = "ADDRESS,CERTIFICATE,KEY is expected".to_owned();
        return draft.note(given.line, given.name, Became::NotMapped(why));
    };
    draft.listen(format!("https://{at}"));
    let tls = draft.other("tls");
    tls.entry("certificates", "certificate", certificate);
    tls.entry("certificates", "key", key);
    draft.note(given.line, given.name, Became::Mapped("listen, tls.certificates".to_owned()));
}

fn finish(mut python: Python, mounts: Vec<(String, String)>, draft: &mut Draft) {
    let fields = std::mem::take(&mut python.fields);
    let closed = std::mem::take(&mut python.closed);
    let redirects = python.redirects;
    let environment = python.environment.clone();
    let shared = python.service.clone();
    if python.module.is_none() && mounts.is_empty() {
        draft.note(1, "the application", Became::NotMapped("no `module`, `wsgi-file` or `mount` names it".to_owned()));
    }
    python.finish("app", draft);
    for (path, module) in mounts {
        let module = module.trim_end_matches(".py").to_owned();
        let mount = (path != "/").then(|| path.trim_end_matches('/').to_owned());
        let python = Python {
            module: Some(module),
            mount,
            environment: environment.clone(),
            service: shared.clone(),
            ..Python::default()
        };
        python.finish(path.trim_matches('/'), draft);
    }
    for route in draft.routes.iter_mut().map(|route| &mut route.section) {
        for (name, value) in &fields {
            let set = vec![(name.clone(), Value::Text(value.clone()))];
            let mut all = match route.get("response_fields") {
                Some(Value::Table(table)) => match table.first() {
                    Some((_, Value::Table(all))) => all.clone(),
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            };
            all.extend(set);
            route.set("response_fields", Value::Table(vec![("set".to_owned(), Value::Table(all))]));
        }
        if redirects {
            route.text("https", "redirect");
        }
    }
    for place in closed {
        draft.close_below(&place);
    }
}
