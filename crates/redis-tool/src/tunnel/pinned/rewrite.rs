//! Addresses of nodes in replies about the topology and in redirects, replaced by those of the tunnel's ports. Pure:
//! bytes in, bytes out.

use bytes::{Bytes, BytesMut};
use pilotlight_resp::{Attributes, Decoder, Frame, Limits, Protocol, Value, encode};

/// What was asked for. Nothing else is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    /// `CLUSTER SLOTS`
    Slots,
    /// `CLUSTER SHARDS`
    Shards,
    /// `CLUSTER NODES`, `CLUSTER REPLICAS`, `CLUSTER SLAVES`
    Nodes,
    /// `ROLE`
    Role,
    /// `SENTINEL GET-MASTER-ADDR-BY-NAME`
    MasterAddress,
    /// `SENTINEL MASTER`, `MASTERS`, `REPLICAS`, `SLAVES`, `SENTINELS`
    Instances,
}

impl Query {
    /// What this command asks for, by its first two words.
    pub(super) fn of(name: &[u8], subcommand: &[u8]) -> Option<Self> {
        let is = |word: &str| subcommand.eq_ignore_ascii_case(word.as_bytes());
        if name.eq_ignore_ascii_case(b"role") {
            return Some(Self::Role);
        }
        if name.eq_ignore_ascii_case(b"cluster") {
            return match () {
                () if is("slots") => Some(Self::Slots),
                () if is("shards") => Some(Self::Shards),
                () if is("nodes") || is("replicas") || is("slaves") => Some(Self::Nodes),
                () => None,
            };
        }
        if name.eq_ignore_ascii_case(b"sentinel") {
            return match () {
                () if is("get-master-addr-by-name") => Some(Self::MasterAddress),
                () if ["master", "masters", "replicas", "slaves", "sentinels"].into_iter().any(is) => {
                    Some(Self::Instances)
                }
                () => None,
            };
        }
        None
    }
}

/// The host that nodes tell where clients are to use names (`cluster-preferred-endpoint-type hostname`) and the node
/// has none.
pub(super) const UNKNOWN: &str = "?";

/// Where a node is for the tunnel's clients.
pub(super) trait Map {
    /// The host and port in the place of `host:port`; an empty host is that of the node that was asked, and [`UNKNOWN`]
    /// is any.
    fn local(&mut self, host: &str, port: u16) -> Option<(String, u16)>;
}

/// The reply with other addresses; `None`: there are none in it that are to be replaced.
pub(super) fn reply(query: Query, frame: &Bytes, map: &mut dyn Map) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new(Limits::default()).with_attributes(Attributes::Keep);
    let Ok(Some(Frame::Reply(mut value))) = decoder.decode(&mut BytesMut::from(&frame[..])) else { return None };
    if !rewrite(query, &mut value, map) {
        return None;
    }
    // Of all types, only null is written in two ways; whoever speaks RESP3 has no `$-1`.
    let is_resp2 = frame.windows(5).any(|bytes| bytes == b"$-1\r\n");
    let mut out = Vec::with_capacity(frame.len() + 64);
    encode::value(&mut out, &value, if is_resp2 { Protocol::Resp2 } else { Protocol::Resp3 });
    Some(out)
}

/// A redirect with another address; `None`: it is none, or to be left as it is. `line` is the whole frame.
pub(super) fn redirect(line: &[u8], map: &mut dyn Map) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(line.strip_prefix(b"-")?.strip_suffix(b"\r\n")?).ok()?;
    let mut words = text.split(' ');
    let code = words.next()?;
    let before = match code {
        "MOVED" | "ASK" => format!("-{code} {}", words.next()?),
        "REDIRECT" => format!("-{code}"),
        _ => return None,
    };
    let (host, port) = words.next()?.rsplit_once(':')?;
    let rest: String = words.flat_map(|word| [" ", word]).collect();
    let (host, port) = map.local(host, port.parse().ok()?)?;
    Some(format!("{before} {host}:{port}{rest}\r\n").into_bytes())
}

