//! Which sources each experiment measures: whoever changes them makes its figures older than what they speak of.

/// What answers a request.
const GATEWAY: [&str; 6] =
    ["crates/gateway", "crates/exchange", "crates/http1", "crates/http2", "crates/http-client", "crates/cache"];
const SERVICES: [&str; 2] = ["crates/pipe", "crates/supervisor"];
const REDIS: [&str; 2] = ["crates/redis", "crates/resp"];
const OF_ALL: [&str; 3] = [":(exclude)*/tests/*", ":(exclude)*.md", ":(exclude)*/fuzz/*"];

/// An experiment's name, what it has of the three, and what of its own.
type Measured = (&'static str, &'static [&'static [&'static str]], &'static [&'static str]);

const MEASURED: &[Measured] = &[
    ("layers", &[&GATEWAY, &SERVICES, &REDIS], &["crates/cache-redis"]),
    ("gateway", &[&GATEWAY, &SERVICES, &REDIS], &["crates/cache-redis", "crates/cli", "crates/traces", "sdk/python"]),
    ("instructions", &[&GATEWAY, &SERVICES], &[]),
    ("capacity", &[&GATEWAY, &SERVICES, &REDIS], &["crates/tls", "crates/cache-redis"]),
    ("cache", &[&GATEWAY, &SERVICES], &["sdk/python"]),
    ("eviction", &[], &["crates/cache", "lab/peers/cache"]),
    ("front", &[&GATEWAY], &["crates/tls", "crates/files"]),
    ("servers", &[&GATEWAY], &["crates/balance"]),
    ("limits", &[&GATEWAY, &REDIS], &["crates/cache-redis"]),
    ("php", &[&GATEWAY, &SERVICES], &["crates/cgi"]),
    ("saves", &[&GATEWAY, &SERVICES], &["crates/dev", "crates/cli", "sdk/python"]),
    ("transport", &[&GATEWAY, &SERVICES], &["sdk"]),
    ("lambda", &[&GATEWAY, &SERVICES], &["crates/lambda", "lab/lambda"]),
    ("mcp", &[&GATEWAY, &SERVICES], &["crates/stdio"]),
    ("containers", &[&GATEWAY, &SERVICES], &["crates/containers"]),
    ("rest", &[&GATEWAY, &SERVICES, &REDIS], &["crates/cache-redis", "examples/users"]),
    ("redis", &[&REDIS], &[]),
    ("factors", &[&REDIS], &["examples/users"]),
    ("study", &[], &["lab/peers/rest/haskell"]),
    ("equals", &[], &["lab/src/equals.rs", "lab/src/equals", "lab/src/experiment"]),
    ("tool", &[&REDIS], &["crates/redis-tool"]),
    ("tunnel", &[&REDIS], &["crates/redis-tool"]),
];

/// What an experiment measures, as git takes paths; `None` of one that is not known.
#[must_use]
pub fn paths(experiment: &str) -> Option<Vec<&'static str>> {
    let (_, shared, own) = MEASURED.iter().find(|(name, ..)| *name == experiment)?;
    Some(shared.iter().flat_map(|paths| paths.iter()).chain(*own).chain(&OF_ALL).copied().collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::experiment::{Extent, catalogue};

    #[test]
    fn every_experiment_names_what_it_measures_and_that_is_there() {
        for experiment in catalogue::all(Extent::AmongOthers) {
            assert!(paths(experiment.name()).is_some(), "{} names nothing", experiment.name());
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (name, ..) in MEASURED {
            for path in paths(name).expect("it is there").iter().filter(|path| !path.starts_with(':')) {
                assert!(root.join(path).exists(), "{name}: {path}");
            }
        }
    }
}
