//! Purges and replaced records across gateways: with one server, a cluster, and when these are away or have lost
//! something.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pilotlight_cache::{
    Address, Cache, CacheOptions, Decision, Key, Lookup, Mode, Purge, RouteRules, Scope, Standing, Timestamp, Timing,
    Turn,
};
use pilotlight_cache_redis::{Coherence, CoherenceOptions, MAX_WAITING_PURGES, PurgeReport, record_name};
use pilotlight_redis::{Client, Commands, Config};
use pilotlight_testkit::{Cluster, Failover, Server};
use tokio::task::{JoinHandle, JoinSet};

const NOW: Timestamp = Timestamp(1_000_000_000_000);
const PREFIX: &str = "test";
const LOG: &str = "test:p:{purges}:log";
/// Long enough for a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

struct Gateway {
    cache: Cache,
    coherence: Coherence,
    driver: JoinHandle<()>,
}

/// The name of a target's record in Redis.
fn record_key(target: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from(record_name(&key(target)).swap_bytes()) << 2;
    let digits: String = (0..11).rev().map(|at| char::from(DIGITS[(bits >> (6 * at) & 63) as usize])).collect();
    format!("{PREFIX}:1:{{{digits}AAAAAAAAAAA}}")
}

fn key(target: &str) -> Key<'_> {
    Key { scheme: "http", authority: "h", target, extra: "" }
}

fn tag(name: &str, mode: Mode) -> Purge {
    Purge { scope: Scope::Tag(name.to_owned()), mode }
}

fn address(target: &str) -> Address {
    Address { scheme: "http".into(), authority: "h".into(), target: target.into() }
}

impl Gateway {
    fn start(name: &str, config: &Config) -> Self {
        let cache = Cache::shared(CacheOptions::default(), record_name).unwrap();
        let mut options = CoherenceOptions::new(PREFIX, name);
        // Tests look at what happens, not at how often.
        options.uncovered = Duration::from_millis(50);
        let (coherence, driver) = Coherence::new(config, cache.clone(), options).unwrap();
        Self { cache, coherence, driver: tokio::spawn(driver.run()) }
    }

    async fn started(name: &str, config: &Config) -> Self {
        let gateway = Self::start(name, config);
        gateway.covered().await;
        gateway
    }

    async fn covered(&self) {
        until("every connection is there", || self.coherence.status().is_covered).await;
    }

    async fn uncovered(&self) {
        until("a connection is lost", || !self.coherence.status().is_covered).await;
    }

    fn store(&self, target: &str, tags: &str) {
        let request = HeaderMap::new();
        // Whatever is stored already.
        let mut anew = HeaderMap::new();
        anew.insert("cache-control", HeaderValue::from_static("no-cache"));
        let Turn::Leader(fill) = self.cache.begin(&key(target), &Method::GET, &anew, NOW) else { panic!() };
        let mut headers = HeaderMap::new();
        headers.insert("cache-control", HeaderValue::from_static("max-age=600"));
        headers.insert("cache-tag", HeaderValue::from_str(tags).unwrap());
        let timing = Timing { sent: NOW, received: NOW };
        let decision = fill.response(&request, StatusCode::OK, &headers, timing, RouteRules::default());
        let Decision::Store(mut recorder) = decision else { panic!("{decision:?}") };
        recorder.push(b"x").unwrap();
        recorder.finish(NOW).unwrap();
    }

    fn has(&self, target: &str) -> &'static str {
        match self.cache.lookup(&key(target), &Method::GET, &HeaderMap::new(), NOW) {
            Lookup::Hit(_) => "hit",
            Lookup::Stale(..) => "stale",
            Lookup::Miss(_) => "miss",
            other => panic!("{other:?}"),
        }
    }

    /// As the gateway does it: here, then everywhere.
    async fn purge(&self, purge: Purge) -> PurgeReport {
        self.cache.purge(std::slice::from_ref(&purge), NOW);
        self.coherence.publish(vec![purge]).await
    }

    async fn stop(self) {
        drop(self.coherence);
        self.driver.await.unwrap();
    }
}

