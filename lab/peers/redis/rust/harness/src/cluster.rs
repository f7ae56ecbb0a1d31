//! Which node has a key.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const SLOTS: usize = 16_384;
const CRC_TABLE: [u16; 256] = crc_table();

/// The node of every slot, as an index into the list of ports that it was made for.
pub struct Topology {
    nodes: Vec<u8>,
}

impl Topology {
    /// Asks the first node.
    pub fn of(ports: &[u16]) -> Self {
        let text = cluster_nodes(ports[0]);
        let mut nodes = vec![None; SLOTS];
        for line in text.lines() {
            // id ip:port@bus[,hostname] flags primary ping pong epoch state slot…
            let fields: Vec<&str> = line.split_whitespace().collect();
            let Some(port) = fields.get(1).and_then(|address| port_of(address)) else { continue };
            let node = ports.iter().position(|known| *known == port).expect("a node that nobody told of");
            for range in fields.iter().skip(8) {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let slot = |text: &str| text.parse::<usize>().expect("CLUSTER NODES: a slot");
                nodes[slot(first)..=slot(last)].fill(Some(node as u8));
            }
        }
        Self { nodes: nodes.into_iter().map(|node| node.expect("every slot has a node")).collect() }
    }

    #[inline]
    pub fn node(&self, key: &[u8]) -> usize {
        usize::from(self.nodes[usize::from(crc16(hash_tag(key))) % SLOTS])
    }
}

fn cluster_nodes(port: u16) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the cluster runs");
    socket.write_all(b"CLUSTER NODES\r\n").expect("the node reads");
    let mut input = BufReader::new(socket);
    let mut header = String::new();
    input.read_line(&mut header).expect("the node answers");
    let length = header.trim().strip_prefix('$').and_then(|digits| digits.parse().ok()).expect("CLUSTER NODES: a bulk");
    let mut body = vec![0; length];
    input.read_exact(&mut body).expect("the node completes its answer");
    String::from_utf8(body).expect("CLUSTER NODES: text")
}

fn port_of(address: &str) -> Option<u16> {
    let (address, _bus) = address.split_once('@')?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// What of a key is hashed: the first `{…}` with something in it, or all.
#[inline]
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inside[..close],
    }
}

/// CRC-16/XMODEM.
#[inline]
fn crc16(data: &[u8]) -> u16 {
    data.iter().fold(0, |crc, byte| (crc << 8) ^ CRC_TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const fn crc_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn hash_tags() {
        assert_eq!(hash_tag(b"{one}:7"), b"one");
        assert_eq!(hash_tag(b"a{b}{c}"), b"b");
        assert_eq!(hash_tag(b"a{}{c}"), b"a{}{c}");
        assert_eq!(hash_tag(b"a{b"), b"a{b");
    }
}
