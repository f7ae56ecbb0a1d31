//! What one node has stored, the other one finds.

use http::HeaderMap;
use http::Method;
use pilotlight_cache_redis::MAX_INLINE_BODY_BYTES;
use pilotlight_testkit::{ClientAuth, Server};

use crate::node::{FRESH, Node, fields, key, now, options, run};

fn calls(server: &Server, command: &str) -> u64 {
    let text = server.info(&format!("cmdstat_{command}")).unwrap_or_default();
    text.strip_prefix("calls=").and_then(|text| text.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_node_answers_from_what_another_has_stored() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        let answer = [
            ("cache-control", "max-age=60"),
            ("age", "7"),
            ("etag", "\"1\""),
            ("x-a", "1"),
            ("connection", "x-b"),
            ("x-b", "1"),
        ];
        a.store("/", &[], &answer, b"the body").await;
        let stored = b.ask("/", &HeaderMap::new()).await.stored.unwrap();
        let response = stored.response(&Method::GET, &HeaderMap::new(), now());
        let get = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!((response.status().as_u16(), &response.body().to_bytes()[..]), (200, &b"the body"[..]));
        assert_eq!(
            (get("age").as_deref(), get("x-a").as_deref(), get("etag").as_deref()),
            (Some("7"), Some("1"), Some("\"1\""))
        );
        assert_eq!((get("x-b"), get("content-length").as_deref()), (None, Some("8")));
        assert_eq!(stored.ttl_s(now()), 53);
        assert_eq!((a.status().totals.writes, b.status().totals.hits), (1, 1));
        assert_eq!(b.found("/other", &HeaderMap::new()).await, None);
    });
}

#[test]
fn records_expire_when_they_are_of_no_use() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        for (target, answer, from_ms, to_ms) in [
            ("/plain", &[("cache-control", "max-age=60")][..], 59_000, 66_000),
            ("/valid", &[("cache-control", "max-age=60"), ("etag", "\"1\"")], 119_000, 132_000),
            ("/always", &[("cache-control", "no-cache"), ("etag", "\"1\"")], 59_000, 66_000),
            ("/old", &[("cache-control", "max-age=60"), ("age", "50")], 9_000, 11_000),
            ("/ever", &[("cache-control", "max-age=99999999999")], 2_591_900_000, 2_592_030_000),
        ] {
            server.command(&["FLUSHALL"]).unwrap();
            node.store(target, &[], answer, b"x").await;
            let names = server.command(&["KEYS", "*"]).unwrap();
            let [name] = names.array() else { panic!("{names:?}") };
            let left = server.command(&["PTTL", &name.text()]).unwrap().integer().unwrap();
            assert!((from_ms..=to_ms).contains(&left), "{target}: {left} ms");
        }
    });
}

#[test]
fn a_long_body_has_a_key_of_its_own_and_never_another_head() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        let body: Vec<u8> = (0..MAX_INLINE_BODY_BYTES + 1).map(|at| (at % 251) as u8).collect();
        a.store("/", &[], FRESH, &body).await;
        assert_eq!(b.found("/", &HeaderMap::new()).await.as_deref(), Some(&body[..]));
        let names: Vec<String> =
            server.command(&["KEYS", "*:b:*"]).unwrap().array().iter().map(|name| name.text().into_owned()).collect();
        assert_eq!(names.len(), 1);
        server.command(&["SETRANGE", &names[0], "100", "!"]).unwrap();
        assert_eq!(b.found("/", &HeaderMap::new()).await, None, "another body");
        assert_eq!(b.status().totals.refused, 1);
        server.command(&["DEL", &names[0]]).unwrap();
        assert_eq!(b.found("/", &HeaderMap::new()).await, None, "no body");
        a.store("/short", &[], FRESH, &body[..MAX_INLINE_BODY_BYTES]).await;
        assert_eq!(server.command(&["KEYS", "*:b:*"]).unwrap().array().len(), 0);
    });
}

#[test]
fn variants_are_found_by_what_the_request_selects() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        let answer = [("cache-control", "max-age=60"), ("vary", "Accept-Language")];
        let language = |value| fields(&[("accept-language", value)]);
        a.store("/", &[("accept-language", "de")], &answer, b"hallo").await;
        b.store("/", &[("accept-language", "en")], &answer, b"hello").await;
        for node in [&a, &b] {
            assert_eq!(node.found("/", &language("de")).await.as_deref(), Some(&b"hallo"[..]));
            assert_eq!(node.found("/", &language("EN")).await.as_deref(), Some(&b"hello"[..]), "normalised");
            assert_eq!(node.found("/", &language("fr")).await, None);
            assert_eq!(node.found("/", &HeaderMap::new()).await, None);
        }
        // It is known by now what the target varies on: two reads in one round trip.
        let before = (calls(&server, "get"), calls(&server, "mget"));
        assert!(b.found("/", &language("de")).await.is_some());
        assert_eq!((calls(&server, "get") - before.0, calls(&server, "mget") - before.1), (2, 0));
    });
}

