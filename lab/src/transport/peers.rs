//! The other gateways: whether they are here, and how they are started. What is missing is named with what to install.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::experiment::model::Skipped;
use crate::processes::{self, Program};

const OUTPUT: &str = "output";
const APACHE_LOG: &str = "apache.errors";
const FCGID: &str = "mod_fcgid.so";
const MOD_FCGID: &str = "Apache mod_fcgid, on demand (Python)";
/// Where distributions put Apache's modules.
const APACHE_MODULES: [&str; 4] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules", "/usr/libexec/apache2"];

const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    nginx: Option<PathBuf>,
    uwsgi: Option<OnDemandPeer>,
    mod_fcgid: Option<OnDemandPeer>,
    /// Names and versions, for the report.
    pub(crate) versions: Vec<(&'static str, String)>,
}

/// A web server that starts its application on demand.
#[derive(Clone, Debug)]
pub(crate) struct OnDemandPeer {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// Whether the application runs inside of the server's own binary.
    pub(crate) application_in_server: bool,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Uwsgi { program: PathBuf, plugin: Option<&'static str>, application: PathBuf },
    Apache { program: PathBuf, modules: PathBuf, python: PathBuf, application: PathBuf },
}

impl Peers {
    /// Looks for them. `python` runs the applications of those that start some; `files` is where the embedded files
    /// are.
    #[must_use]
    pub(crate) fn find(python: Option<&Path>, files: &Path) -> (Self, Vec<Skipped>) {
        let (mut found, mut skipped) = (Self::default(), Vec::new());
        match processes::find_program("nginx") {
            Some(program) => {
                let version = processes::first_line(program.as_os_str(), &["-v"]);
                found.versions.push(("nginx", version.unwrap_or_else(|| "version unknown".into())));
                found.nginx = Some(program);
            }
            None => skipped.push(Skipped::new(
                "nginx before the same HTTP services",
                "not installed",
                "apt install nginx-light",
            )),
        }
        let Some(python) = python else { return (found, skipped) };
        match uwsgi(files) {
            Some((peer, version)) => {
                found.versions.push(("uwsgi", version));
                found.uwsgi = Some(peer);
            }
            None => skipped.push(Skipped::new(
                "uWSGI, on demand (Python)",
                "uwsgi with a plugin for Python 3 is not installed",
                "apt install uwsgi-core uwsgi-plugin-python3",
            )),
        }
        match apache(python, files) {
            Some(_) if !reachable_by_all(files) => skipped.push(Skipped::new(
                MOD_FCGID,
                &format!("started by root it becomes another user, who cannot reach {}", files.display()),
                "run as another user, or set TMPDIR to a folder that everybody can reach",
            )),
            Some((peer, version)) => {
                found.versions.push(("apache", version));
                found.mod_fcgid = Some(peer);
            }
            None => skipped.push(Skipped::new(
                MOD_FCGID,
                "apache2 with mod_fcgid is not installed",
                "apt install apache2-bin libapache2-mod-fcgid",
            )),
        }
        (found, skipped)
    }

    /// The program.
    ///
    /// # Errors
    /// It was not found, as everything below.
    pub(crate) fn nginx(&self) -> anyhow::Result<&Path> {
        self.nginx.as_deref().context("nginx is not installed")
    }

    /// uWSGI without a worker until the first request.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn uwsgi(&self) -> anyhow::Result<OnDemandPeer> {
        self.uwsgi.clone().context("uWSGI is not installed")
    }

    /// Apache with a FastCGI program that its module starts.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn mod_fcgid(&self) -> anyhow::Result<OnDemandPeer> {
        self.mod_fcgid.clone().context("Apache with mod_fcgid is not installed")
    }

    /// Which are there.
    #[must_use]
    pub(crate) fn present(&self) -> [bool; 3] {
        [self.nginx.is_some(), self.uwsgi.is_some(), self.mod_fcgid.is_some()]
    }
}

fn uwsgi(files: &Path) -> Option<(OnDemandPeer, String)> {
    let program = processes::find_program("uwsgi").or_else(|| processes::find_program("uwsgi-core"))?;
    // A uWSGI of a distribution has Python in a plugin, one of PyPI is built with it.
    let plugins = [None, Some("python3")];
    let plugin = plugins.into_iter().find(|plugin| {
        let mut arguments: Vec<&str> = plugin.iter().flat_map(|name| ["--plugin", name]).collect();
        arguments.extend(["--wsgi-file", "/dev/null", "--version"]);
        processes::first_line(program.as_os_str(), &arguments).is_some()
    })?;
    let version = processes::first_line(program.as_os_str(), &["--version"]).unwrap_or_default();
    let application = files.join("lab/peers/http/services/wsgi.py");
    let kind = Kind::Uwsgi { program, plugin, application };
    Some((OnDemandPeer { name: "uWSGI", application_in_server: true, kind }, format!("uWSGI {version}")))
}

