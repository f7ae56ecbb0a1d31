//! Health requests to servers that somebody else runs. A task of one worker sends them; what it finds counts for all.
//!
//! At most one request is open at each server: the next one is due an interval after the answer.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_balance::{Change, Verdict};
use tokio::sync::watch;

use super::{Asked, ask, judged};
use crate::options::{External, ExternalAddr, HealthOptions, ServiceTarget};
use crate::routes::Table;
use crate::timing::Moment;
use crate::upstream::server::{self, millis};
use crate::worker::{Stop, Worker};

/// The first requests of a gateway go out within this time, if the interval is not shorter.
const FIRST_WITHIN: Duration = Duration::from_secs(1);
/// How much an interval is longer or shorter, so that gateways which were started together do not ask together.
const JITTER: f64 = 0.1;

/// A server that is asked.
struct Watched {
    external: Arc<External>,
    index: usize,
    /// When it is asked next; `None` while it is.
    due: Cell<Option<Instant>>,
}

/// Asks whenever a server is due, until the gateway stops or another process accepts connections.
pub(crate) async fn run(worker: Rc<Worker>, mut stop: watch::Receiver<Stop>) {
    let mut watched = Vec::new();
    loop {
        follow(&mut watched, &worker.common.table.load());
        let now = Instant::now();
        for one in watched.iter().filter(|one| one.due.get().is_some_and(|due| due <= now)) {
            one.due.set(None);
            worker.spawner.spawn(examine(Rc::clone(&worker), Rc::clone(one)));
        }
        let next = watched.iter().filter_map(|one| one.due.get()).min();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop != Stop::No) => return,
            () = worker.checks_changed.notified() => {} // a reload, or an answer
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
    let wanted: Vec<Arc<External>> = table.services().iter().filter_map(with_health).collect();
    let is = |one: &Watched, external: &Arc<External>| Arc::ptr_eq(&one.external, external);
    watched.retain(|one| wanted.iter().any(|external| is(one, external)));
    for external in wanted {
        if watched.iter().any(|one| is(one, &external)) {
            continue;
        }
        let interval = external.spec().health.as_ref().map_or(Duration::ZERO, |health| health.interval);
        watched.extend((0..external.spec().servers.len()).map(|index| {
            let first = Instant::now() + interval.min(FIRST_WITHIN).mul_f64(fastrand::f64());
            Rc::new(Watched { external: Arc::clone(&external), index, due: Cell::new(Some(first)) })
        }));
    }
}

/// Asks a server, and tells those who choose among them.
async fn examine(worker: Rc<Worker>, one: Rc<Watched>) {
    let (external, index) = (&one.external, one.index);
    let (Some(health), Some(group)) = (&external.spec().health, external.group()) else { return };
    let found = request(&worker, external, index, health).await;
    let verdict = if found.is_ok() { Verdict::Healthy } else { Verdict::Unhealthy };
    let (service, server) = (external.name(), server::address(external, index));
    match (group.examined(index, verdict, millis(Moment::now())), found) {
        (Change::Out, Err(why)) => tracing::warn!(service, server, "the server is left out, it is not healthy: {why}"),
        (Change::Back, _) => tracing::info!(service, server, "the server is healthy, and gets requests again"),
        (_, Err(why)) => tracing::debug!(service, server, "a health request failed: {why}"),
        (_, Ok(_)) => {}
    }
    let jitter = JITTER * (2.0 * fastrand::f64() - 1.0);
    one.due.set(Some(Instant::now() + health.interval.mul_f64(1.0 + jitter)));
    worker.checks_changed.notify_one();
}

async fn request(
    worker: &Rc<Worker>,
    external: &Arc<External>,
    index: usize,
    HealthOptions { check, .. }: &HealthOptions,
) -> Result<u16, String> {
    let upstream = worker.upstream(&ServiceTarget::External(Arc::clone(external)));
    let server = server::numbered(external, index);
    let own = match external.spec().servers.get(index) {
        Some(ExternalAddr::Tcp(host, port)) => format!("{host}:{port}"),
        Some(ExternalAddr::Unix(_)) | None => "localhost".to_owned(),
    };
    let host = if check.host.is_empty() { &own } else { &check.host };
    let asked = Asked { health: check, host, moved: None, server };
    judged(check, ask(worker, &upstream, asked, None).await)
}
