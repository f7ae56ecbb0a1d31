//! `CLUSTER NODES`, read.

use crate::error::Error;
use std::ops::RangeInclusive;

/// A node, as another node (or itself) knows it: a line of `CLUSTER NODES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownNode {
    /// Its node id.
    pub id: String,
    /// `HOST:PORT`.
    pub addr: String,
    /// `myself`, `master`, `slave`, `fail`, …
    pub flags: Vec<String>,
    /// The id of its primary, if it is a replica.
    pub primary: Option<String>,
    /// Whether there is a connection of the cluster bus to it.
    pub is_connected: bool,
    /// Its slots; without those that are on their way.
    pub slots: Vec<RangeInclusive<u16>>,
}

impl KnownNode {
    /// Whether this slot is its own.
    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    /// Whether it has this flag, such as `master` or `fail`.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<KnownNode>, Error> {
    let parsed = text.lines().filter(|line| !line.is_empty()).map(|line| {
        parse_line(line)
            .ok_or_else(|| Error::UnexpectedReply { command: "CLUSTER NODES".to_owned(), reply: line.to_owned() })
    });
    parsed.collect()
}

/// `id ip:port@cport[,hostname] flags primary ping-sent pong-received epoch link-state slot…`
fn parse_line(line: &str) -> Option<KnownNode> {
    let mut words = line.split(' ');
    let id = words.next()?.to_owned();
    let addr = words.next()?.split('@').next()?.to_owned();
    let flags = words.next()?.split(',').map(str::to_owned).collect();
    let primary = Some(words.next()?).filter(|primary| *primary != "-").map(str::to_owned);
    let is_connected = words.nth(3)? == "connected";
    let settled = words.filter(|slots| !slots.starts_with('['));
    let slots = settled.map(parse_slots).collect::<Option<_>>()?;
    Some(KnownNode { id, addr, flags, primary, is_connected, slots })
}

fn parse_slots(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_slot_on_its_way() {
        let line =
            "07c3 127.0.0.1:30004@31004,host myself,master - 0 1426238317239 4 connected 0-5460 7000 [93-<-292f]\n";
        let known = parse(line).unwrap().remove(0);
        assert_eq!((known.id.as_str(), known.addr.as_str()), ("07c3", "127.0.0.1:30004"));
        assert!(known.is_connected && known.has_flag("master") && known.primary.is_none());
        assert_eq!(known.slots, [0..=5460, 7000..=7000]);
        assert!(known.owns(7000) && !known.owns(7001));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse("id addr").is_err());
    }
}
