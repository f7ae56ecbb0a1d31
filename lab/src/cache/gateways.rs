//! The other gateways: whether they are here, what they are told, and how they are started. What they are told is in
//! `lab/peers/gateways`, with the reasons; the report gets both from there.

pub(crate) mod template;

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::answers::{self, LARGE_PATH, SMALL_PATH};
use crate::cores;
use crate::experiment::model::{Skipped, Software};
use crate::processes::{self, Held, Program};
use crate::transport::target::{LISTEN_LIMIT, free_address, listens, text};

const CADDY_CACHE: &str = "http.handlers.cache";
const VARNISH_ARGUMENTS: &str = include_str!("../../peers/gateways/varnish.args");

/// Other software that stores answers or passes requests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nginx,
    Varnish,
    Haproxy,
    H2o,
    Caddy,
}

/// What it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Answer from what it has stored.
    Cached,
    /// Pass requests to a service on a Unix socket.
    Proxy,
}

/// What stands behind a gateway.
#[derive(Clone, Debug)]
pub(super) enum Behind {
    /// An HTTP server on this address.
    Origin(SocketAddr),
    /// An HTTP service on this Unix socket.
    Service(PathBuf),
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::Nginx, Self::Varnish, Self::Haproxy, Self::H2o, Self::Caddy];

    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
            Self::Haproxy => "haproxy",
            Self::H2o => "h2o",
            Self::Caddy => "caddy",
        }
    }

    const fn title(self, work: Work) -> &'static str {
        match (self, work) {
            (Self::Nginx, Work::Cached) => "nginx proxy_cache",
            (Self::Nginx, Work::Proxy) => "nginx",
            (Self::Varnish, _) => "Varnish",
            (Self::Haproxy, Work::Cached) => "HAProxy cache",
            (Self::Haproxy, Work::Proxy) => "HAProxy",
            (Self::H2o, Work::Cached) => "H2O, a file (it has no cache)",
            (Self::H2o, Work::Proxy) => "H2O",
            (Self::Caddy, Work::Cached) => "Caddy with cache-handler",
            (Self::Caddy, Work::Proxy) => "Caddy",
        }
    }

    const fn install(self) -> &'static str {
        match self {
            Self::Nginx => "apt install nginx-light",
            Self::Varnish => "apt install varnish",
            Self::Haproxy => "apt install haproxy",
            Self::H2o => "apt install h2o",
            Self::Caddy => "apt install caddy",
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Varnish => "varnishd",
            _ => self.id(),
        }
    }

    const fn version_argument(self) -> &'static str {
        match self {
            Self::Varnish => "-V",
            Self::Caddy => "version",
            Self::Nginx | Self::Haproxy | Self::H2o => "-v",
        }
    }

    const fn configuration(self, work: Work) -> &'static str {
        match (self, work) {
            (Self::Nginx, Work::Cached) => include_str!("../../peers/gateways/nginx-cache.conf"),
            (Self::Nginx, Work::Proxy) => include_str!("../../peers/gateways/nginx-proxy.conf"),
            (Self::Varnish, Work::Cached) => include_str!("../../peers/gateways/varnish-cache.vcl"),
            (Self::Varnish, Work::Proxy) => include_str!("../../peers/gateways/varnish-proxy.vcl"),
            (Self::Haproxy, Work::Cached) => include_str!("../../peers/gateways/haproxy-cache.cfg"),
            (Self::Haproxy, Work::Proxy) => include_str!("../../peers/gateways/haproxy-proxy.cfg"),
            (Self::H2o, Work::Cached) => include_str!("../../peers/gateways/h2o-file.conf"),
            (Self::H2o, Work::Proxy) => include_str!("../../peers/gateways/h2o-proxy.conf"),
            (Self::Caddy, Work::Cached) => include_str!("../../peers/gateways/caddy-cache.Caddyfile"),
            (Self::Caddy, Work::Proxy) => include_str!("../../peers/gateways/caddy-proxy.Caddyfile"),
        }
    }
}

/// A gateway that is here.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    pub(super) kind: Kind,
    pub(super) title: &'static str,
    pub(super) software: Software,
    work: Work,
    program: PathBuf,
}

/// A program and what it was told.
#[derive(Debug)]
struct Told {
    program: PathBuf,
    /// Its configuration.
    file: PathBuf,
    /// For Varnish, which has arguments besides.
    arguments: Vec<OsString>,
    dir: PathBuf,
}

