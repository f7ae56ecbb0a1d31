//! `allow.jwt` of a route: which tokens let their bearers in.

use std::io::ErrorKind;
use std::path::Path;

use http::{HeaderName, Uri};
use pilotlight_gateway::{
    JwtSpec, KeySource, KeysAt, KeysFileError, TokenAlgorithm, TokenExpiry, TokenFrom, TokenRules, check_keys,
};
use toml::de::DeValue;

use super::caching;
use super::diagnostic::{Code, Diagnostic, Span};
use super::model::joined;
use super::named_files::{AdmissionFile, AdmissionFileKind};
use super::readers;
use super::section::{Field, Section, a_time, noted, type_name};
use super::shown::shown;
use super::value::{Rejected, nearest};

/// Reads the section; `realm` is what challenges call what is protected.
pub(super) fn read(
    section: &Section<'_>,
    realm: &str,
    folder: &Path,
    files: &mut Vec<AdmissionFile>,
    found: &mut Vec<Diagnostic>,
) -> Option<JwtSpec> {
    let mut rules = TokenRules {
        issuers: texts(section.field("issuer"), found),
        audiences: texts(section.field("audience"), found),
        algorithms: caching::words(section.field("algorithms").as_ref(), found, |word, _| algorithm(word)),
        scopes: caching::words(section.field("scopes").as_ref(), found, |word, _| scope(word)),
        ..TokenRules::default()
    };
    for name in ["issuer", "audience", "algorithms", "scopes"] {
        not_empty(section.field(name), found);
    }
    if let Some(field) = section.field("expiry") {
        let words = [("required", TokenExpiry::Required), ("optional", TokenExpiry::Optional)];
        rules.expiry = readers::word(&field, &words, found).unwrap_or_default();
    }
    section.set("leeway", a_time(&TokenRules::LEEWAY), &mut rules.leeway, found);
    let mut from = TokenFrom::Bearer;
    section.set("from", |field| self::from(field.string()?).map_err(|wrong| field.rejected(wrong)), &mut from, found);
    let claims = claims(section.field("claims"), &from, found);
    let keys = keys(section, folder, files, found);
    Some(JwtSpec { keys: keys?, rules, from, claims, realm: realm.to_owned() })
}

fn keys(
    section: &Section<'_>,
    folder: &Path,
    files: &mut Vec<AdmissionFile>,
    found: &mut Vec<Diagnostic>,
) -> Option<KeySource> {
    let mut refresh = KeySource::DEFAULT_REFRESH;
    section.set("refresh", a_time(&KeySource::REFRESH), &mut refresh, found);
    let ca = section.field("ca").and_then(|field| {
        let path = joined(folder, noted(readers::non_empty(&field), found)?);
        files.push(AdmissionFile { path: path.clone(), at: field.at, kind: AdmissionFileKind::Authorities });
        Some(path)
    });
    let Some(field) = section.field("jwks") else {
        if !section.mentions("jwks") {
            let message = "the route's `allow.jwt` has no `jwks`";
            let help = "add jwks = \"https://id.example/.well-known/jwks.json\", or the path of a file with the keys";
            found.push(Diagnostic::error(Code::MissingKey, section.at.clone(), message).help(help));
        }
        return None;
    };
    let text = noted(readers::non_empty(&field), found)?;
    let at = match text.contains("://") {
        true => KeysAt::Url(noted(url(text, JWKS_EXAMPLE).map_err(|wrong| field.rejected(wrong)), found)?),
        false => KeysAt::File(joined(folder, text)),
    };
    if let KeysAt::File(path) = &at {
        files.push(AdmissionFile { path: path.clone(), at: field.at.clone(), kind: AdmissionFileKind::Keys });
    }
    let is_https = matches!(&at, KeysAt::Url(url) if url.scheme_str() == Some("https"));
    let is_url = matches!(&at, KeysAt::Url(_));
    for (name, is_of_use, why) in
        [("ca", is_https, "`jwks` is no https URL"), ("refresh", is_url, "a file is read when it changes")]
    {
        if let (Some(field), false) = (section.field(name), is_of_use) {
            let message = format!("`{name}` has no effect: {why}");
            found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
        }
    }
    if let KeysAt::Url(url) = &at
        && !is_https
        && !url.host().is_some_and(is_this_machine)
    {
        let message =
            format!("an attacker who can change what comes from {} can make tokens that are accepted", shown(text));
        found.push(Diagnostic::warning(Code::Unsafe, field.at, message).help("write https://"));
    }
    Some(KeySource { at, ca, refresh })
}

