//! Watches of everything that is read. What they find goes to the owner of the snapshot as changes of it.
//!
//! A watch that fails comes back after a pause that grows to [`MAX_PAUSE`]; until then what is known stays. One of a
//! kind that the cluster does not have counts as one of an empty list, and is tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use kube::api::{Api, Object};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::api::{self, GatewayClassSpec, GatewaySpec, HttpRouteSpec, ReferenceGrantSpec};
use crate::convert;
use crate::failure::{self, Failure};
use crate::snapshot::{Key, Snapshot, Specified, Workload, WorkloadKey, WorkloadKind};

/// The first pause after a failure, and the longest.
const MIN_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The pause for a kind that the cluster does not have, or that may not be read.
const MISSING_PAUSE: Duration = Duration::from_secs(10);
/// Seconds of one watch call; a connection that has died is noticed some seconds later.
const CALL_SECONDS: u32 = 60;

/// What a change means for the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Perhaps something is to be said of objects.
    Statuses,
    /// Other endpoints.
    Endpoints,
    /// Perhaps another configuration.
    Configuration,
}

/// A change of the snapshot.
pub type Change = Box<dyn FnOnce(&mut Snapshot) -> Effect + Send>;

/// What a watch tells.
pub enum Told {
    /// Something is otherwise.
    Changed(Change),
    /// The first list of one watch is here, or there is none.
    Synced,
}

/// Where the watches look, and whom they tell.
#[derive(Clone)]
pub struct Watches {
    /// The API.
    pub client: Client,
    /// Only these namespaces; empty: all.
    pub namespaces: Vec<String>,
    /// The owner of the snapshot.
    pub tell: Sender<Told>,
    /// Whether the API server was said to be away.
    pub away: Arc<AtomicBool>,
}

/// One kind, as it is kept.
struct Kind<K, I, V> {
    plural: &'static str,
    group: &'static str,
    config: Config,
    /// What it means that the one has become the other.
    effect: fn(Option<&V>, Option<&V>) -> Effect,
    keep: Arc<dyn Fn(K) -> Option<V> + Send + Sync>,
    key: fn(&K) -> I,
    place: fn(&mut Snapshot) -> &mut BTreeMap<I, V>,
    namespace_of: fn(&I) -> &str,
}

impl<K, I: Clone, V> Clone for Kind<K, I, V> {
    fn clone(&self) -> Self {
        Self { config: self.config.clone(), keep: Arc::clone(&self.keep), ..*self }
    }
}

/// What all kinds have that are known by namespace and name.
fn kind<K, V>(
    plural: &'static str,
    group: &'static str,
    keep: impl Fn(K) -> Option<V> + Send + Sync + 'static,
    place: fn(&mut Snapshot) -> &mut BTreeMap<Key, V>,
) -> Kind<K, Key, V>
where
    K: Resource + 'static,
{
    Kind {
        plural,
        group,
        config: Config::default().timeout(CALL_SECONDS),
        effect: |_, _| Effect::Configuration,
        keep: Arc::new(keep),
        key: |object| convert::key(object.meta()),
        place,
        namespace_of: |key| &*key.namespace,
    }
}

fn workload<K: Resource + 'static>(
    plural: &'static str,
    keep: fn(K) -> Option<Workload>,
    key: fn(&K) -> WorkloadKey,
) -> Kind<K, WorkloadKey, Workload> {
    Kind {
        plural,
        group: "apps",
        config: Config::default().timeout(CALL_SECONDS),
        effect: of_workload,
        keep: Arc::new(keep),
        key,
        place: |all| &mut all.workloads,
        namespace_of: |key| &*key.key.namespace,
    }
}

/// What was said of an object is nothing that the configuration says.
fn of_specified<S: PartialEq>(old: Option<&Specified<S>>, new: Option<&Specified<S>>) -> Effect {
    let said = |object: &Specified<S>| object.meta.annotations.clone();
    let is_same = match (old, new) {
        (Some(old), Some(new)) => {
            old.spec == new.spec && old.meta.created == new.meta.created && said(old) == said(new)
        }
        _ => false,
    };
    if is_same { Effect::Statuses } else { Effect::Configuration }
}

/// How many replicas a workload has is nothing that the configuration says.
fn of_workload(old: Option<&Workload>, new: Option<&Workload>) -> Effect {
    let said = |workload: &Workload| (workload.labels.clone(), workload.wake_timeout);
    if old.map(said) == new.map(said) { Effect::Endpoints } else { Effect::Configuration }
}

