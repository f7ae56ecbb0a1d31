//! What a client tells of itself, to whoever listens and to whoever asks.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::metrics::{Beginning, Durations, Observer, Ongoing, Operation};
use pilotlight_redis::{CacheConfig, Client, Command, Commands, Config, Route, Slot};
use pilotlight_testkit::Server;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::spare::Kind;
use crate::tracking::until;

thread_local! {
    static IS_LISTENING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps every span and event as a line of its fields, while the test's thread listens. It is the default of all
/// threads: with one for a thread, what is of interest to it could depend on what other threads did first
/// (tokio-rs/tracing, callsites are registered once).
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    spans: BTreeMap<u64, String>,
    events: Vec<String>,
}

struct Line<'l>(&'l mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        IS_LISTENING.get() && metadata.target().starts_with("pilotlight_redis")
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut heard = self.0.lock().unwrap();
        let mut line = attributes.metadata().name().to_owned();
        attributes.record(&mut Line(&mut line));
        let id = heard.spans.len() as u64 + 1;
        heard.spans.insert(id, line);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut heard = self.0.lock().unwrap();
        values.record(&mut Line(heard.spans.get_mut(&span.into_u64()).unwrap()));
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = String::new();
        event.record(&mut Line(&mut line));
        self.0.lock().unwrap().events.push(line);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn client(url: &str) -> Client {
    Client::new(Config::from_url(url).unwrap()).unwrap()
}

#[tokio::test]
async fn each_command_is_a_span_for_who_listens() {
    let server = Server::start().unwrap();
    let client = client(&server.url());
    client.set("secret-key", "secret-value").await.unwrap();
    let ear = Ear::default();
    tracing::subscriber::set_global_default(ear.clone()).unwrap();
    {
        IS_LISTENING.set(true);
        client.set("secret-key", "secret-value").await.unwrap();
        client.incr("secret-key").await.unwrap_err();
        server.client_kill_all().unwrap();
        until(|| client.stats().lanes[0].snapshot.counters.connects == 2).await;
        IS_LISTENING.set(false);
    }
    client.get("secret-key").await.unwrap();
    let heard = ear.0.lock().unwrap();
    let spans: Vec<_> = heard.spans.values().collect();
    let port = server.port();
    let common = |name| {
        format!(
            "redis otel.kind=\"client\" otel.name=\"{name}\" db.system.name=\"redis\" db.operation.name=\"{name}\" db.namespace=0 \
             server.address=\"127.0.0.1\" server.port={port}"
        )
    };
    let failed = " db.response.status_code=\"ERR\" error.type=\"server\"";
    assert_eq!(spans, [&common("SET"), &(common("INCR") + failed)]);
    let is_told =
        |text: &str| heard.events.iter().any(|line| line.contains(text) && line.contains(&format!("127.0.0.1:{port}")));
    assert!(is_told("connection lost") && is_told("connected"), "{:?}", heard.events);
    let all = format!("{spans:?} {:?}", heard.events);
    assert!(!all.contains("secret"), "{all}");
}

#[tokio::test]
async fn redirects_and_the_map_are_counted() {
    let cluster = Arc::new(tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap());
    let seeds = cluster.nodes().iter().map(|node| NodeAddress::tcp("127.0.0.1", node.port()));
    let client = Client::new(Config::cluster(seeds)).unwrap();
    client.set("key", "value").await.unwrap();
    let before = client.stats();
    assert_eq!((before.redirects_moved, before.redirects_ask), (0, 0));
    assert!(
        before.topology.as_ref().is_some_and(|it| it.refreshes == 1 && it.changes == 1 && it.age.is_some()),
        "{before}"
    );

    let moved = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || {
        let (source, slot) = moved.node_for_key("key").unwrap();
        let target = moved.nodes().iter().find(|node| node.id() != source.id()).unwrap();
        let step = moved.begin_move(slot, target).unwrap();
        step.migrate_all().unwrap();
        // The slot is here, its keys are there: ASK.
        std::mem::forget(step);
    })
    .await
    .unwrap();
    client.get("key").await.unwrap();
    assert_eq!(client.stats().redirects_ask, 1);
    let moved = Arc::clone(&cluster);
    tokio::task::spawn_blocking(move || {
        let (source, slot) = moved.node_for_key("key").unwrap();
        let target = moved.nodes().iter().find(|node| node.id() != source.id()).unwrap();
        moved.begin_move(slot, target).unwrap().finish().unwrap();
    })
    .await
    .unwrap();
    client.get("key").await.unwrap();
    let stats = client.stats();
    assert_eq!((stats.redirects_moved, stats.redirects_ask), (1, 1));
    // The map was patched already: the new one says the same.
    until(|| client.stats().topology.unwrap().refreshes == 2).await;
    let table = client.stats().to_string();
    assert_eq!(table.lines().count(), 1 + stats.lanes.len() + 1, "{table}");
    assert!(table.contains("redirects 1 moved, 1 ask"), "{table}");
}

#[tokio::test]
async fn caches_are_part_of_it_while_they_live() {
    let server = Server::start().unwrap();
    let client = client(&server.url());
    let cached = client.cached(CacheConfig::default()).unwrap();
    cached.get("k").await.unwrap();
    cached.get("k").await.unwrap();
    let stats = client.stats();
    assert_eq!((stats.caches.len(), stats.caches[0].hits, stats.caches[0].lanes.len()), (1, 1, 1));
    assert!(
        stats.to_string().contains("cache 50.0 % hits of 2 calls (1 hits, 1 misses, 0 shared), 1 replies in"),
        "{stats}"
    );
    drop(cached);
    assert_eq!(client.stats().caches.len(), 0);
}

