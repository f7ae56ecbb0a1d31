//! `CLUSTER NODES`, read: the cluster as one node sees it.

use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Slot, SlotSet};

/// One node's view of all nodes, itself included.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) members: Vec<Member>,
}

/// A node, as another node (or itself) sees it.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// 40 hexadecimal digits.
    pub(super) id: String,
    /// As announced. The host is empty while a node does not know its own.
    pub(super) ip: String,
    pub(super) port: u16,
    /// Announced beside the IP address; empty if there is none.
    pub(super) hostname: String,
    pub(super) flags: Vec<String>,
    /// The id of the primary that it follows.
    pub(super) primary: Option<String>,
    pub(super) epoch: u64,
    /// Whether the cluster bus is connected to it.
    pub(super) is_linked: bool,
    pub(super) slots: SlotSet,
    /// Slots on their way; a node tells only its own.
    pub(super) open: Vec<OpenSlot>,
}

/// A slot on its way from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenSlot {
    pub(super) slot: u16,
    pub(super) way: Way,
    /// The id of the other node.
    pub(super) other: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Migrating,
    Importing,
}

impl View {
    /// # Errors
    /// The line that is none of `CLUSTER NODES`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let members = lines.map(|line| parse_line(line).ok_or_else(|| format!("CLUSTER NODES: {line:?}")));
        Ok(Self { members: members.collect::<Result<_, _>>()? })
    }

    pub(super) fn find(&self, id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// The node whose view it is.
    pub(super) fn myself(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.has("myself"))
    }
}

impl Member {
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    pub(super) fn is_primary(&self) -> bool {
        self.has("master")
    }

    /// Whether it can be asked at all: it is known by more than hearsay, and its address is known.
    pub(super) fn is_settled(&self) -> bool {
        !self.has("handshake") && !self.has("noaddr")
    }

    /// Where clients find it. With TLS the name counts, as certificates have names.
    pub(super) fn address(&self, has_tls: bool, seed_host: &str) -> NodeAddress {
        let host = match (self.ip.as_str(), self.hostname.as_str()) {
            (_, name) if has_tls && !name.is_empty() => name,
            ("", _) => seed_host,
            (ip, _) => ip,
        };
        NodeAddress::tcp(host, self.port)
    }
}

/// `id ip:port@bus[,hostname[,name=value…]] flags primary ping-sent pong-received epoch link-state slot…`
fn parse_line(line: &str) -> Option<Member> {
    let mut words = line.split_ascii_whitespace();
    let id = words.next()?.to_owned();
    let (endpoint, rest) = words.next()?.split_once('@')?;
    let (ip, port) = endpoint.rsplit_once(':')?;
    let hostname = rest.split(',').nth(1).filter(|name| !name.contains('=')).unwrap_or_default();
    let flags = words.next()?.split(',').map(str::to_owned).collect();
    let primary = Some(words.next()?).filter(|primary| *primary != "-").map(str::to_owned);
    let epoch = words.nth(2)?.parse().ok()?;
    let is_linked = words.next()? == "connected";
    let (mut slots, mut open) = (SlotSet::new(), Vec::new());
    for word in words {
        match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            Some(word) => open.push(open_slot(word)?),
            None => {
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                for number in first.parse::<u16>().ok()?..=last.parse().ok()? {
                    slots.insert(Slot::new(number)?);
                }
            }
        }
    }
    let (ip, port) = (ip.trim_matches(['[', ']']).to_owned(), port.parse().ok()?);
    Some(Member { id, ip, port, hostname: hostname.to_owned(), flags, primary, epoch, is_linked, slots, open })
}

/// `93->-id` is leaving for the node with that id, `77-<-id` is coming from it.
fn open_slot(word: &str) -> Option<OpenSlot> {
    let (way, (slot, other)) = match word.split_once("->-") {
        Some(parts) => (Way::Migrating, parts),
        None => (Way::Importing, word.split_once("-<-")?),
    };
    Some(OpenSlot { slot: slot.parse().ok()?, way, other: other.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_versions() {
        let text = "07c3 127.0.0.1:30004@31004,host,shard-id=ab myself,master - 0 1426238317239 4 connected 0-5460 7000 [93->-292f] [77-<-e7d1]\n\
                    67ed ::1:30002@31002,,tls-port=0 slave,fail? 07c3 0 1426238316232 2 disconnected\n\
                    e7d1 :30001@31001 master,noaddr - 0 0 1 connected\n";
        let view = View::parse(text).unwrap();
        let [first, second, third] = view.members.as_slice() else { panic!("{view:?}") };
        assert_eq!((first.hostname.as_str(), first.epoch, first.slots.len()), ("host", 4, 5462));
        assert_eq!(first.open[0], OpenSlot { slot: 93, way: Way::Migrating, other: "292f".to_owned() });
        assert_eq!(first.open[1].way, Way::Importing);
        assert_eq!(first.address(true, "x").to_string(), "host:30004");
        assert_eq!(first.address(false, "x").to_string(), "127.0.0.1:30004");
        assert_eq!(second.address(true, "x").to_string(), "[::1]:30002");
        assert_eq!((second.primary.as_deref(), second.is_linked, second.is_primary()), (Some("07c3"), false, false));
        assert_eq!(third.address(false, "seed").to_string(), "seed:30001");
        assert!(!third.is_settled() && second.is_settled());
        assert_eq!(view.myself().map(|member| member.id.as_str()), Some("07c3"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["id addr", "a b:1@2 master - 0 0 1 connected 16384", "a b:1@2 master - 0 0 1 connected [7]"] {
            assert!(View::parse(text).is_err(), "{text}");
        }
    }
}
