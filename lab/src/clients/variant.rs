//! Who is measured: floors, other clients, redis-benchmark, and ours.

mod all;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::Built;
use super::workload::Workload;
use crate::experiment::model::{Role, Software};
use crate::processes::{find_program, first_line};
pub(super) use all::ALL;

/// What a variant is to the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing but the bytes.
    Floor,
    /// A load generator, no client.
    Tool,
    /// Another client.
    Other,
    /// Pilotlight's client.
    Ours,
}

/// Whether all is in one thread, or tasks run in two. A client is compared with floors and clients of its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One thread.
    Ct,
    /// Two threads.
    Mt2,
}

/// Where its program comes from: a part of `lab/peers/redis/build.sh`, or the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    Rust,
    Pilotlight,
    Go,
    Java,
    Node,
    Installed,
}

/// A line of the tables.
#[derive(Debug)]
pub(super) struct Variant {
    /// With its version.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    pub(super) build: Build,
    program: &'static str,
    pub(super) options: &'static [&'static str],
    pub(super) workloads: &'static [Workload],
    /// So long it runs before it counts: compilers of the JVM and of Node take longer.
    pub(super) warm_up: Duration,
}

/// Memory that is there from the start, and a collector for throughput.
const JVM: [&str; 3] = ["-XX:+UseParallelGC", "-Xms1g", "-Xmx1g"];
/// Without it Go takes all cores; the others do not look at it.
pub(super) const ENVIRONMENT: &[&str] = &["GOMAXPROCS=2"];

impl Build {
    /// As `build.sh` calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Pilotlight => "pilotlight",
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "node",
            Self::Installed => "",
        }
    }

    /// A tool that building or running needs and that is not here, and what brings it.
    pub(super) fn missing_tool(self) -> Option<(&'static str, &'static str)> {
        let (tools, install): (&[&'static str], _) = match self {
            Self::Rust | Self::Pilotlight => (&[], ""), // what they need is in the program once it is built
            Self::Go => (&["go"], "apt install golang"),
            Self::Java => (&["java", "mvn"], "apt install default-jdk-headless maven"),
            Self::Node => (&["node", "npm"], "apt install nodejs npm"),
            Self::Installed => (&["redis-benchmark"], "apt install redis-tools"),
        };
        tools.iter().find(|tool| find_program(tool).is_none()).map(|tool| (*tool, install))
    }

    /// What runs the program, if it does not run by itself, and its settings.
    fn runtime(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Self::Java => Some(("java", &JVM)),
            Self::Node => Some(("node", &[])),
            Self::Go => Some(("go", ENVIRONMENT)),
            Self::Rust | Self::Pilotlight | Self::Installed => None,
        }
    }
}

/// As a program says it.
pub(super) fn version_of(program: &str) -> String {
    let arguments: &[&str] = if program == "go" { &["version"] } else { &["--version"] };
    let line = find_program(program).and_then(|found| first_line(found.as_os_str(), arguments));
    line.unwrap_or_else(|| "unknown".into())
}

impl Variant {
    /// For names of files and in the report.
    pub(super) fn id(&self) -> String {
        let words = self.name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-").to_lowercase()
    }

    /// Part of a run that only looks whether everything works.
    pub(super) fn is_quick(&self) -> bool {
        ["floor: tokio ct", "pilotlight ct", "redis-rs 1.8.1 ct", "fred 10.1.0 ct"].contains(&self.name)
    }

    pub(super) fn role(&self) -> Role {
        match self.kind {
            Kind::Floor => Role::Floor,
            Kind::Ours => Role::Subject,
            Kind::Other | Kind::Tool => Role::Peer,
        }
    }

    pub(super) fn what(&self) -> String {
        let shape = match self.shape {
            Shape::Ct => "in one thread",
            Shape::Mt2 => "tasks in two threads",
        };
        let options = self.options.join(" ");
        let what = match self.kind {
            Kind::Floor => "the floor",
            Kind::Tool => "a load generator",
            Kind::Other => "another client",
            Kind::Ours => "Pilotlight's client",
        };
        format!("{what}, {shape}{}{options}", if options.is_empty() { "" } else { ": " })
    }

    /// Its version and settings, and those of the runtime that it needs.
    pub(super) fn software(&self) -> Vec<Software> {
        let words: Vec<&str> = self.name.split_whitespace().collect();
        let is_version = |word: &&&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        let named = || words.iter().find(is_version).map(|word| word.trim_end_matches(',').to_owned());
        let (name, version) = match self.kind {
            Kind::Ours => ("pilotlight", env!("CARGO_PKG_VERSION").to_owned()),
            Kind::Floor => (self.program, "as lab/peers/redis has it".to_owned()),
            Kind::Other => (words.first().copied().unwrap_or(self.program), named().unwrap_or_default()),
            Kind::Tool => (self.program, version_of(self.program)),
        };
        let settings = self.settings().into_iter().chain(self.chosen()).map(str::to_owned).collect();
        let mut software = vec![Software { name: name.to_owned(), version, settings }];
        software.extend(self.build.runtime().map(|(runtime, settings)| Software {
            name: runtime.to_owned(),
            version: version_of(runtime),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        }));
        software
    }

