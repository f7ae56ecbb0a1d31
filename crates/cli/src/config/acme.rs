//! `acme` of `[tls]`: certificates by themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilotlight_gateway::{AcmeSettings, AuthoritySettings, ExternalAccount, ListenAddr};
use pilotlight_gateway::{
    Challenges, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, Name, NoName, Offered, OnDemand, OrderRate, StorageSettings,
};
use toml::de::{DeTable, DeValue};

use super::admission::{rate, text};
use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{Acme, AcmeStorage, Config, joined};
use super::readers::{non_empty, word};
use super::schema::Part;
use super::section::{Field, Section, noted, type_name};
use super::shown::shown;
use super::value::Rejected;

/// The port at which authorities validate by HTTP-01 (RFC 8555 §8.3).
const HTTP_PORT: u16 = 80;
/// And by TLS-ALPN-01 (RFC 8737 §3).
const HTTPS_PORT: u16 = 443;
/// Most bytes of an address.
const MAX_URL: usize = 2048;

/// Reads `acme` of `[tls]`: `true`, or a section.
pub(super) fn read(root: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<Acme> {
    // What is wrong with [tls] is said where that is read.
    let table = root.field("tls").and_then(|field| field.value.as_table())?;
    let tls = Section::read(Part::Tls, "in [tls]", 0..0, table, &mut Vec::new());
    let field = tls.field("acme")?;
    let empty = DeTable::new();
    let table = match field.value {
        DeValue::Boolean(false) => return None,
        DeValue::Boolean(true) => &empty,
        value => noted(value.as_table().ok_or_else(|| field.wrong_type()), found)?,
    };
    let section = Section::read(Part::TlsAcme, "in `acme` of [tls]", field.at.clone(), table, found);
    let email = section.field("email").and_then(|field| noted(email(&field), found));
    let mut staging = false;
    section.set("staging", Field::boolean, &mut staging, found);
    let directory = if staging { LETS_ENCRYPT_STAGING } else { LETS_ENCRYPT };
    if let (true, Some(named)) = (staging, section.field("directory")) {
        let message = "`staging` has no effect: `directory` names another authority than Let's Encrypt";
        found.push(Diagnostic::warning(Code::NoEffect, named.key_at, message).help("take one of the two away"));
    }
    let mut authorities = vec![authority(&section, Some(directory), folder, found)?];
    authorities.extend(fallback(&section, folder, found));
    let kept = section.field("folder").and_then(|field| noted(non_empty(&field), found));
    let words = [("folder", AcmeStorage::Folder), ("redis", AcmeStorage::Redis)];
    let storage = section.field("storage").and_then(|field| word(&field, &words, found)).unwrap_or(AcmeStorage::Folder);
    if let (AcmeStorage::Redis, Some(field)) = (storage, section.field("folder")) {
        let message = "`folder` has no effect: certificates are kept in Redis";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take one of the two away"));
    }
    let settings = AcmeSettings {
        email: email.map(str::to_owned),
        authorities,
        storage: StorageSettings::Folder(kept.map(|path| joined(folder, path)).unwrap_or_default()),
        on_demand: on_demand(&section, found),
        challenges: Challenges::default(),
    };
    let storage_at = section.field("storage").map_or(field.key_at.clone(), |field| field.at);
    Some(Acme { settings, storage, at: field.key_at, storage_at })
}

fn fallback(section: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Vec<AuthoritySettings> {
    let Some(field) = section.field("fallback") else { return Vec::new() };
    let items: Vec<(Span, &DeValue<'_>)> = match field.value {
        DeValue::Array(list) => list.iter().map(|item| (item.span(), item.get_ref())).collect(),
        single => vec![(field.at.clone(), single)],
    };
    if items.len() >= AcmeSettings::MAX_AUTHORITIES {
        let most = AcmeSettings::MAX_AUTHORITIES - 1;
        let message = format!("`fallback` has {} authorities; at most {most} are allowed", items.len());
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
    }
    let mut all = Vec::new();
    for (at, item) in items.into_iter().take(AcmeSettings::MAX_AUTHORITIES - 1) {
        let DeValue::Table(table) = item else {
            let message = format!("each of `fallback` must be a section, not {}", type_name(item));
            let help = "write { directory = \"https://acme.example/directory\" }";
            found.push(Diagnostic::error(Code::WrongType, at, message).help(help));
            continue;
        };
        let part = Section::read(Part::TlsAcmeFallback, "in `fallback` of `acme`", at, table, found);
        all.extend(authority(&part, None, folder, found));
    }
    all
}

/// An authority: its directory, the roots that it is checked by, the account that it knows.
fn authority(
    section: &Section<'_>,
    default: Option<&str>,
    folder: &Path,
    found: &mut Vec<Diagnostic>,
) -> Option<AuthoritySettings> {
    let directory = match (section.field("directory"), default) {
        (Some(field), _) => noted(url(&field), found)?,
        (None, Some(default)) => default,
        (None, None) => {
            if !section.mentions("directory") {
                let message = "the authority has no `directory`";
                let help = "add directory = \"https://acme.example/directory\"";
                found.push(Diagnostic::error(Code::MissingKey, section.at.clone(), message).help(help));
            }
            return None;
        }
    };
    let root = section.field("ca").and_then(|field| noted(non_empty(&field), found));
    let external_account = external_account(section, folder, found);
    let root = root.map(|path| joined(folder, path));
    Some(AuthoritySettings { directory: directory.to_owned(), root, external_account })
}

/// Names that no route names: the server that decides which of them may have a certificate, and how many.
fn on_demand(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> Option<OnDemand> {
    let part = section.part("on_demand", Part::TlsAcmeOnDemand, "in `on_demand` of `acme`", found)?;
    let mut limit = OrderRate::default();
    if let Some(rate) = part.field("limit").and_then(|field| noted(text(&field, rate), found)) {
        limit = OrderRate { count: rate.count, per: Duration::from_secs(rate.per.seconds()) };
    }
    let Some(field) = part.field("ask") else {
        if !part.mentions("ask") {
            let message = "`on_demand` has no `ask`, so anybody could have certificates ordered for any name";
            let help = "add ask = \"http://127.0.0.1:9000/may-have\", an address that answers 200 if ?domain=NAME may have one";
            found.push(Diagnostic::error(Code::MissingKey, part.at.clone(), message).help(help));
        }
        return None;
    };
    let ask = noted(ask_url(&field), found)?;
    Some(OnDemand { ask: ask.to_owned(), limit })
}

fn external_account(section: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<ExternalAccount> {
    let part = section.part("eab", Part::TlsAcmeEab, "in `eab` of `acme`", found)?;
    let mut required = |name: &str, help: &str| {
        let field = part.field(name);
        if field.is_none() && !part.mentions(name) {
            let message = format!("`eab` has no `{name}`");
            found.push(Diagnostic::error(Code::MissingKey, part.at.clone(), message).help(format!("add {help}")));
        }
        field.and_then(|field| noted(non_empty(&field), found))
    };
    let kid = required("kid", "kid = \"kid-1\", as the authority gave it");
    let key_file = required("key_file", "key_file = \"eab.key\", a file with the MAC key in base64url");
    Some(ExternalAccount { kid: kid?.to_owned(), key_file: joined(folder, key_file?) })
}

fn email<'a>(field: &Field<'a>) -> Result<&'a str, Diagnostic> {
    let text = field.string()?;
    let is_address = text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    if is_address && text.bytes().all(|byte| byte.is_ascii_graphic()) && text.len() <= MAX_URL {
        return Ok(text);
    }
    Err(field.rejected(Rejected::help(format!("{} is no address for mail", shown(text)), "write \"ops@example.org\"")))
}

fn url<'a>(field: &Field<'a>) -> Result<&'a str, Diagnostic> {
    let text = field.string()?;
    let is_url = text.strip_prefix("https://").is_some_and(|host| !host.is_empty() && !host.starts_with('/'));
    if is_url && text.bytes().all(|byte| byte.is_ascii_graphic()) && text.len() <= MAX_URL {
        return Ok(text);
    }
    Err(field.rejected(Rejected::new(format!("{} is no address that begins with https://", shown(text)))))
}

