//! Carries out what [`crate::scale`] decides: patches `/scale` of workloads, takes part in the election, writes and
//! reads what replicas say of their use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::coordination::{Coordination, bounded};
use crate::failure::Failure;
use crate::lease;
use crate::owner::Workloads;
use crate::scale::{Order, Scaler, Time, Use};
use crate::servers::{Activity, Servers};
use crate::snapshot::{WorkloadKey, WorkloadKind};

/// How often use is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often somebody who waits is looked for, besides being told.
const LOOK_FOR_WAITING: Duration = Duration::from_millis(250);

/// How often a workload may change while it is woken.
const MAX_CONFLICTS: usize = 4;

/// By whom a workload was scaled up.
enum Woken {
    Here,
    Elsewhere,
}

/// What both sides look at.
#[derive(Clone)]
pub struct Scaling {
    client: Client,
    servers: Arc<dyn Servers>,
    workloads: watch::Receiver<Arc<Workloads>>,
    scaler: Arc<Mutex<Scaler>>,
    /// Told when something was woken, so that the others learn of its use at once.
    woken: Arc<Notify>,
    begun: Instant,
}

impl Scaling {
    /// For the workloads of one cluster.
    #[must_use]
    pub fn new(client: Client, servers: Arc<dyn Servers>, workloads: watch::Receiver<Arc<Workloads>>) -> Self {
        Self { client, servers, workloads, scaler: Arc::default(), woken: Arc::default(), begun: Instant::now() }
    }

    fn now(&self) -> Time {
        self.begun.elapsed()
    }

    fn scaler(&self) -> MutexGuard<'_, Scaler> {
        self.scaler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what there is now.
    fn observe(&self, now: Time) -> Arc<Workloads> {
        let workloads = Arc::clone(&self.workloads.borrow());
        let uses = uses(now, &workloads, self.servers.activity());
        self.scaler().observe(now, &workloads.all, &uses);
        workloads
    }

    /// Wakes what somebody waits for, until nobody tells of it any more.
    pub async fn wake(self, mut wanted: mpsc::Receiver<Arc<str>>) {
        let mut look = interval(LOOK_FOR_WAITING);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut patches = JoinSet::new();
        let mut workloads = self.workloads.clone();
        loop {
            tokio::select! {
                service = wanted.recv() => if service.is_none() { return },
                changed = workloads.changed() => if changed.is_err() { return },
                _ = look.tick() => {}
            }
            while patches.try_join_next().is_some() {}
            if self.workloads.borrow().all.is_empty() {
                continue;
            }
            let now = self.now();
            let known = self.observe(now);
            let wakes = self.scaler().wakes(now, &known.all);
            for order in wakes {
                let scaling = self.clone();
                patches.spawn(async move { scaling.wake_one(order).await });
            }
        }
    }

    async fn wake_one(&self, order: Order) {
        let Order { key, replicas, .. } = &order;
        match self.scale_up(&order).await {
            Ok(Woken::Here) => tracing::info!("{key} is asked for: it is scaled from 0 to {replicas}"),
            Ok(Woken::Elsewhere) => tracing::debug!("{key} is asked for, and somebody else has scaled it up"),
            Err(failure) => {
                tracing::warn!("{key} is not woken: {}", failure.text("patch", &resource(key)));
                // Not at once, if everything fails at once.
                tokio::time::sleep(LOOK).await;
                self.scaler().not_woken(key);
            }
        }
        self.woken.notify_one();
    }

    /// Scales from zero, and nothing that somebody else has scaled up meanwhile.
    async fn scale_up(&self, order: &Order) -> Result<Woken, Failure> {
        let mut version = order.version.to_string();
        for _ in 0..MAX_CONFLICTS {
            match self.scale(&order.key, Some(order.replicas), &version).await {
                Err(Failure::Conflict) => {}
                done => return done.map(|_| Woken::Here),
            }
            // A change of nothing is answered with what there is.
            let now = self.scale(&order.key, None, "").await?;
            if now.spec.and_then(|spec| spec.replicas).unwrap_or_default() > 0 {
                return Ok(Woken::Elsewhere);
            }
            version = now.metadata.resource_version.unwrap_or_default();
        }
        Err(Failure::Conflict)
    }

    /// How many replicas it is to have, if it is of this version yet. Empty: whichever it is.
    async fn scale(&self, key: &WorkloadKey, replicas: Option<i32>, version: &str) -> Result<Scale, Failure> {
        let mut patch = json!({});
        if let Some(replicas) = replicas {
            patch["spec"] = json!({ "replicas": replicas });
        }
        if !version.is_empty() {
            patch["metadata"] = json!({ "resourceVersion": version });
        }
        let patch = Patch::Merge(patch);
        let (namespace, name, params) = (&*key.key.namespace, &*key.key.name, PatchParams::default());
        let client = self.client.clone();
        match key.kind {
            WorkloadKind::Deployment => {
                let api: Api<Deployment> = Api::namespaced(client, namespace);
                bounded(api.patch_scale(name, &params, &patch)).await
            }
            WorkloadKind::StatefulSet => {
                let api: Api<StatefulSet> = Api::namespaced(client, namespace);
                bounded(api.patch_scale(name, &params, &patch)).await
            }
        }
    }