    /// What its program sets, where that is not the client's default.
    fn chosen(&self) -> Option<&'static str> {
        Some(match self.program {
            "limit" => "edge-triggered, commands made beforehand, replies only scanned",
            "tokio-floor" => "awaiting callers, and drivers that write and read, nothing else",
            "p-redis" => "its defaults; a batch is 64 concurrent commands, as its cluster pipelines are for one node",
            "p-fred" => "one client, TCP_NODELAY",
            "p-glide" => "its limit of requests in flight raised to 100,000",
            "rueidis" => "no cache of the client",
            "peer.js" => "auto-pipelining",
            "Lettuce" => "Netty's epoll, two I/O threads",
            "goredis" | "floor-blocking" | "p-rustis" | "p-pilotlight" => "else its defaults",
            _ => return None,
        })
    }

    /// What has to be there for it to be measured.
    pub(super) fn program(&self, built: &Built) -> PathBuf {
        match self.build {
            Build::Rust | Build::Pilotlight => built.dir.join("rust/release").join(self.program),
            Build::Go => built.dir.join("go").join(self.program),
            Build::Java => built.dir.join("java/classes").join(format!("{}.class", self.program)),
            Build::Node => built.dir.join("node/node_modules/ioredis/package.json"),
            Build::Installed => self.program.into(),
        }
    }

    /// What it is told besides the workload; programs in Rust choose their runtime by it.
    pub(super) fn settings(&self) -> Vec<&'static str> {
        let shape = matches!(self.build, Build::Rust | Build::Pilotlight).then(|| match self.shape {
            Shape::Ct => "rt=ct",
            Shape::Mt2 => "rt=mt2",
        });
        shape.into_iter().chain(self.options.iter().copied()).collect()
    }

    /// The words that start it.
    pub(super) fn command(&self, built: &Built) -> Vec<OsString> {
        match self.build {
            Build::Rust | Build::Pilotlight | Build::Go => vec![self.program(built).into()],
            Build::Java => {
                let mut path = OsString::from(built.dir.join("java/classes"));
                path.push(":");
                path.push(built.dir.join("java/dependency/*"));
                let jvm = ["java"].into_iter().chain(JVM).chain(["-cp"]).map(OsString::from);
                jvm.chain([path, self.program.into()]).collect()
            }
            Build::Node => vec!["node".into(), built.sources.join("node").join(self.program).into()],
            Build::Installed => vec![self.program.into()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_and_software() {
        let find = |name: &str| ALL.iter().find(|variant| variant.name == name).expect("there");
        let rustis = find("rustis 0.27.2 ct, wave 128");
        assert_eq!(rustis.id(), "rustis-0-27-2-ct-wave-128");
        let software = &rustis.software()[0];
        assert_eq!((software.name.as_str(), software.version.as_str()), ("rustis", "0.27.2"));
        assert_eq!(software.settings, ["rt=ct", "wave=128", "else its defaults"]);
        assert_eq!(find("ioredis 6.0.0, auto-pipelining").software()[0].version, "6.0.0");
        assert_eq!(find("Lettuce 7.7.0").software()[1].settings, JVM);
        let mut ids: Vec<String> = ALL.iter().map(Variant::id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), ALL.len());
    }

    /// Whoever raises a version raises it in the names, too.
    #[test]
    fn versions_are_those_that_are_built() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/redis");
        let read = |file: &str| std::fs::read_to_string(peers.join(file)).expect("a file of the checkout");
        let (rust, go) = (read("rust/Cargo.toml"), read("go/go.mod"));
        let (java, node) = (read("java/pom.xml"), read("node/package.json"));
        for variant in ALL.iter().filter(|variant| variant.kind == Kind::Other) {
            let Software { name, version, .. } = variant.software().remove(0);
            let (file, line) = match name.as_str() {
                "redis-rs" => (&rust, format!("redis = {{ version = \"={version}\"")),
                "fred" => (&rust, format!("fred = {{ version = \"={version}\"")),
                "rustis" | "valkey-glide" => (&rust, format!("{name} = \"={version}\"")),
                "rueidis" => (&go, format!("github.com/redis/rueidis v{version}\n")),
                "go-redis" => (&go, format!("github.com/redis/go-redis/v9 v{version}\n")),
                "Lettuce" => (&java, format!("<version>{version}.RELEASE</version>")),
                "ioredis" => (&node, format!("\"ioredis\": \"{version}\"")),
                other => panic!("where is the version of {other}?"),
            };
            assert!(file.contains(&line), "{}: {line}", variant.name);
        }
    }
}
