//! What an unknown key was probably meant to be: a misspelt one, one of another section, or one that another program
//! has. No hint is better than a wrong one, so a word that other programs use for several things has a sentence of its
//! own here, or none.

use toml::de::DeValue;

use super::schema::{Key, Part};
use super::value::nearest;

/// Words of other programs in a part of the file, and what to write instead.
struct Foreign {
    part: Part,
    words: &'static [&'static str],
    help: &'static str,
}

const fn foreign(part: Part, words: &'static [&'static str], help: &'static str) -> Foreign {
    Foreign { part, words, help }
}

const ONE_FILE: &str = "a file cannot name others: write everything into this one";
const A_FOLDER: &str = "files of a folder are a route: [[routes]] with path = \"/\" and files = \"FOLDER\"";
const A_SERVER: &str = "a server that runs elsewhere is a service: [services.NAME] with url = \"http://127.0.0.1:9000\", \
                        and a [[routes]] with service = \"NAME\"";
const A_HOST: &str = "a host is a key of a route: host = \"example.org\" in [[routes]]";
const NO_HEALTH: &str = "a running service is sent no requests for health: it is ready when it accepts connections, and is \
                         started again after its end; `health` in [services.NAME] is what a new release is asked";
const CORS: &str = "fields of answers are a route's: response_fields = { set = { \"Access-Control-Allow-Origin\" = \"…\" } } in [[routes]]";
const OF_CONTAINERS: &str = "what is said of a container stands in `container`: container = { image = \"app:1\", port = 8080, volumes = [\"/data:/data\"] }; \
                             images are built by `docker build` or `podman build`";

const FOREIGN: &[Foreign] = &[
    foreign(Part::Top, &["include", "import", "imports", "includes"], ONE_FILE),
    foreign(Part::Top, &["root", "static", "index", "try_files", "file_server", "public", "autoindex"], A_FOLDER),
    foreign(
        Part::Top,
        &[
            "server",
            "servers",
            "http",
            "stream",
            "events",
            "frontend",
            "entrypoints",
            "entryPoints",
            "listeners",
            "vhost",
        ],
        "there is no section for it: `listen` is at the top of the file, each host and path is a [[routes]]",
    ),
    foreign(
        Part::Top,
        &["upstream", "backend", "backends", "proxy_pass", "reverse_proxy", "proxy", "url", "target"],
        A_SERVER,
    ),
    foreign(Part::Top, &["domain", "domains", "hosts", "server_name", "server_names", "vhosts"], A_HOST),
    foreign(
        Part::Top,
        &["error_log", "errorlog", "log_level", "loglevel", "debug_level", "verbose", "verbosity"],
        "`path` in [log] says where the gateway's own lines go; the environment says which: PILOTLIGHT_LOG=debug",
    ),
    foreign(
        Part::Top,
        &["log_format"],
        "`format` in [access_log] is \"json\" or \"text\"; `fields` says what is in it",
    ),
    foreign(
        Part::Top,
        &["pid", "pidfile", "daemon", "daemonize", "background", "master", "systemd", "supervisor"],
        "the gateway stays in the foreground, where a service manager keeps it: docs/guide/operations.md",
    ),
    foreign(
        Part::Top,
        &["user", "group", "uid", "gid"],
        "the gateway runs as who starts it; `user` and `group` in [services.NAME] say whom a service runs as",
    ),
    foreign(Part::Top, &["https_port", "http_port", "ports"], "write listen = [\"0.0.0.0:80\", \"0.0.0.0:443\"]"),
    foreign(Part::Top, &["http2", "h2", "alpn"], "HTTP/2 is spoken without a key; `streams` in [limits] bounds it"),
    foreign(Part::Top, &["name"], "take it away: a service is known by its section, [services.NAME]"),
    foreign(Part::Top, &["http3", "quic"], "there is no HTTP/3"),
    foreign(
        Part::Top,
        &["headers", "header", "add_header"],
        "fields are a route's: request_fields and response_fields in [[routes]]",
    ),
    foreign(Part::Top, &["cors"], CORS),
    foreign(Part::Route, &["cors"], CORS),
    foreign(
        Part::Top,
        &["rate_limit", "ratelimit", "limit_req"],
        "rates are a route's: limit = { rate = \"100/s\" } in [[routes]]",
    ),
    foreign(
        Part::Top,
        &["timeout", "timeouts", "request_timeout"],
        "`response_timeout` in [limits] is for all routes; `timeout` and `response_timeout` in [[routes]] are for one",
    ),
    foreign(Part::Top, &["health_check", "healthcheck", "health", "health_checks"], NO_HEALTH),
    foreign(Part::Route, &["health_check", "healthcheck", "health"], NO_HEALTH),
    foreign(
        Part::Service,
        &["processes", "workers", "numprocs", "num_workers", "web_concurrency", "scale"],
        "for instances that take requests at once write max_instances = 4 and concurrency = 1; `workers` of the gateway \
         stands at the top of the file",
    ),
    foreign(
        Part::Service,
        &["port", "bind", "address"],
        "a program that reads PORT has transport = \"http\" and socket = \"port\"; a server that somebody else starts has \
         url = \"http://127.0.0.1:3000\"",
    ),
    foreign(
        Part::Service,
        &["host", "path", "domain", "prefix", "location", "routes", "route", "server_name"],
        "a route leads to a service: [[routes]] with path = \"/\", maybe a host, and service = \"NAME\"",
    ),
    foreign(
        Part::Service,
        &["build", "container_name", "volumes", "ports", "network", "networks", "expose"],
        OF_CONTAINERS,
    ),
    foreign(
        Part::Service,
        &["autostart", "autorestart", "respawn", "startsecs", "startretries"],
        "take it away: a service is started on its first request, and again after its end; min_instances = 1 starts it \
         with Pilotlight",
    ),
    foreign(
        Part::Service,
        &["depends_on", "after", "requires", "priority"],
        "take it away: each service is started by its own first request, or with Pilotlight by min_instances = 1",
    ),
    foreign(
        Part::Service,
        &["args", "arguments", "argv", "entrypoint", "interpreter", "script"],
        "the program and its arguments are one list: command = [\"./app\", \"--flag\"]",
    ),
    foreign(
        Part::Service,
        &["module", "wsgi", "wsgi_file", "app", "callable", "asgi"],
        "write command = [\"python3\", \"-m\", \"pilotlight.wsgi\", \"MODULE:APP\"]",
    ),
    foreign(
        Part::Service,
        &["virtualenv", "venv", "home", "pythonhome"],
        "name the environment's own program: command = [\"venv/bin/python\", …]",
    ),
    foreign(
        Part::Service,
        &["log", "logfile", "logto", "stdout_logfile", "stderr_logfile", "stdout", "stderr", "logging"],
        "take it away: `pilotlight logs NAME` has what it prints",
    ),
    foreign(
        Part::Service,
        &["root", "static"],
        "a program runs in `dir`; files of a folder are a route: [[routes]] with files = \"FOLDER\"",
    ),
    foreign(
        Part::Service,
        &["timeout"],
        "`max_request_time` ends an instance that does not answer; `timeout` and `response_timeout` in [[routes]] end the \
         exchange alone",
    ),
    foreign(Part::Service, &["name"], "its name stands in the heading: [services.NAME]"),
    foreign(Part::Route, &["include", "import"], ONE_FILE),
    foreign(Part::Route, &["method", "methods"], "take it away: a route is for all methods"),
    foreign(Part::Route, &["name", "id"], "take it away: a route is known by its `host` and `path`"),
    foreign(
        Part::Route,
        &["priority", "order"],
        "take it away: the most specific route wins, whatever the order in the file",
    ),
    foreign(
        Part::Route,
        &["regex", "path_regexp", "path_regex", "regexp"],
        "a `path` is for itself and everything below it; there are no patterns but host = \"*.example.org\"",
    ),
    foreign(Part::Route, &["proxy_pass", "url", "proxy", "reverse_proxy", "command"], A_SERVER),
];

