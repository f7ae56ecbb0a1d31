//! `[tls]`: certificates, the least version, certificates of clients; what of it is spoken at which listener.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pilotlight_gateway::ListenAddr;
use pilotlight_tls::{
    CertificateFiles, ClientCertificateMode, ClientCertificates, FileError, MinVersion, Remark, TlsSettings,
    check_client_certificates,
};
use toml::de::{DeTable, DeValue};

use super::address::Said;
use super::diagnostic::{Code, Diagnostic, Span};
use super::keys::signs_locally;
use super::model::{Config, Listener, PairSpans, Tls, joined};
use super::readers::{non_empty, word};
use super::schema::Part;
use super::section::{Field, Section, noted, type_name};

/// The port of `https` (RFC 9110 §4.2.2), at which TLS is spoken unless an address says otherwise.
const HTTPS_PORT: u16 = 443;

pub(super) fn read(root: &Section<'_>, folder: &Path, found: &mut Vec<Diagnostic>) -> Option<Tls> {
    let at = root.field("tls")?.key_at;
    let section = root.part("tls", Part::Tls, "in [tls]", found)?;
    let mut tls = Tls { at, ..Tls::default() };
    for field in section.field("certificates").iter() {
        certificates(field, folder, &mut tls, found);
    }
    if let Some(field) = section.field("min_version") {
        tls.settings.min_version = word(&field, &MinVersion::NAMES, found).unwrap_or_default();
    }
    tls.settings.client_certificates = client_certificates(&section, folder, &mut tls.ca_at, found);
    tls.mentions_certificates = section.mentions("certificates");
    Some(tls)
}

fn certificates(field: &Field<'_>, folder: &Path, tls: &mut Tls, found: &mut Vec<Diagnostic>) {
    let items: Vec<(Span, &DeValue<'_>)> = match field.value {
        DeValue::Array(list) => list.iter().map(|item| (item.span(), item.get_ref())).collect(),
        single => vec![(field.at.clone(), single)],
    };
    if items.len() > TlsSettings::MAX_CERTIFICATES {
        let (count, max) = (items.len(), TlsSettings::MAX_CERTIFICATES);
        let message = format!("`certificates` has {count} entries; at most {max} are allowed");
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return;
    }
    if items.is_empty() {
        let message = "`certificates` is an empty list, so nobody could connect with TLS";
        let help = "add { certificate = \"cert.pem\", key = \"key.pem\" }";
        found.push(Diagnostic::error(Code::BadValue, field.at.clone(), message).help(help));
    }
    for (at, item) in items {
        match item {
            DeValue::Table(table) => pair(at, table, folder, tls, found),
            other => {
                let message = format!("each of `certificates` must be a section, not {}", type_name(other));
                let help = "write { certificate = \"cert.pem\", key = \"key.pem\" }";
                found.push(Diagnostic::error(Code::WrongType, at, message).help(help));
            }
        }
    }
}

fn pair(at: Span, table: &DeTable<'_>, folder: &Path, tls: &mut Tls, found: &mut Vec<Diagnostic>) {
    let section = Section::read(Part::TlsCertificate, "in `certificates` of [tls]", at, table, found);
    let certificate = file(&section, "certificate", folder, found);
    let key = file(&section, "key", folder, found);
    if let (Some((certificate, certificate_at)), Some((key, key_at))) = (certificate, key) {
        tls.settings.certificates.push(CertificateFiles { certificate, key });
        tls.pairs_at.push(PairSpans { certificate: certificate_at, key: key_at });
    }
}

/// A file that has to be named, and where it is.
pub(super) fn file(
    section: &Section<'_>,
    name: &str,
    folder: &Path,
    found: &mut Vec<Diagnostic>,
) -> Option<(PathBuf, Span)> {
    let Some(field) = section.field(name) else {
        if !section.mentions(name) {
            let message = format!("`{name}` is missing: the path of a PEM file");
            let help = format!("add {name} = \"{name}.pem\"");
            found.push(Diagnostic::error(Code::MissingKey, section.at.clone(), message).help(help));
        }
        return None;
    };
    let path = noted(non_empty(&field), found)?;
    Some((joined(folder, path), field.at))
}

fn client_certificates(
    section: &Section<'_>,
    folder: &Path,
    at: &mut Span,
    found: &mut Vec<Diagnostic>,
) -> Option<ClientCertificates> {
    let part = Part::TlsClientCertificates;
    let section = section.part("client_certificates", part, "in `client_certificates` of [tls]", found)?;
    let (ca, ca_at) = file(&section, "ca", folder, found)?;
    *at = ca_at;
    let mode = section.field("mode").and_then(|field| word(&field, &ClientCertificateMode::NAMES, found));
    Some(ClientCertificates { ca, mode: mode.unwrap_or_default() })
}

