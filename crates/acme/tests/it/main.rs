//! Orders at a real Pebble.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use pilotlight_acme::{Challenges, Offered, StorageSettings};
use pilotlight_testkit::Server;
use tokio::net::TcpListener;

mod gateway;
mod pebble;

use gateway::{Gateway, answer_http, answer_tls};
use pebble::{Behaviour, Pebble};

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn folder(dir: &tempfile::TempDir) -> StorageSettings {
    StorageSettings::Folder(dir.path().join("acme"))
}

/// Longest wait for what an owner does.
const LIMIT: Duration = Duration::from_secs(60);
const HOSTS: [&str; 5] = ["a.example.org", "b.example.org", "c.example.org", "d.example.org", "e.example.org"];

#[tokio::test(flavor = "multi_thread")]
async fn certificates_come_though_nonces_are_refused_validations_slow_and_accounts_bound() {
    let ((listener, http), dir) = (listener().await, tempfile::tempdir().unwrap());
    let behaviour = Behaviour { nonces_refused: 25, validation_seconds: 2, needs_external_account: true };
    let pebble = Pebble::new(http, 1, behaviour).start();
    let gateway = Gateway::start(&pebble.settings(folder(&dir)));
    tokio::spawn(answer_http(listener, gateway.acme.answers().clone()));
    gateway.route(&HOSTS);
    for host in HOSTS {
        let facts = gateway.pair(host).await.facts().unwrap();
        assert_eq!(facts.names, [host]);
    }
    assert!(pebble.logged("badNonce") + pebble.logged("nonce") > 0, "none was refused");
    // Another process finds them in the folder.
    let next = Gateway::start(&pebble.settings(folder(&dir)));
    let orders = pebble.orders();
    next.route(&HOSTS);
    for host in HOSTS {
        assert_eq!(next.pair(host).await, gateway.pair(host).await);
    }
    assert_eq!(pebble.orders(), orders);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_alpn_is_answered_where_there_is_no_plain_listener() {
    let ((listener, tls), dir) = (listener().await, tempfile::tempdir().unwrap());
    let pebble = Pebble::new(1, tls, Behaviour::default()).start();
    let mut settings = pebble.settings(folder(&dir));
    settings.challenges = Challenges { http: Offered::No, tls_alpn: Offered::First };
    let gateway = Gateway::start(&settings);
    tokio::spawn(answer_tls(listener, gateway.listeners.clone()));
    gateway.route(&HOSTS[..1]);
    assert_eq!(gateway.pair(HOSTS[0]).await.facts().unwrap().names, [HOSTS[0]]);
    assert_eq!(pebble.orders(), 1);
}

/// Three gateways with one storage: one account, one order a name, whoever of them the authority asks.
async fn three_gateways(storage: StorageSettings) {
    let (listener, http) = listener().await;
    let behaviour = Behaviour { validation_seconds: 1, ..Behaviour::default() };
    let pebble = Pebble::new(http, 1, behaviour).start();
    let settings = pebble.settings(storage);
    let all: Vec<Gateway> = (0..3).map(|_| Gateway::start(&settings)).collect();
    tokio::spawn(answer_http(listener, all[0].acme.answers().clone()));
    all.iter().for_each(|gateway| gateway.route(&HOSTS));
    for host in HOSTS {
        let pair = all[0].pair(host).await;
        assert_eq!((all[1].pair(host).await, all[2].pair(host).await), (pair.clone(), pair));
    }
    assert_eq!((pebble.orders(), pebble.logged("There are now 2 accounts")), (HOSTS.len(), 0));
    // Renewed by one, found by the others when they look.
    let before = all[1].pair(HOSTS[0]).await;
    all[1].acme.renew(HOSTS[0]).await.unwrap();
    let after = all[1].eventually(HOSTS[0], |pair| pair != Some(&before)).await.unwrap();
    all[2].acme.renew(HOSTS[0]).await.unwrap();
    all[2].eventually(HOSTS[0], |pair| pair == Some(&after)).await;
    assert_eq!(pebble.orders(), HOSTS.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_on_one_redis_place_one_order_a_name() {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    three_gateways(StorageSettings::Redis { url: server.url(), prefix: "pilotlight".to_owned() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_on_one_folder_place_one_order_a_name() {
    let dir = tempfile::tempdir().unwrap();
    three_gateways(folder(&dir)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_authority_is_away_the_old_certificate_stays_and_then_there_is_a_new_one() {
    let ((listener, http), dir) = (listener().await, tempfile::tempdir().unwrap());
    let mut pebble = Pebble::new(http, 1, Behaviour::default());
    let gateway = Gateway::start(&pebble.settings(folder(&dir)));
    tokio::spawn(answer_http(listener, gateway.acme.answers().clone()));
    gateway.route(&HOSTS[..1]);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![HOSTS[0].to_owned()]).unwrap();
    let (now, day) = (SystemTime::now(), Duration::from_secs(86_400));
    (params.not_before, params.not_after) = ((now - 80 * day).into(), (now + 10 * day).into()); // due since long
    let old = pilotlight_acme::Pair::from_pem(&params.self_signed(&key).unwrap().pem(), &key.serialize_pem()).unwrap();
    gateway.acme.import(old.clone()).await.unwrap();
    let begun = Instant::now();
    while gateway.acme.status().names.iter().all(|state| state.last_error.is_none()) {
        assert!(begun.elapsed() < LIMIT, "{:#?}", gateway.acme.status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let state = gateway.acme.status().names[0].clone();
    assert!(state.last_error.unwrap().text.contains("no connection to 127.0.0.1"));
    assert!(state.next_attempt.is_some());
    assert_eq!(gateway.pair(HOSTS[0]).await, old);
    let begin = move || {
        pebble.begin();
        pebble
    };
    let pebble = tokio::task::spawn_blocking(begin).await.unwrap();
    gateway.acme.renew("").await.unwrap(); // sooner than it would by itself
    gateway.eventually(HOSTS[0], |pair| pair != Some(&old)).await;
    // The certificate is in use a moment before the status tells of it.
    let begun = Instant::now();
    while gateway.acme.status().names[0].last_error.is_some() {
        assert!(begun.elapsed() < LIMIT, "{:#?}", gateway.acme.status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(pebble.orders(), 1);
}
