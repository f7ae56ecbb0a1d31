//! WordPress with a database of its own, and what serves it: the gateway or nginx.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::cache::gateways::template;
use crate::experiment::model::{Role, Skipped, Software};
use crate::experiment::{Sample, Variant};
use crate::front::h2load;
use crate::gateway::running::{Running, new_folder, route, service};
use crate::gateway::{Lab, software, variant};
use crate::load;
use crate::processes::{Held, Program, Reaper, find_program, first_line, usage};
use crate::transport::target::{LISTEN_LIMIT, free_address, listens, text};

/// How every configuration of a gateway begins.
pub(super) const HEAD: &str = "listen = \"127.0.0.1:0\"\nworkers = 2\n\n";
const WORDPRESS: &str = "/usr/share/wordpress/wp-login.php";
const SETUP: &str = "scripts/setup.sh release, in a checkout";
const MAKE: &str = include_str!("site.sh");
const NGINX: &str = include_str!("../../peers/gateways/nginx-php.conf");
const MAKE_LIMIT: Duration = Duration::from_secs(120);
const SCRIPTS: &str = r#"[services.wp.cgi]
root = "."
fallback = "index.php"
run = ["index.php", "word.php", "wp-*.php", "wp-admin/", "wp-includes/"]
"#;
/// What WordPress' installer asks for.
const ANSWERS: &str = "weblog_title=Site&user_name=ada&admin_email=a%40b.test&admin_password=long-enough-1&admin_password2=long-enough-1&pw_weak=1&language=";

/// What runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    Fpm,
    Cgi,
}

impl Runs {
    pub(super) fn id(self) -> &'static str {
        if self == Self::Fpm { "php-fpm" } else { "php-cgi" }
    }
}

/// Programs that are here.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    cgi: String,
    fpm: String,
    nginx: String,
}

impl Programs {
    /// Looks for all that takes part.
    ///
    /// # Errors
    /// Something is missing.
    pub(super) fn find() -> Result<Self, Skipped> {
        if !geteuid().is_root() {
            return Err(Skipped::new("PHP", "services are started as other users", "run it as root"));
        }
        let missing = |name: &str| Skipped::new("PHP", &format!("there is no {name} here"), SETUP);
        let program = |name: &str| {
            let found = find_program(name).and_then(|program| program.to_str().map(str::to_owned));
            found.ok_or_else(|| missing(name))
        };
        h2load::find()?;
        ["mariadbd", "mariadb", "mariadb-install-db"].into_iter().try_for_each(|name| program(name).map(drop))?;
        if !Path::new(WORDPRESS).exists() {
            return Err(missing(WORDPRESS));
        }
        // Debian's has its version in its name.
        let names = fs::read_dir("/usr/sbin").into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let fpm = names.filter(|name| name.starts_with("php-fpm")).min().unwrap_or_else(|| "php-fpm".into());
        Ok(Self { cgi: program("php-cgi")?, fpm: program(&fpm)?, nginx: program("nginx")? })
    }
}

/// A site, made when it is asked for first. Its database ends with it.
pub(super) struct Site {
    programs: Programs,
    dir: PathBuf,
    pub(super) reaper: Reaper,
    database: OnceCell<Held>,
}

impl Site {
    pub(super) fn new(lab: &Lab, programs: Programs) -> anyhow::Result<Self> {
        let dir = lab.scratch.join("wp");
        Ok(Self { programs, dir, reaper: Reaper::start()?, database: OnceCell::new() })
    }

    /// A way to serve it.
    pub(super) fn variant(
        self: &Rc<Self>,
        lab: &Rc<Lab>,
        id: &str,
        role: Role,
        usual: Duration,
        work: impl Fn(&Lab, &Self) -> anyhow::Result<Sample> + 'static,
    ) -> Variant {
        let site = Rc::clone(self);
        let variant = variant(lab, id, id, usual, move |lab, _| {
            site.start(lab).context("the site of WordPress")?;
            work(lab, &site)
        });
        let of = |name: &str, program: &str, settings| {
            let version = first_line(program.as_ref(), &["-v"]).unwrap_or_default();
            Software { name: name.into(), version, settings }
        };
        let mut all = vec![of("php", &self.programs.fpm, Vec::new())];
        all.extend(software("mariadbd"));
        match role {
            Role::Subject => {
                let settings = vec!["workers = 2".into()];
                all.push(Software { name: "pilotlight".into(), version: env!("CARGO_PKG_VERSION").into(), settings });
            }
            Role::Peer => all.push(of("nginx", &self.programs.nginx, template::settings(NGINX))),
            Role::Floor | Role::Control => {}
        }
        Variant { role, software: all, ..variant }
    }