/// What it means that one list has become another.
fn of_all<'a, I: Ord, V: PartialEq + 'a>(
    old: &BTreeMap<&'a I, &'a V>,
    new: &BTreeMap<&'a I, &'a V>,
    effect: fn(Option<&V>, Option<&V>) -> Effect,
) -> Effect {
    let keys: BTreeSet<&I> = old.keys().chain(new.keys()).copied().collect();
    let pairs = keys.into_iter().map(|key| (old.get(key).copied(), new.get(key).copied()));
    pairs.filter(|(old, new)| old != new).map(|(old, new)| effect(old, new)).max().unwrap_or(Effect::Nothing)
}

/// Specification and status as they are.
fn specified<S: Clone>(object: Object<S, Value>) -> Option<Specified<S>> {
    let Object { metadata, spec, status, .. } = object;
    Some(Specified { meta: convert::meta(&metadata), spec, status: Arc::new(status.unwrap_or_default()) })
}

impl Watches {
    /// Starts all of them. There is a first configuration when as many as there are tasks are synced.
    pub fn start(&self, tasks: &mut JoinSet<()>) {
        let mut classes =
            kind("gatewayclasses", api::GROUP, specified::<GatewayClassSpec>, |all| &mut all.gateway_classes);
        classes.effect = of_specified;
        self.spawn(tasks, Api::all_with(self.client.clone(), &api::resource("GatewayClass")), classes, None);
        let mut gateways = kind("gateways", api::GROUP, specified::<GatewaySpec>, |all| &mut all.gateways);
        gateways.effect = of_specified;
        self.of_gateway_api(tasks, "Gateway", &gateways);
        let mut routes = kind("httproutes", api::GROUP, specified::<HttpRouteSpec>, |all| &mut all.http_routes);
        routes.effect = of_specified;
        self.of_gateway_api(tasks, "HTTPRoute", &routes);
        let grants = |object: Object<ReferenceGrantSpec, Value>| Some(object.spec);
        self.of_gateway_api(
            tasks,
            "ReferenceGrant",
            &kind("referencegrants", api::GROUP, grants, |all| &mut all.grants),
        );

        let networking = "networking.k8s.io";
        let ingresses = |object| Some(convert::ingress(object));
        let mut ingresses = kind::<Ingress, _>("ingresses", networking, ingresses, |all| &mut all.ingresses);
        ingresses.effect = of_specified;
        self.namespaced(tasks, &ingresses);
        let classes = |object| Some(convert::ingress_class(object));
        let classes = kind::<IngressClass, _>("ingressclasses", networking, classes, |all| &mut all.ingress_classes);
        self.spawn(tasks, Api::all(self.client.clone()), classes, None);

        let services = |object| Some(convert::service(object));
        self.namespaced(tasks, &kind::<Service, _>("services", "", services, |all| &mut all.services));
        let secrets = |object| convert::secret(object).map(Arc::new);
        let mut secrets = kind::<Secret, _>("secrets", "", secrets, |all| &mut all.secrets);
        secrets.config = secrets.config.fields("type=kubernetes.io/tls");
        self.namespaced(tasks, &secrets);
        let namespaces = |object| Some(convert::namespace(object));
        let namespaces = kind::<Namespace, _>("namespaces", "", namespaces, |all| &mut all.namespaces);
        self.spawn(tasks, Api::all(self.client.clone()), namespaces, None);

        let mut slices =
            kind::<EndpointSlice, _>("endpointslices", "discovery.k8s.io", convert::slice, |all| &mut all.slices);
        slices.effect = |_, _| Effect::Endpoints;
        self.namespaced(tasks, &slices);
        self.namespaced(
            tasks,
            &workload::<Deployment>("deployments", convert::deployment, |object| WorkloadKey {
                kind: WorkloadKind::Deployment,
                key: convert::key(object.meta()),
            }),
        );
        self.namespaced(
            tasks,
            &workload::<StatefulSet>("statefulsets", convert::stateful_set, |object| WorkloadKey {
                kind: WorkloadKind::StatefulSet,
                key: convert::key(object.meta()),
            }),
        );
    }

    fn of_gateway_api<S, V>(&self, tasks: &mut JoinSet<()>, name: &str, kind: &Kind<Object<S, Value>, Key, V>)
    where
        S: Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
        V: PartialEq + Send + Sync + 'static,
    {
        let resource = api::resource(name);
        if self.namespaces.is_empty() {
            self.spawn(tasks, Api::all_with(self.client.clone(), &resource), kind.clone(), None);
        }
        for namespace in &self.namespaces {
            let api = Api::namespaced_with(self.client.clone(), namespace, &resource);
            self.spawn(tasks, api, kind.clone(), Some(namespace.clone()));
        }
    }

