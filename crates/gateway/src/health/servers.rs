//! Health requests to servers that somebody else runs. A task of one worker sends them; what it finds counts for all.
//!
//! At most one request is open at each server: the next one is due an interval after the answer.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_balance::{Change, Verdict};
use rustc_hash::FxHashSet;
use tokio::sync::{Notify, watch};

use super::{Asked, ask, judged};
use crate::options::{External, ExternalAddr, HealthOptions, ServiceTarget};
use crate::routes::Table;
use crate::servers::OneServer;
use crate::timing::{Moment, millis};
use crate::upstream::server;
use crate::worker::{Stop, Worker};

/// The first requests of a gateway go out within this time, if the interval is not shorter.
const FIRST_WITHIN: Duration = Duration::from_secs(1);
/// How much an interval is longer or shorter, so that gateways which were started together do not ask together.
const JITTER: f64 = 0.1;

/// A server that is asked.
struct Watched {
    external: Arc<External>,
    /// The server's number.
    number: u64,
    /// When it is asked next; `None` while it is.
    due: Cell<Option<Instant>>,
}

/// Asks whenever a server is due, until the gateway stops or another process accepts connections.
pub(crate) async fn run(worker: Rc<Worker>, mut stop: watch::Receiver<Stop>) {
    let (mut watched, answered) = (Vec::new(), Rc::new(Notify::new()));
    follow(&mut watched, &worker.common.table.load());
    loop {
        let now = Instant::now();
        for one in watched.iter().filter(|one| one.due.get().is_some_and(|due| due <= now)) {
            one.due.set(None);
            worker.spawner.spawn(examine(Rc::clone(&worker), Rc::clone(one), Rc::clone(&answered)));
        }
        let next = watched.iter().filter_map(|one| one.due.get()).min();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop != Stop::No) => return,
            () = worker.checks_changed.notified() => follow(&mut watched, &worker.common.table.load()),
            () = worker.common.server_changes.changed.notified() => follow(&mut watched, &worker.common.table.load()),
            () = answered.notified() => {}
            () = sleep_until(next) => {}
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Those of the services of the table.
fn follow(watched: &mut Vec<Rc<Watched>>, table: &Table) {
    let with_health = |target: &ServiceTarget| match target {
        ServiceTarget::External(external) => external.spec().health.is_some().then(|| Arc::clone(external)),
        ServiceTarget::Managed(..) => None,
    };
    let services: Vec<Arc<External>> = table.services().iter().filter_map(with_health).collect();
    let mut wanted = FxHashSet::default();
    for external in &services {
        let now = external.live().map(|live| live.now());
        wanted.extend(now.iter().flat_map(|now| now.all()).map(|one| (Arc::as_ptr(external), one.number())));
    }
    // What is left of them is new.
    watched.retain(|one| wanted.remove(&(Arc::as_ptr(&one.external), one.number)));
    for external in services {
        let interval = external.spec().health.as_ref().map_or(Duration::ZERO, |health| health.interval);
        let numbers = wanted.iter().filter(|(of, _)| *of == Arc::as_ptr(&external)).map(|(_, number)| *number);
        watched.extend(numbers.map(|number| {
            let first = Instant::now() + interval.min(FIRST_WITHIN).mul_f64(fastrand::f64());
            Rc::new(Watched { external: Arc::clone(&external), number, due: Cell::new(Some(first)) })
        }));
    }
}

/// Asks a server, and tells those who choose among them.
async fn examine(worker: Rc<Worker>, one: Rc<Watched>, answered: Rc<Notify>) {
    let external = &one.external;
    let (Some(health), Some(live)) = (&external.spec().health, external.live()) else { return };
    let servers = live.now();
    // It may have gone just now.
    let Some((index, asked)) = servers.of_number(one.number).and_then(|at| Some((at, servers.one(at)?))) else {
        return;
    };
    let found = request(&worker, external, asked, health).await;
    let verdict = if found.is_ok() { Verdict::Healthy } else { Verdict::Unhealthy };
    let (service, server) = (external.name(), asked.address());
    match (servers.group().examined(index, verdict, millis(Moment::now())), found) {
        (Change::Out, Err(why)) => tracing::warn!(service, server, "the server is left out, it is not healthy: {why}"),
        (Change::Back, _) => tracing::info!(service, server, "the server is healthy, and gets requests again"),
        (_, Err(why)) => tracing::debug!(service, server, "a health request failed: {why}"),
        (_, Ok(_)) => {}
    }
    let jitter = JITTER * (2.0 * fastrand::f64() - 1.0);
    one.due.set(Some(Instant::now() + health.interval.mul_f64(1.0 + jitter)));
    answered.notify_one();
}

async fn request(
    worker: &Rc<Worker>,
    external: &Arc<External>,
    asked: &OneServer,
    HealthOptions { check, .. }: &HealthOptions,
) -> Result<u16, String> {
    let upstream = worker.upstream(&ServiceTarget::External(Arc::clone(external)));
    let server = server::of(external, asked);
    let own = match &asked.spec().addr {
        ExternalAddr::Tcp(_, port) => format!("{}:{port}", asked.host()),
        ExternalAddr::Unix(_) => asked.host().to_owned(),
    };
    let host = if check.host.is_empty() { &own } else { &check.host };
    let asked = Asked { health: check, host, moved: None, server: Some(&server) };
    judged(check, ask(worker, &upstream, asked, None).await)
}
