//! A folder as a configuration.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilotlight_dev::{Changes, Follows, Guess, Ignore, Installed, Over, Serves, guess, label, of_command, render};
use pilotlight_gateway::{
    EVENTS_PATH, ExternalAddr, ExternalSpec, ListenAddr, PlainHttp, Reloading, RouteSpec, RouteTo, ServerProtocol,
};
use pilotlight_printable::without_mark;
use pilotlight_supervisor::{EarlyRequests, OtherPort};

use crate::config::{self, Config, Listener, Loaded, Ports, Report, Service, ServiceKind};

/// The ports that are tried, the wanted first.
const HTTPS_PORTS: [u16; 2] = [443, 8443];
const HTTP_PORTS: [u16; 2] = [80, 8080];
/// How many ports from the last one on are tried.
const MORE_PORTS: u16 = 100;
/// What an instance that is replaced gets, at most, to end its exchanges and itself.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
const STOP_GRACE: Duration = Duration::from_secs(2);
/// The name of the server that tells pages of changes; no service of a file can have it.
const EVENTS_SERVICE: &str = "pilotlight dev";

/// The project that is developed.
#[derive(Debug)]
pub(crate) struct Project {
    /// Its folder, without symbolic links.
    pub(crate) folder: PathBuf,
    /// Its configuration file, which need not be there.
    pub(crate) file: PathBuf,
    /// `NAME.localhost`.
    pub(crate) host: String,
    /// The ports of HTTPS and of HTTP.
    https: u16,
    http: u16,
    /// What the folder is; `None`: its file says so.
    pub(crate) guess: Option<Guess>,
    pub(crate) ignore: Ignore,
    pub(crate) changes: Changes,
    /// Where pages ask for changes.
    events: SocketAddr,
}

/// What the developer says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// What to run; empty: it is guessed.
    pub(crate) command: &'a [String],
    /// The name below `localhost`.
    pub(crate) name: Option<&'a str>,
    pub(crate) https: Option<u16>,
    pub(crate) http: Option<u16>,
    pub(crate) over: Option<Over>,
    /// Patterns of files that do not count.
    pub(crate) ignore: &'a [String],
}

impl Project {
    /// Looks at a folder. The reason, if nothing can be made of it.
    pub(crate) fn of(folder: PathBuf, arguments: &Wanted<'_>) -> Result<Self, String> {
        let file = folder.join(config::DEFAULT_FILE);
        let guess = match arguments.command {
            [] if file.is_file() => None,
            [] => {
                let mut guess = guess(&folder, &Installed).map_err(|why| why.to_string())?;
                if let (Some(over), Serves::Processes(processes)) = (arguments.over, &mut guess.serves) {
                    processes.iter_mut().for_each(|process| process.over = over);
                }
                Some(guess)
            }
            command => Some(of_command(&folder, command, arguments.over)),
        };
        let name = arguments.name.map_or_else(|| label(&folder), str::to_owned);
        if name.is_empty() || name.len() > 63 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(format!("--name `{name}` is no label of a host name: letters, digits and hyphens"));
        }
        let https = arguments.https.map_or_else(|| free_port(&HTTPS_PORTS), Ok)?;
        let http = arguments.http.map_or_else(|| free_port(&HTTP_PORTS), Ok)?;
        let gitignore = std::fs::read_to_string(folder.join(".gitignore")).unwrap_or_default();
        let ignore = Ignore::new(without_mark(&gitignore), arguments.ignore);
        let changes = Changes::new();
        let refused = |e: io::Error| format!("pages cannot be told of changes: {e}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(refused)?;
        let events = listener.local_addr().map_err(refused)?;
        changes.serve(listener).map_err(refused)?;
        let host = format!("{}.localhost", name.to_ascii_lowercase());
        Ok(Self { folder, file, host, https, http, guess, ignore, changes, events })
    }

    /// The text of the configuration.
    pub(crate) fn text(&self) -> io::Result<String> {
        match &self.guess {
            None => std::fs::read_to_string(&self.file),
            Some(guess) => Ok(self.rendered(guess)),
        }
    }

