//! Leases of the API server: who leads, and what each replica says of its use of workloads. All state is there.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::lease::{self, Action, Election, Record};
use crate::scale::{Report, SILENT_AFTER, Time};
use crate::snapshot::{Key, WorkloadKey, WorkloadKind};

/// The lease of the leader.
const LEADER: &str = "pilotlight";
/// The beginning of the names of reports.
const USE: &str = "pilotlight-use-";
/// The label of reports, and the annotation that has them.
const USE_LABEL: &str = "pilotlight.dev/use";
/// A report that has not changed for so long is removed by the leader.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// Longest wait for an answer about a lease.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What this replica does with leases.
pub struct Coordination {
    api: Api<Lease>,
    name: String,
    election: Election,
    /// Reports of others: when each was seen to change, and what it said.
    seen: BTreeMap<String, (String, Report)>,
    /// Whether our own report is there.
    has_reported: bool,
}

impl Coordination {
    /// In a namespace, under a name that no other replica has.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        let name = valid_name(name);
        Self {
            api: Api::namespaced(client, namespace),
            election: Election::new(&name),
            name,
            seen: BTreeMap::new(),
            has_reported: false,
        }
    }

    /// Whether this replica leads.
    #[must_use]
    pub fn leads(&self, now: Time) -> bool {
        self.election.leads(now)
    }

    /// Takes part in the election.
    ///
    /// # Errors
    /// The lease could not be read or written. Whoever leads goes on until [`lease::DEADLINE`].
    pub async fn elect(&mut self, now: Time) -> Result<(), Failure> {
        let found = bounded(self.api.get_opt(LEADER)).await?;
        let record = found.as_ref().map(record);
        match self.election.decide(now, record.as_ref()) {
            Action::Wait => {
                self.election.lost();
                Ok(())
            }
            Action::Create => {
                let lease = Lease { metadata: named(LEADER), spec: Some(self.spec(0)) };
                self.written(now, bounded(self.api.create(&PostParams::default(), &lease)).await)
            }
            Action::Take => {
                let Some(found) = found else { return Ok(()) };
                let before = found.spec.clone().unwrap_or_default();
                let is_ours = before.holder_identity.as_deref() == Some(&self.name);
                let transitions = before.lease_transitions.unwrap_or_default() + i32::from(!is_ours);
                let mut spec = self.spec(transitions);
                if is_ours {
                    spec.acquire_time = before.acquire_time;
                }
                // With the version that was read: of two who take it, one is told.
                let patch = json!({ "metadata": { "resourceVersion": found.resource_version() }, "spec": spec });
                let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
                let patched = bounded(self.api.patch(LEADER, &params, &patch)).await;
                self.written(now, patched)
            }
        }
    }

    fn written(&mut self, begun: Time, result: Result<Lease, Failure>) -> Result<(), Failure> {
        match result {
            Ok(_) => self.election.taken(begun),
            Err(Failure::Conflict) => self.election.lost(),
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn spec(&self, transitions: i32) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        LeaseSpec {
            holder_identity: Some(self.name.clone()),
            lease_duration_seconds: i32::try_from(lease::DURATION.as_secs()).ok(),
            lease_transitions: Some(transitions),
            acquire_time: now.clone(),
            renew_time: now,
            ..LeaseSpec::default()
        }
    }

    /// Says for how long each workload has not been used here; none: it is.
    ///
    /// # Errors
    /// It could not be written.
    pub async fn report(&mut self, unused: &BTreeMap<WorkloadKey, Option<Duration>>) -> Result<(), Failure> {
        let millis = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let all = unused.iter().map(|(key, age)| (key.to_string(), age.map(millis)));
        let text = json!(all.collect::<BTreeMap<_, _>>()).to_string();
        let mut lease = Lease { metadata: named(&format!("{USE}{}", self.name)), spec: Some(self.spec(0)) };
        if let Some(spec) = &mut lease.spec {
            spec.lease_duration_seconds = i32::try_from(SILENT_AFTER.as_secs()).ok();
            spec.lease_transitions = None;
        }
        lease.metadata.annotations = Some(BTreeMap::from([(USE_LABEL.to_owned(), text)]));
        lease.metadata.labels = Some(BTreeMap::from([(USE_LABEL.to_owned(), "true".to_owned())]));
        let name = lease.name_any();
        let patch = json!({ "metadata": { "annotations": lease.metadata.annotations }, "spec": lease.spec });
        let written = match bounded(self.api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))).await {
            Err(Failure::Missing) => bounded(self.api.create(&PostParams::default(), &lease)).await.map(drop),
            other => other.map(drop),
        };
        self.has_reported |= written.is_ok();
        written
    }

    /// What the other replicas say now.
    ///
    /// # Errors
    /// The reports could not be read.
    pub async fn reports(&mut self, now: Time) -> Result<Vec<Report>, Failure> {
        let found = bounded(self.api.list(&ListParams::default().labels(USE_LABEL))).await?;
        let own = format!("{USE}{}", self.name);
        let mut seen = BTreeMap::new();
        for lease in found.items.into_iter().filter(|lease| lease.name_any() != own) {
            let (name, version) = (lease.name_any(), lease.resource_version().unwrap_or_default());
            let known = self.seen.remove(&name).filter(|(known, _)| *known == version);
            let report = known.map_or_else(|| Report { seen: now, unused: unused(&lease) }, |(_, report)| report);
            seen.insert(name, (version, report));
        }
        self.seen = seen;
        Ok(self.seen.values().map(|(_, report)| report.clone()).collect())
    }

    /// Removes reports of replicas that are long gone.
    ///
    /// # Errors
    /// One could not be removed.
    pub async fn tidy(&mut self, now: Time) -> Result<(), Failure> {
        let is_old = |(_, report): &(String, Report)| now.saturating_sub(report.seen) > FORGOTTEN_AFTER;
        let old: Vec<String> =
            self.seen.iter().filter(|(_, seen)| is_old(seen)).map(|(name, _)| name.clone()).collect();
        for name in old {
            self.delete(&name).await?;
        }
        Ok(())
    }

    /// This replica ends: somebody else may lead at once, and nobody waits for its reports.
    pub async fn leave(&mut self, now: Time) {
        if self.has_reported {
            let own = format!("{USE}{}", self.name);
            let _ = self.delete(&own).await; // it grows old by itself
        }
        if self.leads(now) {
            let patch = json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } });
            let patch = Patch::Merge(&patch);
            let _ = bounded(self.api.patch(LEADER, &PatchParams::default(), &patch)).await; // likewise
            self.election.lost();
        }
    }

    async fn delete(&self, name: &str) -> Result<(), Failure> {
        match bounded(self.api.delete(name, &DeleteParams::default())).await {
            Ok(_) | Err(Failure::Missing) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

/// An answer, within the longest wait.
pub async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| Failure::of(&error)),
        Err(_) => Err(Failure::Away(format!("no answer within {} s", TIMEOUT.as_secs()))),
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        renewed: spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default(),
    }
}

