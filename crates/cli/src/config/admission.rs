//! `allow`, `deny` and `limit` of a route: access and limits.

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use pilotlight_gateway::{
    AdmissionSpec, AllowSpec, BasicSpec, ExternalAddr, ForwardAddr, ForwardSpec, JwtSpec, LimitBy, LimitSpec, Networks,
    Period, Preflight, Rate, RateScope, RateSpec, ServerProtocol, TokenFrom, UsersError, check_authority_file,
    check_users,
};

use super::address;
use super::caching;
use super::diagnostic::{Code, Diagnostic, Span};
use super::jwt;
use super::model::joined;
use super::named_files::{AdmissionFile, AdmissionFileKind};
use super::networks;
use super::readers;
use super::schema::Part;
use super::section::{Field, Section, a_number, a_time, noted};
use super::shown::shown;
use super::value::{self, HumanSize, Rejected, nearest};

/// What a route's rules of admission need of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    /// Files, which this machine has to have.
    pub(super) files: Vec<AdmissionFile>,
    /// Services, which the file has to have, and where they are named.
    pub(super) services: Vec<(String, Span)>,
}

/// What the route says of it; `None` for nothing. What it needs is added to `needs`.
///
/// `folder` is that of the file, from which paths are seen.
pub(super) fn read(
    route: &Section<'_>,
    folder: &Path,
    needs: &mut Needs,
    found: &mut Vec<Diagnostic>,
) -> Option<Arc<AdmissionSpec>> {
    let allow = route.part("allow", Part::RouteAllow, "in the route's allow", found);
    let deny = route.part("deny", Part::RouteDeny, "in the route's deny", found);
    let limit = route.part("limit", Part::RouteLimit, "in the route's limit", found);
    let spec = AdmissionSpec {
        allow: allow.map(|section| self::allow(&section, folder, needs, found)).unwrap_or_default(),
        deny: deny.map(|section| self::deny(&section, found)).unwrap_or_default(),
        limit: limit.map(|section| self::limit(&section, found)).unwrap_or_default(),
    };
    (spec != AdmissionSpec::default()).then(|| Arc::new(spec))
}

fn allow(section: &Section<'_>, folder: &Path, needs: &mut Needs, found: &mut Vec<Diagnostic>) -> AllowSpec {
    says_something(section, "allow", "networks = [\"10.0.0.0/8\"]", found);
    let mut passes = false;
    section.set("preflight", Field::boolean, &mut passes, found);
    let mut realm = BasicSpec::REALM.to_owned();
    section.set("realm", |field| text(field, self::realm), &mut realm, found);
    let allow = AllowSpec {
        networks: section.field("networks").map(|field| some_networks(&field, found)),
        basic: basic(section, &realm, folder, needs, found),
        jwt: section
            .part("jwt", Part::RouteAllowJwt, "in the route's allow.jwt", found)
            .and_then(|section| jwt::read(&section, &realm, folder, &mut needs.files, found)),
        forward: section
            .part("forward", Part::RouteAllowForward, "in the route's allow.forward", found)
            .and_then(|section| forward(&section, folder, needs, found)),
        preflight: if passes { Preflight::Passes } else { Preflight::Asked },
    };
    if let (Some(basic), Some(JwtSpec { from: TokenFrom::Bearer, .. })) = (section.field("basic"), &allow.jwt) {
        let message = "`basic` and `jwt` cannot both be in `Authorization`, which has one of them";
        let help = "say where else the token is: from = \"cookie:NAME\" or \"header:NAME\" in `jwt`";
        found.push(Diagnostic::error(Code::Conflict, basic.key_at, message).help(help));
    }
    if let (Some(at), Some(jwt), Some(forward)) = (section.field("forward"), &allow.jwt, &allow.forward)
        && let Some((name, _)) = jwt.claims.iter().find(|(name, _)| forward.fields.contains(name))
    {
        let message = format!("`claims` of `jwt` and `fields` of `forward` both fill {}", shown(name.as_str()));
        let help = "take the name away from one of the two";
        found.push(Diagnostic::error(Code::Conflict, at.key_at, message).help(help));
    }
    let has_realm = section.mentions("basic") || section.mentions("jwt");
    for (name, is_of_use) in [("realm", has_realm), ("preflight", asks_credentials(section))] {
        if let (Some(field), false) = (section.field(name), is_of_use) {
            let message = format!("`{name}` has no effect: the route asks for no credentials");
            let help = "add basic = \"users.htpasswd\", or take it away";
            found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
        }
    }
    allow
}