    fn rendered(&self, guess: &Guess) -> String {
        let listen = [format!("https://{}:{}", self.host, self.https), format!("http://{}:{}", self.host, self.http)];
        // No other host: a page of somebody else's, whose name leads here, is not to read what services print.
        let hosts = [self.host.clone(), "localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
        render(guess, &listen, &hosts)
    }

    /// As it is now.
    pub(crate) fn load(&self, ports: Ports) -> Result<Loaded, Report> {
        let mut loaded = match &self.guess {
            None => config::load(&self.file, ports),
            Some(guess) => config::load_text(&self.rendered(guess), &self.file, ports),
        }?;
        self.adapt(&mut loaded.config);
        Ok(loaded)
    }

    /// What development needs, whatever the file says.
    pub(crate) fn adapt(&self, config: &mut Config) {
        config.settings.dev = true;
        config.settings.reloading = Reloading::OnChange;
        // No stored answer hides a change.
        config.cache = None;
        config.cache_redis = None;
        for service in &mut config.services {
            if let ServiceKind::Managed(spec) = &mut service.kind {
                spec.early_requests = EarlyRequests::Held;
                spec.other_port = OtherPort::Taken;
                spec.max_failures = 1; // the page says at once what is wrong
                spec.drain_timeout = spec.drain_timeout.min(DRAIN_TIMEOUT);
                spec.stop_grace = spec.stop_grace.min(STOP_GRACE);
            }
        }
        // What speaks plain HTTP here is a tool, or another service of the developer's, which knows no local authority.
        for route in config.routes.iter_mut().filter(|route| route.plain_http == PlainHttp::Automatic) {
            route.plain_http = PlainHttp::Allowed;
        }
        if !config.listen.iter().any(|listener| listener.local_host.is_some()) {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.https));
            config.listen.push(Listener::development(self.host.clone(), address));
        }
        self.add_events(config);
    }

    fn add_events(&self, config: &mut Config) {
        let addr = ExternalAddr::Tcp(self.events.ip().to_string(), self.events.port());
        let external = ExternalSpec::one(EVENTS_SERVICE, addr, ServerProtocol::Http1);
        let to = RouteTo::Service(config.services.len());
        config.services.push(Service::running(external));
        let mut hosts: Vec<Option<String>> = config.routes.iter().map(|route| route.host.clone()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in hosts {
            config.routes.push(RouteSpec {
                host,
                exact: true,
                plain_http: PlainHttp::Allowed,
                ..RouteSpec::new(EVENTS_PATH, to.clone())
            });
        }
    }

    /// Whether a service is replaced when files change.
    pub(crate) fn restarts(&self, service: &str) -> bool {
        match &self.guess {
            Some(Guess { serves: Serves::Processes(processes), .. }) => {
                processes.iter().any(|process| process.name == service && process.follows == Follows::Restart)
            }
            _ => true,
        }
    }

    /// Whether a change of this file changes what was guessed or read.
    pub(crate) fn is_manifest(&self, path: &Path) -> bool {
        path == self.file
    }

    /// What to open in a browser.
    pub(crate) fn url(&self, config: &Config) -> String {
        let tls = config.listen.iter().find_map(|listener| match (&listener.local_host, &listener.address) {
            (Some(host), ListenAddr::Tls(address)) => Some((host.clone(), address.port())),
            _ => None,
        });
        match tls {
            Some((host, 443)) => format!("https://{host}"),
            Some((host, port)) => format!("https://{host}:{port}"),
            None => format!("https://{}", self.host),
        }
    }
}

/// The first of the ports that can be listened on by this user.
fn free_port(wanted: &[u16; 2]) -> Result<u16, String> {
    let [first, then] = *wanted;
    let mut ports = std::iter::once(first).chain(then..then + MORE_PORTS);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).ok_or_else(|| format!("no port of {first} and {then} to {} is free", then + MORE_PORTS - 1))
}