    fn namespaced<K, I, V>(&self, tasks: &mut JoinSet<()>, kind: &Kind<K, I, V>)
    where
        K: Resource<Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
        K::DynamicType: Default,
        I: Ord + Clone + Send + Sync + 'static,
        V: PartialEq + Send + Sync + 'static,
    {
        if self.namespaces.is_empty() {
            self.spawn(tasks, Api::all(self.client.clone()), kind.clone(), None);
        }
        for namespace in &self.namespaces {
            let api = Api::namespaced(self.client.clone(), namespace);
            self.spawn(tasks, api, kind.clone(), Some(namespace.clone()));
        }
    }

    fn spawn<K, I, V>(&self, tasks: &mut JoinSet<()>, api: Api<K>, kind: Kind<K, I, V>, namespace: Option<String>)
    where
        K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
        I: Ord + Clone + Send + Sync + 'static,
        V: PartialEq + Send + Sync + 'static,
    {
        tasks.spawn(
            Following { watches: self.clone(), kind, namespace, found: BTreeMap::new(), is_synced: false }.run(api),
        );
    }

    /// Whether a failure of this kind leaves the first configuration possible.
    fn is_optional(&self, plural: &str, group: &str, failure: &Failure) -> bool {
        match failure {
            // Its CRDs are not there.
            Failure::Missing => group == api::GROUP,
            // Who has only roles in namespaces may not read what is in none.
            Failure::Forbidden(_) => {
                let is_of_cluster = matches!(plural, "namespaces" | "gatewayclasses" | "ingressclasses");
                // Without them nothing is scaled, and all else works.
                let scales = matches!(plural, "deployments" | "statefulsets");
                scales || !self.namespaces.is_empty() && is_of_cluster
            }
            Failure::Unauthorized | Failure::Conflict | Failure::Away(_) | Failure::Other(_) => false,
        }
    }
}

/// One watch.
struct Following<K, I, V> {
    watches: Watches,
    kind: Kind<K, I, V>,
    namespace: Option<String>,
    /// Of a list that is not whole yet.
    found: BTreeMap<I, V>,
    is_synced: bool,
}

impl<K, I, V> Following<K, I, V>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    I: Ord + Clone + Send + Sync + 'static,
    V: PartialEq + Send + Sync + 'static,
{
    async fn run(mut self, api: Api<K>) {
        let mut events = Box::pin(watcher(api, self.kind.config.clone()));
        let mut pause = MIN_PAUSE;
        let mut last: Option<Failure> = None;
        while let Some(event) = events.next().await {
            let failure = match event {
                Ok(event) => {
                    if last.take().is_some() {
                        pause = MIN_PAUSE;
                        self.is_back();
                    }
                    if self.take(event).await.is_err() {
                        return; // nobody is told any more
                    }
                    continue;
                }
                Err(error) => failure_of(&error),
            };
            let Kind { plural, group, .. } = self.kind;
            if last.as_ref() != Some(&failure) {
                self.say(&failure);
            }
            if self.watches.is_optional(plural, group, &failure) && self.synced().await.is_err() {
                return;
            }
            let is_lasting = matches!(failure, Failure::Missing | Failure::Forbidden(_));
            tokio::time::sleep(if is_lasting { MISSING_PAUSE } else { pause }).await;
            pause = (pause * 2).min(MAX_PAUSE);
            last = Some(failure);
        }
    }

    async fn take(&mut self, event: Event<K>) -> Result<(), Gone> {
        match event {
            Event::Init => self.found.clear(),
            Event::InitApply(object) => {
                let key = (self.kind.key)(&object);
                if let Some(value) = (self.kind.keep)(object) {
                    self.found.insert(key, value);
                }
            }
            Event::InitDone => {
                let found = std::mem::take(&mut self.found);
                let (place, effect, namespace_of) = (self.kind.place, self.kind.effect, self.kind.namespace_of);
                let namespace = self.namespace.clone();
                self.change(Box::new(move |snapshot| {
                    let known = place(snapshot);
                    let is_of = |key: &I| namespace.as_deref().is_none_or(|one| namespace_of(key) == one);
                    let before = known.iter().filter(|(key, _)| is_of(key)).collect();
                    let effect = of_all(&before, &found.iter().collect(), effect);
                    if effect > Effect::Nothing {
                        known.retain(|key, _| !is_of(key));
                        known.extend(found);
                    }
                    effect
                }))
                .await?;
                self.synced().await?;
            }
            Event::Apply(object) => {
                let (key, value) = ((self.kind.key)(&object), (self.kind.keep)(object));
                let (place, effect) = (self.kind.place, self.kind.effect);
                self.change(Box::new(move |snapshot| {
                    let known = place(snapshot);
                    if known.get(&key) == value.as_ref() {
                        return Effect::Nothing;
                    }
                    let effect = effect(known.get(&key), value.as_ref());
                    match value {
                        Some(value) => drop(known.insert(key, value)),
                        None => drop(known.remove(&key)),
                    }
                    effect
                }))
                .await?;
            }
            Event::Delete(object) => {
                let key = (self.kind.key)(&object);
                let (place, effect) = (self.kind.place, self.kind.effect);
                let removed = move |snapshot: &mut Snapshot| match place(snapshot).remove(&key) {
                    Some(old) => effect(Some(&old), None),
                    None => Effect::Nothing,
                };
                self.change(Box::new(removed)).await?;
            }
        }
        Ok(())
    }

    async fn change(&self, change: Change) -> Result<(), Gone> {
        self.watches.tell.send(Told::Changed(change)).await.map_err(|_| Gone)
    }

    async fn synced(&mut self) -> Result<(), Gone> {
        if !self.is_synced {
            self.is_synced = true;
            self.watches.tell.send(Told::Synced).await.map_err(|_| Gone)?;
        }
        Ok(())
    }

    fn say(&self, failure: &Failure) {
        let what = failure::resource(self.kind.plural, self.kind.group);
        match failure {
            Failure::Missing => {
                tracing::info!("the cluster has no {what}; they are looked for again every {MISSING_PAUSE:?}");
            }
            // All watches meet the same one.
            Failure::Away(why) => {
                if !self.watches.away.swap(true, Ordering::Relaxed) {
                    tracing::warn!("the API server cannot be reached: {why}; everything goes on with what is known");
                }
            }
            _ => tracing::error!("{}", failure.text("list and watch", &what)),
        }
    }

    fn is_back(&self) {
        if self.watches.away.swap(false, Ordering::Relaxed) {
            tracing::info!("the API server answers again");
        }
    }
}

