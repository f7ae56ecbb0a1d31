//! Connections that end: between replies, inside of them, while a command is being written.

use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::{Command, Commands, Config, Ran, Value};
use pilotlight_testkit::{Handshake, Script, Signal};

use super::scenario::{
    Caller, Kind, PATIENCE, Place, Scenario, ScriptExt, asks, asks_shared, calm, get, own, serve, take,
};
use super::scenarios;

fn simple(text: &'static str) -> Value {
    Value::Simple(Bytes::from_static(text.as_bytes()))
}

/// Replies of every kind, in the form of the wire.
fn kinds() -> Vec<(&'static str, Vec<u8>, Value)> {
    let bulk = |text: &'static str| Value::Bulk(Bytes::from_static(text.as_bytes()));
    vec![
        ("bulk", own("bulk"), bulk("value-of-bulk")),
        ("empty", b"$0\r\n\r\n".to_vec(), bulk("")),
        ("null", b"_\r\n".to_vec(), Value::Null),
        ("old-null", b"$-1\r\n".to_vec(), Value::Null),
        ("old-null-array", b"*-1\r\n".to_vec(), Value::Null),
        ("simple", b"+value-of-simple\r\n".to_vec(), simple("value-of-simple")),
        ("integer", b":-1234567\r\n".to_vec(), Value::Integer(-1_234_567)),
        ("double", b",3.25\r\n".to_vec(), Value::Double(3.25)),
        ("boolean", b"#t\r\n".to_vec(), Value::Boolean(true)),
        (
            "big-number",
            b"(12345678901234567890\r\n".to_vec(),
            Value::BigNumber(Bytes::from_static(b"12345678901234567890")),
        ),
        (
            "verbatim",
            b"=8\r\ntxt:text\r\n".to_vec(),
            Value::Verbatim { format: *b"txt", text: Bytes::from_static(b"text") },
        ),
        (
            "array",
            b"*3\r\n:1\r\n$2\r\nab\r\n*0\r\n".to_vec(),
            Value::Array(vec![Value::Integer(1), bulk("ab"), Value::Array(vec![])]),
        ),
        ("set", b"~1\r\n:7\r\n".to_vec(), Value::Set(vec![Value::Integer(7)])),
        (
            "map",
            b"%1\r\n+k\r\n*2\r\n:1\r\n:2\r\n".to_vec(),
            Value::Map(vec![(simple("k"), Value::Array(vec![Value::Integer(1), Value::Integer(2)]))]),
        ),
        ("streamed", b"$?\r\n;3\r\nabc\r\n;1\r\nd\r\n;0\r\n".to_vec(), bulk("abcd")),
        ("attribute", b"|1\r\n+ttl\r\n:3600\r\n$1\r\nx\r\n".to_vec(), bulk("x")),
        ("push", b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n:5\r\n".to_vec(), Value::Integer(5)),
        (
            "nested-error",
            b"*2\r\n-ERR inner\r\n:1\r\n".to_vec(),
            Value::Array(vec![Value::Error(Bytes::from_static(b"ERR inner")), Value::Integer(1)]),
        ),
    ]
}

/// One reply cut after each of its bytes: each time its caller learns that the command may have run, and the next
/// connection starts anew.
async fn cut_everywhere(place: Place) {
    let (mut script, mut cuts) = (Script::new(), Vec::new());
    for (name, reply, _) in kinds() {
        for cut in 0..reply.len() {
            script = script.expect(["ASK", name]).send(&reply[..cut]).close().next_connection();
            cuts.push((name, cut));
        }
    }
    let mut config = quick();
    let server = serve(place, script.after(), Handshake::default(), &mut config).await;
    let client = pilotlight_redis::Client::new(config).unwrap();
    for (name, cut) in cuts {
        let outcome = tokio::time::timeout(PATIENCE, client.run::<Value>(Command::raw("ASK").arg(name))).await.unwrap();
        let error = outcome.expect_err(name);
        assert_eq!(
            (error.ran(), Kind::from(error.kind())),
            (Ran::MaybeExecuted, Kind::Connection),
            "{name} cut after {cut}: {error}"
        );
    }
    assert_eq!(client.get("after").await.unwrap().as_deref(), Some(&b"value-of-after"[..]));
    calm(&client).await;
    server.finish().await.unwrap();
}

fn quick() -> Config {
    let zero = Duration::from_micros(1);
    let reconnect = pilotlight_redis::config::Backoff { min: zero, max: zero, factor: 1.0 };
    Config { reconnect, probe: pilotlight_redis::config::Probe { idle_ping: None, stall: None }, ..Config::default() }
}

#[tokio::test]
async fn every_kind_of_reply_cut_after_every_byte_in_memory() {
    cut_everywhere(Place::Memory).await;
}

#[tokio::test]
async fn every_kind_of_reply_cut_after_every_byte_over_tcp() {
    cut_everywhere(Place::Tcp).await;
}

/// All kinds of replies at once, in chunks of every size.
fn in_chunks(chunk_bytes: usize) -> Scenario {
    let kinds = kinds();
    let script = kinds.iter().fold(Script::new(), |script, (name, ..)| script.expect(["ASK", name]));
    let replies: Vec<u8> = kinds.iter().flat_map(|(_, reply, _)| reply.clone()).collect();
    let scenario = Scenario::new(script.send_chunked(replies, chunk_bytes).after());
    kinds
        .into_iter()
        .fold(scenario, |scenario, (name, _, value)| scenario.start(asks(name, "ASK", &[name]).gets(value)))
}

#[tokio::test]
async fn all_kinds_of_replies_in_chunks_of_every_size() {
    let total: usize = kinds().iter().map(|(_, reply, _)| reply.len()).sum();
    for chunk_bytes in 1..=total {
        in_chunks(chunk_bytes).play(Place::Memory).await;
    }
}

fn big() -> Caller {
    asks_shared("big", "SET", vec![Bytes::from_static(b"big"), Bytes::from(vec![b'x'; 24 << 20])])
}

scenarios! {
    all_kinds_of_replies_byte_by_byte: in_chunks(1);
    all_kinds_of_replies_in_small_chunks: in_chunks(7);
    all_kinds_of_replies_in_one_piece: in_chunks(usize::MAX);
    closed_between_two_replies: {
        Scenario::new(Script::new().takes("a").takes("b").gives("a").close().next_connection().after())
            .start(take("a")).start(take("b").fails(Ran::MaybeExecuted, Kind::Connection))
    };
    closed_before_any_reply: {
        Scenario::new(Script::new().takes("a").takes("b").close().next_connection().answers("c").after())
            .start(take("a").fails(Ran::MaybeExecuted, Kind::Connection)).start(take("b").fails(Ran::MaybeExecuted, Kind::Connection))
            .settle("a").settle("b").start(take("c"))
    };
    reset_instead_of_a_reply: {
        Scenario::new(Script::new().takes("a").reset().next_connection().after())
            .start(take("a").fails(Ran::MaybeExecuted, Kind::Connection))
    };
    reset_in_the_middle_of_a_reply: {
        Scenario::new(Script::new().takes("a").send("$11\r\nval").reset().next_connection().after())
            .start(take("a").fails(Ran::MaybeExecuted, Kind::Connection))
    };
    half_closed_after_the_reply: {
        let closed = Signal::new();
        Scenario::new(Script::new().answers("a").half_close().raise(&closed).next_connection().answers("b").after())
            .start(take("a")).settle("a").when(&closed).lost().start(take("b"))
    };
    half_closed_instead_of_a_reply: {
        Scenario::new(Script::new().takes("a").half_close().next_connection().answers("b").after())
            .start(take("a").fails(Ran::MaybeExecuted, Kind::Connection)).settle("a").start(take("b"))
    };
    closed_while_a_command_is_being_written: {
        // The first attempt was certainly not run: it is sent again.
        let closed = Signal::new();
        Scenario::new(Script::new().answers("first").pause_until(&closed).reset().next_connection().expect_name("SET").send("+OK\r\n").after())
            .start(take("first")).settle("first").start(big().gets(simple("OK"))).taken().raise(&closed)
    };
    what_was_queued_goes_on_the_next_connection: {
        let closed = Signal::new();
        let script = Script::new().answers("first").pause_until(&closed).reset().next_connection();
        Scenario::new(script.answers("a").answers("b").expect_name("SET").send("+OK\r\n").after())
            .start(take("first")).settle("first").start(big().gets(simple("OK"))).taken().start(take("a")).start(take("b")).raise(&closed)
    };
    what_was_queued_and_left_does_not_go_on_the_next_connection: {
        let closed = Signal::new();
        let script = Script::new().answers("first").pause_until(&closed).reset().next_connection();
        Scenario::new(script.answers("b").after())
            .start(take("first")).settle("first").start(big()).taken().start(take("a")).start(take("b")).drop("a").drop("big").raise(&closed)
    };
    a_reader_is_sent_again: {
        Scenario::new(Script::new().expect(["GET", "a"]).send("$11\r\nval").close().next_connection().expect(["GET", "a"]).send(own("a")).after())
            .start(get("a"))
    };
    a_retryable_writer_is_sent_again: {
        Scenario::new(Script::new().takes("a").close().next_connection().answers("a").after()).start(take("a").retryable())
    };
    cut_again_and_again: {
        let script = (0..5).fold(Script::new(), |script, _| script.expect(["GET", "a"]).send("$1").close().next_connection());
        Scenario::new(script.expect(["GET", "a"]).send(own("a")).after()).start(get("a"))
    };
    accepted_and_closed_again_and_again: {
        let script = (0..5).fold(Script::new(), |script, _| script.close().next_connection());
        Scenario::new(script.answers("a").after()).start(take("a"))
    };
    closed_right_after_the_handshake: {
        let script = Script::new().expect(["PING"]).send("+PONG\r\n").close().next_connection();
        Scenario::new(script.expect(["PING"]).send("+PONG\r\n").answers("a").after()).start(take("a").retryable())
    };
    a_huge_reply_in_pieces: {
        let value = vec![b'v'; 3 << 20];
        let mut reply = format!("${}\r\n", value.len()).into_bytes();
        reply.extend(&value);
        reply.extend(b"\r\n");
        Scenario::new(Script::new().takes("a").takes("b").send_chunked(reply, 50_000).gives("b").after())
            .start(take("a").gets(Value::Bulk(value.into()))).start(take("b"))
    };
    a_huge_reply_cut_near_its_end: {
        let mut reply = format!("${}\r\n", 1 << 20).into_bytes();
        reply.extend(vec![b'v'; (1 << 20) - 1]);
        Scenario::new(Script::new().takes("a").takes("b").send(reply).close().next_connection().after())
            .start(take("a").fails(Ran::MaybeExecuted, Kind::Connection)).start(take("b").fails(Ran::MaybeExecuted, Kind::Connection))
    };
    a_thousand_replies_in_one_piece: {
        let keys: Vec<String> = (0..1000).map(|key| key.to_string()).collect();
        let script = keys.iter().fold(Script::new(), |script, key| script.takes(key));
        let replies: Vec<u8> = keys.iter().flat_map(|key| own(key)).collect();
        keys.iter().fold(Scenario::new(script.send(replies).after()), |scenario, key| scenario.start(take(key)))
    };
}
