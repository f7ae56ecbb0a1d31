//! Handshakes by value: waves of commands, and what the server answers to each of them.

use bytes::BytesMut;
use pilotlight_resp::{Decoder, Frame, Limits};

use super::*;

const REDIS_7: &str = "%7 +server +redis +version +7.4.1 +proto :3 +id :42 +mode +standalone +role +master +modules *0";
const VALKEY_8: &str = "%8 +server +valkey +version +8.1.0 +proto :3 +id :7 +mode +cluster +role +replica \
                        +availability_zone +eu-1a +modules *0";
const UNKNOWN_HELLO: &str = "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `alice`, `s3cret`, ";

fn plan(style: Style) -> Plan {
    Plan {
        style,
        credentials: None,
        client_name: None,
        database: 0,
        read_only: ReadOnly::No,
        follows_redirects: false,
        wants_zone: false,
        wants_role: false,
        resets: false,
        no_evict: false,
        no_touch: false,
        checks_readiness: true,
        extra: Vec::new(),
    }
}

fn alice(style: Style) -> Plan {
    Plan { credentials: Some(Credentials::new("alice", "s3cret")), ..plan(style) }
}

/// Plays the waves of `script`, each with the commands that are expected and their replies, up to the first error.
#[track_caller]
fn play(plan: Plan, script: &[(&[&str], &[&str])]) -> Result<ServerInfo, HandshakeError> {
    let mut handshake = Handshake::new(plan);
    for (number, (commands, replies)) in script.iter().enumerate() {
        let mut out = Vec::new();
        assert!(handshake.send(&mut out), "wave {number} is not sent");
        assert_eq!(sent(&out), *commands, "wave {number}");
        assert_eq!(handshake.awaited(), commands.len());
        assert_eq!(replies.len(), commands.len(), "the script's wave {number}");
        for text in *replies {
            handshake.receive(reply(text))?;
        }
    }
    let mut out = Vec::new();
    assert!(!handshake.send(&mut out), "more is sent: {:?}", sent(&out));
    assert!(out.is_empty());
    Ok(handshake.into_server())
}