fn unused(lease: &Lease) -> BTreeMap<WorkloadKey, Option<Duration>> {
    let text = lease.annotations().get(USE_LABEL).map(String::as_str).unwrap_or_default();
    let all: BTreeMap<String, Value> = serde_json::from_str(text).unwrap_or_default();
    let one = |(key, age): (String, Value)| Some((workload_key(&key)?, age.as_u64().map(Duration::from_millis)));
    all.into_iter().filter_map(one).collect()
}

fn workload_key(text: &str) -> Option<WorkloadKey> {
    let (kind, rest) = text.split_once('/')?;
    let (namespace, name) = rest.split_once('/')?;
    let kind = [WorkloadKind::Deployment, WorkloadKind::StatefulSet].into_iter().find(|one| one.name() == kind)?;
    Some(WorkloadKey { kind, key: Key::new(namespace, name) })
}

/// A name that an object may have (RFC 1123, with room for what stands before it).
fn valid_name(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let valid: String = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(200).collect();
    valid.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_workloads_are_read_back() {
        let key = WorkloadKey { kind: WorkloadKind::StatefulSet, key: Key::new("shop", "db") };
        assert_eq!(workload_key(&key.to_string()), Some(key));
        assert_eq!(workload_key("Pod/a/b"), None);
        assert_eq!(workload_key("Deployment/a"), None);
    }

    #[test]
    fn names() {
        assert_eq!(valid_name("Pilotlight_7.local-"), "pilotlight-7-local");
    }

    #[test]
    fn a_report_is_read_back() {
        let text = r#"{"Deployment/a/b":1500,"StatefulSet/a/c":null,"Unknown/x/y":1}"#;
        let mut lease = Lease::default();
        lease.metadata.annotations = Some(BTreeMap::from([(USE_LABEL.to_owned(), text.to_owned())]));
        let key = |kind, name: &str| WorkloadKey { kind, key: Key::new("a", name) };
        let expected = BTreeMap::from([
            (key(WorkloadKind::Deployment, "b"), Some(Duration::from_millis(1500))),
            (key(WorkloadKind::StatefulSet, "c"), None),
        ]);
        assert_eq!(unused(&lease), expected);
    }
}
