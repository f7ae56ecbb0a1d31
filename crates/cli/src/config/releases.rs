//! The keys of a service that say where its releases are, and what a new one is asked before it gets requests.

use std::path::{Path, PathBuf};

use pilotlight_releases::Releases;
use pilotlight_supervisor::{ExpectedStatus, HealthCheck, ServiceSpec};
use toml::de::DeValue;

use super::diagnostic::{Code, Diagnostic, Span};
use super::model::joined;
use super::readers::{host, target};
use super::schema::Part;
use super::section::{Field, Section, a_number, a_time, noted};
use super::value::Rejected;

/// Reads them; returns the folder that the service runs in if it has releases: the link to the current one.
pub(super) fn read(
    section: &Section<'_>,
    folder: &Path,
    spec: &mut ServiceSpec,
    found: &mut Vec<Diagnostic>,
) -> Option<PathBuf> {
    section.set("keep_releases", a_number(&ServiceSpec::KEEP_RELEASES), &mut spec.keep_releases, found);
    if let Some(section) = section.field("health").and_then(|field| health(&field, &mut spec.health, found)) {
        for name in ["interval", "healthy", "unhealthy"] {
            if let Some(field) = section.field(name) {
                let message = format!("`{name}` is for servers that somebody else starts (`url`)");
                let help = "take it away: an instance is sent one health request, the first of its release";
                found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
            }
        }
    }
    let Some(field) = section.field("releases") else {
        if !section.mentions("releases") {
            no_effect(section, found);
        }
        return None;
    };
    if let Some(dir) = section.field("dir") {
        let message = "a service with `releases` runs in the folder of its current release";
        found.push(
            Diagnostic::error(Code::Conflict, dir.key_at, message)
                .related(field.key_at.clone(), "`releases` is")
                .help("take one of the two away"),
        );
    }
    let releases = joined(folder, noted(a_folder(&field), found)?);
    let link = Releases::link(&releases);
    spec.releases = Some(releases);
    Some(link)
}

/// What only this machine can say: whether the folder is one, and has a current release.
pub(super) fn check(folder: &Path, at: &Span, service: &str) -> Option<Diagnostic> {
    let error = |message| Diagnostic::error(Code::Missing, at.clone(), message);
    let link = Releases::link(folder);
    if folder.exists() && !folder.is_dir() {
        return Some(error(format!("{} is not a folder", folder.display())).help("name a folder"));
    }
    match link.symlink_metadata() {
        Ok(found) if !found.is_symlink() => Some(
            error(format!("{} is not a link to a release", link.display()))
                .help("move it away; `pilotlight deploy` makes the link"),
        ),
        Ok(_) if !link.is_dir() => Some(
            Diagnostic::warning(Code::Missing, at.clone(), format!("the link {} leads to no release", link.display()))
                .help(format!("`pilotlight deploy FOLDER --service {service}` makes one")),
        ),
        Ok(_) => None,
        Err(_) => Some(
            Diagnostic::warning(
                Code::Missing,
                at.clone(),
                format!("there is no release in {} yet, so the service cannot be started", folder.display()),
            )
            .help(format!("`pilotlight deploy FOLDER --service {service}` makes one, while the gateway runs")),
        ),
    }
}

fn no_effect(section: &Section<'_>, found: &mut Vec<Diagnostic>) {
    for (name, why) in [
        ("keep_releases", "there are no releases to keep"),
        ("health", "it is what a new release is asked, and a running service is sent no requests for health"),
    ] {
        if let Some(field) = section.field(name) {
            let message = format!("`{name}` has no effect without `releases`: {why}");
            let help = "add releases = \"FOLDER\", where `pilotlight deploy` puts them, or take it away";
            found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
        }
    }
}

fn a_folder<'a>(field: &Field<'a>) -> Result<&'a str, Diagnostic> {
    let text = field.string()?;
    if text.is_empty() || text.contains('\0') {
        Err(field.rejected(Rejected::new("this is not a path")))
    } else {
        Ok(text)
    }
}

/// Whoever names a path means one that is answered well; without `health` nothing is known but that a healthy service
/// has no error of its own.
pub(super) fn health<'a>(
    field: &Field<'a>,
    health: &mut HealthCheck,
    found: &mut Vec<Diagnostic>,
) -> Option<Section<'a>> {
    health.status = ExpectedStatus::Success;
    match field.value {
        DeValue::String(text) => {
            if let Some(target) = noted(target(text, field), found) {
                health.target = target;
            }
        }
        DeValue::Table(table) => {
            let section = Section::read(Part::ServiceHealth, "in the service's health", field.at.clone(), table, found);
            section.set("path", |field| target(field.string()?, field), &mut health.target, found);
            section.set("host", host, &mut health.host, found);
            section.set("status", status, &mut health.status, found);
            section.set("timeout", a_time(&HealthCheck::TIMEOUT), &mut health.timeout, found);
            return Some(section);
        }
        _ => found.push(field.wrong_type()),
    }
    None
}

fn status(field: &Field<'_>) -> Result<ExpectedStatus, Diagnostic> {
    match field.value.as_str() {
        Some("2xx") => Ok(ExpectedStatus::Success),
        _ => field.number(&HealthCheck::STATUS).map(ExpectedStatus::Exactly),
    }
}
