//! Deadlines that pass, at every point where they can; replies that come all the same.

use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::{Overload, Probe};
use pilotlight_redis::{Ran, Value};
use pilotlight_testkit::{Script, Signal};

use super::scenario::{Caller, Kind, Scenario, ScriptExt, asks_shared, begun, own, pipeline, take};
use super::scenarios;

const SHORT: Duration = Duration::from_millis(30);

fn big() -> Caller {
    asks_shared("big", "SET", vec![Bytes::from_static(b"big"), Bytes::from(vec![b'x'; 24 << 20])])
        .gets(Value::Simple(Bytes::from_static(b"OK")))
}

fn blocked(go: &Signal) -> Script {
    Script::new().answers("first").pause_until(go).expect_name("SET").send("+OK\r\n")
}

scenarios! {
    the_reply_comes_after_the_deadline: {
        let (seen, go) = (Signal::new(), Signal::new());
        Scenario::new(begun().takes("a").raise(&seen).pause_until(&go).gives("a").answers("b").after())
            .connects().start(take("a").within(SHORT).fails(Ran::MaybeExecuted, Kind::Timeout)).settle("a").when(&seen).start(take("b")).raise(&go)
    };
    the_deadline_passes_within_the_reply: {
        let go = Signal::new();
        Scenario::new(begun().takes("a").send(&own("a")[..9]).pause_until(&go).send(&own("a")[9..]).answers("b").after())
            .connects().start(take("a").within(SHORT).fails(Ran::MaybeExecuted, Kind::Timeout)).settle("a").start(take("b")).raise(&go)
    };
    the_deadline_passes_for_the_second_only: {
        let go = Signal::new();
        Scenario::new(begun().takes("a").takes("b").takes("c").pause_until(&go).gives("a").gives("b").gives("c").after())
            .connects().start(take("a")).start(take("b").within(SHORT).fails(Ran::MaybeExecuted, Kind::Timeout)).start(take("c"))
            .settle("b").raise(&go)
    };
    the_deadline_passes_and_nobody_looks: {
        let go = Signal::new();
        Scenario::new(begun().takes("a").takes("b").pause_until(&go).gives("a").gives("b").after())
            .connects().start(take("a").within(SHORT).fails(Ran::MaybeExecuted, Kind::Timeout)).start(take("b"))
            .timed_out().raise(&go).unfetched().settle("a")
    };
    what_times_out_in_the_queue_is_never_sent: {
        let go = Signal::new();
        Scenario::new(blocked(&go).answers("b").after())
            .start(take("first")).settle("first").start(big()).taken()
            .start(take("a").within(SHORT).fails(Ran::NotSent, Kind::Timeout)).start(take("b")).settle("a").raise(&go)
    };
    what_times_out_in_the_queue_and_is_not_looked_at_is_never_sent: {
        let go = Signal::new();
        Scenario::new(blocked(&go).answers("b").after())
            .start(take("first")).settle("first").start(big()).taken()
            .start(take("a").within(SHORT).fails(Ran::NotSent, Kind::Timeout)).start(take("b")).timed_out().raise(&go).unfetched().settle("a")
    };
    a_large_shared_value_that_times_out_in_the_queue_is_never_sent: {
        let go = Signal::new();
        let spliced = asks_shared("a", "SET", vec![Bytes::from_static(b"a"), Bytes::from(vec![b'x'; 100_000])]);
        Scenario::new(blocked(&go).answers("b").after())
            .start(take("first")).settle("first").start(big()).taken()
            .start(spliced.within(SHORT).fails(Ran::NotSent, Kind::Timeout)).start(take("b")).settle("a").raise(&go)
    };
    what_times_out_before_the_connection_is_there_is_never_sent: {
        let go = Signal::new();
        Scenario::new(Script::new().pause_until(&go).answers("b").after())
            .start(take("a").within(SHORT).fails(Ran::NotSent, Kind::Timeout)).start(take("b")).settle("a").raise(&go)
    };
    no_time_at_all: {
        Scenario::new(Script::new().answers("first").answers("b").after())
            .start(take("first")).settle("first").start(take("b")).settle("b")
            .start(take("never").within(Duration::ZERO).fails(Ran::NotSent, Kind::Timeout)).settle("never")
    };
    a_pipeline_times_out_between_its_replies: {
        let go = Signal::new();
        let script = begun().takes("p1").takes("p2").takes("p3").gives("p1").gives("p2").pause_until(&go).gives("p3");
        Scenario::new(script.answers("b").after())
            .connects().start(pipeline("p", &["p1", "p2", "p3"]).within(Duration::from_millis(200)).fails_at(2..3, Ran::MaybeExecuted, Kind::Timeout))
            .settle("p").start(take("b")).raise(&go)
    };
    a_pipeline_times_out_in_the_queue: {
        let go = Signal::new();
        Scenario::new(blocked(&go).answers("b").after())
            .start(take("first")).settle("first").start(big()).taken()
            .start(pipeline("p", &["p1", "p2"]).within(SHORT).fails(Ran::NotSent, Kind::Timeout)).settle("p").start(take("b")).raise(&go)
    };
    the_deadline_passes_while_it_waits_for_the_byte_budget: {
        let go = Signal::new();
        Scenario::new(Script::new().takes("a").pause_until(&go).gives("a").answers("c").after())
            .config(|config| config.max_queued_bytes = 100)
            .start(take("a")).start(take("b").within(SHORT).fails(Ran::NotSent, Kind::Timeout)).settle("b").start(take("c")).raise(&go)
    };
    the_byte_budget_is_used_up_and_nobody_waits: {
        let go = Signal::new();
        Scenario::new(Script::new().takes("a").pause_until(&go).gives("a").answers("c").after())
            .config(|config| (config.max_queued_bytes, config.overload) = (100, Overload::Reject))
            .start(take("a")).start(take("b").fails(Ran::NotSent, Kind::Overloaded)).settle("b").raise(&go).settle("a").start(take("c"))
    };
    a_pipeline_waits_for_the_byte_budget: {
        let go = Signal::new();
        Scenario::new(Script::new().takes("a").pause_until(&go).gives("a").answers("p1").answers("p2").after())
            .config(|config| config.max_queued_bytes = 150)
            .start(take("a")).start(pipeline("p", &["p1", "p2"])).raise(&go)
    };
    those_who_wait_for_the_byte_budget_go_in_order: {
        let go = Signal::new();
        let keys: Vec<String> = (0..20).map(|key| key.to_string()).collect();
        let script = Script::new().takes("a").pause_until(&go).gives("a");
        let script = keys.iter().fold(script, |script, key| script.answers(key));
        let scenario = Scenario::new(script.after()).config(|config| config.max_queued_bytes = 100).start(take("a"));
        keys.iter().fold(scenario, |scenario, key| scenario.start(take(key))).raise(&go)
    };
    one_who_waits_for_the_byte_budget_leaves: {
        let go = Signal::new();
        Scenario::new(Script::new().takes("a").pause_until(&go).gives("a").answers("c").after())
            .config(|config| config.max_queued_bytes = 100)
            .start(take("a")).start(take("b")).start(take("c")).drop("b").raise(&go)
    };
    whoever_left_the_queue_makes_room: {
        let go = Signal::new();
        Scenario::new(Script::new().pause_until(&go).answers("b").after())
            .config(|config| config.max_queued_bytes = 100)
            .start(take("a")).start(take("b")).drop("a").raise(&go)
    };
    whoever_timed_out_in_the_queue_makes_room: {
        let (go, served) = (Signal::new(), Signal::new());
        Scenario::new(Script::new().pause_until(&go).takes("b").raise(&served).gives("b").after())
            .config(|config| config.max_queued_bytes = 100)
            .start(take("a").within(SHORT).fails(Ran::NotSent, Kind::Timeout)).start(take("b")).settle("a").raise(&go).when(&served)
    };
    a_black_hole_is_left: {
        // It reads and answers nothing, nor does it answer on a new connection: after the deadline nobody waits, and
        // the next connection is tried.
        let never = Signal::new();
        let script = Script::new().answers("first").takes("a").serve_until(&never).next_connection().pause_until(&never).next_connection();
        Scenario::new(script.answers("b").after())
            .config(|config| {
                config.probe = Probe { idle_ping: None, stall: Some(Duration::from_millis(60)) };
                config.connect_timeout = Duration::from_millis(100);
            })
            .start(take("first")).settle("first").start(take("a").within(5 * SHORT).fails(Ran::MaybeExecuted, Kind::Timeout)).settle("a").lost()
            .start(take("b").within(Duration::from_secs(10))).settle("b").raise(&never)
    };
    a_half_open_connection_is_left: {
        let never = Signal::new();
        let script = Script::new().answers("first").takes("a").pause_until(&never).next_connection().next_connection();
        Scenario::new(script.answers("b").after())
            .config(|config| config.probe = Probe { idle_ping: None, stall: Some(Duration::from_millis(60)) })
            .start(take("first")).settle("first").start(take("a").within(5 * SHORT).fails(Ran::MaybeExecuted, Kind::Timeout)).settle("a").lost()
            .start(take("b")).settle("b").raise(&never)
    };
    an_idle_half_open_connection_is_left_before_anybody_needs_it: {
        let never = Signal::new();
        let script = Script::new().answers("first").pause_until(&never).next_connection().next_connection();
        Scenario::new(script.answers("b").after())
            .config(|config| config.probe = Probe { idle_ping: Some(Duration::from_millis(20)), stall: Some(Duration::from_millis(60)) })
            .start(take("first")).settle("first").lost().start(take("b")).settle("b").raise(&never)
    };
    a_slow_server_is_not_left_while_it_says_something: {
        let script = Script::new().takes("a").send_chunked(own("a"), 1);
        Scenario::new(script.after())
            .config(|config| config.probe = Probe { idle_ping: None, stall: Some(Duration::from_millis(500)) })
            .start(take("a"))
    };
}
