//! Callers that leave, at every point where they can.

use bytes::Bytes;
use pilotlight_redis::Value;
use pilotlight_testkit::{Script, Signal};

use super::scenario::{Caller, Scenario, ScriptExt, asks_shared, own, pipeline, take};
use super::scenarios;

/// More than the buffers between the client and a peer that does not read hold.
const BLOCKING_BYTES: usize = 24 << 20;

/// The connection is made; `a` is with the peer, which says so and waits.
fn a_is_there(seen: &Signal, go: &Signal) -> Script {
    Script::new().takes("a").raise(seen).pause_until(go)
}

/// The peer reads nothing, so that what comes after `SET big` is queued.
fn blocked(go: &Signal, blocked: &Signal) -> Script {
    Script::new().answers("first").raise(blocked).pause_until(go).expect_name("SET").send("+OK\r\n")
}

fn big() -> Caller {
    let value = Bytes::from(vec![b'x'; BLOCKING_BYTES]);
    asks_shared("big", "SET", vec![Bytes::from_static(b"big"), value]).gets(Value::Simple(Bytes::from_static(b"OK")))
}

scenarios! {
    dropped_before_the_connection_is_there: {
        let go = Signal::new();
        Scenario::new(Script::new().pause_until(&go).answers("b").after())
            .start(take("a")).start(take("b")).drop("a").raise(&go)
    };
    all_dropped_before_the_connection_is_there: {
        let go = Signal::new();
        Scenario::new(Script::new().pause_until(&go).after())
            .start(take("a")).start(take("b")).drop("a").drop("b").raise(&go)
    };
    dropped_in_the_queue_behind_a_blocked_write: {
        let (go, stuck) = (Signal::new(), Signal::new());
        Scenario::new(blocked(&go, &stuck).answers("b").after())
            .start(take("first")).when(&stuck).settle("first")
            .start(big()).taken().start(take("a")).start(take("b")).drop("a").raise(&go)
    };
    a_large_shared_value_dropped_in_the_queue_is_not_sent: {
        let (go, stuck) = (Signal::new(), Signal::new());
        let spliced = asks_shared("a", "SET", vec![Bytes::from_static(b"a"), Bytes::from(vec![b'x'; 100_000])]);
        Scenario::new(blocked(&go, &stuck).answers("b").after())
            .start(take("first")).when(&stuck).settle("first")
            .start(big()).taken().start(spliced).start(take("b")).drop("a").raise(&go)
    };
    the_blocked_writer_itself_is_dropped: {
        let (go, stuck) = (Signal::new(), Signal::new());
        Scenario::new(blocked(&go, &stuck).answers("b").after())
            .start(take("first")).when(&stuck).settle("first")
            .start(big()).taken().start(take("b")).drop("big").raise(&go)
    };
    dropped_after_it_was_written: {
        let (seen, go) = (Signal::new(), Signal::new());
        Scenario::new(a_is_there(&seen, &go).gives("a").answers("b").after())
            .start(take("a")).when(&seen).drop("a").start(take("b")).raise(&go)
    };
    dropped_in_the_middle_of_its_reply: {
        let (seen, go) = (Signal::new(), Signal::new());
        let (head, tail) = (&own("a")[..7], &own("a")[7..]);
        Scenario::new(Script::new().takes("a").send(head).raise(&seen).pause_until(&go).send(tail).answers("b").after())
            .start(take("a")).when(&seen).drop("a").start(take("b")).raise(&go)
    };
    dropped_with_its_reply_unfetched: {
        let seen = Signal::new();
        Scenario::new(Script::new().takes("a").raise(&seen).gives("a").answers("b").after())
            .start(take("a")).unfetched().drop("a").start(take("b"))
    };
    every_other_one_dropped_after_all_were_written: {
        let (seen, go) = (Signal::new(), Signal::new());
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let script = keys.iter().fold(Script::new(), |script, key| script.takes(key)).raise(&seen).pause_until(&go);
        let script = keys.iter().fold(script, |script, key| script.gives(key)).after();
        let scenario = keys.iter().fold(Scenario::new(script), |scenario, key| scenario.start(take(key))).when(&seen);
        ["a", "c", "e", "g"].iter().fold(scenario, |scenario, key| scenario.drop(key)).raise(&go)
    };
    all_dropped_after_all_were_written: {
        let (seen, go) = (Signal::new(), Signal::new());
        let keys = ["a", "b", "c"];
        let script = keys.iter().fold(Script::new(), |script, key| script.takes(key)).raise(&seen).pause_until(&go);
        let script = keys.iter().fold(script, |script, key| script.gives(key)).answers("d").after();
        let scenario = keys.iter().fold(Scenario::new(script), |scenario, key| scenario.start(take(key))).when(&seen);
        keys.iter().fold(scenario, |scenario, key| scenario.drop(key)).start(take("d")).raise(&go)
    };
    dropped_and_then_the_connection_is_cut: {
        let (seen, go) = (Signal::new(), Signal::new());
        Scenario::new(a_is_there(&seen, &go).close().next_connection().answers("b").after())
            .start(take("a")).when(&seen).drop("a").raise(&go).lost().start(take("b"))
    };
    dropped_while_it_waits_to_be_sent_again: {
        let (seen, go) = (Signal::new(), Signal::new());
        Scenario::new(Script::new().takes("a").send("-LOADING not yet\r\n").raise(&seen).pause_until(&go).answers("b").after())
            .start(take("a")).unfetched().when(&seen).drop("a").start(take("b")).raise(&go)
    };
    a_pipeline_dropped_in_the_queue: {
        let (go, stuck) = (Signal::new(), Signal::new());
        Scenario::new(blocked(&go, &stuck).answers("b").after())
            .start(take("first")).when(&stuck).settle("first")
            .start(big()).taken().start(pipeline("p", &["p1", "p2", "p3"])).start(take("b")).drop("p").raise(&go)
    };
    a_pipeline_dropped_after_it_was_written: {
        let (seen, go) = (Signal::new(), Signal::new());
        let script = Script::new().takes("p1").takes("p2").takes("b").raise(&seen).pause_until(&go).gives("p1").gives("p2").gives("b");
        Scenario::new(script.after())
            .start(pipeline("p", &["p1", "p2"])).start(take("b")).when(&seen).drop("p").raise(&go)
    };
    a_pipeline_dropped_between_its_replies: {
        let (seen, go) = (Signal::new(), Signal::new());
        let script = Script::new().takes("p1").takes("p2").takes("b").gives("p1").send("$11").raise(&seen).pause_until(&go);
        Scenario::new(script.send(&own("p2")[3..]).gives("b").after())
            .start(pipeline("p", &["p1", "p2"])).start(take("b")).when(&seen).drop("p").raise(&go)
    };
}
