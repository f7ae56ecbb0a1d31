//! One server behind the tunnel: what each client may expect of a connection of its own.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use pilotlight_resp::{Frame, Value};
use pilotlight_testkit::{ClientAuth, Cluster, Sentinels, Server};

use super::bed::{Peer, Tunnel, encoded, until};

fn tunnel() -> (Server, Tunnel) {
    let server = Server::start().unwrap();
    let tunnel = Tunnel::start(&["-p", &server.port().to_string()]);
    (server, tunnel)
}

#[test]
fn commands_and_replies_keep_their_order() {
    let (_server, tunnel) = tunnel();
    let mut peer = tunnel.peer();
    let mut all = Vec::new();
    for number in 0..2000 {
        all.extend(encoded(&["SET", &format!("k{}", number % 7), &number.to_string()]));
        all.extend(encoded(&["GET", &format!("k{}", number % 7)]));
        all.extend(encoded(&["ECHO", &number.to_string()]));
    }
    peer.write(&all);
    for number in 0..2000 {
        let number = number.to_string();
        assert_eq!(peer.reply(), Value::Simple("OK".into()));
        assert_eq!(peer.reply(), Value::Bulk(number.clone().into()));
        assert_eq!(peer.reply(), Value::Bulk(number.into()));
    }
    assert_eq!(peer.say(&["NOSUCH", "x"]), "-ERR unknown command 'NOSUCH', with args beginning with: 'x' ");
    peer.write(b"PING\r\nset inline  yes\r\n");
    assert_eq!((peer.reply(), peer.reply()), (Value::Simple("PONG".into()), Value::Simple("OK".into())));
    assert_eq!(peer.say(&["QUIT"]), "OK");
    assert!(peer.is_closed());
}

