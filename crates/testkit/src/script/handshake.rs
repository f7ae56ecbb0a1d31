//! What clients say before and between their users' commands.

use bytes::Bytes;

/// What is answered without the script's doing: `HELLO`, `AUTH`, `CLIENT …`, `SELECT`, `READONLY`, `PING` and, if
/// given, `CLUSTER SLOTS` and the like; then `CLUSTER NODES` is refused if it is not given as well.
#[derive(Debug, Clone)]
#[must_use]
pub struct Handshake {
    knows_hello: bool,
    is_automatic: bool,
    /// By subcommand in upper case.
    cluster: Vec<(String, Bytes)>,
}

impl Default for Handshake {
    /// A server that speaks RESP3 and accepts everybody.
    fn default() -> Self {
        Self { knows_hello: true, is_automatic: true, cluster: Vec::new() }
    }
}

impl Handshake {
    /// A server before Redis 6: `HELLO` is an unknown command.
    pub fn resp2_only() -> Self {
        Self { knows_hello: false, ..Self::default() }
    }

    /// Nothing is answered: the script says everything.
    pub fn manual() -> Self {
        Self { is_automatic: false, ..Self::default() }
    }

    /// Answers `CLUSTER SLOTS` with this reply; see [`cluster_slots`].
    pub fn with_cluster_slots(self, reply: impl Into<Bytes>) -> Self {
        self.with_cluster("SLOTS", reply)
    }

    /// Answers `CLUSTER subcommand` with this reply.
    pub fn with_cluster(mut self, subcommand: &str, reply: impl Into<Bytes>) -> Self {
        self.cluster.push((subcommand.to_ascii_uppercase(), reply.into()));
        self
    }

    /// The answer, if this is a command of a handshake.
    pub(super) fn answer(&self, connection: usize, words: &[Bytes]) -> Option<Bytes> {
        let upper = |at: usize| words.get(at).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        if !self.is_automatic {
            return None;
        }
        match upper(0).as_slice() {
            b"HELLO" if !self.knows_hello => Some(Bytes::from_static(b"-ERR unknown command 'HELLO'\r\n")),
            b"HELLO" => Some(hello(connection, upper(1) == b"3").into()),
            b"CLIENT" if upper(1) == b"ID" => Some(format!(":{}\r\n", client_id(connection)).into()),
            b"CLIENT" | b"AUTH" | b"SELECT" | b"READONLY" | b"READWRITE" => Some(Bytes::from_static(b"+OK\r\n")),
            b"PING" if words.len() == 1 => Some(Bytes::from_static(b"+PONG\r\n")),
            b"CLUSTER" => {
                // The last one wins.
                let subcommand = upper(1);
                let given = self.cluster.iter().rev().find(|(name, _)| name.as_bytes() == subcommand);
                let refused =
                    || Bytes::from_static(b"-ERR Unknown subcommand or wrong number of arguments for 'NODES'\r\n");
                let is_refused = subcommand == b"NODES" && !self.cluster.is_empty();
                given.map(|(_, reply)| reply.clone()).or_else(|| is_refused.then(refused))
            }
            _ => None,
        }
    }
}

fn client_id(connection: usize) -> usize {
    connection + 1
}

/// Redis, "HELLO": a map in RESP3, the same as a flat array in RESP2.
fn hello(connection: usize, is_resp3: bool) -> String {
    let (start, proto) = if is_resp3 { ("%7", 3) } else { ("*14", 2) };
    let id = client_id(connection);
    format!(
        "{start}\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:{proto}\r\n$2\r\nid\r\n:{id}\r\n\
         $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
    )
}

/// The first and the last slot of a range, and its nodes as `(host, port, id)`, first the master.
pub type SlotRange<'a> = (u16, u16, &'a [(&'a str, u16, &'a str)]);

/// A reply to `CLUSTER SLOTS`.
pub fn cluster_slots(ranges: &[SlotRange<'_>]) -> Vec<u8> {
    let mut reply = format!("*{}\r\n", ranges.len());
    for (first, last, nodes) in ranges {
        reply += &format!("*{}\r\n:{first}\r\n:{last}\r\n", nodes.len() + 2);
        for (host, port, id) in *nodes {
            reply += &format!("*4\r\n${}\r\n{host}\r\n:{port}\r\n${}\r\n{id}\r\n*0\r\n", host.len(), id.len());
        }
    }
    reply.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(handshake: &Handshake, command: &str, expected: Option<&str>) {
        let words: Vec<_> = command.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        let answer = handshake.answer(0, &words);
        let start =
            answer.as_ref().map(|answer| String::from_utf8_lossy(&answer[..expected.map_or(0, str::len)]).into_owned());
        assert_eq!(start.as_deref(), expected);
    }

    #[test]
    fn answers_handshakes_and_nothing_else() {
        let usual = Handshake::default().with_cluster_slots("*0\r\n");
        check(&usual, "HELLO 3 AUTH u p", Some("%7\r\n"));
        check(&usual, "hello 2", Some("*14\r\n"));
        check(&usual, "CLIENT ID", Some(":1\r\n"));
        check(&usual, "CLIENT SETINFO LIB-NAME x", Some("+OK\r\n"));
        check(&usual, "CLUSTER slots", Some("*0\r\n"));
        check(&usual, "CLUSTER SHARDS", None);
        check(&usual, "CLUSTER NODES", Some("-ERR Unknown subcommand"));
        check(&usual.clone().with_cluster("nodes", "$-1\r\n"), "CLUSTER NODES", Some("$-1\r\n"));
        check(&Handshake::default(), "CLUSTER NODES", None);
        check(&usual, "PING hello", None);
        check(&usual, "GET k", None);
        check(&Handshake::resp2_only(), "HELLO 3", Some("-ERR unknown command"));
        check(&Handshake::manual(), "HELLO 3", None);
    }

    #[test]
    fn slots_of_a_master_and_its_replica() {
        let reply = cluster_slots(&[(0, 16_383, &[("127.0.0.1", 7000, "m"), ("", 7001, "r")])]);
        let expected = "*1\r\n*4\r\n:0\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$1\r\nm\r\n*0\r\n*4\r\n$0\r\n\r\n:7001\r\n$1\r\nr\r\n*0\r\n";
        assert_eq!(String::from_utf8(reply).unwrap(), expected);
    }
}
