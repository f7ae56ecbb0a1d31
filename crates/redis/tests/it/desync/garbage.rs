//! Peers that send what nobody asked for, or what is no reply.

use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::{Ran, Value};
use pilotlight_testkit::{Script, Signal};

use super::scenario::{Caller, Kind, Scenario, ScriptExt, asks, asks_shared, begun, own, take};
use super::scenarios;

/// `a` is answered with this and nothing more.
fn instead_of_a_reply(garbage: &[u8]) -> Scenario {
    Scenario::new(Script::new().takes("a").takes("b").send(garbage).next_connection().after())
        .start(take("a").fails(Ran::MaybeExecuted, Kind::Protocol))
        .start(take("b").fails(Ran::MaybeExecuted, Kind::Protocol))
}

/// `a` is answered with a reply beyond a limit whose end is not to be found.
fn instead_of_an_end(reply: &[u8]) -> Scenario {
    Scenario::new(Script::new().takes("a").takes("b").send(reply).next_connection().after())
        .start(take("a").fails(Ran::Executed, Kind::Other))
        .start(take("b").fails(Ran::MaybeExecuted, Kind::Protocol))
}

/// An idle client is sent this, drops the connection, and goes on.
fn while_idle(garbage: &[u8]) -> Scenario {
    Scenario::new(Script::new().answers("a").send(garbage).next_connection().answers("b").after())
        .start(take("a"))
        .lost()
        .settle("a")
        .start(take("b"))
}

/// Larger than the buffers between the client and a peer that does not read.
fn big() -> Caller {
    asks_shared("big", "SET", vec![Bytes::from_static(b"big"), Bytes::from(vec![b'x'; 24 << 20])])
}