/// Where TLS is spoken: where the address says so, and at the port of `https` if there is a `[tls]`.
pub(super) fn spoken(
    listeners: Vec<(Listener, Said)>,
    tls: Option<&Tls>,
    found: &mut Vec<Diagnostic>,
) -> Vec<Listener> {
    let mut all = Vec::with_capacity(listeners.len());
    for (mut listener, said) in listeners {
        if let ListenAddr::Tcp(address) = listener.address {
            let is_implied = tls.is_some() && said == Said::Nothing && address.port() == HTTPS_PORT;
            if said == Said::Https && tls.is_none() && listener.local_host.is_none() {
                let message = "this listener speaks TLS, and the file has no [tls]";
                let help = "add [tls] with certificates = { certificate = \"cert.pem\", key = \"key.pem\" }, or with acme = true; \
                            on this machine listen on https://app.localhost, for which the local authority signs";
                found.push(Diagnostic::error(Code::MissingKey, listener.at.clone(), message).help(help));
            }
            if said == Said::Https || is_implied {
                listener.address = ListenAddr::Tls(address);
            }
        }
        all.push(listener);
    }
    let has_tls = all.iter().any(|listener| matches!(listener.address, ListenAddr::Tls(_)));
    if let Some(tls) = tls.filter(|_| !has_tls) {
        let message = "[tls] has no effect: no address of `listen` speaks TLS";
        let help = "write listen = \"https://0.0.0.0:443\", or another address with https:// in front";
        found.push(Diagnostic::warning(Code::NoEffect, tls.at.clone(), message).help(help));
    }
    all
}

/// Whether there is a certificate, or somebody who gives one.
pub(super) fn relations(config: &Config, found: &mut Vec<Diagnostic>) {
    let Some(tls) = &config.tls else { return };
    let is_local = signs_locally(config);
    let has_some = !tls.settings.certificates.is_empty() || tls.mentions_certificates;
    if !has_some && config.acme.is_none() && !is_local {
        let message = "[tls] has no certificates, so nobody could connect with TLS";
        let help = "add certificates = { certificate = \"cert.pem\", key = \"key.pem\" }, or acme = true";
        found.push(Diagnostic::error(Code::MissingKey, tls.at.clone(), message).help(help));
    }
}

/// Whether the files are there and can be used.
pub(super) fn check(config: &Config, found: &mut Vec<Diagnostic>) {
    let Some(tls) = &config.tls else { return };
    for (files, at) in tls.settings.certificates.iter().zip(&tls.pairs_at) {
        match files.load() {
            Err(error) => {
                let is_key = error.path().is_some_and(|path| path == files.key && path != files.certificate);
                let at = if is_key || matches!(error, FileError::Exposed { .. }) { &at.key } else { &at.certificate };
                found.push(unusable(&error, at));
            }
            Ok(certificate) => {
                if let Some(remark) = certificate.remark(SystemTime::now()) {
                    found.push(odd(remark, &at.certificate));
                }
            }
        }
    }
    if let Some(clients) = &tls.settings.client_certificates
        && let Err(error) = check_client_certificates(clients)
    {
        found.push(unusable(&error, &tls.ca_at));
    }
}

pub(super) fn unusable(error: &FileError, at: &Span) -> Diagnostic {
    let code = match error {
        FileError::Read { .. } => Code::Missing,
        FileError::Exposed { .. } => Code::Unsafe,
        _ => Code::BadValue,
    };
    Diagnostic::error(code, at.clone(), error.to_string()).help(error.remedy())
}