fn asks_credentials(section: &Section<'_>) -> bool {
    ["basic", "jwt", "forward"].iter().any(|name| section.mentions(name))
}

/// The auth server.
fn forward(
    section: &Section<'_>,
    folder: &Path,
    needs: &mut Needs,
    found: &mut Vec<Diagnostic>,
) -> Option<ForwardSpec> {
    let to = auth_server(section, folder, needs, found);
    let names = section.field("fields");
    let fields = caching::words(names.as_ref(), found, |word, _| readers::passed_field(word));
    let mut timeout = ForwardSpec::DEFAULT_TIMEOUT;
    section.set("timeout", a_time(&ForwardSpec::TIMEOUT), &mut timeout, found);
    let mut cache = None;
    section.set("cache", a_time(&ForwardSpec::CACHE), &mut cache, found);
    if let (Some(field), true) = (names, fields.len() > ForwardSpec::MAX_FIELDS) {
        let message = format!("`fields` has {} names; at most {} are allowed", fields.len(), ForwardSpec::MAX_FIELDS);
        found.push(Diagnostic::error(Code::OutOfRange, field.at, message));
    }
    let (mut at, authority, target) = to?;
    if let Some(field) = section.field("ca") {
        let file = joined(folder, noted(readers::non_empty(&field), found)?);
        match &mut at {
            ForwardAddr::Https { ca, .. } => *ca = Some(file.clone()),
            ForwardAddr::Tcp(..) | ForwardAddr::Unix(_) | ForwardAddr::Service(_) => {
                let message = "`ca` has no effect: no https URL is asked";
                found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
            }
        }
        needs.files.push(AdmissionFile { path: file, at: field.at, kind: AdmissionFileKind::Authorities });
    }
    Some(ForwardSpec { at, authority, target, fields, cache, timeout })
}

/// The auth server, with `Host` and target of the question.
type Asked = (ForwardAddr, Option<String>, String);

/// A server by its URL, or a service of this file.
fn auth_server(section: &Section<'_>, folder: &Path, needs: &mut Needs, found: &mut Vec<Diagnostic>) -> Option<Asked> {
    let (url, service) = (section.field("url"), section.field("service"));
    if let (Some(url), Some(other)) = (&url, service.as_ref().or(section.field("path").as_ref())) {
        let name = other.key.name;
        let message = format!("`url` and `{name}` cannot both be there");
        let help = match name {
            "path" => "write the path in `url`",
            _ => "the one names a server, the other a service of this file: take one of the two away",
        };
        let at = other.key_at.clone();
        found.push(Diagnostic::error(Code::Conflict, at, message).related(url.key_at.clone(), "`url` is").help(help));
        return None;
    }
    if let Some(field) = service {
        let name = noted(field.string(), found)?.to_owned();
        needs.services.push((name.clone(), field.at));
        let target = match section.field("path") {
            Some(path) => noted(text(&path, |text| a_target(text).map(str::to_owned)), found)?,
            None => "/".to_owned(),
        };
        return Some((ForwardAddr::Service(name), None, target));
    }
    let Some(field) = url else {
        if !section.mentions("url") && !section.mentions("service") {
            let message = "the route's `allow.forward` has no `url` and no `service`";
            let help = "add url = \"http://127.0.0.1:9000/auth\", or service = \"NAME\" and path = \"/auth\"";
            found.push(Diagnostic::error(Code::MissingKey, section.at.clone(), message).help(help));
        }
        return None;
    };
    noted(text(&field, |text| auth_server_url(text, folder)), found)
}

/// A path with a query, as it is sent.
fn a_target(text: &str) -> Result<&str, Rejected> {
    let is_target = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    match is_target {
        true => Ok(text),
        false => Err(Rejected::help(
            format!("{} is no path with a query", shown(text)),
            "write it as it is sent, for example \"/auth?for=app\"",
        )),
    }
}

