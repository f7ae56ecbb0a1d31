//! The replies that come through a tunnel are those of the server, byte for byte, whatever they are and however they
//! are cut.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use pilotlight_testkit::Server;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::bed::{PATIENCE, Tunnel, encoded};

/// Everything that comes for these commands.
fn replies(addr: SocketAddr, commands: &[u8], piece: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let all = [commands, &encoded(&["ECHO", "the end of this connection"])].concat();
    std::thread::scope(|scope| {
        scope.spawn(move || all.chunks(piece).for_each(|piece| writer.write_all(piece).unwrap()));
        let mut found = Vec::new();
        let mut bytes = [0; 65536];
        while !found.ends_with(b"the end of this connection\r\n") {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&found));
            found.extend_from_slice(&bytes[..read]);
        }
        found
    })
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    pilotlight_resp::encode::command(&mut out, words);
    out
}

/// Bytes as people and other programs store them, and as they should not confuse anybody.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..300),
        vec(any::<u8>(), 20_000..70_000),
        prop_oneof![
            Just("127.0.0.1:6379"),
            Just("10.0.0.1"),
            Just("a.b"),
            Just("-MOVED 1 127.0.0.1:7000\r\n"),
            Just("\r\n"),
            Just("*3\r\n$7\r\nmessage\r\n"),
            Just(">2\r\n"),
            Just("07c37d 127.0.0.1:30004@31004 slave - 0 1 4 connected"),
        ]
        .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// A command about `k…`, with these values.
fn commands() -> impl Strategy<Value = Vec<u8>> {
    (0..16_usize, value(), value()).prop_map(|(which, a, b)| {
        let (a, b) = (&a[..], &b[..]);
        match which {
            0 => command(&[b"SET", b"k", a]),
            1 => command(&[b"GET", b"k"]),
            2 => command(&[b"ECHO", a]),
            3 => [
                command(&[b"DEL", b"k"]),
                command(&[b"RPUSH", b"k", a, b, a]),
                command(&[b"LRANGE", b"k", b"0", b"-1"]),
            ]
            .concat(),
            4 => [command(&[b"DEL", b"k"]), command(&[b"HSET", b"k", a, b]), command(&[b"HGETALL", b"k"])].concat(),
            5 => command(&[b"MGET", b"k", a, b"none"]),
            6 => [
                command(&[b"DEL", b"k"]),
                command(&[b"ZADD", b"k", b"1.5", a, b"inf", b]),
                command(&[b"ZRANGE", b"k", b"0", b"-1", b"WITHSCORES"]),
            ]
            .concat(),
            7 => command(&[
                b"EVAL",
                b"return {ARGV[1], {1, false, {ARGV[2]}}, redis.status_reply('FINE'), {err = 'ERR MOVED 1 a:1'}}",
                b"0",
                a,
                b,
            ]),
            8 => {
                command(&[b"EVAL", b"redis.setresp(3); return {{map = {a = ARGV[1]}}, {double = 1.25}, true}", b"0", a])
            }
            9 => [command(&[b"MULTI"]), command(&[b"SET", b"k", a]), command(&[b"GET", b"k"]), command(&[b"EXEC"])]
                .concat(),
            10 => command(&[b"BLPOP", b"nothing", b"0.01"]),
            11 => command(&[b"GEOPOS", b"none", b"x"]),
            12 => command(&[b"XADD", b"s", b"NOMKSTREAM", b"1-1", b"f", a]),
            13 => command(&[b"INCR", a]),
            14 => command(&[b"COMMAND", b"DOCS", b"get"]),
            _ => command(&[b"CONFIG", b"GET", b"max*"]),
        }
    })
}

fn check(mode: &str, cases: u32) {
    let server = Server::start().unwrap();
    let tunnel = Tunnel::start(&["-p", &server.port().to_string(), "--mode", mode]);
    let input = (vec(commands(), 1..20), prop_oneof![Just("2"), Just("3")], 1..5000_usize);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&input, |(commands, protocol, piece)| {
        let hello = encoded(&["HELLO", protocol]);
        let all = commands.concat();
        let mut found = Vec::new();
        for addr in [server.addr(), tunnel.addr()] {
            server.command(&["FLUSHALL"]).unwrap();
            found.push(without_hello(replies(addr, &[&hello[..], &encoded(&["ECHO", "hi!"]), &all].concat(), piece)));
        }
        prop_assert!(found[0] == found[1], "{:?}\n!=\n{:?}", shown(&found[0]), shown(&found[1]));
        Ok(())
    });
    if let Err(error) = checked {
        panic!("{error}");
    }
}

/// It names the connection, and where it leads to.
fn without_hello(mut found: Vec<u8>) -> Vec<u8> {
    let at = found.windows(9).position(|bytes| bytes == b"$3\r\nhi!\r\n").unwrap();
    found.split_off(at)
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(3000)]).into_owned()
}

#[test]
fn smart_passes_all_bytes() {
    check("smart", 48);
}

#[test]
fn pinned_passes_all_bytes() {
    check("pinned", 48);
}