fn rewrite(query: Query, value: &mut Value, map: &mut dyn Map) -> bool {
    match (query, value) {
        (query, Value::Attributed(attributed)) => rewrite(query, &mut attributed.value, map),
        (Query::Slots, Value::Array(ranges)) => any(ranges, |range| slots(range, map)),
        (Query::Shards, Value::Array(shards)) => any(shards, |shard| match field(shard, "nodes") {
            Some(Value::Array(nodes)) => any(nodes, |node| instance(node, map)),
            _ => false,
        }),
        (Query::Nodes, Value::Array(lines)) => any(lines, |line| rewrite(query, line, map)),
        (Query::Nodes, Value::Bulk(text) | Value::Verbatim { text, .. }) => match lines(text, map) {
            Some(changed) => {
                *text = changed.into();
                true
            }
            None => false,
        },
        (Query::Role, Value::Array(items)) => role(items, map),
        (Query::MasterAddress, Value::Array(items)) => match &mut items[..] {
            [host, port] => address(host, port, map),
            _ => false,
        },
        (Query::Instances, value) => instances(value, map),
        _ => false,
    }
}

/// Applies to all, and tells whether any was changed.
fn any(values: &mut [Value], mut change: impl FnMut(&mut Value) -> bool) -> bool {
    values.iter_mut().fold(false, |changed, value| change(value) | changed)
}

/// `[first, last, [host, port, id, [metadata]], …]`
fn slots(range: &mut Value, map: &mut dyn Map) -> bool {
    let Value::Array(items) = range else { return false };
    any(items.get_mut(2..).unwrap_or_default(), |node| {
        let Value::Array(parts) = node else { return false };
        let [host, port, rest @ ..] = &mut parts[..] else { return false };
        // Next to a name that is not known stands the address.
        if matches!(host, Value::Bulk(name) if name == UNKNOWN.as_bytes())
            && let Some(ip) = rest.get_mut(1).and_then(|metadata| field(metadata, "ip"))
        {
            host.clone_from(ip);
        }
        let is_changed = address(host, port, map);
        if is_changed && let Some(metadata) = rest.get_mut(1) {
            for name in ["ip", "hostname"] {
                if let Some(known) = field(metadata, name) {
                    known.clone_from(host);
                }
            }
        }
        is_changed
    })
}

/// `host` and `port`, each in a place of its own. A host that is not known is that of the node that was asked.
fn address(host: &mut Value, port: &mut Value, map: &mut dyn Map) -> bool {
    let name = match host {
        Value::Bulk(name) => String::from_utf8_lossy(name).into_owned(),
        Value::Null => String::new(),
        _ => return false,
    };
    let number = match port {
        Value::Integer(port) => u16::try_from(*port).ok(),
        Value::Bulk(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    let Some((local_host, local_port)) = number.and_then(|number| map.local(&name, number)) else { return false };
    *host = Value::Bulk(local_host.into());
    *port = match port {
        Value::Integer(_) => Value::Integer(local_port.into()),
        _ => Value::Bulk(local_port.to_string().into()),
    };
    true
}

/// A map, or in RESP2 a flat list, about one instance.
fn instance(value: &mut Value, map: &mut dyn Map) -> bool {
    let text = |value: Option<&mut Value>| match value {
        Some(Value::Bulk(text)) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    };
    let known = |host: &String| !host.is_empty() && host != UNKNOWN;
    let host = text(field(value, "endpoint")).filter(known).or_else(|| text(field(value, "ip")));
    let number = |value: Option<&mut Value>| match value {
        Some(Value::Integer(port)) => u16::try_from(*port).ok(),
        Some(Value::Bulk(text)) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    };
    let ports = ["port", "tls-port"].map(|name| number(field(value, name)));
    let host = host.unwrap_or_default();
    let Some((host, port)) = ports.into_iter().flatten().find_map(|port| map.local(&host, port)) else { return false };
    for name in ["ip", "endpoint", "hostname"] {
        if let Some(known) = field(value, name).filter(|known| !matches!(known, Value::Bulk(text) if text.is_empty())) {
            *known = Value::Bulk(host.clone().into());
        }
    }
    for name in ["port", "tls-port"] {
        if let Some(known) = field(value, name) {
            *known = match known {
                Value::Bulk(_) => Value::Bulk(port.to_string().into()),
                _ => Value::Integer(port.into()),
            };
        }
    }
    // A client without TLS looks for the plain port.
    if ports[0].is_none() {
        rename(value, "tls-port", "port");
    }
    true
}

fn instances(value: &mut Value, map: &mut dyn Map) -> bool {
    match value {
        // A flat list begins with a name, a list of instances with an instance.
        Value::Array(items) if !matches!(items.first(), Some(Value::Bulk(_))) => {
            any(items, |item| instances(item, map))
        }
        one => {
            let is_changed = instance(one, map);
            let pair = ["master-host", "master-port"].map(|name| field(one, name).cloned());
            let [Some(mut host), Some(mut port)] = pair else { return is_changed };
            if !address(&mut host, &mut port, map) {
                return is_changed;
            }
            for (name, new) in [("master-host", host), ("master-port", port)] {
                if let Some(old) = field(one, name) {
                    *old = new;
                }
            }
            true
        }
    }
}

/// The value of a name in a map, or in a flat list of names and values.
fn field<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    let is = |key: &Value| matches!(key, Value::Bulk(key) | Value::Simple(key) if key == name.as_bytes());
    match value {
        Value::Map(pairs) => pairs.iter_mut().find(|(key, _)| is(key)).map(|(_, value)| value),
        Value::Array(items) => {
            let at = items.chunks_exact(2).position(|pair| is(&pair[0]))?;
            items.get_mut(at * 2 + 1)
        }
        _ => None,
    }
}

fn rename(value: &mut Value, from: &str, to: &'static str) {
    let change = |key: &mut Value| {
        if matches!(key, Value::Bulk(key) if key == from.as_bytes()) {
            *key = Value::Bulk(Bytes::from_static(to.as_bytes()));
        }
    };
    match value {
        Value::Map(pairs) => pairs.iter_mut().for_each(|(key, _)| change(key)),
        Value::Array(items) => items.iter_mut().step_by(2).for_each(change),
        _ => {}
    }
}

/// `id host:port@bus[,hostname[,…]] flags …`, line by line.
fn lines(text: &[u8], map: &mut dyn Map) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let mut out = String::with_capacity(text.len());
    let mut is_changed = false;
    for line in text.split_inclusive('\n') {
        match node_line(line, map) {
            Some(line) => {
                out.push_str(&line);
                is_changed = true;
            }
            None => out.push_str(line),
        }
    }
    is_changed.then_some(out)
}

