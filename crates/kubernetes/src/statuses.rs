//! Writes what is to be said of objects, if this replica leads. A newer batch takes the place of one that waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use tokio::sync::watch;

use crate::api;
use crate::conditions::{Statuses, Subject, Wanted};
use crate::coordination::bounded;
use crate::failure::{self, Failure};
use crate::snapshot::{Key, Snapshot};

/// Writes that are under way at once.
const AT_ONCE: usize = 8;

/// Patches of statuses.
pub type Batch = Arc<Vec<(Subject, Value)>>;

/// Objects whose status says what is to be said: which status and generation, and what.
pub type Agreed = BTreeMap<Subject, (Arc<Value>, i64, Wanted)>;

/// The patches that are needed for what is to be said. Objects that agreed and have not changed are not looked at.
#[must_use]
pub fn patches(snapshot: &Snapshot, statuses: &Statuses, agreed: &mut Agreed, now: &str) -> Vec<(Subject, Value)> {
    agreed.retain(|subject, _| statuses.contains_key(subject));
    let one = |(subject, wanted): (&Subject, &Wanted)| {
        let (status, generation) = match subject {
            Subject::GatewayClass(key) => {
                snapshot.gateway_classes.get(key).map(|one| (&one.status, one.meta.generation))?
            }
            Subject::Gateway(key) => snapshot.gateways.get(key).map(|one| (&one.status, one.meta.generation))?,
            Subject::HttpRoute(key) => snapshot.http_routes.get(key).map(|one| (&one.status, one.meta.generation))?,
            Subject::Ingress(key) => snapshot.ingresses.get(key).map(|one| (&one.status, one.meta.generation))?,
        };
        let is_same = |known: &(Arc<Value>, i64, Wanted)| {
            Arc::ptr_eq(&known.0, status) && known.1 == generation && known.2 == *wanted
        };
        if agreed.get(subject).is_some_and(is_same) {
            return None;
        }
        let patch = wanted.patch(status, generation, now);
        if patch.is_none() {
            agreed.insert(subject.clone(), (Arc::clone(status), generation, wanted.clone()));
        }
        Some((subject.clone(), patch?))
    };
    statuses.iter().filter_map(one).collect()
}

/// Writes batches until nobody sends any.
pub async fn write(client: Client, mut batches: watch::Receiver<Batch>) {
    while batches.changed().await.is_ok() {
        let batch = Arc::clone(&batches.borrow_and_update());
        let all = (0..batch.len()).map(|index| one(client.clone(), Arc::clone(&batch), index));
        let mut written = stream::iter(all).buffer_unordered(AT_ONCE);
        while let Some(result) = written.next().await {
            match result {
                Ok(()) => {}
                // What is said comes again with the next change, or with the next look at everything.
                Err(why) => tracing::warn!("{why}"),
            }
        }
    }
}

async fn one(client: Client, batch: Batch, index: usize) -> Result<(), String> {
    let Some((subject, patch)) = batch.get(index) else { return Ok(()) };
    let (resource, key) = of(subject);
    let api: Api<DynamicObject> = if key.namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, &key.namespace, &resource)
    };
    match bounded(api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))).await {
        // It has gone meanwhile.
        Ok(_) | Err(Failure::Missing) => Ok(()),
        Err(failure) => {
            let what = failure::resource(&format!("{}/status", resource.plural), &resource.group);
            Err(format!("{key}: {}", failure.text("patch", &what)))
        }
    }
}

fn of(subject: &Subject) -> (ApiResource, &Key) {
    match subject {
        Subject::GatewayClass(key) => (api::resource("GatewayClass"), key),
        Subject::Gateway(key) => (api::resource("Gateway"), key),
        Subject::HttpRoute(key) => (api::resource("HTTPRoute"), key),
        Subject::Ingress(key) => {
            let kind = GroupVersionKind::gvk("networking.k8s.io", "v1", "Ingress");
            (ApiResource::from_gvk_with_plural(&kind, "ingresses"), key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::GatewayClassSpec;
    use crate::conditions::Condition;
    use crate::snapshot::Specified;

    #[test]
    fn what_agreed_is_looked_at_again_when_it_has_changed() {
        let key = Key::new("", "ours");
        let mut snapshot = Snapshot::default();
        snapshot.gateway_classes.insert(key.clone(), Specified::<GatewayClassSpec>::default());
        let said = |condition| Statuses::from([(Subject::GatewayClass(key.clone()), Wanted::Class(vec![condition]))]);
        let (wanted, mut agreed) = (said(Condition::yes("Accepted", "Accepted")), Agreed::new());
        let [(_, patch)] = &patches(&snapshot, &wanted, &mut agreed, "now")[..] else { panic!("nothing is said") };
        let mut tell = |status: &Value| {
            snapshot.gateway_classes.get_mut(&key).unwrap().status = Arc::new(status.clone());
            patches(&snapshot, &wanted, &mut agreed, "now").len()
        };
        assert_eq!((tell(&patch["status"]), tell(&patch["status"]), tell(&Value::Null)), (0, 0, 1));
        assert_eq!(tell(&patch["status"]), 0);
        let other = said(Condition::no("Accepted", "InvalidParameters", "x"));
        assert_eq!(patches(&snapshot, &wanted, &mut agreed, "now"), []);
        assert_eq!(patches(&snapshot, &other, &mut agreed, "now").len(), 1);
        assert_eq!(patches(&snapshot, &Statuses::new(), &mut agreed, "now"), []);
        assert!(agreed.is_empty());
    }
}
