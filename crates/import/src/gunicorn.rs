//! gunicorn: simple assignments of its configuration file, or a command line. Whatever has to be computed is named.

use crate::document::Value;
use crate::model::{Became, Draft};
use crate::python::Python;
use crate::settings::{Given, To, address, apply, short};

const OWN: &str = "the gateway and its supervisor do this themselves";
const ASYNC: &str = "instances have threads; an application that is asynchronous runs behind its own server, \
                     with transport = \"http\"";

#[rustfmt::skip]
const OPTIONS: &[(&str, &[&str], To)] = &[
    ("bind", &["-b"], To::Listen),
    ("workers", &["-w"], To::Instances),
    ("threads", &[], To::Concurrency),
    ("worker_connections", &[], To::Concurrency),
    ("timeout", &["-t"], To::ServiceTime("max_request_time")),
    ("graceful_timeout", &[], To::ServiceTime("drain_timeout")),
    ("keepalive", &["keep_alive"], To::LimitTime("keepalive_timeout")),
    ("max_requests", &[], To::ServiceNumber("max_requests", 1, 1_000_000_000_000)),
    ("max_requests_jitter", &[], To::NotNeeded("instances are replaced one by one, without a gap")),
    ("backlog", &[], To::Queue),
    ("chdir", &[], To::ServiceText("dir")),
    ("user", &["-u"], To::ServiceText("user")),
    ("group", &["-g"], To::ServiceText("group")),
    ("raw_env", &["-e", "env"], To::Variable),
    ("pythonpath", &[], To::PythonPath),
    ("accesslog", &["access_logfile"], To::AccessLog),
    ("access_log_format", &["access_logformat"], To::Missing("`fields` in [access_log] says what is logged")),
    ("errorlog", &["error_logfile", "log_file"], To::NotNeeded("`pilotlight logs` has what a service prints")),
    ("loglevel", &["log_level"], To::NotNeeded("the environment says it: PILOTLIGHT_LOG=info")),
    ("capture_output", &[], To::NotNeeded("`pilotlight logs` has what a service prints")),
    ("limit_request_line", &[], To::LimitBytes("header_size", 1 << 10, 56 << 10)),
    ("limit_request_field_size", &[], To::LimitBytes("header_size", 1 << 10, 56 << 10)),
    ("limit_request_fields", &[], To::LimitNumber("header_count", 8, 1000)),
    ("daemon", &["-D"], To::NotNeeded("a service manager keeps the gateway")),
    ("pidfile", &["-p", "pid"], To::NotNeeded("`pilotlight status` names the process")),
    ("proc_name", &["-n", "name"], To::NotNeeded("a service has its name in its heading")),
    ("worker_tmp_dir", &[], To::NotNeeded(OWN)),
    ("tmp_upload_dir", &[], To::NotNeeded(OWN)),
    ("reuse_port", &[], To::NotNeeded(OWN)),
    ("sendfile", &[], To::NotNeeded(OWN)),
    ("control_socket", &[], To::NotNeeded(OWN)),
    ("check_config", &[], To::NotNeeded("`pilotlight check`")),
    ("reload", &[], To::Missing("`pilotlight restart NAME` replaces the instances after a change")),
    ("umask", &["-m"], To::Missing("there is no key for it")),
    ("initgroups", &[], To::NotNeeded("`user` takes the groups of the user")),
    ("statsd_host", &[], To::Missing("metrics are for Prometheus: [metrics]")),
    ("statsd_prefix", &[], To::Missing("metrics are for Prometheus: [metrics]")),
    ("logconfig", &[], To::Missing("the application can load it")),
    ("secure_scheme_headers", &[], To::Missing("`trust_forwarded` says whose fields are believed")),
    ("paste", &[], To::Missing("name the application: MODULE:APP")),
];