fn odd(remark: Remark, at: &Span) -> Diagnostic {
    const DAY: u64 = 24 * 3600;
    let (message, help) = match remark {
        Remark::Expired { since } => {
            let days = since.as_secs() / DAY;
            (format!("this certificate has expired {days} days ago, so clients refuse it"), "renew it")
        }
        Remark::NotYetValid { valid_in } => {
            let hours = valid_in.as_secs().div_ceil(3600);
            (format!("this certificate is only valid in {hours} hours, so clients refuse it"), "is the clock right?")
        }
        Remark::NoNames => {
            let message = "this certificate names no host (subjectAltName), so clients refuse it";
            (message.to_owned(), "have it issued with the hosts that it is for")
        }
    };
    Diagnostic::warning(Code::BadValue, at.clone(), message).help(help)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Report, Style, parse};

    const PAIR: &str = "certificates = { certificate = \"a.pem\", key = \"/k/a.key\" }";

    fn read(listen: &str, tls: &str) -> Result<Config, Report> {
        let text = format!("listen = {listen}\n{tls}\n[services.a]\nurl = \"http://127.0.0.1:9\"\n");
        let text = format!("{text}[[routes]]\npath = \"/\"\nservice = \"a\"\n");
        parse(&text, Path::new("/x/pilotlight.toml")).map(|loaded| loaded.config)
    }

    #[track_caller]
    fn check_listeners(listen: &str, tls: &str, expected: &[&str]) {
        let config = read(listen, tls).unwrap_or_else(|e| panic!("{e}"));
        let all: Vec<String> = config.listen.iter().map(|listener| listener.address.to_string()).collect();
        assert_eq!(all, expected, "{listen}");
    }

    #[track_caller]
    fn refused(listen: &str, tls: &str, expected: &str) {
        let report = read(listen, tls).unwrap_err().render(Style::Plain);
        assert!(report.contains(expected), "{report}");
    }

    #[test]
    fn where_tls_is_spoken() {
        let tls = format!("[tls]\n{PAIR}");
        check_listeners("[\"0.0.0.0:80\", \"0.0.0.0:443\"]", &tls, &["http://0.0.0.0:80", "https://0.0.0.0:443"]);
        check_listeners("[\"0.0.0.0:443\"]", "", &["http://0.0.0.0:443"]);
        check_listeners(
            "[\"http://0.0.0.0:443\", \"https://127.0.0.1:8443\"]",
            &tls,
            &["http://0.0.0.0:443", "https://127.0.0.1:8443"],
        );
        check_listeners("\"https://[::1]\"", &tls, &["https://[::1]:443"]);
        check_listeners("\"https://app.localhost\"", &tls, &["https://127.0.0.1:443"]);
        check_listeners(
            "[\"https://localhost:1\", \"http://localhost\"]",
            &tls,
            &["https://127.0.0.1:1", "http://127.0.0.1:80"],
        );
        refused("\"https://127.0.0.1:8443\"", "", "the file has no [tls]");
        refused("\"https://example.org\"", &tls, "only an IP address");
        refused("\"https://unix:a.sock\"", &tls, "is not an address");
        refused("[\"http://127.0.0.1:1\", \"https://127.0.0.1:1\"]", &tls, "is there twice");
    }

    #[test]
    fn every_key_is_read() {
        let config = read(
            "\"https://127.0.0.1:1\"",
            "[tls]\ncertificates = [{ certificate = \"a.pem\", key = \"a.key\" }, { certificate = \"/b\", key = \"/c\" }]\n\
             min_version = \"1.3\"\nclient_certificates = { ca = \"ca.pem\", mode = \"optional\" }",
        );
        let pair = |certificate: &str, key: &str| CertificateFiles { certificate: certificate.into(), key: key.into() };
        let expected = TlsSettings {
            certificates: vec![pair("/x/a.pem", "/x/a.key"), pair("/b", "/c")],
            min_version: MinVersion::Tls13,
            client_certificates: Some(ClientCertificates {
                ca: "/x/ca.pem".into(),
                mode: ClientCertificateMode::Optional,
            }),
        };
        assert_eq!(config.unwrap().tls.unwrap().settings, expected);
        let one = read("\"https://127.0.0.1:1\"", &format!("[tls]\n{PAIR}")).unwrap().tls.unwrap().settings;
        assert_eq!(one, TlsSettings { certificates: vec![pair("/x/a.pem", "/k/a.key")], ..TlsSettings::default() });
    }

    #[test]
    fn mistakes_have_their_place() {
        let listen = "\"https://127.0.0.1:1\"";
        refused(listen, "[tls]", "[tls] has no certificates");
        refused(listen, "[tls]\ncertificates = []", "is an empty list");
        refused(listen, "[tls]\ncertificates = [\"a.pem\"]", "must be a section, not a string");
        refused(listen, "[tls]\ncertificates = { certificate = \"a.pem\" }", "`key` is missing");
        refused(listen, "[tls]\ncertificates = { cert = \"a.pem\", key = \"a\" }", "did you mean `certificate`?");
        refused(listen, &format!("[tls]\n{PAIR}\nmin_version = \"1.1\""), "means nothing as `min_version`");
        refused(listen, &format!("[tls]\n{PAIR}\nmin_version = 1.3"), "must be \"1.2\" or \"1.3\"");
        refused(listen, &format!("[tls]\n{PAIR}\nclient_certificates = {{ mode = \"required\" }}"), "`ca` is missing");
        let clients = "client_certificates = { ca = \"a\", mode = \"maybe\" }";
        refused(listen, &format!("[tls]\n{PAIR}\n{clients}"), "it is one of \"required\", \"optional\"");
    }
}