/// Whatever is an operation is told once, when it ends, with why it failed.
#[tokio::test]
async fn operations_are_told_of() {
    let server = Server::start().unwrap();
    let durations = Arc::new(Durations::default());
    let config = Config::from_url(&server.url()).unwrap();
    let client = Client::new(Config { observer: Some(Arc::clone(&durations) as _), ..config }).unwrap();
    client.set("k", 1).await.unwrap();
    client.get("k").await.unwrap();
    client.llen("k").await.unwrap_err();
    client.ping().on(Route::AllNodes).await.unwrap();
    client.blpop(["list"], 0.01).await.unwrap();
    client.dedicated().await.unwrap().incr("k").await.unwrap();
    client.copy(Command::raw("GETRANGE").arg("k").arg(0).arg(-1), &mut Vec::new()).await.unwrap();
    let mut transaction = client.transaction();
    let (_, _) = (transaction.incr("k"), transaction.del("k"));
    transaction.run().await.unwrap();
    // Dropped before its end: not an operation that has ended.
    drop(client.get("k"));
    let told: BTreeMap<String, (u64, Option<String>)> = durations
        .snapshot()
        .into_iter()
        .map(|series| {
            let value = |name| series.attributes.iter().find(|it| it.0 == name).map(|it| it.1.clone());
            (value("db.operation.name").unwrap(), (series.count(), value("error.type")))
        })
        .collect();
    let mut expected: BTreeMap<String, (u64, Option<String>)> =
        ["SET", "GET", "PING", "BLPOP", "INCR", "GETRANGE", "MULTI"].map(|name| (name.to_owned(), (1, None))).into();
    expected.insert("LLEN".to_owned(), (1, Some("server".to_owned())));
    assert_eq!(told, expected);
}

/// What an observer heard: beginnings, ends, and what was given up.
#[derive(Debug, Clone, Default)]
struct Notebook(Arc<Mutex<Vec<String>>>);

struct Page {
    name: String,
    notebook: Option<Notebook>,
}

impl Observer for Notebook {
    fn begun(&self, beginning: &Beginning<'_>) -> Option<Box<dyn Ongoing>> {
        let Beginning { name, slot, node, batch_size, .. } = beginning;
        let slot = slot.map(|slot| slot.number());
        self.note(format!("{name} begins: slot {slot:?}, {}, {batch_size:?}", node.is_some()));
        Some(Box::new(Page { name: (*name).to_owned(), notebook: Some(self.clone()) }))
    }

    fn ended(&self, _: &Operation<'_>) {}
}

impl Ongoing for Page {
    fn ended(mut self: Box<Self>, operation: &Operation<'_>) {
        assert_eq!(self.name, operation.name);
        let Operation { name, attempts, node, error, .. } = operation;
        let outcome = if error.is_some() { "failed" } else { "done" };
        self.notebook.take().unwrap().note(format!("{name} {outcome}: {attempts}, {}", node.unwrap_or("nowhere")));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some(notebook) = self.notebook.take() {
            notebook.note(format!("{} given up", self.name));
        }
    }
}

impl Notebook {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn a_hook_hears_of_beginnings_attempts_and_ends() {
    let cluster = Arc::new(tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap());
    let seeds = cluster.nodes().iter().map(|node| NodeAddress::tcp("127.0.0.1", node.port()));
    let notebook = Notebook::default();
    let client = Client::new(Config { observer: Some(Arc::new(notebook.clone())), ..Config::cluster(seeds) }).unwrap();
    client.set("key", "value").await.unwrap();
    let (slot, nodes) = (Slot::of(b"key").number(), Arc::clone(&cluster));
    let (from, to) = tokio::task::spawn_blocking(move || {
        let (source, slot) = nodes.node_for_key("key").unwrap();
        let target = nodes.nodes().iter().find(|node| node.id() != source.id()).unwrap();
        nodes.move_slot(slot, target).unwrap();
        (source.port(), target.port())
    })
    .await
    .unwrap();
    notebook.take();
    client.get("key").await.unwrap();
    assert_eq!(
        notebook.take(),
        [format!("GET begins: slot Some({slot}), true, None"), format!("GET done: 2, 127.0.0.1:{to}")],
        "it was at {from}"
    );
    client.incr("key").await.unwrap_err();
    let mut transaction = client.transaction();
    transaction.del("key");
    transaction.run().await.unwrap();
    let mut pipeline = client.pipeline();
    let (_, _) = (pipeline.get("key"), pipeline.set("other", 1));
    pipeline.run().await.unwrap();
    assert_eq!(
        notebook.take(),
        [
            format!("INCR begins: slot Some({slot}), true, None"),
            format!("INCR failed: 1, 127.0.0.1:{to}"),
            format!("MULTI DEL begins: slot Some({slot}), false, Some(1)"),
            "MULTI DEL done: 1, nowhere".to_owned(),
            "PIPELINE begins: slot None, false, Some(2)".to_owned(),
            "PIPELINE done: 1, nowhere".to_owned(),
        ]
    );
    let given_up = tokio::time::timeout(Duration::from_millis(1), client.blpop(["list"], 0.0));
    given_up.await.unwrap_err();
    assert_eq!(notebook.take().pop().unwrap(), "BLPOP given up");
    // Not even begun.
    drop(client.get("key"));
    assert!(notebook.take().is_empty());
}
