//! Connections that have left HTTP, by what was spoken before.

use super::counter::Counter;
use crate::protocols::{ClientProtocol, ServiceProtocol};

/// One worker's connections that are, or were, another protocol's.
#[derive(Debug, Default)]
pub(crate) struct Upgrades([[Counted; ServiceProtocol::SWITCHING.len()]; ClientProtocol::ALL.len()]);

/// How many there were, and how many of them are open.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Upgraded {
    pub(crate) begun: u64,
    pub(crate) open: u64,
}

impl std::iter::Sum for Upgraded {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self { begun: sum.begun + one.begun, open: sum.open + one.open })
    }
}

#[derive(Debug, Default)]
struct Counted {
    begun: Counter,
    ended: Counter,
}

impl Upgrades {
    /// One that is open while what is returned lives. Only for the one writer.
    pub(crate) fn open(&self, client: ClientProtocol, service: ServiceProtocol) -> impl Drop {
        let upgraded = &self.0[client as usize][service as usize];
        upgraded.begun.add(1);
        Open(upgraded)
    }

    pub(crate) fn counts(&self, client: ClientProtocol, service: ServiceProtocol) -> Upgraded {
        let Counted { begun, ended } = &self.0[client as usize][service as usize];
        let ended = ended.value(); // first, so that it is never more than the others
        let begun = begun.value();
        Upgraded { begun, open: begun.saturating_sub(ended) }
    }
}

struct Open<'a>(&'a Counted);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.ended.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_counted_where_it_belongs() {
        let upgrades = Upgrades::default();
        let (client, service) = (ClientProtocol::Http2, ServiceProtocol::Pipe);
        let open = upgrades.open(client, service);
        drop(upgrades.open(client, service));
        assert_eq!(upgrades.counts(client, service), Upgraded { begun: 2, open: 1 });
        assert_eq!(upgrades.counts(ClientProtocol::Http1, service), Upgraded::default());
        assert_eq!(upgrades.counts(client, ServiceProtocol::Http), Upgraded::default());
        drop(open);
        assert_eq!(upgrades.counts(client, service), Upgraded { begun: 2, open: 0 });
    }
}
