//! Orders of events that real servers show rarely.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_redis::{CacheConfig, Commands, ErrorKind, Ran};
use pilotlight_testkit::{Handshake, Script, ScriptedServer, Signal};

use super::{PATIENCE, cached, client, get, until, value};

const CACHING: [&str; 3] = ["CLIENT", "CACHING", "YES"];
const INVALIDATE_K: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
const INVALIDATE_OTHERS: &str = ">2\r\n$10\r\ninvalidate\r\n*2\r\n$5\r\nother\r\n$3\r\none\r\n";
const INVALIDATE_ALL: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// `CLIENT CACHING YES`, `GET k` and `PTTL k`, in this order and with nothing between.
fn asks(script: Script) -> Script {
    script.expect(CACHING).send("+OK\r\n").expect(["GET", "k"]).expect(["PTTL", "k"])
}

fn plain(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// The replies to `GET` and to `PTTL`.
fn reply(text: &str) -> String {
    plain(text) + ":-1\r\n"
}

async fn play(script: Script) -> (ScriptedServer, pilotlight_redis::Cached) {
    let server = ScriptedServer::play(script).await.unwrap();
    let cached = cached(&client(&server.url()));
    (server, cached)
}

async fn raised(signal: &Signal) {
    tokio::time::timeout(PATIENCE, signal.wait()).await.unwrap();
}

/// The first reply comes with `told` around it; does the second call ask again?
#[track_caller]
fn check(first: impl AsRef<[u8]>, chunk: usize, asks_again: bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    let mut script = asks(Script::new()).send_chunked(first, chunk);
    if asks_again {
        script = asks(script).send(reply("new"));
    }
    async move {
        let (server, cached) = play(script).await;
        assert_eq!(value(&cached, "k").await, "old", "{caller}");
        if asks_again {
            // What came behind the reply has to be heard first.
            until(|| {
                let stats = cached.stats();
                stats.invalidations + stats.flushes > 0
            })
            .await;
        }
        assert_eq!(value(&cached, "k").await, if asks_again { "new" } else { "old" }, "{caller}");
        assert_eq!(cached.stats().hits, u64::from(!asks_again), "{caller}");
        server.finish().await.unwrap();
    }
}

#[tokio::test]
async fn a_second_call_asks_nobody() {
    check(reply("old"), usize::MAX, false).await;
    check(reply("old"), 1, false).await;
    check([INVALIDATE_OTHERS, &reply("old"), INVALIDATE_OTHERS].concat(), usize::MAX, false).await;
}

#[tokio::test]
async fn an_invalidation_between_request_and_reply_spoils_the_reply() {
    let bytes = [INVALIDATE_K, &reply("old")].concat();
    check(&bytes, usize::MAX, true).await;
    check(&bytes, 1, true).await;
}

#[tokio::test]
async fn an_invalidation_behind_the_reply_spoils_it_however_they_are_cut() {
    let bytes = [&reply("old"), INVALIDATE_K].concat();
    for chunk in [usize::MAX, 1, 5, 9, 20] {
        check(&bytes, chunk, true).await;
    }
}

#[tokio::test]
async fn a_flush_spoils_everything() {
    check([INVALIDATE_ALL, &reply("old")].concat(), usize::MAX, true).await;
    check([&reply("old"), INVALIDATE_ALL].concat(), usize::MAX, true).await;
    check([&reply("old"), INVALIDATE_ALL].concat(), 1, true).await;
}

#[tokio::test]
async fn an_invalidation_before_the_request_spoils_nothing() {
    let script = asks(Script::new()).send([&reply("one"), INVALIDATE_K].concat());
    let (server, cached) = play(asks(script).send(reply("two"))).await;
    assert_eq!(value(&cached, "k").await, "one");
    until(|| cached.stats().invalidations == 1).await;
    assert_eq!(value(&cached, "k").await, "two");
    assert_eq!(value(&cached, "k").await, "two");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_null_is_kept_as_well() {
    let (server, cached) = play(asks(Script::new()).send("_\r\n:-2\r\n")).await;
    assert_eq!(value(&cached, "k").await, "nothing");
    assert_eq!(value(&cached, "k").await, "nothing");
    assert_eq!(cached.stats().hits, 1);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_error_is_not_kept() {
    let script = asks(Script::new()).send("-WRONGTYPE no string\r\n:-1\r\n");
    let (server, cached) = play(asks(script).send(reply("v"))).await;
    let error = get(&cached, "k").await.unwrap_err();
    assert_eq!(error.server().unwrap().code(), "WRONGTYPE");
    assert_eq!(value(&cached, "k").await, "v");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_connection_lost_in_mid_fill_is_followed_by_another_and_the_reply_not_kept() {
    let script = asks(Script::new()).send("$3\r\nol").close().next_connection();
    // Asked again the ordinary way; then, by the second call, to be kept.
    let script = asks(script.expect(["GET", "k"]).send(plain("new"))).send(reply("kept"));
    let (server, cached) = play(script).await;
    assert_eq!(value(&cached, "k").await, "new");
    assert_eq!(value(&cached, "k").await, "kept");
    assert_eq!(value(&cached, "k").await, "kept");
    assert_eq!((cached.stats().hits, cached.stats().losses), (1, 1));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn nothing_is_served_without_the_connection_that_covers_it() {
    let (cut, back) = (Signal::new(), Signal::new());
    let script = asks(Script::new()).send(reply("old")).pause_until(&cut).close().next_connection().pause_until(&back);
    let (server, cached) = play(asks(script).send(reply("new"))).await;
    assert_eq!(value(&cached, "k").await, "old");
    assert_eq!(value(&cached, "k").await, "old");
    cut.raise();
    until(|| cached.stats().losses == 1).await;
    let waiting = tokio::spawn({
        let cached = cached.clone();
        async move { value(&cached, "k").await }
    });
    assert!(server.wait_for_connections(2).await);
    assert!(!waiting.is_finished());
    back.raise();
    waiting.await.unwrap();
    assert_eq!(cached.stats().hits, 1);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn who_misses_the_same_shares_a_request() {
    let (asked, answer) = (Signal::new(), Signal::new());
    let (server, cached) = play(asks(Script::new()).raise(&asked).pause_until(&answer).send(reply("v"))).await;
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let cached = cached.clone();
            tokio::spawn(async move { value(&cached, "k").await })
        })
        .collect();
    raised(&asked).await;
    until(|| cached.stats().shared == 49).await;
    answer.raise();
    for call in calls {
        assert_eq!(call.await.unwrap(), "v");
    }
    assert_eq!(cached.stats().misses, 1);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn when_the_one_that_asked_goes_away_another_one_asks() {
    let (asked, answer) = (Signal::new(), Signal::new());
    let script = asks(Script::new()).raise(&asked).pause_until(&answer).send(reply("unheard"));
    let (server, cached) = play(asks(script).send(reply("v"))).await;
    let call = || {
        let cached = cached.clone();
        tokio::spawn(async move { value(&cached, "k").await })
    };
    let leader = call();
    raised(&asked).await;
    let others: Vec<_> = (0..5).map(|_| call()).collect();
    until(|| cached.stats().shared == 5).await;
    leader.abort();
    assert!(leader.await.unwrap_err().is_cancelled());
    until(|| cached.stats().misses == 2).await;
    answer.raise();
    for other in others {
        assert_eq!(other.await.unwrap(), "v");
    }
    // The flight's start was before the first request, and nothing happened since: it was kept.
    assert_eq!(value(&cached, "k").await, "v");
    assert_eq!((cached.stats().misses, cached.stats().hits), (2, 1));
    server.finish().await.unwrap();
}

#[tokio::test]
async fn who_comes_after_an_invalidation_does_not_share_the_request_before_it() {
    let (told, answer) = (Signal::new(), Signal::new());
    let script = asks(Script::new()).send(INVALIDATE_K).raise(&told).pause_until(&answer).send(reply("old"));
    let (server, cached) = play(asks(script).send(reply("new"))).await;
    let call = || {
        let cached = cached.clone();
        tokio::spawn(async move { value(&cached, "k").await })
    };
    let early = call();
    raised(&told).await;
    until(|| cached.stats().invalidations == 1).await;
    let late = call();
    until(|| cached.stats().misses == 2).await;
    answer.raise();
    assert_eq!((early.await.unwrap(), late.await.unwrap()), ("old".into(), "new".into()));
    assert_eq!(value(&cached, "k").await, "new");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn what_is_forgotten_while_it_is_asked_for_is_not_kept() {
    let (asked, answer) = (Signal::new(), Signal::new());
    let script = asks(Script::new()).raise(&asked).pause_until(&answer).send(reply("old"));
    let (server, cached) = play(asks(script).send(reply("new"))).await;
    let early = tokio::spawn({
        let cached = cached.clone();
        async move { value(&cached, "k").await }
    });
    raised(&asked).await;
    cached.forget("k");
    answer.raise();
    assert_eq!(early.await.unwrap(), "old");
    assert_eq!(value(&cached, "k").await, "new");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_server_that_refuses_caching_is_an_error() {
    let (server, cached) = play(
        Script::new()
            .expect(CACHING)
            .send("-NOPERM no\r\n")
            .expect(["GET", "k"])
            .expect(["PTTL", "k"])
            .send(reply("v")),
    )
    .await;
    let error = get(&cached, "k").await.unwrap_err();
    assert_eq!(error.server().unwrap().code(), "NOPERM");
    assert_eq!(cached.stats().entries, 0);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_tell_how_long_a_key_lives_is_an_error() {
    let (server, cached) = play(asks(Script::new()).send(plain("v") + "-NOPERM no PTTL\r\n")).await;
    let error = get(&cached, "k").await.unwrap_err();
    assert_eq!(error.server().unwrap().code(), "NOPERM");
    assert_eq!(cached.stats().entries, 0);
    server.finish().await.unwrap();
}

/// The server need not tell that a key has expired: it does so when it finds out.
#[tokio::test]
async fn a_reply_does_not_outlive_its_key() {
    let of = |text: &str, left: i64| plain(text) + &format!(":{left}\r\n");
    let script = asks(Script::new()).send(of("ends at once", 0));
    let script = asks(script).send(of("gone", -2));
    let script = asks(script).send(plain("elsewhere") + "-MOVED 1 127.0.0.1:1\r\n");
    let script = asks(script).send(of("short", 1));
    let (server, cached) = play(asks(script).send(of("long", 600_000))).await;
    for text in ["ends at once", "gone", "elsewhere", "short"] {
        assert_eq!(value(&cached, "k").await, text);
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(value(&cached, "k").await, "long");
    assert_eq!(value(&cached, "k").await, "long");
    assert_eq!(cached.stats().hits, 1);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_server_that_refuses_tracking_is_an_error() {
    let script =
        Script::new().expect(["CLIENT", "TRACKING", "ON", "OPTIN"]).send("-NOPERM no tracking\r\n").repeat_last();
    let server = ScriptedServer::play(script).await.unwrap();
    let error = get(&cached(&client(&server.url())), "k").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Rejected(text) if text.contains("no tracking")), "{error}");
    assert_eq!(error.ran(), Ran::NotSent, "{error}");
}

#[tokio::test]
async fn a_server_without_resp3_is_an_error() {
    let handshake = Handshake::resp2_only();
    let server = ScriptedServer::builder().handshake(handshake).play(Script::new().repeat_last()).await.unwrap();
    let error = get(&cached(&client(&server.url())), "k").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Rejected(text) if text.contains("HELLO")), "{error}");
    let resp2 = client(&format!("{}?protocol=2", server.url()));
    assert!(matches!(resp2.cached(CacheConfig::default()).unwrap_err().kind(), ErrorKind::Misuse(_)));
}

#[tokio::test]
async fn replies_age() {
    let script = asks(Script::new()).send(reply("old"));
    let server = ScriptedServer::play(asks(script).send(reply("new"))).await.unwrap();
    let config = CacheConfig { max_age: Duration::from_millis(1), ..CacheConfig::default() };
    let cached = client(&server.url()).cached(config).unwrap();
    assert_eq!(value(&cached, "k").await, "old");
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(value(&cached, "k").await, "new");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn closing_the_client_closes_its_caches() {
    let (_server, cached) = {
        let server = ScriptedServer::play(asks(Script::new()).send(reply("v"))).await.unwrap();
        let client = client(&server.url());
        let cached = cached(&client);
        assert_eq!(value(&cached, "k").await, "v");
        client.close(PATIENCE).await;
        (Arc::new(server), cached)
    };
    let error = get(&cached, "k").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error}");
    assert!(matches!(cached.hget("k", "f").read_as::<Option<String>>().await.unwrap_err().kind(), ErrorKind::Closed));
}
