//! Where things are kept: the runtime folder, disks, the Redis of the cache.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pilotlight_gateway::redis_write_probe;
use pilotlight_logs::Destination;
use pilotlight_redis::{Commands as _, ErrorKind, blocking};
use rustix::fs::{Access, statvfs};

use super::finding::{Area, Finding};
use crate::config::Config;
use crate::runtime_folder;

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
const MIB: u64 = 1 << 20;

/// Whether a gateway of this user could make its runtime folder.
pub(super) fn runtime_folders() -> Vec<Finding> {
    let all = runtime_folder::parents();
    let nearest = |folder: &Path| folder.ancestors().find(|folder| folder.exists()).map(Path::to_owned);
    let may_write = |folder: &PathBuf| {
        nearest(folder).is_some_and(|folder| rustix::fs::access(&folder, Access::WRITE_OK | Access::EXEC_OK).is_ok())
    };
    vec![match all.iter().find(|folder| may_write(folder)) {
        Some(folder) => Area::Files.ok(format!("sockets of gateways are made in {}", folder.display())),
        None => {
            let tried: Vec<String> = all.iter().map(|folder| folder.display().to_string()).collect();
            let fact = format!("no folder for sockets may be written to; tried {}", tried.join(", "));
            Area::Files.problem(fact, "`XDG_RUNTIME_DIR` or `RUNTIME_DIRECTORY` names one of this user")
        }
    }]
}

/// Room where the gateway writes.
pub(super) fn disks(config: &Config) -> Vec<Finding> {
    let mut folders: Vec<(&str, PathBuf)> = Vec::new();
    let operate = &config.operate;
    let logs = [
        ("the access log", operate.access_log.as_ref().map(|log| &log.destination)),
        ("the log", Some(&operate.log.destination)),
        ("the log of services", Some(&operate.service_log.destination)),
    ];
    for (what, destination) in logs {
        if let Some(Destination::File(path)) = destination {
            folders.push((what, path.clone()));
        }
    }
    for spec in config.services.iter().filter_map(|service| service.spec()) {
        if let Some(releases) = &spec.releases {
            folders.push(("releases", releases.clone()));
        }
    }
    // Where it is not known, `check` says so.
    if let Some(Ok(Some(folder))) = config.acme.as_ref().map(|acme| acme.folder(|name| std::env::var_os(name))) {
        folders.push(("certificates", folder));
    }
    folders.push(("temporary files", std::env::temp_dir()));
    folders.into_iter().filter_map(|(what, path)| room(what, &path)).collect()
}

fn room(what: &str, path: &Path) -> Option<Finding> {
    let folder = path.ancestors().find(|folder| folder.is_dir())?;
    let found = statvfs(folder).ok()?;
    let (free, all) = (found.f_bavail.saturating_mul(found.f_frsize), found.f_blocks.saturating_mul(found.f_frsize));
    Some(verdict(what, folder, free, all))
}

fn verdict(what: &str, folder: &Path, free: u64, all: u64) -> Finding {
    let percent = free.saturating_mul(100).checked_div(all).unwrap_or(100);
    let fact = format!("{} MiB ({percent} %) are free for {what}, in {}", free / MIB, folder.display());
    let remedy = "make room, or name another disk";
    match (free, percent) {
        (..50_000_000, _) => Area::Files.problem(fact, remedy),
        (_, ..5) => Area::Files.note(fact, remedy),
        _ => Area::Files.ok(fact),
    }
}

/// Whether the Redis of the file answers, and writes what gateways share.
pub(super) fn redis(config: &Config) -> Vec<Finding> {
    let Some(redis) = &config.cache_redis else { return Vec::new() };
    let mut settings = redis.url.config();
    settings.connect_timeout = PATIENCE;
    settings.command_timeout = Some(PATIENCE);
    let client = blocking::Client::new(settings).and_then(|client| client.ping().map(|_| client));
    let client = match client {
        Ok(client) => client,
        Err(error) => {
            return vec![Area::Redis.problem(
                format!("the Redis of [cache.redis] does not answer: {}", reason(error.kind())),
                "start it, or correct `url`; meanwhile gateways share nothing and go to their services",
            )];
        }
    };
    let written = (&client).run::<i64>(redis_write_probe(&redis.options.prefix));
    vec![match written {
        Ok(_) => Area::Redis.ok("the Redis of [cache.redis] answers and writes"),
        Err(error) => Area::Redis.problem(
            format!("the Redis of [cache.redis] answers and does not write: {error}"),
            "give its user the rights of docs/guide/cache-redis.md, make room in it, or name its primary in `url`; \
             meanwhile gateways share nothing and go to their services",
        ),
    }]
}

/// Without the counters that a timeout has.
fn reason(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::Timeout(report) => match &report.problem {
            Some(problem) => problem.to_string(),
            None => format!("nothing came within {} s", PATIENCE.as_secs()),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn room_on_a_disk() {
        let level = |free, all| verdict("x", Path::new("/"), free, all).level;
        assert_eq!(level(40 * MIB, 100 * MIB), Level::Problem);
        assert_eq!(level(1 << 30, 1 << 40), Level::Note);
        assert_eq!(level(1 << 39, 1 << 40), Level::Ok);
        assert_eq!(level(1 << 39, 0), Level::Ok);
    }
}
