//! Certificates of files, hosts that get one by ACME, and the local authority.

use std::net::ToSocketAddrs as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use pilotlight_authority::{Authority, Machine};

use super::finding::{Area, Finding, counted};
use crate::config::{Config, signs_locally};
use crate::trust;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Before its end, a certificate that nobody renews is worth a word.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);
/// Most hosts whose names are looked up.
const MAX_NAMES: usize = 20;

/// Certificates of files, and the local authority where the file needs it.
pub(super) fn look(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pairs = config.tls.iter().flat_map(|tls| &tls.settings.certificates);
    for files in pairs {
        // What is wrong with the files, `check` has told.
        if let Ok(certificate) = files.load() {
            let names = certificate.names().join(", ");
            findings.extend(expiry(&names, certificate.not_after(), SystemTime::now()));
        }
    }
    if signs_locally(config) {
        findings.push(authority());
    }
    findings
}

/// None: it has expired, which `check` tells.
fn expiry(names: &str, end: SystemTime, now: SystemTime) -> Option<Finding> {
    let left = end.duration_since(now).ok()?;
    let days = counted(usize::try_from(left.as_secs() / DAY.as_secs()).unwrap_or(usize::MAX), "day");
    Some(match left < SOON {
        true => Area::Certificates.note(
            format!("the certificate of {names} ends in {days}"),
            "renew it: the gateway sees new files by itself",
        ),
        false => Area::Certificates.ok(format!("the certificate of {names} is good for {days}")),
    })
}

fn authority() -> Finding {
    let make = "`pilotlight trust` makes it, and has browsers trust it";
    let folder = match trust::default_folder() {
        Ok(folder) => folder,
        Err(error) => {
            return Area::Certificates.problem(
                format!("there is no folder for the local authority: {error}"),
                "set HOME or XDG_DATA_HOME to an absolute path",
            );
        }
    };
    match Authority::read(&folder) {
        Ok(Some(authority)) => {
            let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
            let Some(home) = home else {
                let fact = "HOME is no absolute path, so the stores of this user cannot be looked at";
                return Area::Certificates.note(fact, "set HOME");
            };
            let bundle = Machine::look(&home, &std::env::var_os("PATH").unwrap_or_default()).bundle;
            let roots = bundle.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
            match is_in(authority.certificate(), &roots) {
                true => Area::Certificates.ok("the system's store trusts the local authority"),
                false => Area::Certificates.note(
                    "the system's store does not trust the local authority: browsers and curl warn",
                    "`pilotlight trust`",
                ),
            }
        }
        Ok(None) => Area::Certificates.note("there is no local authority yet: browsers would warn", make),
        Err(error) => Area::Certificates.problem(
            format!("the local authority cannot be used: {error}"),
            "`pilotlight untrust`, and `pilotlight trust` for a new one",
        ),
    }
}

/// Whether a certificate is among others, whatever their lines are.
fn is_in(certificate: &str, others: &str) -> bool {
    let body = |text: &str| text.lines().filter(|line| !line.starts_with("-----")).collect::<String>();
    let wanted = body(certificate);
    !wanted.is_empty() && others.split("-----BEGIN CERTIFICATE-----").any(|one| body(one).contains(&wanted))
}

/// Whether this machine finds the hosts for which certificates are to be ordered: an authority has to as well.
pub(super) fn names(config: &Config) -> Vec<Finding> {
    if config.acme.is_none() {
        return Vec::new();
    }
    let routes = config.routes.iter().filter(|route| !route.is_signed_locally());
    let mut hosts: Vec<&str> =
        routes.filter_map(|route| route.host.as_deref()).filter(|host| !host.starts_with("*.")).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let is_found = |host: &str| (host, 443_u16).to_socket_addrs().is_ok_and(|mut all| all.next().is_some());
    let lost: Vec<&str> = hosts.iter().copied().take(MAX_NAMES).filter(|host| !is_found(host)).collect();
    match lost.as_slice() {
        [] if hosts.is_empty() => Vec::new(),
        [] => vec![Area::Certificates.ok(format!("{} for ACME can be found by name", counted(hosts.len(), "host")))],
        _ => {
            let fact = format!(
                "no address is known here for {}: no authority gives a certificate for what it cannot reach",
                lost.join(", ")
            );
            vec![Area::Certificates.note(fact, "have its A and AAAA records lead to this machine, ports 80 and 443")]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_end_of_a_certificate() {
        let now = SystemTime::UNIX_EPOCH + DAY * 1000;
        let level = |days: u32| expiry("a", now + DAY * days, now).map(|finding| finding.level);
        assert_eq!([level(90), level(3)], [Some(Level::Ok), Some(Level::Note)]);
        assert_eq!(expiry("a", now - DAY, now), None);
        assert_eq!(expiry("a", now + DAY, now).unwrap().fact, "the certificate of a ends in 1 day");
    }

    #[test]
    fn a_certificate_is_found_among_others_whatever_their_lines() {
        let one = "-----BEGIN CERTIFICATE-----\nAAAA\nBBBB\n-----END CERTIFICATE-----\n";
        let all = "-----BEGIN CERTIFICATE-----\nCCCC\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nAAAABB\nBB\n-----END CERTIFICATE-----\n";
        assert!(is_in(one, all) && !is_in(one, "") && !is_in("", all));
    }
}
