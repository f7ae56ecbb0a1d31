//! Pipelines: each command has its own reply or its own error, however the connection ends.

use bytes::Bytes;
use pilotlight_redis::{Ran, Value};
use pilotlight_testkit::{Script, Signal};

use super::scenario::{Caller, Kind, Scenario, ScriptExt, asks_shared, own, pipeline, take};
use super::scenarios;

const KEYS: [&str; 6] = ["p1", "p2", "p3", "p4", "p5", "p6"];

fn all_taken() -> Script {
    KEYS.iter().fold(Script::new(), |script, key| script.takes(key))
}

fn whole() -> Caller {
    pipeline("p", &KEYS)
}

/// Three commands, of which the second is larger than what a peer that does not read takes.
fn with_a_big_one() -> Caller {
    let big = asks_shared("big", "SET", vec![Bytes::from_static(b"big"), Bytes::from(vec![b'x'; 24 << 20])]);
    whole().with(1, big.gets(Value::Simple(Bytes::from_static(b"OK"))))
}

scenarios! {
    all_in_one_piece: {
        let replies: Vec<u8> = KEYS.iter().flat_map(|key| own(key)).collect();
        Scenario::new(all_taken().send(replies).after()).start(whole())
    };
    all_byte_by_byte: {
        let replies: Vec<u8> = KEYS.iter().flat_map(|key| own(key)).collect();
        Scenario::new(all_taken().send_each_byte(replies).after()).start(whole())
    };
    pushes_between_and_inside: {
        let push = b">2\r\n+x\r\n+y\r\n";
        let script = all_taken().send(push).gives("p1").send(push).gives("p2").gives("p3").gives("p4").gives("p5").send(push).gives("p6");
        Scenario::new(script.after()).start(whole())
    };
    two_pipelines_and_single_commands: {
        let script = Script::new().takes("p1").takes("p2").takes("a").takes("p3").takes("p4").takes("b");
        let replies: Vec<u8> = ["p1", "p2", "a", "p3", "p4", "b"].iter().flat_map(|key| own(key)).collect();
        Scenario::new(script.send_chunked(replies, 5).after())
            .start(pipeline("p", &["p1", "p2"])).start(take("a")).start(pipeline("q", &["p3", "p4"])).start(take("b"))
    };
    an_error_in_the_middle: {
        let script = all_taken().gives("p1").gives("p2").send("-ERR no\r\n").gives("p4").gives("p5").gives("p6");
        Scenario::new(script.after()).start(whole().fails_at(2..3, Ran::Executed, Kind::Server))
    };
    cut_in_the_middle: {
        let script = all_taken().gives("p1").gives("p2").gives("p3").close().next_connection();
        Scenario::new(script.after()).start(whole().fails_at(3..6, Ran::MaybeExecuted, Kind::Connection))
    };
    cut_within_a_reply: {
        let script = all_taken().gives("p1").send("$11\r\nvalue").reset().next_connection();
        // RST may overtake what was sent before it.
        Scenario::new(script.after()).start(whole().fails_at(1..6, Ran::MaybeExecuted, Kind::Connection).or_fails_at(0, Kind::Connection))
    };
    garbage_in_the_middle: {
        let script = all_taken().gives("p1").gives("p2").send("?\r\n").next_connection();
        Scenario::new(script.after()).start(whole().fails_at(2..6, Ran::MaybeExecuted, Kind::Protocol))
    };
    cut_before_the_first_reply: {
        let script = all_taken().close().next_connection();
        Scenario::new(script.after()).start(whole().fails(Ran::MaybeExecuted, Kind::Connection))
    };
    cut_and_retryable: {
        let script = all_taken().gives("p1").gives("p2").close().next_connection().answers("p3").answers("p4").answers("p5").answers("p6");
        Scenario::new(script.after()).start(whole().retryable())
    };
    // What was not written is certainly not run: it goes on the next connection, and nothing else does.
    cut_while_it_is_being_written: {
        let cut = Signal::new();
        let script = Script::new().answers("first").takes("p1").gives("p1").pause_until(&cut).close().next_connection();
        let script = script.expect_name("SET").send("+OK\r\n").answers("p3").answers("p4").answers("p5").answers("p6");
        Scenario::new(script.after()).start(take("first")).settle("first").start(with_a_big_one()).taken().raise(&cut)
    };
    cut_while_it_is_being_written_before_any_reply: {
        let cut = Signal::new();
        let script = Script::new().answers("first").takes("p1").pause_until(&cut).close().next_connection();
        let script = script.expect_name("SET").send("+OK\r\n").answers("p3").answers("p4").answers("p5").answers("p6");
        Scenario::new(script.after())
            .start(take("first")).settle("first").start(with_a_big_one().fails_at(0..1, Ran::MaybeExecuted, Kind::Connection)).taken().raise(&cut)
    };
    replies_come_before_all_is_written: {
        let go = Signal::new();
        let script = Script::new().answers("first").takes("p1").gives("p1").pause_until(&go).expect_name("SET").send("+OK\r\n");
        let script = script.answers("p3").answers("p4").answers("p5").answers("p6");
        Scenario::new(script.after()).start(take("first")).settle("first").start(with_a_big_one()).taken().raise(&go)
    };
    lost_before_the_connection_is_there: {
        let script = Script::new().close().next_connection().close().next_connection();
        let script = KEYS.iter().fold(script, |script, key| script.answers(key));
        Scenario::new(script.after()).start(whole())
    };
    loading_in_the_middle_is_tried_again: {
        let script = all_taken().gives("p1").send("-LOADING not yet\r\n").gives("p3").gives("p4").gives("p5").gives("p6");
        Scenario::new(script.answers("p2").after()).start(whole())
    };
}