/// The owner of the snapshot has ended.
struct Gone;

fn failure_of(error: &watcher::Error) -> Failure {
    match error {
        watcher::Error::InitialListFailed(e) | watcher::Error::WatchStartFailed(e) | watcher::Error::WatchFailed(e) => {
            Failure::of(e)
        }
        watcher::Error::WatchError(status) => Failure::of_status(status),
        watcher::Error::NoResourceVersion => Failure::Other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(replicas: i32, wake_seconds: u64) -> Workload {
        let wake_timeout = Duration::from_secs(wake_seconds);
        Workload { replicas, wake_timeout, version: replicas.to_string().into(), ..Workload::default() }
    }

    #[test]
    fn what_is_said_of_an_object_is_no_part_of_the_configuration() {
        let object = |class: &str, generation: i64, status: &str| {
            let spec = GatewaySpec { gateway_class_name: class.to_owned(), ..GatewaySpec::default() };
            let meta = crate::snapshot::Meta { generation, ..Default::default() };
            Specified { meta, spec, status: Arc::new(status.into()) }
        };
        let before = object("a", 1, "");
        assert_eq!(of_specified(Some(&before), Some(&object("a", 1, "new"))), Effect::Statuses);
        assert_eq!(of_specified(Some(&before), Some(&object("a", 2, ""))), Effect::Statuses);
        assert_eq!(of_specified(Some(&before), Some(&object("b", 2, ""))), Effect::Configuration);
        assert_eq!(of_specified(None, Some(&before)), Effect::Configuration);
    }

    #[test]
    fn replicas_of_a_workload_are_no_part_of_the_configuration() {
        let (none, one, patient) = (workload(0, 60), workload(1, 60), workload(1, 90));
        assert_eq!(of_workload(Some(&none), Some(&one)), Effect::Endpoints);
        assert_eq!(of_workload(Some(&one), Some(&patient)), Effect::Configuration);
        assert_eq!(of_workload(None, Some(&one)), Effect::Configuration);
        assert_eq!(of_workload(Some(&one), None), Effect::Configuration);
    }

    #[test]
    fn a_list_means_as_much_as_the_largest_of_its_changes() {
        let (none, one, patient) = (workload(0, 60), workload(1, 60), workload(1, 90));
        let check = |old: &[(&u8, &Workload)], new: &[(&u8, &Workload)]| {
            of_all(&old.iter().copied().collect(), &new.iter().copied().collect(), of_workload)
        };
        assert_eq!(check(&[(&1, &none)], &[(&1, &none)]), Effect::Nothing);
        assert_eq!(check(&[(&1, &none), (&2, &one)], &[(&1, &one), (&2, &one)]), Effect::Endpoints);
        assert_eq!(check(&[(&1, &none), (&2, &one)], &[(&1, &one), (&2, &patient)]), Effect::Configuration);
        assert_eq!(check(&[(&1, &none)], &[]), Effect::Configuration);
    }
}