/// `http://HOST:PORT/PATH`, the same with `https`, or `unix:SOCKET`, which is asked for `/`.
fn auth_server_url(text: &str, folder: &Path) -> Result<Asked, Rejected> {
    if text.starts_with("https://") {
        let url = jwt::url(text, "https://auth.example.org/verify")?;
        let authority = url.authority().map(ToString::to_string).unwrap_or_default();
        let target = url.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        a_target(&target)?;
        return Ok((ForwardAddr::Https { authority: authority.clone(), ca: None }, Some(authority), target));
    }
    let (base, target) = match text.strip_prefix("http://") {
        Some(rest) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            ("http://".len() + end, &rest[end..])
        }
        None => (text.len(), ""),
    };
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    a_target(&target)?;
    let authority = text["http://".len().min(base)..base].to_owned();
    match address::upstream(&text[..base], folder)? {
        (ExternalAddr::Tcp(host, port), ServerProtocol::Http1) => {
            Ok((ForwardAddr::Tcp(host, port), Some(authority), target))
        }
        (ExternalAddr::Unix(path), ServerProtocol::Http1) => {
            Ok((ForwardAddr::Unix(path), Some("localhost".to_owned()), target))
        }
        (_, ServerProtocol::H2c | ServerProtocol::Https(_) | ServerProtocol::Cgi(_)) => Err(Rejected::help(
            format!("{} is not for HTTP/1.1", shown(text)),
            "the auth server is asked over HTTP/1.1: write \"http://127.0.0.1:9000/auth\"",
        )),
    }
}

/// The file of users.
fn basic(
    section: &Section<'_>,
    realm: &str,
    folder: &Path,
    needs: &mut Needs,
    found: &mut Vec<Diagnostic>,
) -> Option<BasicSpec> {
    let field = section.field("basic")?;
    let file = joined(folder, noted(readers::non_empty(&field), found)?);
    needs.files.push(AdmissionFile { path: file.clone(), at: field.at, kind: AdmissionFileKind::Users });
    Some(BasicSpec { file, realm: realm.to_owned() })
}

/// It is part of a field, between quotes.
fn realm(text: &str) -> Result<String, Rejected> {
    let is_fine = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\';
    match !text.is_empty() && text.len() <= BasicSpec::MAX_REALM_BYTES && text.bytes().all(is_fine) {
        true => Ok(text.to_owned()),
        false => Err(Rejected::help(
            format!("{} cannot be a realm", shown(text)),
            format!("write up to {} characters of ASCII, no quotes and no backslashes", BasicSpec::MAX_REALM_BYTES),
        )),
    }
}

/// Whether the files that rules of admission name can be read and used.
pub(super) fn check(files: &[AdmissionFile], found: &mut Vec<Diagnostic>) {
    for AdmissionFile { path, at, kind } in files {
        match kind {
            AdmissionFileKind::Users => check_user_file(path, at, found),
            AdmissionFileKind::Keys => jwt::check_key_file(path, at, found),
            AdmissionFileKind::Authorities => check_authorities(path, at, found),
        }
    }
}

fn check_user_file(file: &Path, at: &Span, found: &mut Vec<Diagnostic>) {
    let Err(error) = check_users(file) else { return };
    let name = shown(&file.display().to_string());
    let (code, help) = match &error {
        UsersError::Read(error) if error.kind() == ErrorKind::NotFound => {
            (Code::Missing, format!("make it with its first user: htpasswd -cB {} NAME", file.display()))
        }
        UsersError::Read(_) => (Code::Missing, "let this user read it".to_owned()),
        UsersError::TooLarge => (Code::BadValue, "is it the right file?".to_owned()),
        UsersError::Line(line) => (Code::BadValue, line.what.help().to_owned()),
    };
    let message = format!("the file of users {name} cannot be used: {error}");
    found.push(Diagnostic::error(code, at.clone(), message).help(help));
}

fn check_authorities(file: &Path, at: &Span, found: &mut Vec<Diagnostic>) {
    let Err(error) = check_authority_file(file) else { return };
    let message = format!("the file of authorities {} cannot be used: {error}", shown(&file.display().to_string()));
    let help = "write the path of a PEM file with the certificates that servers are checked by";
    found.push(Diagnostic::error(Code::Missing, at.clone(), message).help(help));
}