/// A set of keys.
const JWKS_EXAMPLE: &str = "https://id.example/.well-known/jwks.json";

fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `https://HOST[:PORT]/PATH`, as in the example.
pub(super) fn url(text: &str, example: &str) -> Result<Uri, Rejected> {
    let help = format!("write it like \"{example}\"");
    let url: Uri = text.parse().map_err(|_| Rejected::help(format!("{} is no URL", shown(text)), &*help))?;
    if !matches!(url.scheme_str(), Some("https" | "http")) {
        return Err(Rejected::help(format!("{} is no URL of https or http", shown(text)), help));
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        let help = "take it away: the gateway sends no credentials of its own";
        return Err(Rejected::help(format!("{} carries a user name", shown("https://…@…")), help));
    }
    if text.contains('#') || url.port_u16() == Some(0) || url.host().is_none_or(str::is_empty) {
        return Err(Rejected::help(format!("{} is no URL of a server's document", shown(text)), help));
    }
    Ok(url)
}

/// One text, or a list of them.
fn texts(field: Option<Field<'_>>, found: &mut Vec<Diagnostic>) -> Vec<String> {
    let Some(field) = field else { return Vec::new() };
    match field.value {
        DeValue::String(text) => vec![text.to_string()],
        _ => caching::words(Some(&field), found, |word, _| Ok(word.to_owned())),
    }
}

/// An empty list would demand nothing: that is not what anybody writes on purpose.
fn not_empty(field: Option<Field<'_>>, found: &mut Vec<Diagnostic>) {
    let Some(field) = field else { return };
    let is_empty = match field.value {
        DeValue::Array(list) => list.is_empty() || list.iter().any(|one| one.get_ref().as_str() == Some("")),
        value => value.as_str() == Some(""),
    };
    if is_empty {
        let name = field.key.name;
        let message = format!("`{name}` is empty, or has something empty in it");
        found.push(
            Diagnostic::error(Code::BadValue, field.at, message)
                .help(format!("write {name} = {}, or take the key away", field.key.example)),
        );
    }
}

fn algorithm(word: &str) -> Result<TokenAlgorithm, Rejected> {
    let names = TokenAlgorithm::ALL.map(TokenAlgorithm::name);
    if let Some(algorithm) = TokenAlgorithm::of_name(word) {
        return Ok(algorithm);
    }
    let help = format!("it is one of {}", names.join(", "));
    Err(match word {
        "none" => Rejected::help("`none` is no signature".to_owned(), help),
        "HS256" | "HS384" | "HS512" => {
            let reason = format!("{word} takes a shared secret: everyone who can verify its tokens can make them");
            Rejected::help(reason, help)
        }
        _ => {
            let help = nearest(word, names).map_or(help, |near| format!("did you mean \"{near}\"?"));
            Rejected::help(format!("{} is no algorithm that is supported", shown(word)), help)
        }
    })
}

/// RFC 6749 §3.3: `%x21 / %x23-5B / %x5D-7E`.
fn scope(word: &str) -> Result<String, Rejected> {
    let is_fine = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    match word.bytes().all(is_fine) {
        true => Ok(word.to_owned()),
        false => Err(Rejected::help(
            format!("{} is no scope", shown(word)),
            "write each scope by itself: scopes = [\"read\", \"write\"]",
        )),
    }
}