#[track_caller]
fn until(what: &str, mut check: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let (caller, since) = (std::panic::Location::caller(), Instant::now());
    async move {
        while !check() {
            assert!(since.elapsed() < PATIENCE, "{caller}: {what}: not after {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn of_server(server: &Server) -> Config {
    Config::from_url(&server.url()).unwrap()
}

fn of_cluster(cluster: &Cluster) -> Config {
    Config::from_url(&format!("redis+cluster://127.0.0.1:{}", cluster.nodes()[0].port())).unwrap()
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// What one gateway purges the other no longer gives, by the time that the purge has been answered.
pub(crate) async fn purges_reach_everybody(config: &Config) {
    let (a, b) = (Gateway::started("a", config).await, Gateway::started("b", config).await);
    let all = [
        (Purge { scope: Scope::Url(address("/1")), mode: Mode::Hard }, "miss"),
        (tag("t", Mode::Hard), "miss"),
        (tag("t", Mode::Soft), "stale"),
        (Purge { scope: Scope::Prefix(address("/")), mode: Mode::Hard }, "miss"),
        (Purge { scope: Scope::Everything, mode: Mode::Soft }, "stale"),
    ];
    for (purge, expected) in all {
        for gateway in [&a, &b] {
            gateway.store("/1", "t, u");
            assert_eq!(gateway.has("/1"), "hit", "{purge:?}");
        }
        let told = a.purge(purge.clone()).await;
        let PurgeReport::Logged { applied, late, took, .. } = told else { panic!("{told:?}") };
        assert_eq!((applied, late), (vec!["a".to_owned(), "b".to_owned()], vec![]));
        println!("{purge:?}: applied everywhere after {took:?}");
        assert_eq!([a.has("/1"), b.has("/1")], [expected; 2], "{purge:?}");
    }
    // A gateway that comes later knows them, for what is in Redis.
    let c = Gateway::started("c", config).await;
    let mut headers = HeaderMap::new();
    headers.insert("cache-tag", HeaderValue::from_static("t"));
    assert_eq!(c.cache.purges().admits(&key("/2"), &headers, 1), Standing::Gone);
    let position = c.cache.purges().position().logged();
    assert_eq!(position, b.cache.purges().position().logged());
    assert_eq!(c.cache.purges().admits(&key("/2"), &headers, position), Standing::Good);
    for gateway in [a, b, c] {
        gateway.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_server() {
    let server = Server::start().unwrap();
    purges_reach_everybody(&of_server(&server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_cluster() {
    let cluster = blocking(|| Cluster::start(3, 0).unwrap()).await;
    purges_reach_everybody(&of_cluster(&cluster)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_left_is_not_waited_for() {
    let server = Server::start().unwrap();
    let config = of_server(&server);
    let (a, b) = (Gateway::started("a", &config).await, Gateway::started("b", &config).await);
    b.stop().await;
    let told = a.purge(tag("t", Mode::Hard)).await;
    let PurgeReport::Logged { applied, late, .. } = told else { panic!("{told:?}") };
    assert_eq!((applied, late), (vec!["a".to_owned()], vec![]));
}

/// Another gateway's write of a record makes the memory ask again, and no other target's.
pub(crate) async fn replaced_records_are_noticed(config: &Config) {
    let gateway = Gateway::started("a", config).await;
    let client = Client::new(config.clone()).unwrap();
    for round in 0..10 {
        for target in ["/1", "/2"] {
            gateway.store(target, "t");
        }
        client.set(record_key("/1"), round).await.unwrap();
        until("the replacement is noticed", || gateway.has("/1") == "stale").await;
        assert_eq!(gateway.has("/2"), "hit");
        gateway.store("/1", "t");
        client.del(record_key("/1")).await.unwrap();
        until("the removal is noticed", || gateway.has("/1") == "stale").await;
    }
    assert!(gateway.coherence.status().replaced >= 20);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_records_with_one_server() {
    let server = Server::start().unwrap();
    replaced_records_are_noticed(&of_server(&server)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_records_with_a_cluster() {
    let cluster = blocking(|| Cluster::start(3, 0).unwrap()).await;
    replaced_records_are_noticed(&of_cluster(&cluster)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_tracking_is_refused_gateways_tell_each_other() {
    let server = Server::start().unwrap();
    let user = ["ACL", "SETUSER", "default", "-client|tracking"];
    server.command(&user).unwrap();
    let config = of_server(&server);
    let (a, b) = (Gateway::started("a", &config).await, Gateway::started("b", &config).await);
    for gateway in [&a, &b] {
        until("the channel is used", || gateway.coherence.status().by_channel).await;
        gateway.covered().await;
        gateway.store("/1", "t");
    }
    a.coherence.wrote(record_name(&key("/1")));
    until("the replacement is noticed", || b.has("/1") == "stale").await;
    assert_eq!(a.has("/1"), "hit", "it was its own");
    a.purge(tag("t", Mode::Hard)).await;
    assert_eq!([a.has("/1"), b.has("/1")], ["miss"; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_connection_covered_is_validated_once() {
    let server = Server::start().unwrap();
    let gateway = Gateway::started("a", &of_server(&server)).await;
    gateway.store("/1", "t");
    let losses = gateway.coherence.status().losses;
    server.client_kill_all().unwrap();
    until("the loss is noticed", || gateway.coherence.status().losses > losses).await;
    assert_eq!(gateway.has("/1"), "stale");
    gateway.covered().await;
    assert_eq!(gateway.has("/1"), "stale", "it may have been replaced meanwhile");
    gateway.store("/1", "t");
    assert_eq!(gateway.has("/1"), "hit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_found_out_and_no_answer_is_trusted_for_long_meanwhile() {
    let server = Server::start().unwrap();
    let gateway = Gateway::started("a", &of_server(&server)).await;
    gateway.store("/1", "t");
    server.stop().unwrap();
    gateway.uncovered().await;
    assert_eq!(gateway.has("/1"), "stale");
    gateway.store("/1", "t");
    until("the trust ends", || gateway.has("/1") == "stale").await;
    server.cont().unwrap();
    gateway.covered().await;
    gateway.store("/1", "t");
    assert_eq!(gateway.has("/1"), "hit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_while_redis_is_away_counts_here_at_once_and_elsewhere_later() {
    let server = Arc::new(Server::start().unwrap());
    let config = of_server(&server);
    let (a, b) = (Gateway::started("a", &config).await, Gateway::started("b", &config).await);
    a.store("/1", "t");
    server.kill().unwrap();
    let told = a.purge(tag("t", Mode::Hard)).await;
    assert!(matches!(told, PurgeReport::Waiting { waiting: 1, .. }), "{told:?}");
    assert_eq!(a.has("/1"), "miss");
    let mut headers = HeaderMap::new();
    headers.insert("cache-tag", HeaderValue::from_static("t"));
    assert_eq!(a.cache.purges().admits(&key("/2"), &headers, u64::MAX - 1), Standing::Gone, "no record passes it");
    b.store("/1", "t");
    let again = Arc::clone(&server);
    blocking(move || again.restart().unwrap()).await;
    until("the purge has come", || b.has("/1") == "miss").await;
    until("nothing waits", || a.coherence.status().waiting == 0).await;
    let position = a.cache.purges().position().logged();
    assert_eq!(a.cache.purges().admits(&key("/2"), &headers, position), Standing::Good);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_purges_that_wait_are_one_of_everything() {
    let server = Arc::new(Server::start().unwrap());
    let config = of_server(&server);
    let (a, b) = (Gateway::started("a", &config).await, Gateway::started("b", &config).await);
    server.kill().unwrap();
    for number in 0..=MAX_WAITING_PURGES {
        let purge = tag(&number.to_string(), Mode::Soft);
        a.cache.purge(std::slice::from_ref(&purge), NOW);
        a.coherence.publish_behind(vec![purge]);
    }
    assert_eq!(a.coherence.status().waiting, 1);
    b.store("/1", "t");
    let again = Arc::clone(&server);
    blocking(move || again.restart().unwrap()).await;
    until("the purge has come", || b.has("/1") == "miss").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_lost_is_written_again() {
    let server = Server::start().unwrap();
    let config = of_server(&server);
    let (a, b) = (Gateway::started("a", &config).await, Gateway::started("b", &config).await);
    for name in ["x", "y"] {
        assert!(matches!(a.purge(tag(name, Mode::Hard)).await, PurgeReport::Logged { .. }));
    }
    let before = b.cache.purges().position().logged();
    server.command(&["FLUSHALL"]).unwrap();
    // The connections live on; the next ones find out.
    server.client_kill_all().unwrap();
    until("it is repaired", || a.cache.purges().position().logged() > before).await;
    for gateway in [&a, &b] {
        gateway.covered().await;
    }
    let c = Gateway::started("c", &config).await;
    let mut headers = HeaderMap::new();
    headers.insert("cache-tag", HeaderValue::from_static("y"));
    assert_eq!(c.cache.purges().admits(&key("/2"), &headers, before), Standing::Gone);
    c.store("/1", "y");
    a.purge(tag("y", Mode::Hard)).await;
    assert_eq!(c.has("/1"), "miss");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_has_lost_purges_is_repaired() {
    let cluster = Arc::new(blocking(|| Cluster::start(3, 1).unwrap()).await);
    let config = of_cluster(&cluster);
    let (a, b) = (Gateway::started("a", &config).await, Gateway::started("b", &config).await);
    assert!(matches!(a.purge(tag("first", Mode::Hard)).await, PurgeReport::Logged { .. }));
    let clustered = Arc::clone(&cluster);
    let lost = blocking(move || {
        let (primary, _) = clustered.node_for_key(LOG).unwrap();
        let replica = clustered.replica_of(primary).unwrap();
        // The replica hears nothing any more, and nothing waits in its socket.
        replica.server().stop().unwrap();
        primary.server().command(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
        (primary.id().to_owned(), replica.id().to_owned())
    })
    .await;
    let told = a.purge(tag("second", Mode::Hard)).await;
    let PurgeReport::Logged { number, .. } = told else { panic!("{told:?}") };
    let (clustered, (primary, replica)) = (Arc::clone(&cluster), lost);
    blocking(move || {
        let (primary, replica) = (clustered.node(&primary).unwrap(), clustered.node(&replica).unwrap());
        primary.server().kill().unwrap();
        replica.server().cont().unwrap();
        clustered.failover(replica, Failover::Takeover).unwrap();
    })
    .await;
    until("it is repaired", || {
        [&a, &b]
            .iter()
            .all(|gateway| gateway.coherence.status().is_covered && gateway.cache.purges().position().logged() > number)
    })
    .await;
    let c = Gateway::started("c", &config).await;
    let mut headers = HeaderMap::new();
    headers.insert("cache-tag", HeaderValue::from_static("second"));
    assert_eq!(c.cache.purges().admits(&key("/2"), &headers, number - 1), Standing::Gone);
}

/// Two gateways of whom one changes what its service says and purges, the other reads, while the server is killed,
/// stopped and cut off: as soon as a purge has been confirmed by both, the other gives nothing that is older.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_older_than_a_confirmed_purge_is_given_whatever_the_server_does() {
    let cluster = Arc::new(blocking(|| Cluster::start(3, 1).unwrap()).await);
    let config = of_cluster(&cluster);
    let (a, b) = (Gateway::started("a", &config).await, Gateway::started("b", &config).await);
    let mut faults = JoinSet::new();
    let clustered = Arc::clone(&cluster);
    faults.spawn_blocking(move || {
        for round in 0..4 {
            let (primary, _) = clustered.node_for_key(LOG).unwrap();
            let replica = clustered.replica_of(primary).unwrap();
            match round {
                0 => drop(primary.server().client_kill_all().unwrap()),
                1 => assert!(clustered.failover(replica, Failover::Graceful).is_ok()),
                2 => {
                    primary.server().stop().unwrap();
                    std::thread::sleep(Duration::from_millis(1500)); // the fault itself
                    primary.server().cont().unwrap();
                }
                _ => {
                    primary.server().kill().unwrap();
                    clustered.failover(replica, Failover::Takeover).unwrap();
                    primary.server().restart().unwrap();
                }
            }
            clustered.wait_until_agreed().unwrap();
        }
    });
    let (mut confirmed, mut rounds, mut stale) = (0, 0, 0);
    let mut confirmed_since = None;
    let since = Instant::now();
    while confirmed_since.is_none_or(|then| confirmed < then + 10) {
        assert!(since.elapsed() < 2 * PATIENCE, "{confirmed} of {rounds} purges were confirmed");
        if let Some(ended) = faults.try_join_next() {
            ended.unwrap();
            confirmed_since = Some(confirmed);
        }
        rounds += 1;
        b.store("/1", "t");
        match a.purge(tag("t", Mode::Hard)).await {
            PurgeReport::Logged { applied, .. } if applied.contains(&"b".to_owned()) => {
                confirmed += 1;
                assert_eq!(b.has("/1"), "miss", "given after its purge was confirmed");
            }
            _ if b.has("/1") == "stale" => stale += 1,
            _ => {}
        }
    }
    println!("{rounds} purges, {confirmed} confirmed, {stale} validated instead");
}