scenarios! {
    a_letter_that_is_no_type: instead_of_a_reply(b"hello\r\n");
    an_http_answer: instead_of_a_reply(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    a_length_that_is_no_number: instead_of_a_reply(b"$x\r\n");
    a_negative_length: instead_of_a_reply(b"*-7\r\n");
    a_length_beyond_all_limits: instead_of_an_end(b"$99999999999\r\n");
    a_bulk_that_is_longer_than_its_length: instead_of_a_reply(b"$2\r\nabc\r\n");
    a_line_without_its_line_feed: instead_of_a_reply(b"+OK\rOK\r\n");
    zeros: instead_of_a_reply(&[0; 64]);
    nested_too_deep_and_then_garbage: instead_of_an_end(&[b"*1\r\n".repeat(200), b"?".to_vec()].concat());
    a_push_that_is_nested_too_deep: instead_of_a_reply(&[&b">2\r\n+x\r\n"[..], &b"*1\r\n".repeat(200)].concat());
    more_elements_than_the_limit_and_then_garbage: instead_of_an_end(b"*999999999\r\n+x\r\n?\r\n");
    an_end_of_nothing: instead_of_a_reply(b".\r\n");
    a_push_without_a_kind_in_an_array_that_never_ends: instead_of_a_reply(b"*2\r\n>1\r\n+x\r\n?\r\n");

    nested_too_deep: {
        let reply = [b"*1\r\n".repeat(200), b":1\r\n".to_vec(), own("b")].concat();
        Scenario::new(Script::new().takes("a").takes("b").send(reply).after())
            .start(take("a").fails(Ran::Executed, Kind::Other)).start(take("b"))
    };
    garbage_after_a_good_reply: {
        let reply = [own("a"), b"garbage\r\n".to_vec()].concat();
        Scenario::new(Script::new().takes("a").takes("b").send(reply).next_connection().after())
            .start(take("a")).start(take("b").fails(Ran::MaybeExecuted, Kind::Protocol))
    };
    a_reply_that_nobody_asked_for: while_idle(b"+OK\r\n");
    an_error_that_nobody_asked_for: while_idle(b"-ERR idle for too long\r\n");
    half_a_reply_that_nobody_asked_for_and_then_the_rest: while_idle(b"$5\r\nhello\r\n");
    garbage_while_idle: while_idle(b"garbage\r\n");
    one_reply_too_many_right_behind_the_right_one: {
        let replies = [own("a"), own("stale")].concat();
        Scenario::new(Script::new().takes("a").send(replies).next_connection().answers("b").after())
            .start(take("a")).lost().settle("a").start(take("b"))
    };
    one_reply_too_many_while_the_next_is_queued_behind_a_blocked_write: {
        // The peer answers a command that it has not read: the answer is not for it.
        let (stuck, go) = (Signal::new(), Signal::new());
        let script = Script::new().answers("first").pause_until(&stuck).send("+OK\r\n").pause_until(&go).next_connection();
        Scenario::new(script.answers("a").expect_name("SET").send("+OK\r\n").after())
            .start(take("first")).settle("first")
            .start(big().gets(Value::Simple(Bytes::from_static(b"OK")))).taken().start(take("a")).raise(&stuck).lost().raise(&go)
    };
    an_error_before_the_command_was_read: {
        let (stuck, go) = (Signal::new(), Signal::new());
        let script = Script::new().answers("first").pause_until(&stuck).send("-ERR Protocol error: invalid bulk length\r\n").pause_until(&go);
        Scenario::new(script.next_connection().answers("a").after())
            .start(take("first")).settle("first")
            .start(big().fails(Ran::Executed, Kind::Server)).taken().raise(&stuck).settle("big").start(take("a")).raise(&go)
    };
    right_behind_the_handshake: {
        let script = Script::new().expect(["PING"]).send("+PONG\r\n+STALE\r\n").next_connection();
        Scenario::new(script.expect(["PING"]).send("+PONG\r\n").answers("a").after()).start(take("a"))
    };
    an_extra_reply_and_then_the_end: {
        let replies = [own("a"), b"-ERR Closing idle connection\r\n".to_vec()].concat();
        Scenario::new(Script::new().takes("a").send(replies).close().next_connection().answers("b").after())
            .start(take("a")).lost().settle("a").start(take("b"))
    };
    nulls_and_empty_strings_are_different_replies: {
        let script = Script::new().takes("a").takes("b").takes("c").takes("d").takes("e");
        Scenario::new(script.send("$-1\r\n$0\r\n\r\n_\r\n*-1\r\n*0\r\n").after())
            .start(take("a").gets(Value::Null)).start(take("b").gets(Value::Bulk(Bytes::new()))).start(take("c").gets(Value::Null))
            .start(take("d").gets(Value::Null)).start(take("e").gets(Value::Array(vec![])))
    };
    an_error_is_only_its_own_callers: {
        let replies = [own("a"), b"-ERR not you\r\n".to_vec(), b"!11\r\nERR nor you\r\n".to_vec(), own("d")].concat();
        Scenario::new(Script::new().takes("a").takes("b").takes("c").takes("d").send(replies).after())
            .start(take("a")).start(take("b").fails(Ran::Executed, Kind::Server))
            .start(take("c").fails(Ran::Executed, Kind::Server)).start(take("d"))
    };
    errors_within_the_reply_of_exec_are_values: {
        let nested = Value::Array(vec![Value::Integer(1), Value::Error(Bytes::from_static(b"ERR inner")), Value::Null]);
        Scenario::new(Script::new().expect(["ASK", "a"]).takes("b").send("*3\r\n:1\r\n-ERR inner\r\n_\r\n").gives("b").after())
            .start(asks("a", "ASK", &["a"]).gets(nested)).start(take("b"))
    };
    a_command_without_a_word_has_its_own_reply: {
        let script = Script::new().expect([""]).send("-ERR unknown command ''\r\n").answers("b");
        Scenario::new(script.after()).start(asks("a", "", &[]).fails(Ran::Executed, Kind::Server)).start(take("b"))
    };
    a_reply_that_dribbles_after_its_caller_gave_up: {
        let (seen, go) = (Signal::new(), Signal::new());
        let script = begun().takes("a").send(&own("a")[..3]).raise(&seen).pause_until(&go).send_each_byte(&own("a")[3..]);
        Scenario::new(script.answers("b").after())
            .connects().start(take("a").within(Duration::from_millis(30)).fails(Ran::MaybeExecuted, Kind::Timeout)).when(&seen).settle("a")
            .start(take("b")).raise(&go)
    };
}