/// The key of this part that an unknown one was probably meant to be, and what to say about it.
pub(super) fn suggestion(word: &str, value: &DeValue<'_>, part: Part) -> (Option<&'static str>, String) {
    let did_you_mean = |name: &'static str| (Some(name), format!("did you mean `{name}`?"));
    if part == Part::Top
        && value.as_table().is_some_and(|table| table.contains_key("command") || table.contains_key("url"))
    {
        return (Some("services"), format!("did you mean [services.{word}]?"));
    }
    if let Some(key) = part.keys().iter().find(|key| is_alias(key, word)) {
        return did_you_mean(key.name);
    }
    if let Some(foreign) = FOREIGN.iter().find(|foreign| foreign.part == part && foreign.words.contains(&word)) {
        return (None, foreign.help.to_owned());
    }
    let others = || Part::ALL.into_iter().filter(|other| *other != part);
    let elsewhere: Vec<&str> =
        others().filter(|other| other.keys().iter().any(|key| key.name == word)).map(Part::place).collect();
    if !elsewhere.is_empty() {
        return (None, format!("`{word}` belongs {}", elsewhere.join(" or ")));
    }
    if let Some(key) = nearest(word, part.keys().iter().map(|key| key.name))
        .and_then(|name| part.keys().iter().find(|key| key.name == name))
    {
        return did_you_mean(key.name);
    }
    if let Some((other, key)) = only_one(others().filter(|part| is_well_known(*part)), word) {
        return (None, format!("did you mean `{}`? It belongs {}", key.name, other.place()));
    }
    let names: Vec<&str> = part.keys().iter().map(|key| key.name).collect();
    (None, format!("the keys here are {}", names.join(", ")))
}

/// The key that has this alias, if only one has.
fn only_one(parts: impl Iterator<Item = Part>, word: &str) -> Option<(Part, &'static Key)> {
    let mut found = parts.flat_map(|part| part.keys().iter().map(move |key| (part, key)));
    let first = found.find(|(_, key)| is_alias(key, word))?;
    found.all(|(_, key)| !is_alias(key, word)).then_some(first)
}

/// Whether the words of other programs for its keys mean the same everywhere. Those of the deep parts ("only", "name",
/// "server") mean something there alone.
fn is_well_known(part: Part) -> bool {
    use Part::{Cache, Limits, Route, RouteAllow, RouteFiles, Service, ServiceCgroup, ServiceLimits, Tls, Top};
    matches!(
        part,
        Top | Tls | Limits | Cache | Service | ServiceLimits | ServiceCgroup | Route | RouteFiles | RouteAllow
    ) || part == Part::TlsCertificate
}

fn is_alias(key: &Key, word: &str) -> bool {
    key.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_hides_a_key_or_an_alias_of_its_part() {
        for Foreign { part, words, .. } in FOREIGN {
            for word in *words {
                let hidden = part.keys().iter().find(|key| key.name == *word || is_alias(key, word));
                assert!(hidden.is_none(), "{word} in {part:?} is {hidden:?}");
            }
        }
    }
}
