//! `pilotlight kubernetes`: connects to the cluster, starts the gateway, and has it follow.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::Client;
use kube::config::{Config, KubeConfigOptions};
use pilotlight_cli::embedded::{self, Following};
use pilotlight_cli::run::Ended;
use pilotlight_printable::printable_lines;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::arguments::Arguments;
use crate::base::Base;
use crate::conditions::{Condition, Subject, Wanted};
use crate::coordination::Coordination;
use crate::owner::{Owner, State, Workloads};
use crate::probe::Probes;
use crate::scaling::Scaling;
use crate::servers::{self, Servers};
use crate::snapshot::Snapshot;
use crate::statuses;
use crate::translate::{Checks, Options, Translation, translate};
use crate::watch::{Told, Watches};

/// Changes that wait for the owner; watches wait beyond it.
const MAX_CHANGES: usize = 1024;
/// What the client of the API says of its failures, we say in other words.
const LEVELS: &str = "info,pilotlight_redis=error,kube_runtime=off,kube_client=off";
/// Services that somebody waits for and that nobody has looked at yet; more are found by looking.
const MAX_WANTED: usize = 1024;
/// How long `--print` waits for the cluster.
const PRINT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection to the API server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long leases may take to be given back.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Does what the arguments say.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    let ended = if arguments.print { print(&arguments) } else { serve(arguments) };
    match ended {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::RunsAlready) => ExitCode::FAILURE,
        Ok(Ended::Misconfigured) => ExitCode::from(2),
        Err(error) => {
            // Nobody may be left to be told.
            let _ = writeln!(io::stderr(), "pilotlight kubernetes: {}", printable_lines(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

/// A cluster that can be asked.
struct Cluster {
    runtime: Runtime,
    client: Client,
    namespace: String,
}

impl Cluster {
    fn connect(arguments: &Arguments) -> anyhow::Result<Self> {
        // One provider for all of the process; another one that is there already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
        let config = runtime.block_on(async {
            match &arguments.context {
                Some(_) => Config::from_kubeconfig(&options).await.context("the kubeconfig cannot be used"),
                None => Config::infer().await.map_err(|error| {
                    anyhow!("there is no cluster: {error}; in a pod a service account is needed, elsewhere a kubeconfig (KUBECONFIG, ~/.kube/config)")
                }),
            }
        });
        let mut config = config?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let namespace = config.default_namespace.clone();
        let client = runtime.block_on(async { Client::try_from(config) });
        let client = client.context("no client for the API server can be made")?;
        Ok(Self { runtime, client, namespace })
    }
}

fn options(arguments: &Arguments, folder: &Path) -> Options {
    Options {
        class_name: arguments.class_name.clone(),
        port_offset: arguments.port_offset,
        bind: arguments.bind,
        addresses: arguments.own_addresses(),
        certificates: folder.to_owned(),
        unavailable: BTreeMap::new(),
    }
}

/// Prints the configuration, and what is refused.
fn print(arguments: &Arguments) -> anyhow::Result<Ended> {
    let filter: Targets = LEVELS.parse()?;
    let lines = tracing_subscriber::fmt().with_writer(io::stderr).with_target(false).with_ansi(false).without_time();
    lines.finish().with(filter).init();
    let base = Base::read(arguments.config.as_deref())?;
    let Cluster { runtime, client, .. } = Cluster::connect(arguments)?;
    let snapshot = runtime.block_on(snapshot(arguments, client))?;
    let folder = Path::new("/run/pilotlight-kubernetes");
    let mut options = options(arguments, folder);
    if let Some(service) = arguments.publish_service.as_ref().and_then(|key| snapshot.services.get(key)) {
        options.addresses.clone_from(&service.addresses);
    }
    let translation = translate(&snapshot, &options, &mut Checks::default());
    io::stdout().write_all(base.with(&translation, &folder.join("idle.sock")).text.as_bytes())?;
    for line in refused(&translation) {
        writeln!(io::stderr(), "{}", pilotlight_printable::printable(&line))?;
    }
    Ok(Ended::Stopped)
}

/// What does not hold of which object.
fn refused(translation: &Translation) -> Vec<String> {
    let mut lines = Vec::new();
    for (subject, wanted) in &translation.statuses {
        let (name, conditions): (String, Vec<&Condition>) = match (subject, wanted) {
            (Subject::HttpRoute(key), Wanted::Parents(parents)) => {
                (format!("HTTPRoute {key}"), parents.iter().flat_map(|parent| &parent.conditions).collect())
            }
            (Subject::Gateway(key), Wanted::Gateway { conditions, listeners, .. }) => {
                let of_listeners = listeners.iter().flat_map(|listener| &listener.conditions);
                (format!("Gateway {key}"), conditions.iter().chain(of_listeners).collect())
            }
            _ => continue,
        };
        for condition in conditions.into_iter().filter(|one| one.holds == (one.kind == "Conflicted")) {
            let Condition { kind, holds, reason, message } = condition;
            lines.push(format!("{name}: {kind}={holds} {reason}: {message}"));
        }
    }
    lines
}

/// Everything as it is now.
async fn snapshot(arguments: &Arguments, client: Client) -> anyhow::Result<Snapshot> {
    let (tell, mut told) = mpsc::channel(MAX_CHANGES);
    let namespaces = arguments.namespaces.clone();
    let mut tasks = JoinSet::new();
    Watches { client, namespaces, tell, away: Arc::default() }.start(&mut tasks);
    let (mut snapshot, mut synced) = (Snapshot::default(), 0);
    let whole = async {
        while synced < tasks.len() {
            match told.recv().await {
                Some(Told::Changed(change)) => drop(change(&mut snapshot)),
                Some(Told::Synced) => synced += 1,
                None => break,
            }
        }
    };
    tokio::time::timeout(PRINT_TIMEOUT, whole).await.map_err(|_| {
        anyhow!("the cluster could not be read within {} s; the lines above say why", PRINT_TIMEOUT.as_secs())
    })?;
    Ok(snapshot)
}

fn serve(arguments: Arguments) -> anyhow::Result<Ended> {
    let base = Base::read(arguments.config.as_deref())?;
    let cluster = Cluster::connect(&arguments)?;
    let ready = Arc::new(AtomicBool::new(false));
    let probes = cluster.runtime.block_on(Probes::bind(arguments.probe, Arc::clone(&ready)));
    let probes = probes.with_context(|| format!("--probe {} cannot be listened on", arguments.probe))?;
    let folder = tempfile::Builder::new().prefix("pilotlight-kubernetes-").tempdir();
    let folder = folder.context("no folder for certificates can be made (an emptyDir at /tmp will do)")?;
    let options = options(&arguments, folder.path());
    let first = base.with(&Translation::default(), &folder.path().join("idle.sock")).text.to_string();
    let (stop, stopped) = watch::channel(false);
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let file = base.file().to_owned();
    let certificates = folder.path().to_owned();
    let beside = Beside { arguments, cluster, base, options, certificates, ready, probes, stopped, done };
    let told = embedded::Told::new(file, first, LEVELS, move |following| beside.start(following));
    let result = embedded::run(&told);
    let _ = stop.send(true); // whoever does not listen has ended
    // Ends with an error when the other side is done: nothing is ever sent.
    let _ = ended.recv_timeout(LEAVE_TIMEOUT);
    drop(folder);
    result
}

/// What runs beside the gateway.
struct Beside {
    arguments: Arguments,
    cluster: Cluster,
    base: Base,
    options: Options,
    certificates: std::path::PathBuf,
    ready: Arc<AtomicBool>,
    probes: Probes,
    stopped: watch::Receiver<bool>,
    /// Dropped when it has ended.
    done: std::sync::mpsc::Sender<()>,
}

impl Beside {
    fn start(self, following: Following) {
        let thread = std::thread::Builder::new().name("kubernetes".into()).spawn(move || self.run(following));
        if let Err(error) = thread {
            tracing::error!("the cluster is not followed: its thread cannot be started: {error}");
        }
    }

    fn run(self, following: Following) {
        let Self { arguments, cluster, base, options, certificates, ready, probes, mut stopped, done } = self;
        let Cluster { runtime, client, namespace } = cluster;
        let _done = done;
        runtime.block_on(async move {
            let mut tasks = JoinSet::new();
            let (tell, told) = mpsc::channel(MAX_CHANGES);
            let watches =
                Watches { client: client.clone(), namespaces: arguments.namespaces.clone(), tell, away: Arc::default() };
            watches.start(&mut tasks);
            drop(watches);
            let expected = tasks.len();
            let servers: Arc<dyn Servers> = Arc::new(following.clone());
            let (tell_wanted, wanted) = mpsc::channel(MAX_WANTED);
            tasks.spawn(servers::tell_wanted(following.clone(), tell_wanted));
            let (batches, written) = watch::channel(Arc::default());
            let (workloads, known) = watch::channel(Arc::new(Workloads::default()));
            let (tell_leads, leads) = watch::channel(false);
            let scaling = Scaling::new(client.clone(), Arc::clone(&servers), known);
            let lease_namespace = arguments.lease_namespace.clone().or_else(|| {
                std::env::var("POD_NAMESPACE").ok().filter(|namespace| !namespace.is_empty())
            });
            let lease_namespace = lease_namespace.unwrap_or(namespace);
            let coordination = Coordination::new(client.clone(), &lease_namespace, &arguments.replica_name());
            tasks.spawn(scaling.clone().wake(wanted));
            tasks.spawn(statuses::write(client, written));
            tasks.spawn(probes.serve());
            let owner = Owner {
                following,
                servers,
                base,
                options,
                publish_service: arguments.publish_service,
                folder: certificates,
                expected,
                ready,
                batches,
                workloads,
                leads,
                state: State::default(),
            };
            tasks.spawn(owner.run(told));
            // Last, so that the lease is given back while everything else is there.
            tokio::select! {
                () = scaling.lead(coordination, tell_leads, stopped.clone()) => {}
                _ = async { while !*stopped.borrow() { if stopped.changed().await.is_err() { break } }; tokio::time::sleep(LEAVE_TIMEOUT).await } => {}
            }
            tasks.shutdown().await;
        });
    }
}
