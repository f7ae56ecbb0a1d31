//! Handshakes that fail, late or half, and what becomes of those who wait for them.

use std::sync::Arc;

use pilotlight_redis::Ran;
use pilotlight_redis::config::Credentials;
use pilotlight_testkit::{Handshake, Script, Signal};

use super::scenario::{Kind, Scenario, ScriptExt, take};
use super::scenarios;

scenarios! {
    an_old_server: Scenario::new(Script::new().answers("a").after()).handshake(Handshake::resp2_only()).start(take("a"));
    too_many_clients_and_then_a_place: {
        let full = Script::new().send("-ERR max number of clients reached\r\n").close().next_connection();
        Scenario::new(full.answers("a").after()).start(take("a"))
    };
    it_is_loading_and_then_ready: {
        let loading = Script::new().expect(["PING"]).send("-LOADING Redis is loading\r\n").next_connection();
        Scenario::new(loading.expect(["PING"]).send("+PONG\r\n").answers("a").after()).start(take("a"))
    };
    hello_is_refused_late: {
        let (asked, go) = (Signal::new(), Signal::new());
        let script = Script::new().expect_name("HELLO").raise(&asked).pause_until(&go).send("-NOPROTO sorry\r\n").answers("a");
        Scenario::new(script.after()).start(take("a")).when(&asked).raise(&go)
    };
    hello_is_answered_byte_by_byte: {
        let hello = "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:3\r\n";
        Scenario::new(Script::new().expect_name("HELLO").send_each_byte(hello).answers("a").after()).start(take("a"))
    };
    closed_in_the_middle_of_hello: {
        let script = Script::new().expect_name("HELLO").send("%3\r\n$6\r\nser").close().next_connection();
        Scenario::new(script.answers("a").after()).start(take("a"))
    };
    garbage_instead_of_hello: {
        let script = Script::new().expect_name("HELLO").send("what?\r\n").next_connection();
        Scenario::new(script.answers("a").after()).start(take("a"))
    };
    one_reply_too_many_in_the_middle: {
        // It shifts the replies of the handshake: PING is answered by what belongs to another, and its own answer is
        // one too many.
        let script = Script::new().expect_name("HELLO").send("-ERR unknown\r\n+STALE\r\n").next_connection();
        Scenario::new(script.answers("a").after()).start(take("a"))
    };
    a_wrong_password_is_told_at_once: {
        let script = Script::new().expect_name("HELLO").send("-WRONGPASS invalid username-password pair\r\n").next_connection();
        Scenario::new(script.after())
            .config(|config| config.credentials = Some(Arc::new(Credentials::new("user", "wrong"))))
            .start(take("a").fails(Ran::NotSent, Kind::Rejected)).start(take("b").fails(Ran::NotSent, Kind::Rejected))
    };
    // redis/redis#15640: behind an AUTH that fails, replies can be lost. Nothing is sent behind it.
    nothing_is_sent_behind_an_auth_that_is_not_answered: {
        let (asked, go) = (Signal::new(), Signal::new());
        let script = Script::new().expect_name("HELLO").send("-ERR unknown command 'HELLO'\r\n");
        let script = script.expect_name("AUTH").raise(&asked).serve_until(&go).send("+OK\r\n").answers("a").answers("b");
        Scenario::new(script.after())
            .config(|config| config.credentials = Some(Arc::new(Credentials::password("secret"))))
            .start(take("a")).start(take("b")).when(&asked).nothing_behind("AUTH").raise(&go)
    };
    the_password_is_asked_for_in_the_middle: {
        // Somebody has changed the rules: a new connection presents the credentials.
        let script = Script::new().answers("a").takes("b").send("-NOAUTH Authentication required.\r\n").next_connection();
        Scenario::new(script.answers("b").after())
            .config(|config| config.credentials = Some(Arc::new(Credentials::password("secret"))))
            .start(take("a")).settle("a").start(take("b"))
    };
}
