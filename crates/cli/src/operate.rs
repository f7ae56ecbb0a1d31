//! What a running gateway has for the one who operates it: the admin interface, the kept output of services, SIGUSR1.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use pilotlight_gateway::{Admin, AdminOptions, Gateway, LogBook, Order, hide_credentials};
use pilotlight_supervisor::Supervisor;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;

use crate::config::{AdminSocket, Config, Operate, Report};
use crate::log_end::LogEnd;
use crate::service_log::Layout;
use crate::standard_error::StandardError;

/// The name of the admin socket in the runtime folder.
const SOCKET: &str = "admin.sock";

/// Sockets of the admin interface that a predecessor has bound.
#[derive(Default)]
pub(crate) struct Sockets {
    pub(crate) admin: Option<OwnedFd>,
    pub(crate) metrics: Option<OwnedFd>,
    /// Blocks until the predecessor answers nobody any more.
    pub(crate) turn: Option<Box<dyn FnOnce() + Send>>,
}

impl Sockets {
    /// Those of a predecessor that are still where they are to be.
    pub(crate) fn inherited(
        operate: &Operate,
        admin: Option<(PathBuf, OwnedFd)>,
        metrics: Option<(SocketAddr, OwnedFd)>,
        turn: Option<Box<dyn FnOnce() + Send>>,
    ) -> Self {
        let at = |path: &PathBuf| matches!(&operate.admin, Some(AdminSocket::At(socket)) if socket == path);
        let admin = admin.filter(|(path, _)| at(path)).map(|(_, socket)| socket);
        let metrics = metrics.filter(|(address, _)| operate.metrics == Some(*address)).map(|(_, socket)| socket);
        Self { admin, metrics, turn }
    }
}

/// What people are shown and told.
pub(crate) struct Reports {
    /// The last lines of services.
    pub(crate) logs: LogBook,
    /// The configuration in force.
    pub(crate) shown: Shown,
    pub(crate) stderr: StandardError,
    /// How lines of services are printed on the standard error.
    pub(crate) layout: Layout,
    /// Where lines of services go.
    pub(crate) services: LogEnd,
}

/// What is operated.
#[derive(Clone, Copy)]
pub(crate) struct Operated<'a> {
    pub(crate) file: &'a Path,
    pub(crate) config: &'a Config,
    pub(crate) runtime_dir: &'a Path,
    pub(crate) gateway: &'a Gateway,
    pub(crate) supervisor: &'a Supervisor,
}

/// Starts what the configuration asks for. It ends when the returned value is dropped.
///
/// # Errors
/// A socket, an address or a thread is refused.
pub(crate) fn start(
    operated: Operated<'_>,
    reports: &Reports,
    orders: UnboundedSender<Order>,
    inherited: Sockets,
) -> anyhow::Result<Option<Admin>> {
    let Operated { file, config, runtime_dir, gateway, supervisor } = operated;
    reopen_on_signal(gateway, reports.stderr.clone()).context("SIGUSR1 cannot be waited for")?;
    let socket = config.operate.admin.as_ref().map(|socket| socket_path(socket, runtime_dir));
    if socket.is_none() && config.operate.metrics.is_none() {
        return Ok(None);
    }
    let file = std::path::absolute(file)?;
    let shown = reports.shown.clone();
    let options = AdminOptions {
        socket,
        metrics: config.operate.metrics,
        inherited: (inherited.admin, inherited.metrics),
        turn: inherited.turn,
        control: supervisor.control(),
        logs: reports.logs.clone(),
        dropped_log_lines: reports.stderr.dropped(),
        config: Arc::new(move || shown.value()),
        orders,
        config_file: file,
        runtime_dir: runtime_dir.to_owned(),
    };
    Ok(Some(Admin::start(options, gateway)?))
}

/// Where the admin socket is.
pub(crate) fn socket_path(socket: &AdminSocket, runtime_dir: &Path) -> PathBuf {
    match socket {
        AdminSocket::InRuntimeDir => runtime_dir.join(SOCKET),
        AdminSocket::At(path) => path.clone(),
    }
}

/// Opens the files of logs anew on SIGUSR1, as log rotation asks for. Without one the signal has no effect; left alone,
/// it would end the process.
fn reopen_on_signal(gateway: &Gateway, stderr: StandardError) -> std::io::Result<()> {
    let reopen = gateway.log_reopener();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // Here, not in the thread: from now on the signal is known.
    let mut asked = {
        let _context = runtime.enter();
        signal(SignalKind::user_defined1())?
    };
    let wait = move || {
        runtime.block_on(async {
            while asked.recv().await.is_some() {
                reopen();
                stderr.reopen();
            }
        });
    };
    std::thread::Builder::new().name("reopen".into()).spawn(wait).map(drop)
}

/// What the configuration says that is followed, as people are shown it: the file's text, understood when somebody
/// asks.
#[derive(Clone)]
pub(crate) struct Shown {
    file: Arc<Path>,
    text: Arc<Mutex<Box<str>>>,
}

impl Shown {
    /// The file as it was read, which has no mistake.
    pub(crate) fn new(file: &Path, read: &Report) -> Self {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).into();
        Self { file, text: Arc::new(Mutex::new(read.text().into())) }
    }

    /// The same file as it was read again.
    pub(crate) fn follow(&self, read: &Report) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = read.text().into();
    }

    /// What was read.
    pub(crate) fn text(&self) -> Box<str> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn value(&self) -> Value {
        settings(&self.file, &self.text())
    }
}

/// What the text says, without the values of environment variables and the credentials in URLs: those are where secrets
/// are.
fn settings(file: &Path, text: &str) -> Value {
    let table: toml::Table = text.parse().unwrap_or_default(); // it has been read before
    json!({ "file": file.to_string_lossy(), "settings": plain(&toml::Value::Table(table)) })
}

fn plain(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(hide_credentials(text)),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(yes) => Value::from(*yes),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(list) => list.iter().map(plain).collect(),
        toml::Value::Table(table) => table
            .iter()
            .map(|(name, value)| {
                let hidden = matches!(name.as_str(), "env" | "secrets") && value.is_table();
                (name.clone(), if hidden { names_only(value) } else { plain(value) })
            })
            .collect::<Map<_, _>>()
            .into(),
    }
}

fn names_only(table: &toml::Value) -> Value {
    let names = table.as_table().into_iter().flat_map(toml::Table::keys);
    names.map(|name| (name.clone(), Value::from("(hidden)"))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_environment_are_hidden() {
        let table: toml::Table =
            "dev = true\ncache.redis = \"redis://:kingfisher@h\"\n[services.a]\ncommand = [\"a\", \"--db=x://u:kingfisher@h/d\"]\nenv = { TOKEN = \"kingfisher\" }"
                .parse()
                .unwrap();
        let shown = plain(&toml::Value::Table(table));
        assert_eq!(shown["dev"], true);
        assert_eq!(shown["services"]["a"]["command"][0], "a");
        assert_eq!(shown["services"]["a"]["env"]["TOKEN"], "(hidden)");
        assert!(!shown.to_string().contains("kingfisher"));
    }
}