#[test]
fn values_of_ten_megabytes_pass_both_ways() {
    let (_server, tunnel) = tunnel();
    let value: Vec<u8> = (0..10_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut peer = tunnel.peer();
    peer.write(format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${}\r\n", value.len()).as_bytes());
    for piece in value.chunks(777_777) {
        peer.write(piece);
    }
    peer.write(b"\r\n");
    assert_eq!(peer.reply(), Value::Simple("OK".into()));
    for _ in 0..3 {
        peer.send(&["GET", "big"]);
    }
    for _ in 0..3 {
        assert!(peer.reply() == Value::Bulk(value.clone().into()));
    }
}

#[test]
fn a_client_may_send_everything_before_it_reads_anything() {
    let (_server, tunnel) = tunnel();
    let mut peer = tunnel.peer();
    peer.ask(&["SET", "k", &"x".repeat(500)]);
    let commands = 40_000;
    let all = encoded(&["GET", "k"]).repeat(commands);
    peer.write(&all);
    for _ in 0..commands {
        assert!(matches!(peer.reply(), Value::Bulk(value) if value.len() == 500));
    }
}

#[test]
fn replies_without_room_are_errors_and_give_their_room_back() {
    let server = Server::start().unwrap();
    let tunnel = Tunnel::start(&["-p", &server.port().to_string(), "--max-held-mib", "4"]);
    let value = "x".repeat(1_000_000);
    tunnel.peer().ask(&["SET", "big", &value]);
    // A client's first batch: all of its replies are there before the first is passed on. Four of them fit into 4 MiB.
    for _ in 0..3 {
        let mut peer = tunnel.peer();
        peer.write(&[encoded(&["GET", "big"]).repeat(8), encoded(&["INCR", "n"])].concat());
        let replies: Vec<Value> = (0..8).map(|_| peer.reply()).collect();
        let is_whole = |reply: &&Value| matches!(reply, Value::Bulk(bytes) if bytes.len() == value.len());
        let whole = replies.iter().filter(is_whole).count();
        assert_eq!(whole, 4);
        let told = |reply: &Value| matches!(reply, Value::Error(text) if text.starts_with(b"ERR the tunnel: ") && text.windows(14).any(|it| it == b"--max-held-mib"));
        assert!(replies.iter().filter(|reply| !is_whole(reply)).all(told), "each of the others is told why");
        assert!(matches!(peer.reply(), Value::Integer(_)), "a small reply has its room");
    }
    let mut peer = tunnel.peer();
    assert_eq!(peer.say(&["GET", "n"]), "3");
    // One at a time there is room for all.
    for _ in 0..8 {
        assert_eq!(peer.ask(&["GET", "big"]), Value::Bulk(value.clone().into()));
    }
}

#[test]
fn a_transaction_without_room_for_its_reply_has_run() {
    let server = Server::start().unwrap();
    let tunnel = Tunnel::start(&["-p", &server.port().to_string(), "--max-held-mib", "1"]);
    let mut peer = tunnel.peer();
    peer.ask(&["SET", "big", &"x".repeat(600_000)]);
    peer.ask(&["MULTI"]);
    for words in [&["INCR", "n"][..], &["GET", "big"], &["GET", "big"]] {
        assert_eq!(peer.say(words), "QUEUED");
    }
    let told = peer.say(&["EXEC"]);
    assert!(told.starts_with("-ERR the tunnel: the command was run") && told.contains("--max-held-mib"), "{told}");
    assert_eq!(peer.say(&["GET", "n"]), "1");
}

#[test]
fn each_client_has_its_own_protocol_database_and_name() {
    let (_server, tunnel) = tunnel();
    let (mut two, mut three) = (tunnel.peer(), tunnel.peer());
    let hello = three.say(&["HELLO", "3", "SETNAME", "three"]);
    assert!(hello.starts_with("{server:redis version:") && hello.contains("proto:3"), "{hello}");
    two.ask(&["HSET", "h", "a", "1"]);
    assert_eq!(two.ask(&["HGETALL", "h"]), Value::Array(vec![Value::Bulk("a".into()), Value::Bulk("1".into())]));
    assert_eq!(three.ask(&["HGETALL", "h"]), Value::Map(vec![(Value::Bulk("a".into()), Value::Bulk("1".into()))]));
    assert_eq!(two.say(&["CLIENT", "GETNAME"]), "nil");
    assert_eq!(three.say(&["CLIENT", "GETNAME"]), "three");
    assert_ne!(two.say(&["CLIENT", "ID"]), three.say(&["CLIENT", "ID"]));
    assert_eq!(two.say(&["SELECT", "3"]), "OK");
    assert_eq!((two.say(&["EXISTS", "h"]), three.say(&["EXISTS", "h"])), ("0".into(), "1".into()));
    assert_eq!(two.say(&["SELECT", "999"]), "-ERR DB index is out of range");
    assert_eq!(two.say(&["SET", "only3", "x"]), "OK");
    assert_eq!(two.say(&["RESET"]), "RESET");
    assert_eq!(two.say(&["EXISTS", "only3"]), "0");
    assert_eq!(two.say(&["HELLO", "4"]), "-NOPROTO unsupported protocol version");
}

/// INFO and ROLE in both protocols tell what HELLO says, and nothing of the servers' addresses.
#[track_caller]
pub(super) fn tells_no_addresses(tunnel: &Tunnel, ports: &[u16]) {
    for protocol in ["2", "3"] {
        let mut peer = tunnel.peer();
        let hello = peer.say(&["HELLO", protocol]);
        assert!(hello.contains("standalone"), "{hello}");
        let told = [
            peer.say(&["INFO"]),
            peer.say(&["INFO", "replication"]),
            peer.say(&["INFO", "everything"]),
            peer.say(&["ROLE"]),
        ];
        let all = told.concat();
        for port in ports {
            assert!(!all.contains(&port.to_string()), "{port} is in {all}");
        }
        assert!(!all.contains("mode:cluster") && all.contains("redis_mode:standalone"), "{all}");
        assert!(all.contains("role:master\r\nconnected_slaves:0\r\n"), "{all}");
        assert!(told[3].starts_with("[master ") && told[3].ends_with(" []]"), "{}", told[3]);
    }
}

#[test]
fn a_user_that_may_not_ping_has_a_tunnel() {
    let cluster = Cluster::builder().masters(2).user("careful on >p ~* &* +@all -ping -echo").start().unwrap();
    let seed = format!("127.0.0.1:{}", cluster.nodes()[0].port());
    let login = [("REDISCLI_AUTH", "p")];
    for args in [&["-c", "-h", &seed, "--username", "careful"][..], &["-h", &seed, "--username", "careful"]] {
        let tunnel = Tunnel::with(args, &login);
        let mut peer = tunnel.peer();
        assert!(peer.say(&["PING"]).starts_with("-NOPERM"));
        assert!(peer.say(&["SCAN", "0"]).ends_with(" []]"));
    }
}

#[test]
fn replicas_are_not_told_of() {
    let group = Sentinels::start(1).unwrap();
    let sentinel = format!("127.0.0.1:{}", group.sentinels()[0].port());
    let tunnel = Tunnel::start(&["-h", &sentinel, "--sentinel", group.name()]);
    let ports: Vec<u16> = group.servers().iter().map(|server| server.port()).collect();
    tells_no_addresses(&tunnel, &ports);
}

#[test]
fn transactions() {
    let (_server, tunnel) = tunnel();
    let (mut peer, mut other) = (tunnel.peer(), tunnel.peer());
    peer.write(&[encoded(&["MULTI"]), encoded(&["INCR", "n"]), encoded(&["GET", "n"]), encoded(&["EXEC"])].concat());
    let replies: Vec<String> = (0..4).map(|_| super::bed::shown(&peer.reply())).collect();
    assert_eq!(replies, ["OK", "QUEUED", "QUEUED", "[1 1]"]);
    assert_eq!(peer.say(&["MULTI"]), "OK");
    assert_eq!(peer.say(&["INCR", "n"]), "QUEUED");
    assert_eq!(other.say(&["GET", "n"]), "1");
    assert_eq!(peer.say(&["DISCARD"]), "OK");
    assert_eq!(peer.say(&["EXEC"]), "-ERR EXEC without MULTI");
    // An error of one command is its own reply; one that cannot be queued is told at once, and ends it all.
    peer.ask(&["MULTI"]);
    peer.ask(&["LPUSH", "n", "x"]);
    peer.ask(&["GET", "n"]);
    assert_eq!(peer.say(&["EXEC"]), "[-WRONGTYPE Operation against a key holding the wrong kind of value 1]");
    peer.ask(&["MULTI"]);
    assert_eq!(peer.say(&["SET", "n"]), "-ERR wrong number of arguments for 'set' command");
    assert_eq!(peer.say(&["EXEC"]), "-EXECABORT Transaction discarded because of previous errors.");
    // Watched keys.
    for (is_changed, expected) in [(false, "[OK]"), (true, "nil")] {
        assert_eq!(peer.say(&["WATCH", "n"]), "OK");
        assert_eq!(peer.say(&["GET", "n"]), "1");
        if is_changed {
            other.ask(&["SET", "n", "5"]);
        }
        peer.ask(&["MULTI"]);
        peer.ask(&["SET", "n", "1"]);
        assert_eq!(peer.say(&["EXEC"]), expected);
    }
}

#[test]
fn blocking_commands_hold_up_nobody_and_take_nothing_for_who_has_gone() {
    let (server, tunnel) = tunnel();
    let (mut waiting, mut gone, mut other) = (tunnel.peer(), tunnel.peer(), tunnel.peer());
    let blocked = |count: &str| until("blocked clients", || server.info("blocked_clients").unwrap() == count);
    gone.send(&["BLPOP", "list", "0"]);
    blocked("1");
    drop(gone);
    blocked("0");
    waiting.send(&["BLPOP", "list", "0"]);
    waiting.send(&["ECHO", "after"]);
    blocked("1");
    for _ in 0..100 {
        assert_eq!(other.say(&["PING"]), "PONG");
    }
    assert_eq!(other.say(&["RPUSH", "list", "a"]), "1");
    assert_eq!(super::bed::shown(&waiting.reply()), "[list a]");
    assert_eq!(super::bed::shown(&waiting.reply()), "after");
    assert_eq!(other.say(&["BLPOP", "list", "0.05"]), "nil");
}

#[test]
fn subscriptions_in_both_protocols() {
    let (_server, tunnel) = tunnel();
    let mut publisher = tunnel.peer();
    for protocol in ["2", "3"] {
        let mut peer = tunnel.peer();
        peer.ask(&["HELLO", protocol]);
        peer.send(&["SUBSCRIBE", "news", "weather"]);
        assert_eq!(
            (peer.push(), peer.push()),
            (
                vec!["subscribe".into(), "news".into(), "1".into()],
                vec!["subscribe".into(), "weather".into(), "2".into()],
            )
        );
        peer.send(&["PSUBSCRIBE", "n*"]);
        assert_eq!(peer.push(), ["psubscribe", "n*", "3"]);
        assert_eq!(publisher.say(&["PUBLISH", "news", "hello"]), "2");
        let mut messages = [peer.push(), peer.push()];
        messages.sort();
        assert_eq!(messages, [vec!["message", "news", "hello"], vec!["pmessage", "n*", "news", "hello"]]);
        if protocol == "2" {
            assert!(peer.say(&["GET", "k"]).starts_with("-ERR Can't execute 'get'"));
            peer.send(&["PING"]);
            assert_eq!(peer.push(), ["pong", ""]);
        } else {
            assert_eq!(peer.say(&["GET", "k"]), "nil");
        }
        peer.send(&["UNSUBSCRIBE"]);
        assert_eq!(
            (peer.push(), peer.push()),
            (
                vec!["unsubscribe".into(), "news".into(), "2".into()],
                vec!["unsubscribe".into(), "weather".into(), "1".into()],
            )
        );
        peer.send(&["PUNSUBSCRIBE", "n*"]);
        assert_eq!(peer.push(), ["punsubscribe", "n*", "0"]);
        assert_eq!(peer.say(&["GET", "k"]), "nil");
        assert!(matches!(
            { peer.send(&["SSUBSCRIBE", "s"]); peer.frame() },
            Frame::Push(items) | Frame::Reply(Value::Array(items)) if items.len() == 3
        ));
        publisher.ask(&["SPUBLISH", "s", "x"]);
        assert_eq!(peer.push(), ["smessage", "s", "x"]);
    }
}

#[test]
fn replies_that_are_not_wanted_are_not_sent() {
    let (_server, tunnel) = tunnel();
    let mut peer = tunnel.peer();
    let words = [
        &["CLIENT", "REPLY", "SKIP"][..],
        &["SET", "k", "1"],
        &["INCR", "k"],
        &["CLIENT", "REPLY", "OFF"],
        &["INCR", "k"],
        &["INCR", "k"],
        &["CLIENT", "REPLY", "ON"],
        &["GET", "k"],
    ];
    words.iter().for_each(|words| peer.send(words));
    assert_eq!(peer.reply(), Value::Integer(2));
    assert_eq!(peer.reply(), Value::Simple("OK".into()));
    assert_eq!(peer.reply(), Value::Bulk("4".into()));
}

#[test]
fn a_password_of_its_own_protects_the_port_and_goes_nowhere() {
    let server = Server::builder().requirepass("upstream").start().unwrap();
    let port = server.port().to_string();
    let tunnel =
        Tunnel::with(&["-p", &port], &[("REDISCLI_AUTH", "upstream"), ("PILOTLIGHT_TUNNEL_PASSWORD", "local")]);
    let mut peer = tunnel.peer();
    assert_eq!(peer.say(&["GET", "k"]), "-NOAUTH Authentication required.");
    assert!(peer.say(&["AUTH", "upstream"]).starts_with("-WRONGPASS"));
    assert!(peer.say(&["HELLO", "3"]).starts_with("-NOAUTH"));
    assert_eq!(peer.say(&["AUTH", "anybody", "local"]), "OK");
    assert_eq!(peer.say(&["GET", "k"]), "nil");
    let mut peer = tunnel.peer();
    assert!(peer.say(&["HELLO", "3", "AUTH", "u", "local"]).contains("proto:3"));
    drop(tunnel);
    // Without one, whatever a program is configured with is accepted, and kept from the server.
    let tunnel = Tunnel::with(&["-p", &port], &[("REDISCLI_AUTH", "upstream")]);
    let mut peer = tunnel.peer();
    assert_eq!(peer.say(&["AUTH", "old password"]), "OK");
    assert_eq!(peer.say(&["SET", "k", "1"]), "OK");
    let arguments = std::fs::read(format!("/proc/{}/cmdline", tunnel.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains("upstream"));
}

#[test]
fn limits_are_told_and_browsers_are_not_served() {
    let server = Server::start().unwrap();
    let port = server.port().to_string();
    let tunnel = Tunnel::start(&["-p", &port, "--max-clients", "2", "--max-command-mib", "1"]);
    let (mut first, mut second) = (tunnel.peer(), tunnel.peer());
    assert_eq!((first.say(&["PING"]), second.say(&["PING"])), ("PONG".into(), "PONG".into()));
    let mut third = tunnel.peer();
    assert_eq!(super::bed::shown(&third.reply()), "-ERR max number of clients reached (--max-clients)");
    drop(third);
    first.write(b"*2\r\n$4\r\nECHO\r\n$2000000\r\n");
    let refused = super::bed::shown(&first.reply());
    assert_eq!(refused, "-ERR Protocol error: a command of more than 1048576 bytes (--max-command-mib)");
    assert!(first.is_closed());
    second.write(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET owned yes\r\n");
    let mut said = Vec::new();
    second.stream.read_to_end(&mut said).unwrap();
    assert!(said.is_empty());
    for mode in ["smart", "pinned"] {
        let tunnel = Tunnel::start(&["-p", &port, "--mode", mode]);
        let mut browser = tunnel.peer();
        browser.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nSET owned yes\r\n\r\nSET owned yes\r\n");
        assert!(browser.is_closed());
        assert_eq!(tunnel.peer().say(&["EXISTS", "owned"]), "0");
    }
    // Their places are free again.
    until("a place", || tunnel.peer().say(&["PING"]) == "PONG");
}

#[test]
fn the_end_answers_what_is_in_flight_and_logs_nothing_of_it() {
    let (server, tunnel) = tunnel();
    let mut idle = tunnel.peer();
    idle.ask(&["SET", "customer", "a secret"]);
    let mut busy = tunnel.peer();
    busy.send(&[
        "EVAL",
        "local t = redis.call('TIME') while redis.call('TIME')[1] - t[1] < 2 do end return 'done'",
        "0",
    ]);
    // It is in flight once the server is busy with it: it answers nobody else.
    let probe = thread::spawn(move || {
        let mut direct = Peer::connect(server.addr());
        direct.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        until("a busy server", || {
            direct.stream.write_all(&encoded(&["PING"])).unwrap();
            direct.stream.read(&mut [0; 64]).is_err()
        });
        server
    });
    let server = probe.join().unwrap();
    let (code, said) = tunnel.end();
    assert_eq!(super::bed::shown(&busy.reply()), "done");
    assert!(busy.is_closed() && idle.is_closed());
    assert_eq!(code, Some(0));
    assert!(said.contains("2 clients") && !said.contains("secret") && !said.contains("customer"), "{said}");
    drop(server);
}

#[test]
fn what_needs_a_connection_of_its_own_says_so() {
    let (_server, tunnel) = tunnel();
    let mut peer = tunnel.peer();
    for words in [&["MONITOR"][..], &["WAIT", "0", "1"], &["CLIENT", "TRACKING", "ON"]] {
        let reply = peer.say(words);
        assert!(reply.starts_with("-ERR") && reply.contains("--mode pinned"), "{reply}");
    }
    assert_eq!(peer.say(&["CLUSTER", "SLOTS"]), "-ERR This instance has cluster support disabled");
    assert!(peer.say(&["COMMAND", "COUNT"]).parse::<u32>().unwrap() > 200);
}

#[test]
fn tls_and_sentinel_are_behind_it() {
    let server = Server::builder().tls(ClientAuth::None).requirepass("pw").start().unwrap();
    let authority = server.certificates().unwrap().ca_path().to_str().unwrap().to_owned();
    let port = server.port().to_string();
    for mode in ["smart", "pinned"] {
        let args = ["-h", "localhost", "-p", &port, "--tls", "--cacert", &authority, "--mode", mode];
        let tunnel = Tunnel::with(&args, &[("REDISCLI_AUTH", "pw")]);
        assert_eq!(tunnel.peer().say(&["SET", "k", mode]), "OK");
        assert_eq!(tunnel.peer().say(&["GET", "k"]), mode);
    }
    let set = Sentinels::start(1).unwrap();
    let sentinels: Vec<String> = set.sentinels().iter().map(|sentinel| sentinel.addr().to_string()).collect();
    let tunnel = Tunnel::start(&["-h", &sentinels.join(","), "--sentinel", set.name()]);
    let mut peer = tunnel.peer();
    assert_eq!(peer.say(&["SET", "k", "1"]), "OK");
    set.failover().unwrap();
    until("writes at the new primary", || peer.say(&["SET", "k", "2"]) == "OK");
}