fn node_line(line: &str, map: &mut dyn Map) -> Option<String> {
    let (id, rest) = line.split_once(' ')?;
    let (place, rest) = rest.split_once(' ')?;
    let (endpoint, bus) = place.split_once('@')?;
    let (host, port) = endpoint.rsplit_once(':')?;
    let (host, port) = map.local(host, port.parse().ok()?)?;
    let (bus, names) = bus.split_once(',').map_or((bus, None), |(bus, names)| (bus, Some(names)));
    let names = names.map(|names| {
        let (hostname, others) = names.split_once(',').map_or((names, None), |(name, others)| (name, Some(others)));
        let hostname = if hostname.is_empty() { "" } else { &host };
        others.map_or_else(|| format!(",{hostname}"), |others| format!(",{hostname},{others}"))
    });
    Some(format!("{id} {host}:{port}@{bus}{} {rest}", names.unwrap_or_default()))
}

/// `["master", offset, [[host, port, offset], …]]` or `["slave", host, port, state, offset]`
fn role(items: &mut [Value], map: &mut dyn Map) -> bool {
    match items {
        [Value::Bulk(name), host, port, ..] if &name[..] == b"slave" => address(host, port, map),
        [Value::Bulk(name), _, Value::Array(replicas)] if &name[..] == b"master" => any(replicas, |replica| {
            let Value::Array(parts) = replica else { return false };
            match &mut parts[..] {
                [host, port, ..] => address(host, port, map),
                _ => false,
            }
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports of `10.0.0.1` and `node-1` are a thousand higher at the tunnel.
    struct Example;

    impl Map for Example {
        fn local(&mut self, host: &str, port: u16) -> Option<(String, u16)> {
            matches!(host, "10.0.0.1" | "node-1" | "" | UNKNOWN).then(|| ("127.0.0.1".to_owned(), port + 1000))
        }
    }

    fn bulks(words: &[&str]) -> String {
        words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect()
    }

    #[track_caller]
    fn check(query: Query, frame: &str, expected: Option<&str>) {
        let found = reply(query, &Bytes::copy_from_slice(frame.as_bytes()), &mut Example);
        let found = found.map(|frame| String::from_utf8(frame).unwrap());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn slots_in_both_protocols() {
        let reply = |host: &str, port: u16, known: &str| {
            format!("*1\r\n*3\r\n:0\r\n:5\r\n*4\r\n{host}:{port}\r\n$2\r\nid\r\n*2\r\n{}", bulks(&["hostname", known]))
        };
        let ip = bulks(&["10.0.0.1"]);
        let local = bulks(&["127.0.0.1"]);
        check(Query::Slots, &reply(&ip, 7000, "node-1"), Some(&reply(&local, 8000, "127.0.0.1")));
        check(Query::Slots, &reply("$-1\r\n", 7000, "node-1"), Some(&reply(&local, 8000, "127.0.0.1")));
        check(Query::Slots, &reply("_\r\n", 7000, "node-1"), Some(&reply(&local, 8000, "127.0.0.1")));
        check(Query::Slots, &reply(&bulks(&["10.9.9.9"]), 7000, "x"), None);
        let nameless = |host: &str, ip: &str| {
            let node = format!("{}:7000\r\n$2\r\nid\r\n*2\r\n{}", bulks(&[host]), bulks(&["ip", ip]));
            format!("*1\r\n*3\r\n:0\r\n:5\r\n*4\r\n{node}")
        };
        let known = nameless("127.0.0.1", "127.0.0.1").replace(":7000", ":8000");
        check(Query::Slots, &nameless("?", "10.0.0.1"), Some(&known));
        check(Query::Slots, "+QUEUED\r\n", None);
        check(Query::Slots, "-ERR no\r\n", None);
    }

    #[test]
    fn shards_of_a_cluster_with_tls_get_a_plain_port() {
        let before = format!(
            "*1\r\n*4\r\n{}*0\r\n{}*1\r\n*6\r\n{}:7000\r\n{}",
            bulks(&["slots"]),
            bulks(&["nodes"]),
            bulks(&["tls-port"]),
            bulks(&["ip", "10.0.0.1", "endpoint", "node-1"])
        );
        let after = before.replace("$8\r\ntls-port\r\n:7000", "$4\r\nport\r\n:8000");
        let after = after.replace("$8\r\n10.0.0.1", "$9\r\n127.0.0.1").replace("$6\r\nnode-1", "$9\r\n127.0.0.1");
        check(Query::Shards, &before, Some(&after));
    }

    #[test]
    fn nodes_line_by_line() {
        let text = "a 10.0.0.1:7000@17000,node-1,shard-id=5 myself,master - 0 0 1 connected 0-5 [7->-b]\nb 10.9.9.9:1@2 slave a 0 0 1 connected\n";
        let rewritten = "a 127.0.0.1:8000@17000,127.0.0.1,shard-id=5 myself,master - 0 0 1 connected 0-5 [7->-b]\nb 10.9.9.9:1@2 slave a 0 0 1 connected\n";
        check(Query::Nodes, &bulks(&[text]), Some(&bulks(&[rewritten])));
        let verbatim = |text: &str| format!("={}\r\ntxt:{text}\r\n", text.len() + 4);
        check(Query::Nodes, &verbatim(text), Some(&verbatim(rewritten)));
    }

    #[test]
    fn roles_and_sentinels() {
        let master = format!("*3\r\n{}:5\r\n*1\r\n*3\r\n{}", bulks(&["master"]), bulks(&["10.0.0.1", "7000", "5"]));
        let expected = format!("*3\r\n{}:5\r\n*1\r\n*3\r\n{}", bulks(&["master"]), bulks(&["127.0.0.1", "8000", "5"]));
        check(Query::Role, &master, Some(&expected));
        let address = |host, port| format!("*2\r\n{}", bulks(&[host, port]));
        check(Query::MasterAddress, &address("10.0.0.1", "7000"), Some(&address("127.0.0.1", "8000")));
        check(Query::MasterAddress, "*-1\r\n", None);
        let instance = |host, port| format!("*1\r\n*4\r\n{}", bulks(&["ip", host, "port", port]));
        check(Query::Instances, &instance("10.0.0.1", "7000"), Some(&instance("127.0.0.1", "8000")));
    }

    #[test]
    fn redirects() {
        let check = |line: &str, expected: Option<&str>| {
            let found = redirect(line.as_bytes(), &mut Example).map(|line| String::from_utf8(line).unwrap());
            assert_eq!(found.as_deref(), expected, "{line:?}");
        };
        check("-MOVED 5 10.0.0.1:7000\r\n", Some("-MOVED 5 127.0.0.1:8000\r\n"));
        check("-ASK 5 node-1:7000\r\n", Some("-ASK 5 127.0.0.1:8000\r\n"));
        check("-MOVED 5 :7000\r\n", Some("-MOVED 5 127.0.0.1:8000\r\n"));
        check("-MOVED 5 ?:7000\r\n", Some("-MOVED 5 127.0.0.1:8000\r\n"));
        check("-MOVED 5 10.9.9.9:7000\r\n", None);
        check("-ERR MOVED 5 10.0.0.1:7000\r\n", None);
        check("-MOVED\r\n", None);
    }
}