pub(crate) fn read(text: &str) -> Draft {
    let mut draft = Draft::default();
    let mut python = Python::default();
    if text.trim_start().starts_with("gunicorn ") {
        command_line(text, &mut python, &mut draft);
    } else {
        file(text, &mut python, &mut draft);
    }
    if python.module.is_none() {
        let why = "it is on gunicorn's command line: write it into `command` of [services.app], for app:app";
        draft.note(1, "the application", Became::NotMapped(why.to_owned()));
        python.module = Some("app:app".to_owned());
    }
    python.finish("app", &mut draft);
    // With a certificate all of its addresses speak TLS.
    if let Some(Value::List(listen)) = draft.top.get("listen").cloned().filter(|_| draft.has_other("tls")) {
        let secure = |address: String| match address.starts_with("unix:") {
            true => address,
            false => format!("https://{address}"),
        };
        draft.top.set("listen", Value::List(listen.into_iter().map(secure).collect()));
    }
    draft
}

fn one(given: Given<'_>, python: &mut Python, draft: &mut Draft) {
    let name = given.name.trim_start_matches('-').replace('-', "_");
    let is_true = matches!(given.value, "True" | "true" | "");
    let mapped = |draft: &mut Draft, to: &str| draft.note(given.line, given.name, Became::Mapped(to.to_owned()));
    match name.as_str() {
        "wsgi_app" => {
            python.module = Some(given.value.to_owned());
            python.callable.get_or_insert_with(|| "application".to_owned());
            mapped(draft, "command");
        }
        "preload_app" | "preload" => {
            python.preload = is_true;
            mapped(draft, "preload");
        }
        "worker_class" | "k" => draft.note(
            given.line,
            given.name,
            match given.value {
                "sync" | "gthread" => Became::NotNeeded("instances have threads"),
                _ => Became::NotMapped(ASYNC.to_owned()),
            },
        ),
        "forwarded_allow_ips" | "proxy_allow_ips" => networks(given, draft),
        "certfile" | "keyfile" => {
            let key = if name == "certfile" { "certificate" } else { "key" };
            draft.other("tls").entry("certificates", key, given.value);
            mapped(draft, "tls.certificates");
        }
        "ca_certs" => {
            draft.other("tls").insert("client_certificates", "ca", Value::Text(given.value.to_owned()));
            mapped(draft, "tls.client_certificates.ca");
        }
        "cert_reqs" => match given.value {
            "0" => draft.note(given.line, given.name, Became::NotNeeded("that is so without a word")),
            value => {
                let mode = if value == "1" { "optional" } else { "required" };
                draft.other("tls").insert("client_certificates", "mode", Value::Text(mode.to_owned()));
                mapped(draft, "tls.client_certificates.mode");
            }
        },
        _ => match OPTIONS
            .iter()
            .find(|(long, others, _)| *long == name || others.contains(&given.name) || others.contains(&name.as_str()))
        {
            Some((_, _, to)) => apply(*to, given, python, draft),
            None => draft.note(given.line, given.name, Became::NotMapped("there is no key for it".to_owned())),
        },
    }
}

fn networks(given: Given<'_>, draft: &mut Draft) {
    let all: Vec<String> =
        given.value.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect();
    let value = if all.iter().any(|one| one == "*") { Value::Truth(true) } else { Value::List(all) };
    draft.top.set("trust_forwarded", value);
    draft.note(given.line, given.name, Became::Mapped("trust_forwarded".to_owned()));
}

fn file(text: &str, python: &mut Python, draft: &mut Draft) {
    let mut open: Option<OpenList<'_>> = None;
    let mut is_in_text = false;
    for (at, whole) in text.lines().enumerate() {
        let line = at + 1;
        // A text of several lines stands for itself, as documentation does.
        let marks = whole.matches("\"\"\"").count() + whole.matches("'''").count();
        let was_in_text = is_in_text;
        is_in_text ^= marks % 2 == 1;
        if was_in_text {
            continue;
        }
        let code = without_comment(whole);
        if let Some(list) = open.take() {
            open = list.goes_on(code, python, draft);
            continue;
        }
        if code.trim().is_empty() || code.starts_with([' ', '\t', '"', '\'', ')', ']', '}']) {
            continue; // the body of a function, or a comment
        }
        let assigned = code.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = assigned.filter(|(name, _)| is_name(name)) else {
            statement(line, code, draft);
            continue;
        };
        let is_list = value.starts_with(['[', '(']);
        match is_list && !value.ends_with([']', ')']) {
            true => open = OpenList { line, name, values: Vec::new(), is_plain: true }.goes_on(value, python, draft),
            false => assignment(Given { line, name, value }, python, draft),
        }
    }
}

