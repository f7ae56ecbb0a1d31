//! Commands that are sent again, and what their callers are told in the end.

use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::WhenDown;
use pilotlight_redis::{Ran, Value};
use pilotlight_testkit::{Script, Signal};

use super::scenario::{Kind, Scenario, ScriptExt, asks_shared, begun, get, own, take};
use super::scenarios;

scenarios! {
    loading_is_waited_for: {
        Scenario::new(Script::new().takes("a").send("-LOADING not yet\r\n").takes("a").send("-LOADING not yet\r\n").answers("a").after())
            .start(take("a"))
    };
    others_are_not_held_up_by_one_that_waits: {
        let script = Script::new().takes("a").takes("b").send("-LOADING not yet\r\n").gives("b").answers("a");
        Scenario::new(script.after()).start(take("a")).start(take("b"))
    };
    // The second attempt was not sent, but the first one may have been executed.
    a_lost_attempt_is_not_forgotten: {
        let never = Signal::new();
        Scenario::new(begun().takes("a").close().next_connection().pause_until(&never).after())
            .connects().start(take("a").retryable().within(Duration::from_millis(100)).fails(Ran::MaybeExecuted, Kind::Timeout)).settle("a").raise(&never)
    };
    a_lost_read_that_runs_out_of_time: {
        let never = Signal::new();
        Scenario::new(begun().expect(["GET", "a"]).close().next_connection().pause_until(&never).after())
            .connects().start(get("a").within(Duration::from_millis(100)).fails(Ran::MaybeExecuted, Kind::Timeout)).settle("a").raise(&never)
    };
    a_server_that_is_no_primary_any_more_is_left_once: {
        // All three are told so on the first connection; only that one is given up.
        let readonly = "-READONLY You can't write against a read only replica.\r\n";
        let script = Script::new().answers("first").takes("a").takes("b").takes("c").send(readonly.repeat(3)).next_connection();
        let script = script.expect_name("GETDEL").expect_name("GETDEL").expect_name("GETDEL");
        Scenario::new(script.send(":1\r\n:1\r\n:1\r\n").after())
            .start(take("first")).settle("first").start(take("a").gets(Value::Integer(1))).start(take("b").gets(Value::Integer(1))).start(take("c").gets(Value::Integer(1)))
    };
    what_is_in_flight_on_a_connection_that_is_given_up_is_answered: {
        // The first is told to go elsewhere while the second is still being written: that one ends where it began.
        let (stuck, go) = (Signal::new(), Signal::new());
        let readonly = "-READONLY You can't write against a read only replica.\r\n";
        let script = Script::new().answers("first").takes("a").pause_until(&stuck).send(readonly).pause_until(&go);
        let script = script.expect_name("SET").send("+OK\r\n").next_connection().answers("a");
        let value = Bytes::from(vec![b'x'; 24 << 20]);
        let big = asks_shared("big", "SET", vec![Bytes::from_static(b"big"), value]);
        Scenario::new(script.after())
            .start(take("first")).settle("first").start(take("a")).taken()
            .start(big.gets(Value::Simple(Bytes::from_static(b"OK")))).taken().raise(&stuck).told().raise(&go).settle("big")
    };
    a_connection_that_is_given_up_is_not_waited_for_when_nobody_does: {
        let never = Signal::new();
        let readonly = "-READONLY You can't write against a read only replica.\r\n";
        let script = Script::new().answers("first").takes("a").takes("b").send(readonly).pause_until(&never);
        Scenario::new(script.next_connection().answers("a").after())
            .start(take("first")).settle("first").start(take("a"))
            .start(take("b").within(Duration::from_millis(30)).fails(Ran::MaybeExecuted, Kind::Timeout))
            .settle("b").settle("a").raise(&never)
    };
    nobody_waits_for_a_server_that_cannot_be_reached: {
        let go = Signal::new();
        Scenario::new(Script::new().answers("a").close().next_connection().pause_until(&go).answers("c").after())
            .config(|config| config.when_down = WhenDown::FailFast)
            .start(take("a")).settle("a").lost().start(take("b").fails(Ran::NotSent, Kind::Connection)).settle("b").raise(&go)
            .connected().start(take("c"))
    };
    a_read_is_repeated_beside_a_write_that_is_not: {
        let script = Script::new().takes("a").expect(["GET", "b"]).close().next_connection().expect(["GET", "b"]).send(own("b"));
        Scenario::new(script.after()).start(take("a").fails(Ran::MaybeExecuted, Kind::Connection)).start(get("b"))
    };
}
