//! The clients of a tunnel have numbers of its own; and what `CLIENT REPLY` leaves away is what a server leaves away.

use std::net::SocketAddr;

use pilotlight_resp::Value;
use pilotlight_testkit::Server;

use super::bed::{Peer, Tunnel, encoded, shown, until};

fn start() -> (Server, Tunnel) {
    let server = Server::start().unwrap();
    let tunnel = Tunnel::start(&["-p", &server.port().to_string()]);
    (server, tunnel)
}

/// A client of the server itself, with this number; clients come and go until there is one.
fn stranger(server: &Server, id: i64) -> Peer {
    loop {
        let mut peer = Peer::connect(server.addr());
        match peer.ask(&["CLIENT", "ID"]) {
            Value::Integer(now) if now == id => return peer,
            Value::Integer(now) => assert!(now < id, "{now} is past {id}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Clients of the tunnel until one has a number that the server has not given yet, and a stranger with the same.
fn pair(server: &Server, tunnel: &Tunnel) -> (Peer, Peer, String) {
    let Value::Integer(last) = Peer::connect(server.addr()).ask(&["CLIENT", "ID"]) else { panic!() };
    loop {
        let mut peer = tunnel.peer();
        let Value::Integer(id) = peer.ask(&["CLIENT", "ID"]) else { panic!() };
        if id > last + 20 {
            return (peer, stranger(server, id), id.to_string());
        }
    }
}

#[test]
fn kill_disconnects_the_client_of_the_tunnel_and_no_stranger() {
    let (server, tunnel) = start();
    let mut killer = tunnel.peer();
    assert_eq!(killer.say(&["PING"]), "PONG");
    let (mut victim, mut stranger, id) = pair(&server, &tunnel);
    assert_eq!(killer.say(&["CLIENT", "KILL", "ID", &id]), "1");
    assert!(victim.is_closed());
    assert_eq!(stranger.say(&["PING"]), "PONG");
    until("it is gone", || killer.say(&["CLIENT", "KILL", "ID", &id]) == "0");

    let mut idle = tunnel.peer();
    idle.ask(&["CLIENT", "SETNAME", "idle"]);
    let addr = idle.stream.local_addr().unwrap().to_string();
    let list = killer.say(&["CLIENT", "LIST"]);
    let line = list.lines().find(|line| line.contains("name=idle")).unwrap();
    assert!(line.contains(&format!("addr={addr}")) && line.contains("db=0") && line.contains("resp=2"), "{list}");
    assert_eq!(killer.say(&["CLIENT", "KILL", &addr]), "OK");
    assert!(idle.is_closed());
    assert_eq!(killer.say(&["CLIENT", "KILL", &addr]), "-ERR No such client");

    // Itself: by `SKIPME no` alone, and after the reply.
    let own = killer.say(&["CLIENT", "ID"]);
    assert_eq!(killer.say(&["CLIENT", "KILL", "ID", &own]), "0");
    assert_eq!(killer.say(&["CLIENT", "KILL", "ID", &own, "SKIPME", "no"]), "1");
    assert!(killer.is_closed());
    assert_eq!(stranger.say(&["PING"]), "PONG");
}

#[test]
fn a_client_that_waits_can_be_killed_and_takes_nothing() {
    let (server, tunnel) = start();
    let (mut killer, mut victim) = (tunnel.peer(), tunnel.peer());
    let id = victim.say(&["CLIENT", "ID"]);
    victim.send(&["BLPOP", "list", "0"]);
    until("it waits", || server.info("blocked_clients").unwrap() == "1");
    assert_eq!(killer.say(&["CLIENT", "KILL", "ID", &id]), "1");
    assert!(victim.is_closed());
    until("it waits no more", || server.info("blocked_clients").unwrap() == "0");
    assert_eq!(killer.say(&["RPUSH", "list", "a"]), "1");
    assert_eq!(killer.say(&["LPOP", "list"]), "a");
}

#[test]
fn unblock_is_about_the_client_of_the_tunnel() {
    let (server, tunnel) = start();
    let mut other = tunnel.peer();
    assert_eq!(other.say(&["PING"]), "PONG");
    let (mut blocked, mut stranger, id) = pair(&server, &tunnel);
    let commands: [&[&str]; 3] = [
        &["BLPOP", "list", "0"],
        &["BLMOVE", "a", "b", "LEFT", "LEFT", "0"],
        &["XREAD", "BLOCK", "0", "STREAMS", "s", "$"],
    ];
    for protocol in ["2", "3"] {
        blocked.ask(&["HELLO", protocol]);
        stranger.ask(&["HELLO", protocol]);
        assert_eq!(other.say(&["CLIENT", "UNBLOCK", &id]), "0", "it waits for nothing");
        for command in commands {
            for reason in ["TIMEOUT", "ERROR"] {
                // What a server answers, to a client of its own; then the tunnel's.
                stranger.send(command);
                until("both wait", || {
                    server.command(&["CLIENT", "UNBLOCK", &id, reason]).unwrap().integer() == Some(1)
                });
                let expected = stranger.reply();
                stranger.send(command);
                blocked.send(command);
                until("both wait", || server.info("blocked_clients").unwrap() == "2");
                assert_eq!(other.say(&["CLIENT", "UNBLOCK", &id, reason]), "1");
                assert_eq!(blocked.reply(), expected, "{command:?} {reason} {protocol}");
                until("one waits", || server.info("blocked_clients").unwrap() == "1");
                assert_eq!(server.command(&["CLIENT", "UNBLOCK", &id, reason]).unwrap().integer(), Some(1));
                stranger.reply();
                assert_eq!(blocked.say(&["PING"]), "PONG");
            }
        }
    }
    for (words, error) in [
        (&["CLIENT", "UNBLOCK", "x"][..], "-ERR value is not an integer or out of range"),
        (&["CLIENT", "UNBLOCK", "1", "x"], "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        (&["CLIENT", "KILL", "ID", "0"], "-ERR client-id should be greater than 0"),
        (&["CLIENT", "KILL", "TYPE", "x"], "-ERR Unknown client type 'x'"),
        (&["CLIENT", "KILL", "ID"], "-ERR No such client"),
        (&["CLIENT", "KILL", "WHAT", "x"], "-ERR syntax error"),
    ] {
        assert_eq!(other.say(words), error);
        assert_eq!(Peer::connect(server.addr()).say(words), error, "as a server does it");
    }
}

/// Everything up to `the end`, which is asked for once replies are on again.
fn replies(addr: SocketAddr, commands: &[&[&str]]) -> Vec<String> {
    let mut peer = Peer::connect(addr);
    let all: Vec<u8> = commands.iter().flat_map(|words| encoded(words)).collect();
    peer.write(&all);
    let mut found = Vec::new();
    while found.last().is_none_or(|last: &String| !last.contains("the end")) {
        found.push(match peer.frame() {
            pilotlight_resp::Frame::Reply(value) => shown(&value),
            pilotlight_resp::Frame::Push(items) => format!("> {}", shown(&Value::Array(items))),
        });
    }
    found
}

#[test]
fn what_client_reply_leaves_away_is_what_a_server_leaves_away() {
    let (server, tunnel) = start();
    let pinned = Tunnel::start(&["-p", &server.port().to_string(), "--mode", "pinned"]);
    let end: [&[&str]; 3] = [&["UNSUBSCRIBE"], &["CLIENT", "REPLY", "ON"], &["ECHO", "the end"]];
    let cases: [&[&[&str]]; 7] = [
        &[
            &["CLIENT", "REPLY", "OFF"],
            &["GET", "k"],
            &["SUBSCRIBE", "a", "b"],
            &["UNSUBSCRIBE", "a"],
            &["UNSUBSCRIBE"],
        ],
        &[
            &["CLIENT", "REPLY", "OFF"],
            &["PSUBSCRIBE", "a*"],
            &["PUNSUBSCRIBE"],
            &["SSUBSCRIBE", "s"],
            &["SUNSUBSCRIBE"],
        ],
        &[
            &["CLIENT", "REPLY", "SKIP"],
            &["SUBSCRIBE", "a"],
            &["SUBSCRIBE", "b"],
            &["UNSUBSCRIBE", "a"],
            &["UNSUBSCRIBE", "b"],
        ],
        &[&["CLIENT", "REPLY", "SKIP"], &["GET", "k"], &["GET", "k"]],
        &[&["CLIENT", "REPLY", "OFF"], &["SUBSCRIBE"], &["NOSUCH"], &["MULTI"], &["GET", "k"], &["EXEC"]],
        &[&["CLIENT", "REPLY", "SKIP"], &["CLIENT", "REPLY", "SKIP"], &["GET", "k"], &["GET", "k"]],
        &[&["CLIENT", "REPLY", "OFF"], &["CLIENT", "REPLY", "SKIP"], &["GET", "k"], &["PING"]],
    ];
    for case in cases {
        for protocol in ["2", "3"] {
            let hello: [&[&str]; 2] = [&["ECHO", "begin"], &["HELLO", protocol]];
            let all = [&hello[..], case, &end].concat();
            // What `HELLO` says is the tunnel's own.
            let without = |mut found: Vec<String>| {
                found.remove(1);
                found
            };
            let expected = without(replies(server.addr(), &all));
            assert_eq!(without(replies(tunnel.addr(), &all)), expected, "smart: {case:?} {protocol}");
            assert_eq!(without(replies(pinned.addr(), &all)), expected, "pinned: {case:?} {protocol}");
        }
    }
    let reset: [&[&str]; 3] = [&["CLIENT", "REPLY", "OFF"], &["RESET"], &["ECHO", "the end"]];
    assert_eq!(replies(tunnel.addr(), &reset), replies(server.addr(), &reset));
}

#[test]
fn a_header_with_too_many_words_is_refused_as_servers_do() {
    let (server, tunnel) = start();
    let pinned = Tunnel::start(&["-p", &server.port().to_string(), "--mode", "pinned"]);
    for stream in ["*3000000000\r\n", "*2147483648\r\n", "*x\r\n", "PING\r\n*3000000000\r\n$4\r\nPING\r\n"] {
        let said = |addr| {
            let mut peer = Peer::connect(addr);
            peer.write(stream.as_bytes());
            let first = shown(&peer.reply());
            let told = if first == "PONG" { shown(&peer.reply()) } else { first };
            assert!(peer.is_closed(), "{stream:?}");
            told
        };
        let expected = said(server.addr());
        assert_eq!(expected, "-ERR Protocol error: invalid multibulk length");
        assert_eq!(said(tunnel.addr()), expected, "smart: {stream:?}");
        assert_eq!(said(pinned.addr()), expected, "pinned: {stream:?}");
    }
}

#[test]
fn pinned_keeps_logins_back_however_they_are_sent() {
    let server = Server::builder().requirepass("upstream").start().unwrap();
    let tunnel =
        Tunnel::with(&["-p", &server.port().to_string(), "--mode", "pinned"], &[("REDISCLI_AUTH", "upstream")]);
    for line in ["auth nonsense\r\n", "AUTH u nonsense\n", "  auth nonsense\r\n", "*-1\r\nauth nonsense\r\n"] {
        let mut peer = tunnel.peer();
        peer.write(line.as_bytes());
        assert_eq!(shown(&peer.reply()), "OK", "{line:?}");
        peer.write(b"set k v\r\n");
        assert_eq!(shown(&peer.reply()), "OK", "{line:?}");
    }
    let mut peer = tunnel.peer();
    peer.write(b"HELLO 2 AUTH u nonsense\r\nRESET\r\nget k\r\n");
    peer.reply();
    assert!(shown(&peer.reply()).starts_with("-ERR the tunnel: RESET"));
    assert_eq!(shown(&peer.reply()), "v");
    for words in [&["HELLO", "3", "AUTH", "u", "a", "AUTH", "v", "b"][..], &["HELLO", "3", "SETNAME", "AUTH"]] {
        let mut peer = tunnel.peer();
        assert!(peer.say(words).contains("proto:3"), "{words:?}");
        assert_eq!(peer.say(&["GET", "k"]), "v");
    }
    // Servers know quotes.
    let mut peer = tunnel.peer();
    peer.write(b"\"auth\" nonsense\r\n");
    assert_eq!(shown(&peer.reply()), "OK");
    peer.write(b"\"auth nonsense\r\n");
    assert!(shown(&peer.reply()).starts_with("-ERR Protocol error") && peer.is_closed());
    let failed = server.info("acl_access_denied_auth").unwrap_or_default();
    assert!(failed.is_empty() || failed == "0", "{failed}");
    assert!(!server.command(&["ACL", "LOG"]).unwrap().array().iter().any(|_| true), "no login reached the server");
}