impl Gateway {
    /// Looks for it.
    ///
    /// # Errors
    /// It is not here, or cannot do this work; what would change that.
    pub(super) fn find(kind: Kind, work: Work) -> Result<Self, Skipped> {
        let title = kind.title(work);
        let skipped = |why: String, install: &str| Skipped { what: title.into(), why, install: install.into() };
        let program = processes::find_program(kind.program())
            .ok_or_else(|| skipped(format!("there is no {} here", kind.program()), kind.install()))?;
        let version = processes::first_line(program.as_os_str(), &[kind.version_argument()])
            .ok_or_else(|| skipped(format!("{} does not run", program.display()), kind.install()))?;
        if kind == Kind::Caddy && work == Work::Cached && !has_cache(&program) {
            return Err(skipped(
                format!("{} has no module that stores answers", program.display()),
                "xcaddy build --with github.com/caddyserver/cache-handler",
            ));
        }
        let mut settings = template::settings(kind.configuration(work));
        if kind == Kind::Varnish {
            settings.extend(template::settings(VARNISH_ARGUMENTS));
        }
        let software = Software { name: kind.id().into(), version, settings };
        Ok(Self { kind, title, software, work, program })
    }

    /// Starts it before `behind`, and waits until it listens. `memory` is a folder that should be in memory.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(
        &self,
        behind: &Behind,
        (dir, memory): (&Path, &Path),
        core: Option<usize>,
    ) -> anyhow::Result<(Held, SocketAddr)> {
        let address = free_address()?;
        let told = self.tell(behind, (dir, memory), address)?;
        let program = Program {
            name: self.kind.id().into(),
            command: self.command(&told),
            dir: dir.to_owned(),
            output: dir.join("gateway.output"),
        };
        let mut held = cores::on(core, || program.start())??;
        held.wait_until(LISTEN_LIMIT, "it listens", |_| listens(address).then_some(()))?;
        Ok((held, address))
    }

    /// Writes its configuration.
    fn tell(&self, behind: &Behind, (dir, memory): (&Path, &Path), address: SocketAddr) -> anyhow::Result<Told> {
        let www = dir.join("www");
        if self.kind == Kind::H2o && self.work == Work::Cached {
            write_files(&www)?;
        }
        let file = dir.join("gateway.conf");
        let mut values = vec![
            ("dir", text(dir)?.to_owned()),
            ("memory", text(memory)?.to_owned()),
            ("file", text(&file)?.to_owned()),
            ("www", text(&www)?.to_owned()),
            ("address", address.to_string()),
            ("host", address.ip().to_string()),
            ("port", address.port().to_string()),
        ];
        match behind {
            Behind::Origin(origin) => values.extend([
                ("origin", origin.to_string()),
                ("origin_host", origin.ip().to_string()),
                ("origin_port", origin.port().to_string()),
            ]),
            Behind::Service(socket) => values.push(("socket", text(socket)?.to_owned())),
        }
        if rustix::process::geteuid().is_root() {
            // Workers would become another user, and be kept from the folders made here.
            values.push(("user", "root".into()));
        }
        let configuration = template::fill(self.kind.configuration(self.work), &values)?;
        fs::write(&file, configuration).with_context(|| format!("cannot write {}", file.display()))?;
        let arguments = match self.kind {
            Kind::Varnish => template::arguments(VARNISH_ARGUMENTS, &values)?,
            _ => Vec::new(),
        };
        Ok(Told { program: self.program.clone(), file, arguments, dir: dir.to_owned() })
    }

    fn command(&self, told: &Told) -> Vec<OsString> {
        let program = told.program.clone().into_os_string();
        let file = told.file.clone().into_os_string();
        match self.kind {
            Kind::Nginx => vec![program, "-e".into(), told.dir.join("errors").into(), "-c".into(), file],
            Kind::Haproxy => vec![program, "-db".into(), "-f".into(), file],
            Kind::H2o => vec![program, "-c".into(), file],
            Kind::Varnish => [program].into_iter().chain(told.arguments.iter().cloned()).collect(),
            Kind::Caddy => {
                // It keeps its state in the user's folder.
                let mut home = OsString::from("HOME=");
                home.push(&told.dir);
                let mut command: Vec<OsString> = vec!["env".into(), "-u".into(), "XDG_CONFIG_HOME".into()];
                command.extend(["-u".into(), "XDG_DATA_HOME".into(), home, program]);
                command.extend(["run", "--adapter", "caddyfile", "--config"].map(Into::into));
                command.push(file);
                command
            }
        }
    }
}