/// An address that is asked: by HTTP or HTTPS, without a fragment.
fn ask_url<'a>(field: &Field<'a>) -> Result<&'a str, Diagnostic> {
    let text = field.string()?;
    let host = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let is_url =
        host.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', ':', '?'])) && !text.contains(['#', '@']);
    if is_url && text.bytes().all(|byte| byte.is_ascii_graphic()) && text.len() <= MAX_URL {
        return Ok(text);
    }
    let reason = format!("{} is no address that can be asked", shown(text));
    Err(field
        .rejected(Rejected::help(reason, "write \"http://127.0.0.1:9000/may-have\", without a user or a fragment")))
}

/// What `acme` has to do with the listeners, the routes and Redis.
pub(super) fn relations(config: &mut Config, found: &mut Vec<Diagnostic>) {
    let (http, tls_alpn) = offered(config);
    let redis = config.cache_redis.as_ref().map(|redis| (redis.url.0.clone(), redis.options.prefix.to_string()));
    let Some(acme) = &mut config.acme else { return };
    acme.settings.challenges = Challenges { http, tls_alpn };
    if acme.storage == AcmeStorage::Redis {
        match redis {
            Some((url, prefix)) => acme.settings.storage = StorageSettings::Redis { url, prefix },
            None => {
                let message = "`storage` is \"redis\", and the file has no [cache.redis]";
                let help = "add [cache.redis] with a `url`, or take `storage` away for a folder";
                found.push(Diagnostic::error(Code::MissingKey, acme.storage_at.clone(), message).help(help));
            }
        }
    }
    let (reach, at) = (acme.settings.reach(), acme.at.clone());
    let on_demand = acme.settings.on_demand.is_some();
    let hosts =
        config.routes.iter().filter(|route| !route.is_signed_locally()).filter_map(|route| route.host.as_deref());
    let mut count = 0;
    for host in hosts {
        match Name::of_host(host, reach) {
            Ok(_) => count += 1,
            Err(NoName::Wildcard) if on_demand => count += 1,
            Err(NoName::Wildcard) => {
                let message = format!("{} gets no certificate by ACME: {}", shown(host), NoName::Wildcard);
                let help = "name each host in a route of its own, bring a certificate with `certificates` of [tls], or add `on_demand` to `acme`";
                found.push(Diagnostic::warning(Code::Unused, at.clone(), message).help(help));
            }
            // Below .localhost the local authority signs; the others may have a certificate in a file.
            Err(NoName::Local | NoName::Address | NoName::Malformed) => {}
        }
    }
    let takes_any = config.routes.iter().any(|route| route.host.is_none());
    if on_demand && count == 0 && !takes_any {
        let message = "`on_demand` has no effect: no route has a host with a wildcard, or none at all";
        let help = "add host = \"*.example.org\" to a route, or a route without `host`";
        found.push(Diagnostic::warning(Code::NoEffect, at, message).help(help));
    } else if count == 0 && !on_demand {
        let message = "no route has a host that an authority gives a certificate for, so `acme` gets none";
        found.push(Diagnostic::warning(Code::NoEffect, at, message).help("add host = \"app.example.org\" to a route"));
    }
}

