//! From labels to configuration. (pure)

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pilotlight_containers::Listed;
use pilotlight_printable::printable;

use crate::config::Report;

/// The label that makes a container a service: `/path`, `host` or `host/path`, several with commas between them.
pub(crate) const ROUTE: &str = "dev.pilotlight.route";
/// What begins our labels.
const PREFIX: &str = "dev.pilotlight.";
/// The label of the containers that a gateway has made itself.
const OWN: &str = "dev.pilotlight.gateway";
const COMPOSE_PROJECT: &str = "com.docker.compose.project";
const COMPOSE_SERVICE: &str = "com.docker.compose.service";

/// Settings of a service that a label may give.
const SETTINGS: [&str; 12] = [
    "transport",
    "idle_timeout",
    "freeze_after",
    "start_timeout",
    "drain_timeout",
    "stop_grace",
    "max_request_time",
    "health",
    "max_instances",
    "concurrency",
    "max_requests",
    "max_age",
];
/// Settings of the container itself.
const OF_CONTAINER: [&str; 2] = ["port", "network"];
/// Most services that labels declare; the rest is not served.
pub(crate) const MAX_GROUPS: usize = 500;
/// What is between the file and what was found.
const MARK: &str = "\n# Found by labels of containers:\n";

/// The containers that are one service: those of one service of Compose, those of one `dev.pilotlight.name`, or one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    name: String,
    source: Source,
    count: usize,
    /// Our labels without their prefix, but for the name; those of its first container.
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Labels(BTreeMap<String, String>),
    Name(String),
}

/// The services that containers declare, in the order of their names.
pub(crate) fn groups(listed: &[Listed]) -> Vec<Group> {
    let mut all: Vec<&Listed> = listed.iter().filter(|one| !one.labels.contains_key(OWN)).collect();
    all.sort_by(|one, other| one.names.cmp(&other.names));
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for one in all {
        let Some((name, source)) = identity(one) else { continue };
        let group = groups.entry(name.clone()).or_insert_with(|| Group { name, source, count: 0, labels: ours(one) });
        group.count += 1;
    }
    groups.into_values().collect()
}

/// What a container's service is called, and how its containers are found again.
fn identity(one: &Listed) -> Option<(String, Source)> {
    let label = |name: &str| Some((name.to_owned(), one.labels.get(name)?.clone()));
    if let Some((key, name)) = label("dev.pilotlight.name") {
        return Some((name.clone(), Source::Labels([(key, name)].into())));
    }
    if let (Some(project), Some(service)) = (label(COMPOSE_PROJECT), label(COMPOSE_SERVICE)) {
        return Some((format!("{}-{}", project.1, service.1), Source::Labels([project, service].into())));
    }
    let name = one.names.first()?.trim_start_matches('/').to_owned();
    Some((name.clone(), Source::Name(name)))
}

fn ours(one: &Listed) -> BTreeMap<String, String> {
    let ours =
        one.labels.iter().filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?.to_owned(), value.clone())));
    ours.filter(|(name, _)| name != "name").collect()
}

impl Group {
    /// Its service and its routes, as they would be written into the file.
    fn text(&self) -> Result<String, String> {
        let known = |name: &str| name == "route" || SETTINGS.contains(&name) || OF_CONTAINER.contains(&name);
        if let Some(strange) = self.labels.keys().find(|name| !known(name)) {
            let all = ["name", "route"].iter().chain(&OF_CONTAINER).chain(&SETTINGS);
            let all: Vec<&str> = all.copied().collect();
            return Err(format!("there is no label {PREFIX}{strange}; there are {}", all.join(", ")));
        }
        let source = match &self.source {
            Source::Name(name) => format!("name = {}", quoted(name)),
            Source::Labels(labels) => {
                let labels: Vec<_> =
                    labels.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value))).collect();
                format!("labels = {{ {} }}", labels.join(", "))
            }
        };
        let of_container: String =
            self.of(&OF_CONTAINER).map(|(name, value)| format!(", {name} = {}", written(value))).collect();
        let mut text = format!("[services.{}]\ncontainer = {{ {source}{of_container} }}\n", quoted(&self.name));
        for (name, value) in self.of(&SETTINGS) {
            let _ = writeln!(text, "{name} = {}", written(value)); // a text takes all
        }
        // Without `concurrency` the first one is never full.
        if self.count > 1 && self.labels.contains_key("concurrency") && !self.labels.contains_key("max_instances") {
            let _ = writeln!(text, "max_instances = {}", self.count);
        }
        for route in self.labels.get("route").into_iter().flat_map(|routes| routes.split(',')) {
            let route = route.trim();
            let (host, path) = route.find('/').map_or((route, "/"), |slash| route.split_at(slash));
            text.push_str("[[routes]]\n");
            if !host.is_empty() {
                let _ = writeln!(text, "host = {}", quoted(host));
            }
            let _ = writeln!(text, "path = {}\nservice = {}", quoted(path), quoted(&self.name));
        }
        Ok(text)
    }

    /// Its labels of these names.
    fn of<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        names.iter().filter_map(|name| Some((*name, self.labels.get(*name)?.as_str())))
    }
}