fn has_cache(caddy: &Path) -> bool {
    let listed = std::process::Command::new(caddy).arg("list-modules").output();
    listed.is_ok_and(|listed| String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.trim() == CADDY_CACHE))
}

/// The answers as files.
fn write_files(www: &Path) -> anyhow::Result<()> {
    for (path, body) in [(SMALL_PATH, answers::small()), (LARGE_PATH, answers::large())] {
        let file = www.join(path.trim_start_matches('/'));
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        fs::write(&file, body).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The program itself reads its configuration and says whether it is one; where it is not installed, there is
    /// nothing to ask.
    #[track_caller]
    fn accepted(kind: Kind, arguments: impl Fn(&Told) -> Vec<OsString>) {
        for (work, behind) in [
            (Work::Cached, Behind::Origin(SocketAddr::from(([127, 0, 0, 1], 9)))),
            (Work::Proxy, Behind::Service("/nonexistent/service.sock".into())),
        ] {
            let Ok(gateway) = Gateway::find(kind, work) else { continue };
            let folder = tempfile::tempdir().expect("a folder");
            let address = free_address().expect("a port");
            let told = gateway.tell(&behind, (folder.path(), folder.path()), address).expect("a configuration");
            let program = told.program.clone();
            let done =
                Command::new(program).args(arguments(&told)).env("HOME", folder.path()).output().expect("it runs");
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{kind:?} {work:?}: {said}");
            assert!(!said.contains("[WARNING]") && !said.contains("[warn]"), "{kind:?} {work:?}: {said}");
        }
    }

    fn words(told: &Told, before: &[&str]) -> Vec<OsString> {
        before.iter().map(OsString::from).chain([told.file.clone().into()]).collect()
    }

    #[test]
    fn nginx_accepts_its_configurations() {
        accepted(Kind::Nginx, |told| {
            let errors = told.dir.join("errors").into_os_string();
            ["-t".into(), "-e".into(), errors, "-c".into(), told.file.clone().into()].into()
        });
    }

    #[test]
    fn haproxy_accepts_its_configurations() {
        accepted(Kind::Haproxy, |told| words(told, &["-c", "-f"]));
    }

    #[test]
    fn varnish_accepts_its_configurations() {
        accepted(Kind::Varnish, |told| {
            let compile = [OsString::from("-C"), "-n".into(), told.dir.join("varnish").into(), "-f".into()];
            compile.into_iter().chain([told.file.clone().into()]).collect()
        });
    }

    #[test]
    fn h2o_accepts_its_configurations() {
        accepted(Kind::H2o, |told| words(told, &["-t", "-c"]));
    }

    #[test]
    fn caddy_accepts_its_configurations() {
        accepted(Kind::Caddy, |told| words(told, &["validate", "--adapter", "caddyfile", "--config"]));
    }

    /// Where no Caddy can store, it can still be asked about the rest.
    #[test]
    fn caddy_accepts_its_cache_but_for_the_module() {
        let Some(program) = processes::find_program("caddy") else { return };
        let template = Kind::Caddy.configuration(Work::Cached);
        let (before, rest) = template.split_once("\torder cache").expect("the module's place");
        let (_, after) = rest.split_once("\t}\n").expect("the end of its options");
        let folder = tempfile::tempdir().expect("a folder");
        let values = [("host", "127.0.0.1"), ("port", "9"), ("origin", "127.0.0.1:9")];
        let values = values.map(|(name, value)| (name, value.to_owned()));
        let text = template::fill(&format!("{before}{after}").replace("\tcache\n", ""), &values).expect("whole");
        assert!(!text.contains("\tcache"), "{text}");
        let file = folder.path().join("Caddyfile");
        fs::write(&file, text).expect("written");
        let mut validate = Command::new(program);
        validate.args(["validate", "--adapter", "caddyfile", "--config"]).arg(&file).env("HOME", folder.path());
        let done = validate.output().expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn every_configuration_says_where_it_is_from_and_why() {
        for kind in Kind::ALL {
            for work in [Work::Cached, Work::Proxy] {
                let settings = template::settings(kind.configuration(work));
                let first = settings.first().map(String::as_str).unwrap_or_default();
                assert!(first.starts_with("as in "), "{kind:?} {work:?}: {settings:?}");
            }
        }
        let arguments = template::settings(VARNISH_ARGUMENTS);
        assert!(arguments.contains(&"-p thread_pools=1 (one core)".to_owned()), "{arguments:?}");
    }
}