/// Where the token is.
fn from(text: &str) -> Result<TokenFrom, Rejected> {
    const HELP: &str = "it is \"bearer\", \"header:NAME\" or \"cookie:NAME\"";
    match text.split_once(':') {
        None if text == "bearer" => Ok(TokenFrom::Bearer),
        Some(("header", name)) => match name.parse::<HeaderName>() {
            Ok(name) if name == http::header::AUTHORIZATION => {
                Err(Rejected::help("a token in `Authorization` has its scheme in front", "write \"bearer\""))
            }
            Ok(name) => Ok(TokenFrom::Header(name)),
            Err(_) => Err(Rejected::help(format!("{} is not the name of a field", shown(name)), HELP)),
        },
        Some(("cookie", name)) => caching::cookie(name).map(TokenFrom::Cookie),
        _ => Err(Rejected::help(format!("{} is no place of a token", shown(text)), HELP)),
    }
}

/// The fields that the service gets, and the claim in each.
fn claims(field: Option<Field<'_>>, from: &TokenFrom, found: &mut Vec<Diagnostic>) -> Vec<(HeaderName, String)> {
    let Some(field) = field else { return Vec::new() };
    let Some(table) = noted(field.value.as_table().ok_or_else(|| field.wrong_type()), found) else {
        return Vec::new();
    };
    if table.len() > JwtSpec::MAX_CLAIMS {
        let message = format!("`claims` has {} fields; at most {} are allowed", table.len(), JwtSpec::MAX_CLAIMS);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
    }
    let mut claims: Vec<(HeaderName, String)> = Vec::with_capacity(table.len());
    for (name, value) in table {
        let named = Field { at: name.span(), ..field.clone() };
        let read = readers::passed_field(name.get_ref()).and_then(|name| {
            let is_token = matches!(from, TokenFrom::Header(header) if *header == name);
            match is_token || claims.iter().any(|(other, _)| *other == name) {
                true => Err(Rejected::help(
                    format!("{} is there already, or has the token", shown(name.as_str())),
                    "name each field once",
                )),
                false => Ok(name),
            }
        });
        let Some(name) = noted(read.map_err(|wrong| named.rejected(wrong)), found) else { continue };
        match value.get_ref().as_str().filter(|claim| !claim.is_empty()) {
            Some(claim) => claims.push((name, claim.to_owned())),
            None => {
                let message = format!("a claim must be the name of one, not {}", type_name(value.get_ref()));
                let help = "for example { \"X-User\" = \"sub\", \"X-Roles\" = \"realm_access.roles\" }";
                found.push(Diagnostic::error(Code::WrongType, value.span(), message).help(help));
            }
        }
    }
    claims
}

/// Whether a file of keys can be read and used.
pub(super) fn check_key_file(file: &Path, at: &Span, found: &mut Vec<Diagnostic>) {
    let name = shown(&file.display().to_string());
    match check_keys(file) {
        Ok(keys) => {
            for skipped in keys.skipped() {
                let message = format!("in the file of keys {name}, {} is left out", shown(skipped));
                found.push(
                    Diagnostic::warning(Code::NoEffect, at.clone(), message)
                        .help("keys for RS256 to PS512, ES256, ES384 and EdDSA are used"),
                );
            }
        }
        Err(error) => {
            let (code, help) = match &error {
                KeysFileError::Read(error) if error.kind() == ErrorKind::NotFound => {
                    (Code::Missing, "write the path of a JSON file with a list `keys` (a JWK Set), or its URL")
                }
                KeysFileError::Read(_) => (Code::Missing, "let this user read it"),
                KeysFileError::Keys(_) => {
                    (Code::BadValue, "write the public keys as a JWK Set: { \"keys\": [{ \"kty\": \"RSA\", … }] }")
                }
            };
            let message = format!("the file of keys {name} cannot be used: {error}");
            found.push(Diagnostic::error(code, at.clone(), message).help(help));
        }
    }
}