/// The commands in `bytes`, as text.
fn sent(bytes: &[u8]) -> Vec<String> {
    let (mut input, mut decoder) = (BytesMut::from(bytes), Decoder::new(Limits::default()));
    let mut commands = Vec::new();
    while let Some(frame) = decoder.decode(&mut input).unwrap() {
        let Frame::Reply(Value::Array(words)) = frame else { panic!("{frame:?}") };
        let words = words.into_iter().map(|word| match word {
            Value::Bulk(word) => String::from_utf8(word.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        });
        commands.push(words.collect::<Vec<_>>().join(" "));
    }
    commands
}

/// A reply: an error's line, a bulk after `$`, or RESP lines with blanks between them.
fn reply(text: &str) -> Value {
    let bytes = match text.as_bytes() {
        [b'-', ..] => format!("{text}\r\n"),
        [b'$', bulk @ ..] => format!("${}\r\n{}\r\n", bulk.len(), &text[1..]),
        _ => text.split_ascii_whitespace().flat_map(|line| [line, "\r\n"]).collect(),
    };
    match Decoder::new(Limits::default()).decode(&mut BytesMut::from(bytes.as_str())) {
        Ok(Some(Frame::Reply(value))) => value,
        other => panic!("{text}: {other:?}"),
    }
}

fn error(text: &str) -> ServerError {
    ServerError::parse(text.as_bytes())
}

const NAME: &str = "CLIENT SETINFO LIB-NAME pilotlight-redis";
const VERSION: &str = concat!("CLIENT SETINFO LIB-VER ", env!("CARGO_PKG_VERSION"));
/// The answers to [`NAME`], [`VERSION`] and `PING`.
const FINE: &[&str] = &["+OK", "+OK", "+PONG"];
const SETUP: &[&str] = &[NAME, VERSION, "PING"];

#[test]
fn redis_7_speaks_resp3() {
    let server = play(plan(Style::Auto), &[(&["HELLO 3"], &[REDIS_7]), (SETUP, FINE)]).unwrap();
    assert_eq!(
        server,
        ServerInfo {
            is_busy: false,
            protocol: Protocol::Resp3,
            name: Some("redis".into()),
            version: Some("7.4.1".into()),
            mode: Some(ServerMode::Standalone),
            role: Some(Role::Primary),
            id: Some(42),
            availability_zone: None,
        }
    );
}

#[test]
fn valkey_tells_its_zone() {
    let plan = Plan { wants_zone: true, read_only: ReadOnly::Required, ..plan(Style::Auto) };
    let setup: &[&str] = &[NAME, VERSION, "READONLY", "PING"];
    let server = play(plan, &[(&["HELLO 3"], &[VALKEY_8]), (setup, &["+OK", "+OK", "+OK", "+PONG"])]).unwrap();
    assert_eq!(server.availability_zone.as_deref(), Some("eu-1a"));
    assert_eq!((server.mode, server.role), (Some(ServerMode::Cluster), Some(Role::Replica)));
    assert_eq!(server.name.as_deref(), Some("valkey"));
}

#[test]
fn the_zone_is_asked_for_where_hello_has_none() {
    let plan = || Plan { wants_zone: true, ..plan(Style::Auto) };
    let setup: &[&str] = &[NAME, VERSION, "INFO server", "PING"];
    let info = "$# Server\r\nredis_version:7.2.4\r\navailability_zone:eu-1b\r\n";
    let server = play(plan(), &[(&["HELLO 3"], &[REDIS_7]), (setup, &["+OK", "+OK", info, "+PONG"])]).unwrap();
    assert_eq!(server.availability_zone.as_deref(), Some("eu-1b"));
    let refused = "-NOPERM this user has no permissions to run the 'info' command";
    let server = play(plan(), &[(&["HELLO 3"], &[REDIS_7]), (setup, &["+OK", "+OK", refused, "+PONG"])]).unwrap();
    assert_eq!(server.availability_zone, None);
}

#[test]
fn the_role_is_asked_for_where_hello_has_none() {
    #[track_caller]
    fn check(reply: &str, expected: Option<Role>) {
        let plan = Plan { wants_role: true, ..plan(Style::Resp2) };
        let setup: &[&str] = &[NAME, VERSION, "ROLE", "PING"];
        assert_eq!(play(plan, &[(setup, &["+OK", "+OK", reply, "+PONG"])]).unwrap().role, expected);
    }
    check("*3 +master :0 *0", Some(Role::Primary));
    check("*5 +slave +10.0.0.1 :6379 +connected :0", Some(Role::Replica));
    check("-NOPERM this user has no permissions to run the 'role' command", None);
    let plan = Plan { wants_role: true, ..plan(Style::Auto) };
    let setup: &[&str] = &[NAME, VERSION, "PING"];
    let server = play(plan, &[(&["HELLO 3"], &[REDIS_7]), (setup, &["+OK", "+OK", "+PONG"])]).unwrap();
    assert_eq!(server.role, Some(Role::Primary));
}

#[test]
fn everything_at_once() {
    let extra = [b"*2\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n".to_vec()];
    let full = |style| Plan {
        client_name: Some("api".into()),
        database: 3,
        read_only: ReadOnly::Tried,
        follows_redirects: true,
        extra: extra.iter().map(|bytes| ("CLIENT TRACKING", bytes.clone())).collect(),
        ..alice(style)
    };
    let hello = "HELLO 3 AUTH alice s3cret SETNAME api";
    let setup: &[&str] = &[NAME, VERSION, "CLIENT CAPA redirect", "SELECT 3", "READONLY", "CLIENT TRACKING", "PING"];
    let answers: &[&str] = &["+OK", "+OK", "-ERR unknown", "+OK", "-ERR not a cluster", "+OK", "+PONG"];
    play(full(Style::Auto), &[(&[hello], &[REDIS_7]), (setup, answers)]).unwrap();

    let setup: Vec<&str> = ["CLIENT SETNAME api"].iter().chain(setup).copied().collect();
    let answers: Vec<&str> = ["+OK"].iter().chain(answers).copied().collect();
    let server = play(full(Style::Resp2), &[(&["AUTH alice s3cret"], &["+OK"]), (&setup, &answers)]).unwrap();
    assert_eq!(server, ServerInfo::new(Protocol::Resp2));

    let setup: &[&str] = &["SELECT 3", "CLIENT TRACKING", "PING"];
    play(full(Style::Bare), &[(&["AUTH alice s3cret"], &["+OK"]), (setup, &["+OK", "+OK", "+PONG"])]).unwrap();
}

#[test]
fn refused_hello_means_resp2() {
    for refusal in [
        UNKNOWN_HELLO,
        "-ERR unknown command 'HELLO'",
        "-NOPROTO unsupported protocol version",
        "-NOPERM this user has no permissions to run the 'hello' command or its subcommand",
        "-ERR unsupported command 'hello'",
        "-ERR Protocol version is not an integer or out of range",
        "-NOAUTH Authentication required.",
    ] {
        let resp2: &[(&[&str], &[&str])] =
            &[(&["HELLO 3 AUTH alice s3cret"], &[refusal]), (&["AUTH alice s3cret"], &["+OK"]), (SETUP, FINE)];
        let server = play(alice(Style::Auto), resp2).unwrap();
        assert_eq!(server.protocol, Protocol::Resp2, "{refusal}");
    }
    let server = play(plan(Style::Auto), &[(&["HELLO 3"], &["-ERR unknown command"]), (SETUP, FINE)]).unwrap();
    assert_eq!(server.protocol, Protocol::Resp2);
}

#[test]
fn hello_answered_in_resp2_means_resp2() {
    let flat = "*4 +server +proxy +proto :2";
    let server = play(plan(Style::Auto), &[(&["HELLO 3"], &[flat]), (SETUP, FINE)]).unwrap();
    assert_eq!((server.protocol, server.name.as_deref()), (Protocol::Resp2, Some("proxy")));
}

#[test]
fn resp3_is_not_negotiable_when_it_is_demanded() {
    let result = play(plan(Style::Resp3), &[(&["HELLO 3"], &["-NOPROTO sorry"])]);
    assert_eq!(result, Err(HandshakeError::Refused { command: "HELLO", error: error("NOPROTO sorry") }));
}

#[test]
fn no_error_repeats_the_password() {
    let result = play(alice(Style::Resp3), &[(&["HELLO 3 AUTH alice s3cret"], &[UNKNOWN_HELLO])]);
    assert_eq!(result, Err(HandshakeError::Refused { command: "HELLO", error: error("ERR unknown command `HELLO`") }));
}

#[test]
fn a_user_without_client_and_ping_is_welcome() {
    let refused = "-NOPERM this user has no permissions to run this command";
    play(alice(Style::Auto), &[(&["HELLO 3 AUTH alice s3cret"], &[REDIS_7]), (SETUP, &[refused, refused, refused])])
        .unwrap();
    let busy = "-BUSY Redis is busy running a script.";
    play(plan(Style::Auto), &[(&["HELLO 3"], &[REDIS_7]), (SETUP, &["+OK", "+OK", busy])]).unwrap();
}

#[test]
fn wrong_passwords() {
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    let rejected =
        |username: &str, text: &str| HandshakeError::AuthRejected { username: username.into(), error: error(text) };
    let result = play(alice(Style::Auto), &[(&["HELLO 3 AUTH alice s3cret"], &[&format!("-{wrong}")])]);
    assert_eq!(result, Err(rejected("alice", wrong)));
    let result = play(alice(Style::Resp2), &[(&["AUTH alice s3cret"], &[&format!("-{wrong}")])]);
    assert_eq!(result, Err(rejected("alice", wrong)));

    let default_user = |style| Plan { credentials: Some(Credentials::password("s3cret")), ..plan(style) };
    let result = play(default_user(Style::Auto), &[(&["HELLO 3 AUTH default s3cret"], &[&format!("-{wrong}")])]);
    assert_eq!(result, Err(rejected("default", wrong)));
    // Redis 5 and older.
    let result = play(default_user(Style::Resp2), &[(&["AUTH s3cret"], &["-ERR invalid password"])]);
    assert_eq!(result, Err(rejected("default", "ERR invalid password")));
    let arity = "ERR wrong number of arguments for 'auth' command";
    let result = play(
        alice(Style::Auto),
        &[(&["HELLO 3 AUTH alice s3cret"], &[UNKNOWN_HELLO]), (&["AUTH alice s3cret"], &[&format!("-{arity}")])],
    );
    assert_eq!(result, Err(rejected("alice", arity)));
}

#[test]
fn missing_passwords() {
    let noauth = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> \
                  option can be used to authenticate the client and select the RESP protocol version at the same time";
    assert_eq!(play(plan(Style::Auto), &[(&["HELLO 3"], &[noauth])]), Err(HandshakeError::AuthMissing));
    // An optional command's refusal is the only sign of it.
    let noauth = "-NOAUTH Authentication required.";
    assert_eq!(play(plan(Style::Resp2), &[(SETUP, &[noauth, noauth, noauth])]), Err(HandshakeError::AuthMissing));
    assert_eq!(play(plan(Style::Bare), &[(&["PING"], &[noauth])]), Err(HandshakeError::AuthMissing));
    // AUTH was accepted and is not enough.
    let result =
        play(alice(Style::Auto), &[(&["HELLO 3 AUTH alice s3cret"], &[REDIS_7]), (SETUP, &[noauth, noauth, noauth])]);
    let rejected =
        HandshakeError::AuthRejected { username: "alice".into(), error: error("NOAUTH Authentication required.") };
    assert_eq!(result, Err(rejected));
}

#[test]
fn servers_that_are_not_ready() {
    for text in ["LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down"] {
        let refusal = format!("-{text}");
        let not_ready = Err(HandshakeError::NotReady(error(text)));
        assert_eq!(
            play(plan(Style::Auto), &[(&["HELLO 3"], &[REDIS_7]), (SETUP, &["+OK", "+OK", &refusal])]),
            not_ready
        );
        assert_eq!(play(plan(Style::Auto), &[(&["HELLO 3"], &[&refusal])]), not_ready);
        assert_eq!(play(alice(Style::Resp2), &[(&["AUTH alice s3cret"], &[&refusal])]), not_ready);
    }
    // Topology can be asked for while a server loads.
    let management = Plan { checks_readiness: false, ..plan(Style::Auto) };
    play(management, &[(&["HELLO 3"], &[REDIS_7]), (&[NAME, VERSION], &["+OK", "+OK"])]).unwrap();
}

#[test]
fn refusals_before_any_command() {
    for text in ["ERR max number of clients reached", "DENIED Redis is running in protected mode because …"] {
        let refused = Err(HandshakeError::Refused { command: "the connection", error: error(text) });
        for (style, wave) in [(Style::Auto, "HELLO 3"), (Style::Bare, "PING")] {
            assert_eq!(play(plan(style), &[(&[wave], &[&format!("-{text}")])]), refused);
        }
    }
}

#[test]
fn commands_that_have_to_succeed() {
    let text = "ERR DB index is out of range";
    let select = Plan { database: 99, ..plan(Style::Auto) };
    let setup: &[&str] = &[NAME, VERSION, "SELECT 99", "PING"];
    let result = play(select, &[(&["HELLO 3"], &[REDIS_7]), (setup, &["+OK", "+OK", &format!("-{text}"), "+PONG"])]);
    assert_eq!(result, Err(HandshakeError::Refused { command: "SELECT", error: error(text) }));

    let text = "ERR This instance has cluster support disabled";
    let setup: &[&str] = &[NAME, VERSION, "READONLY", "PING"];
    let read_only = |read_only| Plan { read_only, ..plan(Style::Auto) };
    let script: &[(&[&str], &[&str])] =
        &[(&["HELLO 3"], &[REDIS_7]), (setup, &["+OK", "+OK", &format!("-{text}"), "+PONG"])];
    let refused = HandshakeError::Refused { command: "READONLY", error: error(text) };
    assert_eq!(play(read_only(ReadOnly::Required), script), Err(refused));
    assert!(play(read_only(ReadOnly::Tried), script).is_ok());
}

#[test]
fn a_bad_client_name_is_not_hidden_by_resp2() {
    let text = "ERR Client names cannot contain spaces, newlines or special characters.";
    let named = Plan { client_name: Some("a b".into()), ..plan(Style::Auto) };
    let result = play(named, &[(&["HELLO 3 SETNAME a b"], &[&format!("-{text}")])]);
    assert_eq!(result, Err(HandshakeError::Refused { command: "HELLO", error: error(text) }));
}

#[test]
fn replies_of_the_wrong_type() {
    let unexpected = |command, found| Err(HandshakeError::Unexpected { command, found });
    assert_eq!(play(plan(Style::Auto), &[(&["HELLO 3"], &["+OK"])]), unexpected("HELLO", "simple string"));
    assert_eq!(play(alice(Style::Resp2), &[(&["AUTH alice s3cret"], &[":1"])]), unexpected("AUTH", "integer"));
    assert_eq!(play(plan(Style::Bare), &[(&["PING"], &["*0"])]), unexpected("PING", "array"));
    let mut handshake = Handshake::new(plan(Style::Bare));
    assert!(matches!(handshake.receive(Value::Null), Err(HandshakeError::Unexpected { command: "nothing", .. })));
}

#[test]
fn who_may_be_tried_again_bare() {
    let mut handshake = Handshake::new(plan(Style::Auto));
    let mut out = Vec::new();
    handshake.send(&mut out);
    assert!(handshake.may_be_bare(), "HELLO is unanswered");
    handshake.receive(reply("-ERR unknown command")).unwrap();
    handshake.send(&mut out);
    assert!(handshake.may_be_bare(), "CLIENT is unanswered");

    let mut handshake = Handshake::new(plan(Style::Auto));
    handshake.send(&mut out);
    handshake.receive(reply(REDIS_7)).unwrap();
    assert!(!handshake.may_be_bare(), "RESP3 is agreed on");
    assert!(Handshake::new(plan(Style::Resp2)).may_be_bare(), "CLIENT may be what the proxy closes on");
    for style in [Style::Resp3, Style::Bare] {
        assert!(!Handshake::new(plan(style)).may_be_bare());
    }
}

#[test]
fn auth_of_a_live_connection() {
    let mut out = Vec::new();
    encode_auth(&mut out, &Credentials::new("alice", "s3cret"));
    encode_auth(&mut out, &Credentials::password("s3cret"));
    assert_eq!(sent(&out), ["AUTH alice s3cret", "AUTH s3cret"]);
}

#[test]
fn what_was_asked_for_has_to_be_granted() {
    let both = |style| Plan { no_evict: true, no_touch: true, database: 2, ..plan(style) };
    let setup = [NAME, VERSION, "CLIENT NO-EVICT ON", "CLIENT NO-TOUCH ON", "SELECT 2", "PING"];
    let granted = ["+OK", "+OK", "+OK", "+OK", "+OK", "+PONG"];
    play(both(Style::Auto), &[(&["HELLO 3"], &[REDIS_7]), (&setup, &granted)]).unwrap();
    // Also of those who close connections on what they do not know: it was asked for.
    let bare = ["CLIENT NO-EVICT ON", "CLIENT NO-TOUCH ON", "SELECT 2", "PING"];
    play(both(Style::Bare), &[(&bare, &["+OK", "+OK", "+OK", "+PONG"])]).unwrap();
    let unknown = "-ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.";
    let refused = play(
        both(Style::Auto),
        &[(&["HELLO 3"], &[REDIS_7]), (&setup, &["+OK", "+OK", "+OK", unknown, "+OK", "+PONG"])],
    );
    assert_eq!(refused, Err(HandshakeError::Refused { command: "CLIENT NO-TOUCH", error: error(&unknown[1..]) }));
}

#[test]
fn a_used_connection_is_reset_before_anything_else() {
    let again = |style| Plan { resets: true, ..alice(style) };
    let hello = "HELLO 3 AUTH alice s3cret";
    play(again(Style::Auto), &[(&["RESET", hello], &["+RESET", REDIS_7]), (SETUP, FINE)]).unwrap();
    play(again(Style::Resp2), &[(&["RESET", "AUTH alice s3cret"], &["+RESET", "+OK"]), (SETUP, FINE)]).unwrap();
    let unknown = "-ERR unknown command 'RESET'";
    let refused = play(again(Style::Auto), &[(&["RESET", hello], &[unknown, REDIS_7])]);
    assert_eq!(refused, Err(HandshakeError::Refused { command: "RESET", error: error(&unknown[1..]) }));
}

#[test]
fn who_knows_reset_tells_its_version() {
    let of =
        |version: Option<&str>| ServerInfo { version: version.map(Into::into), ..ServerInfo::new(Protocol::Resp3) };
    for (version, expected) in [
        (None, false),
        (Some("6.0.16"), false),
        (Some("6.2.0"), true),
        (Some("7.0"), true),
        (Some("255.255.255"), true),
    ] {
        assert_eq!(of(version).knows_reset(), expected, "{version:?}");
    }
}