/// What is no assignment.
fn statement(line: usize, code: &str, draft: &mut Draft) {
    let word = code.split([' ', '(', ':']).next().unwrap_or(code);
    let (name, became) = match word {
        "import" | "from" => (code, Became::NotNeeded("it is read where it is used")),
        "def" => {
            let name = code.trim_start_matches("def ").split('(').next().unwrap_or_default();
            (name, Became::NotMapped("hooks of gunicorn's processes have no counterpart".to_owned()))
        }
        _ => (code, Became::NotMapped("what has to be computed is not read, nor what is below it".to_owned())),
    };
    draft.note(line, short(name), became);
}

/// A line without what stands behind a `#` outside of quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('#', None) => return line[..at].trim_end(),
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    line.trim_end()
}

/// A list of strings whose end has not come yet.
struct OpenList<'a> {
    line: usize,
    name: &'a str,
    values: Vec<String>,
    /// It has nothing but strings.
    is_plain: bool,
}

impl OpenList<'_> {
    fn goes_on(mut self, code: &str, python: &mut Python, draft: &mut Draft) -> Option<Self> {
        let code = code.trim();
        self.values.extend(strings(code));
        self.is_plain &= is_plain(code);
        if !code.ends_with([']', ')']) {
            return Some(self);
        }
        if !self.is_plain {
            draft.note(self.line, self.name, Became::NotMapped(COMPUTED.to_owned()));
            return None;
        }
        for value in &self.values {
            one(Given { line: self.line, name: self.name, value }, python, draft);
        }
        None
    }
}

const COMPUTED: &str = "its value has to be computed";

fn assignment(given: Given<'_>, python: &mut Python, draft: &mut Draft) {
    let value = given.value;
    if value == "None" {
        draft.note(given.line, given.name, Became::NotNeeded("None is the default"));
    } else if value.parse::<u64>().is_ok() || matches!(value, "True" | "False") {
        one(given, python, draft);
    } else if value.starts_with(['"', '\'', '[', '(']) && is_plain(value) {
        match strings(value).as_slice() {
            [] => draft.note(given.line, given.name, Became::NotNeeded("it is empty")),
            all => all.iter().for_each(|value| one(Given { value, ..given }, python, draft)),
        }
    } else if given.name == "workers" && value.contains("cpu_count") {
        one(Given { value: "4", ..given }, python, draft);
    } else {
        draft.note(given.line, given.name, Became::NotMapped(COMPUTED.to_owned()));
    }
}

/// Whether there is nothing beside strings but what makes a list of them.
fn is_plain(text: &str) -> bool {
    let mut quote = None;
    text.chars().all(|c| match quote {
        Some(open) => {
            quote = Some(open).filter(|open| *open != c);
            true
        }
        None if matches!(c, '"' | '\'') => {
            quote = Some(c);
            true
        }
        None => matches!(c, '[' | ']' | '(' | ')' | ',' | ' ' | '\t'),
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The strings in a line, between either kind of quotes.
fn strings(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['"', '\'']) {
        let quote = if rest[start..].starts_with('"') { '"' } else { '\'' };
        let Some(end) = rest[start + 1..].find(quote) else { break };
        all.push(rest[start + 1..start + 1 + end].to_owned());
        rest = &rest[start + end + 2..];
    }
    all
}

fn command_line(text: &str, python: &mut Python, draft: &mut Draft) {
    let joined = text.replace("\\\n", " ");
    let mut words = joined.split_whitespace().skip(1).map(|word| word.trim_matches(['"', '\'']));
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            one(Given { line: 1, name: "wsgi_app", value: word }, python, draft);
            continue;
        }
        let is_flag = ["--preload", "--reload", "--daemon", "-D", "--capture-output", "--reuse-port", "--no-sendfile"]
            .contains(&word);
        match word.split_once('=') {
            Some((name, value)) => one(Given { line: 1, name, value }, python, draft),
            None if is_flag => one(Given { line: 1, name: word, value: "" }, python, draft),
            None => one(Given { line: 1, name: word, value: words.next().unwrap_or_default() }, python, draft),
        }
    }
    // gunicorn listens there without a word.
    if draft.top.get("listen").is_none() {
        draft.listen(address("127.0.0.1:8000").unwrap_or_default());
    }
}