#[test]
fn an_answer_that_varies_on_more_widens_the_choice() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        let request = [("accept", "a"), ("accept-language", "de")];
        node.store("/", &request, &[("cache-control", "max-age=60"), ("vary", "Accept")], b"1").await;
        assert!(node.found("/", &fields(&request)).await.is_some());
        node.cache.remove(&key("/"));
        node.settled().await;
        node.store("/", &request, &[("cache-control", "max-age=60"), ("vary", "Accept-Language")], b"2").await;
        let other = Node::new(&server.url());
        other
            .store(
                "/",
                &[("accept", "b"), ("accept-language", "fr")],
                &[("cache-control", "max-age=60"), ("vary", "Accept")],
                b"3",
            )
            .await;
        // Either is found by the fields of both, and by nothing less.
        let third = Node::new(&server.url());
        assert_eq!(
            third.found("/", &fields(&[("accept", "b"), ("accept-language", "fr")])).await.as_deref(),
            Some(&b"3"[..])
        );
        assert_eq!(third.found("/", &fields(&[("accept", "b"), ("accept-language", "de")])).await, None);
    });
}

#[test]
fn what_is_no_record_is_refused_and_replaced() {
    run(|| async {
        let server = Server::start().unwrap();
        let node = Node::new(&server.url());
        node.store("/", &[], FRESH, b"x").await;
        let name = server.command(&["KEYS", "*"]).unwrap().array()[0].text().into_owned();
        for (number, damage) in
            ["", "short", "PLR\u{2}\u{1}12345678and more of it", "PLR\u{1}\u{1}12345678and more of it"]
                .iter()
                .enumerate()
        {
            server.command(&["SET", &name, damage]).unwrap();
            assert_eq!(node.found("/", &HeaderMap::new()).await, None, "{damage:?}");
            assert_eq!(node.status().totals.refused, number as u64 + 1, "{damage:?}");
        }
        let other = Node::new(&server.url());
        other.store("/", &[], FRESH, b"y").await;
        assert_eq!(node.found("/", &HeaderMap::new()).await.as_deref(), Some(&b"y"[..]));
        // A key of another type is somebody else's: an error, and nothing is written.
        server.command(&["DEL", &name]).unwrap();
        server.command(&["RPUSH", &name, "x"]).unwrap();
        let asked = node.ask("/", &HeaderMap::new()).await;
        assert!(asked.stored.is_none() && asked.ticket.is_none());
        assert_eq!(node.status().totals.errors, 1);
    });
}

#[test]
fn prefixes_are_apart() {
    run(|| async {
        let server = Server::start().unwrap();
        let a = Node::new(&server.url());
        let b = Node::with(&server.url(), pilotlight_cache_redis::Options { prefix: "other".into(), ..options() });
        a.store("/", &[], FRESH, b"x").await;
        assert_eq!(b.found("/", &HeaderMap::new()).await, None);
    });
}

#[test]
fn with_tls_and_a_password() {
    run(|| async {
        let server = Server::builder().tls(ClientAuth::None).requirepass("p@ss").start().unwrap();
        let ca = server.certificates().unwrap().ca_path();
        let url = format!("{}?tls_ca={}", server.url(), ca.display());
        let (a, b) = (Node::new(&url), Node::new(&url));
        a.store("/", &[], FRESH, b"x").await;
        assert!(b.found("/", &HeaderMap::new()).await.is_some());
    });
}

#[test]
fn what_a_route_adds_to_the_key_is_apart_and_goes_with_its_url() {
    run(|| async {
        let server = Server::start().unwrap();
        let (a, b) = (Node::new(&server.url()), Node::new(&server.url()));
        let with = |extra| pilotlight_cache::Key { extra, ..key("/") };
        for extra in ["de", "en", ""] {
            let (key, request) = (with(extra), HeaderMap::new());
            a.takeoff_as(&key, &request).await.land(&fields(FRESH), extra.as_bytes()).unwrap();
            a.settled().await;
        }
        for extra in ["de", "en", ""] {
            let stored = b.tier.ask(&with(extra), &HeaderMap::new(), now()).await.stored.unwrap();
            assert_eq!(&stored.body().to_bytes()[..], extra.as_bytes());
        }
        assert!(b.tier.ask(&with("fr"), &HeaderMap::new(), now()).await.stored.is_none());
        a.post("/");
        a.settled().await;
        for extra in ["de", "en", ""] {
            assert!(b.tier.ask(&with(extra), &HeaderMap::new(), now()).await.stored.is_none(), "{extra}");
        }
    });
}