    /// Leads, or finds out who does; reports; scales to zero what nobody uses. Until it is told to stop.
    pub async fn lead(
        self,
        mut coordination: Coordination,
        leads: watch::Sender<bool>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut next_election = Time::ZERO;
        let mut failed: Option<Failure> = None;
        while !*stop.borrow() {
            let now = self.now();
            if now >= next_election {
                next_election = now + lease::RETRY;
                let elected = coordination.elect(now).await;
                said_once(&mut failed, elected, "get, create and patch", "leases.coordination.k8s.io");
            }
            let is_leader = coordination.leads(self.now());
            leads.send_if_modified(|known| std::mem::replace(known, is_leader) != is_leader);
            if !self.workloads.borrow().all.is_empty() {
                self.look(&mut coordination, is_leader).await;
            }
            tokio::select! {
                _ = look.tick() => {}
                () = self.woken.notified() => {}
                _ = stop.changed() => {}
            }
        }
        leads.send_replace(false);
        coordination.leave(self.now()).await;
    }

    async fn look(&self, coordination: &mut Coordination, is_leader: bool) {
        let now = self.now();
        self.observe(now);
        let report = self.scaler().report(now);
        if let Some(report) = report
            && let Err(failure) = coordination.report(&report).await
        {
            self.scaler().not_reported();
            tracing::debug!("{}", failure.text("patch and create", "leases.coordination.k8s.io"));
        }
        let workloads = Arc::clone(&self.workloads.borrow());
        if !is_leader || self.scaler().downs(now, &workloads.all, &[]).is_empty() {
            return;
        }
        // By what everybody says now, not by what was said before.
        let reports = match coordination.reports(now).await {
            Ok(reports) => reports,
            Err(failure) => {
                tracing::debug!("{}", failure.text("list", "leases.coordination.k8s.io"));
                return;
            }
        };
        let now = self.now();
        if !coordination.leads(now) {
            return;
        }
        let workloads = self.observe(now);
        let downs = self.scaler().downs(now, &workloads.all, &reports);
        for order in downs {
            let Order { key, replicas, version } = &order;
            match self.scale(key, Some(*replicas), version).await {
                Ok(_) => {
                    tracing::info!("{key} has been idle for its timeout: it is scaled to zero");
                    self.scaler().ended(&order);
                }
                // It is another one than was looked at, which is looked at next.
                Err(Failure::Conflict) => tracing::debug!("{key} has changed meanwhile: it is left as it is"),
                Err(failure) => {
                    tracing::warn!("{key} is not scaled to zero: {}", failure.text("patch", &resource(key)));
                }
            }
        }
        let _ = coordination.tidy(now).await; // again next time
    }
}

/// Says what failed when it is another failure than the one before.
fn said_once(known: &mut Option<Failure>, result: Result<(), Failure>, verbs: &str, what: &str) {
    match result {
        Ok(()) => *known = None,
        Err(failure) => {
            if known.as_ref() != Some(&failure) && !matches!(failure, Failure::Away(_)) {
                tracing::error!("{}", failure.text(verbs, what));
            }
            *known = Some(failure);
        }
    }
}

fn resource(key: &WorkloadKey) -> String {
    match key.kind {
        WorkloadKind::Deployment => "deployments/scale.apps".to_owned(),
        WorkloadKind::StatefulSet => "statefulsets/scale.apps".to_owned(),
    }
}

/// What each workload has, by what its services have.
fn uses(now: Time, workloads: &Workloads, activity: Vec<Activity>) -> BTreeMap<WorkloadKey, Use> {
    let mut all: BTreeMap<WorkloadKey, Use> = BTreeMap::new();
    for Activity { service, open, waiting, unused } in activity {
        for key in workloads.of_services.get(&*service).into_iter().flatten() {
            let found = all.entry(key.clone()).or_default();
            found.open += open;
            found.waiting += waiting;
            found.last = found.last.max(unused.map(|unused| now.saturating_sub(unused)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::snapshot::Key;

    #[test]
    fn a_workload_has_what_all_of_its_services_have() {
        let key = WorkloadKey { kind: WorkloadKind::Deployment, key: Key::new("ns", "web") };
        let only = BTreeSet::from([key.clone()]);
        let of_services = Arc::new(BTreeMap::from([("a".to_owned(), only.clone()), ("b".to_owned(), only)]));
        let workloads = Workloads { all: BTreeMap::new(), of_services };
        let activity = |service: &str, open, waiting, unused: Option<u64>| Activity {
            service: service.into(),
            open,
            waiting,
            unused: unused.map(Duration::from_secs),
        };
        let all = vec![activity("a", 1, 0, Some(5)), activity("b", 2, 3, Some(2)), activity("c", 9, 9, None)];
        let found = uses(Duration::from_secs(100), &workloads, all);
        let expected = Use { open: 3, waiting: 3, last: Some(Duration::from_secs(98)) };
        assert_eq!(found, BTreeMap::from([(key, expected)]));
    }
}