/// A text in TOML; one of JSON is one, but for U+007F.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007F")
}

/// A value in TOML: a number, if it is one.
fn written(value: &str) -> String {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    // Not `007`, which TOML has no such numbers as.
    if is_number && (value == "0" || !value.starts_with('0')) { value.to_owned() } else { quoted(value) }
}

/// The file's text with what labels declare behind it, and sentences about what of that is not served because it is
/// wrong or in the way of something else. `check` says what is wrong with a text.
pub(crate) fn composed(
    file: &str,
    groups: &[Group],
    check: impl Fn(&str) -> Result<(), Report>,
) -> (String, Vec<String>) {
    let mut refused = Vec::new();
    if check(file).is_err() || groups.is_empty() {
        return (file.to_owned(), refused); // its own errors are to be told, and nothing else
    }
    let mut parts = Vec::new();
    for group in groups {
        match group.text() {
            Ok(_) if parts.len() == MAX_GROUPS => {
                refused.push(not_served(group, &format!("more than {MAX_GROUPS} services are declared by labels")));
            }
            Ok(text) => parts.push((group, text)),
            Err(why) => refused.push(not_served(group, &why)),
        }
    }
    let all = format!("{file}{MARK}{}", parts.iter().map(|(_, text)| text.as_str()).collect::<String>());
    if check(&all).is_ok() {
        return (all, refused);
    }
    let mut text = format!("{file}{MARK}");
    for (group, part) in parts {
        let more = format!("{text}{part}");
        match check(&more) {
            Ok(()) => text = more,
            Err(report) => {
                let why = report.diagnostics().first().map_or_else(String::new, |one| one.message.clone());
                refused.push(not_served(group, &why));
            }
        }
    }
    (text, refused)
}

fn not_served(group: &Group, why: &str) -> String {
    format!("the container of {} is not served, because of its labels: {}", printable(&group.name), printable(why))
}