/// Which challenges can be answered: HTTP-01 where plain HTTP is spoken, TLS-ALPN-01 where TLS is. The one whose port
/// is the authority's comes first; behind a port that is passed on it may be any.
fn offered(config: &Config) -> (Offered, Offered) {
    let plain = config.listen.iter().filter_map(|one| match &one.address {
        ListenAddr::Tcp(address) => Some(address.port()),
        ListenAddr::Tls(_) | ListenAddr::Unix(_) => None,
    });
    let plain: Vec<u16> = plain.collect();
    let has_tls = config.listen.iter().any(|one| matches!(one.address, ListenAddr::Tls(_)));
    match (plain.contains(&HTTP_PORT), !plain.is_empty(), has_tls) {
        (true, _, true) => (Offered::First, Offered::Second),
        (_, true, false) => (Offered::First, Offered::No),
        (false, true, true) => {
            let is_https = |one: &super::model::Listener| matches!(&one.address, ListenAddr::Tls(address) if address.port() == HTTPS_PORT);
            let tls_first = config.listen.iter().any(is_https);
            if tls_first { (Offered::Second, Offered::First) } else { (Offered::First, Offered::Second) }
        }
        (_, false, true) => (Offered::No, Offered::First),
        (_, false, false) => (Offered::No, Offered::No),
    }
}

