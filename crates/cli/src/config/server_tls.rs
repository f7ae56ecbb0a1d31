//! `[services.NAME.tls]`: how servers that somebody else runs are trusted, and what the gateway shows them.

use std::path::Path;

use pilotlight_gateway::ServerProtocol;
use pilotlight_tls::{CertificateFiles, Pin, ServerTls, ServerTlsSettings, server_name};

use super::diagnostic::{Code, Diagnostic, Span};
use super::model::{Service, ServiceKind, TlsFiles, joined};
use super::readers::{non_empty, read_words};
use super::schema::Part;
use super::section::{Field, Section, noted};
use super::shown::shown;
use super::tls::{file, unusable};
use super::value::Rejected;

/// How to come by a pin.
const PIN_HELP: &str = "`openssl x509 -in CERTIFICATE -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst \
                        -sha256 -binary | base64` prints what stands behind sha256/";

/// The settings, and where they and their files stand.
pub(super) type Read = (ServerTlsSettings, Option<TlsFiles>);

pub(super) fn read(
    section: &Section<'_>,
    protocol: ServerProtocol,
    folder: &Path,
    found: &mut Vec<Diagnostic>,
) -> Read {
    let mut settings = ServerTlsSettings::default();
    let has_tls = matches!(protocol, ServerProtocol::Https(_));
    let Some(field) = section.field("tls") else {
        // Without the section the system's authorities are asked: whether there are any is looked at where they are.
        let at = section.field("url").filter(|_| has_tls).map(|url| (url.at, Vec::new()));
        return (settings, at);
    };
    if !has_tls {
        let message = "`tls` is for servers with TLS, and `url` does not begin with https://";
        let help = "write https:// in front of each server, or take `tls` away";
        found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
        return (settings, None);
    }
    let Some(part) = section.part("tls", Part::ServiceTls, "in the service's tls", found) else {
        return (settings, None);
    };
    let mut files = Vec::new();
    if let Some(field) = part.field("ca")
        && let Some(path) = noted(non_empty(&field), found)
    {
        let path = joined(folder, path);
        files.push((path.clone(), field.at));
        settings.ca = Some(path);
    }
    if let Some(name) = part.field("server_name").and_then(|field| noted(a_name(&field), found)) {
        settings.server_name = Some(name);
    }
    if part.field("certificate").is_some() || part.field("key").is_some() {
        let certificate = file(&part, "certificate", folder, found);
        let key = file(&part, "key", folder, found);
        if let (Some((certificate, certificate_at)), Some((key, key_at))) = (certificate, key) {
            files.extend([(certificate.clone(), certificate_at), (key.clone(), key_at)]);
            settings.identity = Some(CertificateFiles { certificate, key });
        }
    }
    if let Some(field) = part.field("pins") {
        settings.pins = pins(&field, found);
    }
    (settings, Some((field.at, files)))
}

fn a_name(field: &Field<'_>) -> Result<String, Diagnostic> {
    let text = field.string()?;
    match server_name(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(field.rejected(Rejected::help(
            format!("{} is no name that a certificate can be for", shown(text)),
            "write the name of a host, or an IP address, without a port",
        ))),
    }
}

fn pins(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Vec<Pin> {
    let Some(list) = noted(field.value.as_array().ok_or_else(|| field.wrong_type()), found) else {
        return Vec::new();
    };
    let words = read_words(field, list, found).unwrap_or_default();
    let pin = |(text, at): (String, Span)| {
        let wrong = |_| {
            let rejected = Rejected::help(format!("{} is no pin", shown(&text)), PIN_HELP);
            Field { at, ..field.clone() }.rejected(rejected)
        };
        noted(text.parse().map_err(wrong), found)
    };
    words.into_iter().filter_map(pin).collect()
}

/// Whether the files are there and can be used.
pub(super) fn check(service: &Service, found: &mut Vec<Diagnostic>) {
    let (ServiceKind::External(spec), Some((at, files))) = (&service.kind, &service.at.tls) else { return };
    if let Err(error) = ServerTls::load(&spec.tls) {
        let of_file = error.path().and_then(|path| files.iter().find(|(file, _)| file == path));
        found.push(unusable(&error, of_file.map_or(at, |(_, at)| at)));
    }
}