    fn start(&self, lab: &Lab) -> anyhow::Result<()> {
        if self.database.get().is_some() {
            return Ok(());
        }
        let command = ["sh", "-c", MAKE].map(OsString::from).into();
        let output = lab.scratch.join("database.output");
        let mut database = Program { name: "database".into(), command, dir: self.dir.clone(), output }.start()?;
        let socket = self.dir.join("db.sock");
        let mut create = Command::new("mariadb");
        create.args(["--no-defaults", "-uroot", "-e", "CREATE DATABASE wordpress", "--socket"]).arg(&socket);
        create.stdin(Stdio::null()).stderr(Stdio::null());
        let mut created = || socket.exists() && create.status().is_ok_and(|status| status.success());
        database.wait_until(MAKE_LIMIT, "it answers", |_| created().then_some(()))?;
        let gateway = self.gateway(lab, &self.command(Runs::Fpm), "")?;
        let request = format!(
            "POST /wp-admin/install.php?step=2 HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\
             content-type: application/x-www-form-urlencoded\r\n\r\n{ANSWERS}",
            ANSWERS.len()
        );
        let (status, page) = load::ask(gateway.address, request.as_bytes())?;
        ensure!(String::from_utf8_lossy(&page).contains("Success"), "it is not installed: {status}");
        self.database.get_or_init(|| database);
        Ok(())
    }

    pub(super) fn files(&self) -> PathBuf {
        self.dir.join("site")
    }

    pub(super) fn command(&self, runs: Runs) -> Vec<String> {
        let pool = self.dir.join("fpm.conf").display().to_string();
        match runs {
            Runs::Fpm => vec![self.programs.fpm.clone(), "-F".into(), "-O".into(), "-y".into(), pool],
            Runs::Cgi => vec![self.programs.cgi.clone()],
        }
    }

    /// A gateway that starts this program for its scripts.
    pub(super) fn gateway(&self, lab: &Lab, command: &[String], keys: &str) -> anyhow::Result<Running> {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let keys = format!("transport = \"fastcgi\"\ndir = {:?}\n{keys}\n{SCRIPTS}", self.files());
        let tables = service("wp", &words, &keys) + &route("/", "wp", "false");
        Running::start(&lab.scratch, None, &format!("{HEAD}{tables}"))
    }

    /// nginx before a php-fpm of its own.
    pub(super) fn nginx(&self, lab: &Lab) -> anyhow::Result<Nginx> {
        let (dir, address) = (new_folder(&lab.scratch)?, free_address()?);
        let (socket, file) = (dir.path().join("fpm.sock"), dir.path().join("nginx.conf"));
        let values = [
            ("dir", text(dir.path())?.to_owned()),
            ("www", text(&self.files())?.to_owned()),
            ("socket", text(&socket)?.to_owned()),
            ("address", address.to_string()),
        ];
        fs::write(&file, template::fill(NGINX, &values)?).context("cannot write the configuration of nginx")?;
        let start = |name: &str, words: Vec<String>| {
            let command = words.into_iter().map(Into::into).collect();
            Program { name: name.into(), command, dir: dir.path().to_owned(), output: dir.path().join(name) }.start()
        };
        let listen = format!("PILOTLIGHT_LISTEN={}", text(&socket)?);
        let words = ["env".into(), listen].into_iter().chain(self.command(Runs::Fpm));
        let mut fpm = start("php-fpm", words.collect())?;
        fpm.wait_until(LISTEN_LIMIT, "it listens", |_| socket.exists().then_some(()))?;
        let words = [self.programs.nginx.as_str(), "-e", "stderr", "-c", text(&file)?];
        let mut nginx = start("nginx", words.map(str::to_owned).into())?;
        nginx.wait_until(LISTEN_LIMIT, "it listens", |_| listens(address).then_some(()))?;
        Ok(Nginx { nginx, fpm, address, _dir: dir })
    }
}

/// A running nginx. nginx is dropped before the php-fpm that it asks.
pub(super) struct Nginx {
    nginx: Held,
    fpm: Held,
    pub(super) address: SocketAddr,
    _dir: TempDir,
}

impl Nginx {
    /// Of the web server and of PHP.
    pub(super) fn pids(&self) -> [Vec<u32>; 2] {
        [&self.nginx, &self.fpm].map(|held| usage::tree(held.pid()).iter().map(|process| process.pid).collect())
    }
}