/// Where in a configuration's text that begins which labels have declared.
pub(crate) fn end_of_file(text: &str) -> usize {
    text.rfind(MARK).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    const FILE: &str = "listen = \"127.0.0.1:0\"\n[containers]\ndiscover = true\n";

    fn container(name: &str, labels: &[(&str, &str)]) -> Listed {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Listed { id: name.to_owned(), names: vec![format!("/{name}")], labels, ..Listed::default() }
    }

    fn checked(file: &str, listed: &[Listed]) -> (String, Vec<String>) {
        composed(file, &groups(listed), |text| parse(text, Path::new("pilotlight.toml")).map(|_| ()))
    }

    #[test]
    fn two_labels_are_enough_for_a_service_of_compose() {
        let web = |number| {
            let compose = [(COMPOSE_PROJECT, "shop"), (COMPOSE_SERVICE, "web")];
            container(
                number,
                &[
                    &compose[..],
                    &[
                        (ROUTE, "shop.example/, /shop"),
                        ("dev.pilotlight.port", "8080"),
                        ("dev.pilotlight.concurrency", "9"),
                    ],
                ]
                .concat(),
            )
        };
        let (text, refused) = checked(FILE, &[web("shop-web-1"), web("shop-web-2")]);
        assert_eq!(refused, [""; 0]);
        let added = &text[end_of_file(&text)..];
        assert_eq!(
            added.strip_prefix(MARK).unwrap(),
            "[services.\"shop-web\"]\n\
             container = { labels = { \"com.docker.compose.project\" = \"shop\", \"com.docker.compose.service\" = \"web\" }, port = 8080 }\n\
             concurrency = 9\nmax_instances = 2\n\
             [[routes]]\nhost = \"shop.example\"\npath = \"/\"\nservice = \"shop-web\"\n\
             [[routes]]\npath = \"/shop\"\nservice = \"shop-web\"\n"
        );
        let config = parse(&text, Path::new("pilotlight.toml")).unwrap().config;
        assert_eq!((config.services.len(), config.routes.len()), (1, 2));
        assert!(config.services[0].place() > end_of_file(&text));
    }

    #[test]
    fn settings_are_those_of_a_service() {
        let labels = [
            (ROUTE, "/"),
            ("dev.pilotlight.port", "80"),
            ("dev.pilotlight.idle_timeout", "10m"),
            ("dev.pilotlight.concurrency", "7"),
        ];
        let (text, refused) = checked(FILE, &[container("app", &labels)]);
        assert_eq!(refused, [""; 0]);
        assert!(text.ends_with(
            "[services.\"app\"]\ncontainer = { name = \"app\", port = 80 }\nidle_timeout = \"10m\"\nconcurrency = 7\n\
             [[routes]]\npath = \"/\"\nservice = \"app\"\n"
        ));
    }

    #[test]
    fn what_is_wrong_keeps_nothing_else_from_being_served() {
        let good = container("good", &[(ROUTE, "/good"), ("dev.pilotlight.port", "80")]);
        for (labels, why) in [
            (vec![(ROUTE, "/bad"), ("dev.pilotlight.prot", "80")], "no label dev.pilotlight.prot"),
            (vec![(ROUTE, "/bad"), ("dev.pilotlight.port", "high")], "port"),
            (vec![(ROUTE, "/good"), ("dev.pilotlight.port", "80")], "/good"),
            (
                vec![(ROUTE, "/bad"), ("dev.pilotlight.port", "80"), ("dev.pilotlight.idle_timeout", "soon")],
                "idle_timeout",
            ),
            (vec![(ROUTE, "/bad\"\nservice = \"x\"\n[listen]"), ("dev.pilotlight.port", "80")], ""),
            (vec![(ROUTE, "/bad"), ("dev.pilotlight.port", "80"), ("dev.pilotlight.name", "a\x7f\n]")], ""),
        ] {
            let (text, refused) = checked(FILE, &[good.clone(), container("x-bad", &labels)]);
            assert_eq!(refused.len(), 1, "{labels:?}: {refused:?}\n{text}");
            assert!(refused[0].contains(why), "{refused:?}");
            let config = parse(&text, Path::new("pilotlight.toml")).unwrap().config;
            assert_eq!((config.services.len(), config.routes.len()), (1, 1), "{labels:?}");
        }
    }

    #[test]
    fn the_file_comes_first() {
        let file = format!(
            "{FILE}[services.app]\nurl = \"http://127.0.0.1:1\"\n[[routes]]\npath = \"/\"\nservice = \"app\"\n"
        );
        let (text, refused) = checked(&file, &[container("other", &[(ROUTE, "/"), ("dev.pilotlight.port", "80")])]);
        assert_eq!(refused.len(), 1);
        let config = parse(&text, Path::new("pilotlight.toml")).unwrap().config;
        assert_eq!((config.services.len(), config.services[0].place() < end_of_file(&text)), (1, true));
        // A file that is wrong is left as it is, so that its own mistakes are reported.
        let (text, refused) = checked("nonsense", &[container("other", &[(ROUTE, "/")])]);
        assert_eq!((text.as_str(), refused.len()), ("nonsense", 0));
    }

    #[test]
    fn containers_of_a_gateway_are_nobodys_services() {
        assert_eq!(groups(&[container("own", &[(ROUTE, "/"), (OWN, "abc")])]), []);
    }
}
