//! Replays the corpus of the fuzz target `proxy_protocol`, and headers made at random.

use std::net::SocketAddr;

use pilotlight_proxy_protocol::{Announced, Progress, parse};
use proptest::prelude::*;

use crate::checks::proxy_protocol;
use crate::corpus;

#[test]
fn replayed() {
    corpus::replay("proxy_protocol", proxy_protocol::check);
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    client: SocketAddr,
    server: SocketAddr,
}

fn line(Ends { client, server }: Ends) -> Vec<u8> {
    let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
    format!("PROXY {family} {} {} {} {}\r\n", client.ip(), server.ip(), client.port(), server.port()).into_bytes()
}

fn binary(Ends { client, server }: Ends, tlvs: &[u8]) -> Vec<u8> {
    let (family, addresses) = match (client, server) {
        (SocketAddr::V4(client), SocketAddr::V4(server)) => {
            (0x11, [client.ip().octets(), server.ip().octets()].concat())
        }
        (SocketAddr::V6(client), SocketAddr::V6(server)) => {
            (0x21, [client.ip().octets(), server.ip().octets()].concat())
        }
        _ => (0x00, Vec::new()),
    };
    let ports = [client.port().to_be_bytes(), server.port().to_be_bytes()].concat();
    let rest = [&addresses[..], &ports, tlvs].concat();
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21"[..], &[family], &length, &rest].concat()
}

fn ends() -> impl Strategy<Value = Ends> {
    prop_oneof![
        any::<([u8; 4], u16, [u8; 4], u16)>()
            .prop_map(|(a, p, b, q)| Ends { client: (a, p).into(), server: (b, q).into() }),
        any::<([u8; 16], u16, [u8; 16], u16)>()
            .prop_map(|(a, p, b, q)| Ends { client: (a, p).into(), server: (b, q).into() }),
    ]
}

proptest! {
    #[test]
    fn what_a_proxy_writes_is_read(ends in ends(), tlvs in prop::collection::vec(any::<u8>(), 0..400)) {
        for header in [line(ends), binary(ends, &tlvs)] {
            proxy_protocol::check(&header);
            prop_assert_eq!(parse(&header), Ok(Progress::Done(Announced::Client(ends.client))));
        }
    }

    #[test]
    fn whatever_comes(
        header in prop_oneof![ends().prop_map(line), ends().prop_map(|ends| binary(ends, b"tlv")), Just(Vec::new())],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        behind in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = header;
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes.extend(behind);
        proxy_protocol::check(&bytes);
    }
}