/// The files that `acme` names, with what is wrong with them.
pub(super) fn check(config: &Config, found: &mut Vec<Diagnostic>) {
    let Some(acme) = &config.acme else { return };
    for authority in &acme.settings.authorities {
        let files: [Option<&PathBuf>; 2] =
            [authority.root.as_ref(), authority.external_account.as_ref().map(|account| &account.key_file)];
        for path in files.into_iter().flatten().filter(|path| !path.is_file()) {
            let message = format!("{} is not there, or no file", path.display());
            found.push(Diagnostic::error(Code::Missing, acme.at.clone(), message).help("write the path of a file"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Loaded, Report, Style, parse};

    fn read(listen: &str, acme: &str, more: &str) -> Result<Loaded, Report> {
        let route = "[[routes]]\nhost = \"app.example.org\"\npath = \"/\"\nfiles = \"site\"\n";
        let text = format!("listen = {listen}\n[tls]\nacme = {acme}\n{more}\n{route}");
        parse(&text, Path::new("/x/pilotlight.toml"))
    }

    #[track_caller]
    fn settings(listen: &str, acme: &str, more: &str) -> AcmeSettings {
        read(listen, acme, more).unwrap_or_else(|e| panic!("{e}")).config.acme.unwrap().settings
    }

    const BOTH: &str = "[\"0.0.0.0:80\", \"0.0.0.0:443\"]";

    #[track_caller]
    fn refused(acme: &str, expected: &str) {
        let report = read(BOTH, acme, "").unwrap_err().render(Style::Plain);
        assert!(report.contains(expected), "{report}");
    }

    #[test]
    fn what_is_said_arrives() {
        let least = settings(BOTH, "true", "");
        let authority = AuthoritySettings { directory: LETS_ENCRYPT.to_owned(), root: None, external_account: None };
        assert_eq!(least.authorities, [authority]);
        assert_eq!(least.storage, StorageSettings::Folder(PathBuf::new()));
        let whole = settings(
            BOTH,
            "{ email = \"a@b.org\", directory = \"https://ca/dir\", ca = \"r.pem\", eab = { kid = \"k\", key_file = \"k.key\" }, \
             folder = \"c\", fallback = { directory = \"https://other/dir\" } }",
            "",
        );
        let external_account = Some(ExternalAccount { kid: "k".to_owned(), key_file: "/x/k.key".into() });
        let first = AuthoritySettings {
            directory: "https://ca/dir".to_owned(),
            root: Some("/x/r.pem".into()),
            external_account,
        };
        let second =
            AuthoritySettings { directory: "https://other/dir".to_owned(), root: None, external_account: None };
        assert_eq!((whole.authorities, whole.email), (vec![first, second], Some("a@b.org".to_owned())));
        assert_eq!(whole.storage, StorageSettings::Folder("/x/c".into()));
        assert_eq!(settings(BOTH, "{ staging = true }", "").authorities[0].directory, LETS_ENCRYPT_STAGING);
        assert!(
            read(BOTH, "false", "certificates = { certificate = \"a\", key = \"b\" }").unwrap().config.acme.is_none()
        );
        let redis = settings(BOTH, "{ storage = \"redis\" }", "[cache.redis]\nurl = \"redis://h\"\nprefix = \"shop\"");
        let expected = StorageSettings::Redis { url: "redis://h".to_owned(), prefix: "shop".to_owned() };
        assert_eq!(redis.storage, expected);
    }

    #[test]
    fn challenges_follow_from_the_listeners() {
        let check = |listen: &str, http, tls_alpn| {
            assert_eq!(settings(listen, "true", "").challenges, Challenges { http, tls_alpn }, "{listen}");
        };
        check(BOTH, Offered::First, Offered::Second);
        check("[\"127.0.0.1:8080\", \"0.0.0.0:443\"]", Offered::Second, Offered::First);
        check("[\"127.0.0.1:8080\", \"https://127.0.0.1:8443\"]", Offered::First, Offered::Second);
        check("\"0.0.0.0:443\"", Offered::No, Offered::First);
    }

    #[test]
    fn what_cannot_be_is_said() {
        refused("{ email = \"nobody\" }", "is no address for mail");
        refused("{ directory = \"http://ca/dir\" }", "begins with https://");
        refused("{ eab = { kid = \"k\" } }", "`eab` has no `key_file`");
        refused("{ fallback = [{ ca = \"r.pem\" }] }", "the authority has no `directory`");
        refused("{ storage = \"redis\" }", "the file has no [cache.redis]");
        refused("{ storage = \"etcd\" }", "means nothing as `storage`");
        refused("{ server = \"https://ca/dir\" }", "did you mean `directory`?");
        refused("1", "`acme` must be a section, or true or false");
    }

    #[test]
    fn on_demand_needs_ask() {
        let read = |on_demand: &str| settings(BOTH, &format!("{{ on_demand = {on_demand} }}"), "").on_demand.unwrap();
        let least = read("{ ask = \"http://127.0.0.1:9/x?y=1\" }");
        let ten = OrderRate { count: 10.try_into().unwrap(), per: Duration::from_secs(60) };
        assert_eq!(least, OnDemand { ask: "http://127.0.0.1:9/x?y=1".to_owned(), limit: ten });
        let limit = OrderRate { count: 5.try_into().unwrap(), per: Duration::from_secs(3600) };
        assert_eq!(read("{ ask = \"https://a.b\", limit = \"5/h\" }").limit, limit);
        refused("{ on_demand = {} }", "`on_demand` has no `ask`, so anybody could have certificates ordered");
        refused("{ on_demand = true }", "must be a section");
        for ask in ["", "127.0.0.1:9", "ftp://a", "http://", "http:///x", "http://u:p@h/", "http://h/#x", "http://h/ x"]
        {
            refused(&format!("{{ on_demand = {{ ask = \"{ask}\" }} }}"), "is no address that can be asked");
        }
        refused("{ on_demand = { ask = \"http://h\", limit = \"10\" } }", "is no rate");
        refused("{ on_demand = { url = \"http://h\" } }", "did you mean `ask`?");
    }

    #[test]
    fn hosts_without_a_certificate_are_said() {
        let warned = |host: &str| {
            let text = format!(
                "listen = {BOTH}\n[tls]\nacme = true\n[[routes]]\nhost = \"{host}\"\npath = \"/\"\nfiles = \"site\"\n"
            );
            parse(&text, Path::new("/x/pilotlight.toml")).unwrap().warnings.render(Style::Plain)
        };
        assert!(warned("*.example.org").contains("a wildcard needs DNS-01, which is not offered"));
        assert!(warned("app.internal").contains("no route has a host that an authority gives a certificate for"));
        assert!(!warned("app.example.org").contains("certificate"));
    }
}