fn deny(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> Networks {
    says_something(section, "deny", "networks = [\"192.0.2.0/24\"]", found);
    section.field("networks").map(|field| some_networks(&field, found)).unwrap_or_default()
}

/// A list of none would let in nobody, or deny nobody: neither is what anybody writes on purpose.
fn some_networks(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Networks {
    let networks = networks::read(field, found);
    if field.value.as_array().is_some_and(|list| list.is_empty()) {
        let message = "`networks` is an empty list";
        found.push(
            Diagnostic::error(Code::BadValue, field.at.clone(), message).help("name a network, or take the key away"),
        );
    }
    networks
}

fn limit(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> LimitSpec {
    let mut limit = LimitSpec::default();
    section.set("by", |field| text(field, by), &mut limit.by, found);
    let mut rate = None;
    section.set("rate", |field| text(field, self::rate), &mut rate, found);
    let mut burst: Option<u32> = None;
    section.set("burst", a_number(&RateSpec::BURST), &mut burst, found);
    let mut is_shared = false;
    section.set("shared", Field::boolean, &mut is_shared, found);
    let scope = if is_shared { RateScope::Shared } else { RateScope::Gateway };
    let with_rate = |rate: Rate| RateSpec { rate, burst: burst.and_then(NonZeroU32::new).unwrap_or(rate.count), scope };
    limit.rate = rate.map(with_rate);
    let mut concurrent: Option<u32> = None;
    section.set("concurrent", a_number(&LimitSpec::CONCURRENT), &mut concurrent, found);
    limit.concurrent = concurrent.and_then(NonZeroU32::new);
    section.set("bandwidth", |field| bandwidth(field), &mut limit.bandwidth, found);
    let has = |name: &str| section.mentions(name);
    let of_rate = ["burst", "shared"].into_iter().find_map(|name| Some((name, section.field(name)?)));
    if !has("rate") && !has("concurrent") && !has("bandwidth") {
        let message = "the route's `limit` limits nothing";
        let help = "add rate = \"100/s\", concurrent = 10 or bandwidth = \"1MiB/s\"";
        found.push(Diagnostic::error(Code::MissingKey, section.at.clone(), message).help(help));
    } else if let (Some((name, field)), false) = (of_rate, has("rate")) {
        let message = format!("`{name}` has no effect without `rate`");
        found.push(
            Diagnostic::warning(Code::NoEffect, field.key_at, message).help("add rate = \"100/s\", or take it away"),
        );
    } else if let (Some(field), false, false) = (section.field("by"), has("rate"), has("concurrent")) {
        let message = "`by` has no effect on `bandwidth`, which counts for each connection";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
    }
    limit
}

fn says_something(section: &Section<'_>, name: &str, example: &str, found: &mut Vec<Diagnostic>) {
    if section.is_empty() {
        let message = format!("the route's `{name}` is empty");
        found.push(Diagnostic::error(Code::MissingKey, section.at.clone(), message).help(format!("add {example}")));
    }
}

pub(super) fn text<T>(field: &Field<'_>, read: impl FnOnce(&str) -> Result<T, Rejected>) -> Result<T, Diagnostic> {
    read(field.string()?).map_err(|wrong| field.rejected(wrong))
}

/// `100/s`.
pub(super) fn rate(text: &str) -> Result<Rate, Rejected> {
    const HELP: &str = "write it like \"100/s\", \"20/m\", \"1000/h\" or \"5000/d\"";
    let wrong = |help: String| Rejected::help(format!("{} is no rate", shown(text)), help);
    let (count, per) = text.split_once('/').ok_or_else(|| wrong(HELP.to_owned()))?;
    let (count, per) = (count.trim().trim_end_matches('r'), per.trim());
    let number = count.parse::<u32>().ok().filter(|_| count.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(number) = number else { return Err(wrong(HELP.to_owned())) };
    let Some((_, period)) = Period::ALL.iter().find(|(name, _)| *name == per) else {
        let first = per.chars().next().unwrap_or_default().to_ascii_lowercase();
        let meant = Period::ALL.iter().find(|(name, _)| name.starts_with(first)).filter(|_| per.len() > 1);
        return Err(wrong(meant.map_or(HELP.to_owned(), |(name, _)| format!("write \"{number}/{name}\""))));
    };
    let range = Rate::COUNT;
    let in_range = NonZeroU32::new(number).filter(|number| range.contains(&number.get()));
    let count = in_range.ok_or_else(|| {
        let (min, max) = (range.start(), range.end());
        Rejected::help(format!("{} is out of range", shown(text)), format!("write a number from {min} to {max}"))
    })?;
    match text == format!("{count}/{per}") {
        true => Ok(Rate { count, per: *period }),
        false => Err(wrong(format!("write \"{count}/{per}\""))),
    }
}

/// What requests are counted by.
fn by(text: &str) -> Result<LimitBy, Rejected> {
    const HELP: &str = "it is \"client\", \"route\", \"header:NAME\" or \"cookie:NAME\"";
    match text.split_once(':') {
        None if text == "client" => Ok(LimitBy::Client),
        None if text == "route" => Ok(LimitBy::Route),
        Some(("header", name)) => match name.parse() {
            Ok(name) => Ok(LimitBy::Header(name)),
            Err(_) => Err(Rejected::help(format!("{} is not the name of a field", shown(name)), HELP)),
        },
        Some(("cookie", name)) => {
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            match !name.is_empty() && name.bytes().all(is_good) {
                true => Ok(LimitBy::Cookie(name.to_owned())),
                false => Err(Rejected::help(format!("{} is not the name of a cookie", shown(name)), HELP)),
            }
        }
        _ => {
            let near = match text {
                "ip" | "address" | "remote_addr" | "user" => Some("client"),
                _ => nearest(text, ["client", "route"]),
            };
            let help = near.map_or(HELP.to_owned(), |near| format!("did you mean \"{near}\"?"));
            Err(Rejected::help(format!("{} is nothing to count by", shown(text)), help))
        }
    }
}

/// `1MiB/s`, in bytes.
fn bandwidth(field: &Field<'_>) -> Result<u64, Diagnostic> {
    let text = field.string()?;
    let Some(size) = text.strip_suffix("/s") else {
        let help = match value::size(text) {
            Ok(_) => format!("write \"{text}/s\""),
            Err(_) => "write it like \"1MiB/s\"".to_owned(),
        };
        return Err(field.rejected(Rejected::help(format!("{} is no bandwidth", shown(text)), help)));
    };
    let bytes = value::size(size).map_err(|wrong| field.rejected(wrong))?;
    let range = LimitSpec::BANDWIDTH;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    let shown = HumanSize(*range.start())..=HumanSize(*range.end());
    Err(field.out_of_range(text, bytes < *range.start(), &shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_rate(text: &str, expected: Result<&str, &str>) {
        let read = rate(text).map(|rate| rate.to_string());
        assert_eq!(
            read.map_err(|wrong| wrong.help.unwrap()),
            expected.map(str::to_owned).map_err(str::to_owned),
            "{text}"
        );
    }

    #[test]
    fn rates() {
        const ANY: &str = "write it like \"100/s\", \"20/m\", \"1000/h\" or \"5000/d\"";
        check_rate("100/s", Ok("100/s"));
        check_rate("20/m", Ok("20/m"));
        check_rate("10r/s", Err("write \"10/s\""));
        check_rate("10 / s", Err("write \"10/s\""));
        check_rate("5/min", Err("write \"5/m\""));
        check_rate("5/Second", Err("write \"5/s\""));
        check_rate("5/y", Err(ANY));
        check_rate("5", Err(ANY));
        check_rate("-5/s", Err(ANY));
        check_rate("0/s", Err("write a number from 1 to 1000000"));
        check_rate("1000001/s", Err("write a number from 1 to 1000000"));
    }

    #[test]
    fn what_is_counted_by() {
        for right in ["client", "route", "header:x-api-key", "cookie:sid"] {
            assert_eq!(by(right).map(|by| by.text()).ok().as_deref(), Some(right));
        }
        for wrong in ["", "ip", "clients", "header:", "header:a b", "cookie:", "cookie:a b", "query:x"] {
            assert!(by(wrong).is_err(), "{wrong}");
        }
    }
}
