//! Pushes and attributes, which are no replies, wherever they come.

use pilotlight_redis::Value;
use pilotlight_testkit::{Script, Signal};

use super::scenario::{Scenario, ScriptExt, own, take};
use super::scenarios;

const PUSH: &str = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n";
const NESTED: &str = ">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\nk\r\n%1\r\n+a\r\n:1\r\n";

fn around(reply: &[u8], chunk_bytes: usize) -> Scenario {
    let replies = [PUSH.as_bytes(), reply, NESTED.as_bytes(), PUSH.as_bytes(), &own("b"), NESTED.as_bytes()].concat();
    Scenario::new(Script::new().takes("a").takes("b").send_chunked(replies, chunk_bytes).after())
        .start(take("a"))
        .start(take("b"))
}

scenarios! {
    before_between_and_after_replies: around(&own("a"), usize::MAX);
    before_between_and_after_replies_byte_by_byte: around(&own("a"), 1);
    before_between_and_after_replies_in_pieces: around(&own("a"), 11);
    // redis#8935: a push can come between the elements of a reply.
    inside_of_a_reply: {
        let reply = format!("*3\r\n:1\r\n{PUSH}:2\r\n{NESTED}:3\r\n");
        let value = Value::Array((1..4).map(Value::Integer).collect());
        Scenario::new(Script::new().takes("a").takes("b").send(reply).gives("b").after()).start(take("a").gets(value)).start(take("b"))
    };
    inside_of_a_reply_byte_by_byte: {
        let reply = format!("%2\r\n:1\r\n{PUSH}:2\r\n{NESTED}:3\r\n:4\r\n");
        let [one, two, three, four] = [1, 2, 3, 4].map(Value::Integer);
        let value = Value::Map(vec![(one, two), (three, four)]);
        Scenario::new(Script::new().takes("a").takes("b").send_each_byte(reply).gives("b").after()).start(take("a").gets(value)).start(take("b"))
    };
    while_idle: {
        let sent = Signal::new();
        Scenario::new(Script::new().answers("a").send(PUSH).send_each_byte(NESTED).raise(&sent).answers("b").after())
            .start(take("a")).settle("a").when(&sent).start(take("b"))
    };
    right_behind_the_handshake: {
        let pong = format!("+PONG\r\n{PUSH}{NESTED}");
        Scenario::new(Script::new().expect(["PING"]).send(pong).answers("a").after()).start(take("a"))
    };
    half_a_push_right_behind_the_handshake: {
        let (head, tail) = NESTED.split_at(20);
        Scenario::new(Script::new().expect(["PING"]).send(format!("+PONG\r\n{head}")).send(tail).answers("a").after()).start(take("a"))
    };
    within_the_handshake: {
        let pong = format!("{PUSH}+PONG\r\n");
        Scenario::new(Script::new().expect(["PING"]).send(pong).answers("a").after()).start(take("a"))
    };
    a_storm_of_them: {
        let storm = PUSH.repeat(5000);
        Scenario::new(Script::new().takes("a").takes("b").send(&storm).gives("a").send(&storm).gives("b").after())
            .start(take("a")).start(take("b"))
    };
    an_attribute_before_each_reply: {
        let attribute = "|1\r\n+key-popularity\r\n%1\r\n$1\r\na\r\n,0.19\r\n";
        let replies = [attribute.as_bytes(), &own("a"), attribute.as_bytes(), PUSH.as_bytes(), &own("b")].concat();
        Scenario::new(Script::new().takes("a").takes("b").send_chunked(replies, 3).after()).start(take("a")).start(take("b"))
    };
    its_caller_left: {
        let (seen, go) = (Signal::new(), Signal::new());
        Scenario::new(Script::new().takes("a").raise(&seen).pause_until(&go).send(PUSH).gives("a").send(PUSH).answers("b").after())
            .start(take("a")).when(&seen).drop("a").start(take("b")).raise(&go)
    };
}