fn apache(python: &Path, files: &Path) -> Option<(OnDemandPeer, String)> {
    let python = if reachable_by_all(python) { python } else { Path::new(SYSTEM_PYTHON) };
    let program = processes::find_program("apache2").or_else(|| processes::find_program("httpd"))?;
    let modules = APACHE_MODULES.iter().map(PathBuf::from).find(|folder| folder.join(FCGID).is_file())?;
    let version = processes::first_line(program.as_os_str(), &["-v"]).unwrap_or_default();
    let application = files.join("lab/peers/http/services/fastcgi.py");
    let kind = Kind::Apache { program, modules, python: python.to_owned(), application };
    let version = format!("{version}, with {}", python.display());
    Some((OnDemandPeer { name: "Apache", application_in_server: false, kind }, version))
}

/// Whether a program can be executed, or a folder entered, by whoever Apache's workers are: as root, Apache makes them
/// another user.
fn reachable_by_all(path: &Path) -> bool {
    let passable = |path: &Path| path.metadata().is_ok_and(|data| data.permissions().mode() & 0o001 != 0);
    let target = path.canonicalize().unwrap_or_default(); // of a virtual environment's link
    !rustix::process::geteuid().is_root() || path.ancestors().chain(target.ancestors()).all(passable)
}

impl OnDemandPeer {
    /// The last line that it printed or logged in `dir`; empty if there is none.
    pub(crate) fn last_words(dir: &Path) -> String {
        let texts = [APACHE_LOG, OUTPUT].map(|name| fs::read(dir.join(name)).unwrap_or_default());
        let lines = texts
            .iter()
            .map(|text| String::from_utf8_lossy(text))
            .find_map(|text| Some(text.lines().last()?.replace(char::is_control, " ")));
        lines.unwrap_or_default()
    }

    /// How it is started to listen at `address`.
    ///
    /// # Errors
    /// Its configuration cannot be written.
    pub(crate) fn program(&self, dir: &Path, address: SocketAddr) -> anyhow::Result<Program> {
        let command = match &self.kind {
            Kind::Uwsgi { program, plugin, application } => {
                let mut command = vec![program.into()];
                command.extend(plugin.iter().flat_map(|name| ["--plugin".into(), name.into()]));
                // `cheap`: no worker before the first request; `idle` would bring that state back after so many seconds
                for word in ["--master", "--cheap", "--idle", "3600", "--lazy-apps", "--processes", "1"] {
                    command.push(word.into());
                }
                command.extend(
                    ["--socket-timeout", "300", "--disable-logging", "--die-on-term", "--http11-socket"]
                        .map(Into::into),
                );
                command.extend([address.to_string().into(), "--wsgi-file".into(), application.into()]);
                command
            }
            Kind::Apache { program, modules, python, application } => {
                let file = dir.join("apache.conf");
                fs::write(&file, apache_configuration(dir, address, modules, python, application))?;
                vec![program.into(), "-f".into(), file.into(), "-DFOREGROUND".into()]
            }
        };
        Ok(Program { name: self.name.into(), command, dir: dir.to_owned(), output: dir.join(OUTPUT) })
    }
}

fn apache_configuration(dir: &Path, address: SocketAddr, modules: &Path, python: &Path, application: &Path) -> String {
    let (dir, modules) = (dir.display(), modules.display());
    // Apache refuses to run as root unless its workers become somebody else.
    let user = if rustix::process::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    format!(
        "ServerRoot {dir}\nServerName localhost\nPidFile {dir}/apache.pid\nErrorLog {dir}/{APACHE_LOG}\nListen {address}\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\nLoadModule authz_core_module {modules}/mod_authz_core.so\n\
         LoadModule fcgid_module {modules}/{FCGID}\n{user}StartServers 1\nDocumentRoot {dir}\nKeepAlive On\n\
         MaxKeepAliveRequests 0\nKeepAliveTimeout 60\nFcgidIPCDir {dir}/ipc\nFcgidProcessTableFile {dir}/shm\n\
         FcgidMaxProcesses 1\n<Location \"/\">\nRequire all granted\nOptions +ExecCGI\nSetHandler fcgid-script\n\
         FcgidWrapper \"{} {}\" virtual\n</Location>\n",
        python.display(),
        application.display()
    )
}
