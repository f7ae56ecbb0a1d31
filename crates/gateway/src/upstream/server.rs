//! The server that takes a request of a service that somebody else runs, and the request's place there.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::COOKIE;
use pilotlight_balance::{Ask, Group, Ms, Tried, key};

use crate::admission::AskerFields;
use crate::admission::asker::cookie;
use crate::options::{BalanceBy, External, ExternalAddr};
use crate::timing::Moment;

/// A server, as the way to it needs it.
#[derive(Clone, Copy)]
pub(crate) struct Server<'a> {
    pub(crate) addr: &'a ExternalAddr,
    /// Among those of the service, from 0: which kept connections lead to it.
    pub(crate) number: u64,
    /// `None`: as long as the response may.
    pub(crate) connect_timeout: Option<Duration>,
}

/// A request's place at one of several servers. It counts as open there while this lives.
pub(crate) struct Seat {
    external: Arc<External>,
    index: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(group) = self.external.group() {
            group.ended(self.index);
        }
        if let Some(line) = self.external.line() {
            line.call_first();
        }
    }
}

impl Seat {
    /// A place for a request that was at `tried` before; none if all servers have as many requests as they may.
    pub(crate) fn choose(
        external: &Arc<External>,
        tried: Tried,
        now: Moment,
        fields: &impl AskerFields,
        client: impl FnOnce() -> Option<IpAddr>,
    ) -> Option<Self> {
        let group = external.group()?;
        let key = key_of(&external.spec().balance.by, fields, client);
        let index = group.choose(Ask { now: millis(now), chance: fastrand::u64(..), key, tried })?;
        Some(Self { external: Arc::clone(external), index })
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Whether there is a server that was not tried, and is not left out.
    pub(crate) fn has_others(&self, tried: Tried) -> bool {
        let now = millis(Moment::now());
        self.external.group().is_some_and(|group| group.has_others(tried, now))
    }

    /// Whether no further request may be sent again at the moment.
    pub(crate) fn is_over_budget(&self) -> bool {
        let now = millis(Moment::now());
        self.external.group().is_some_and(|group| !group.may_retry(now))
    }

    /// One was not, for that reason.
    pub(crate) fn refused_retry(&self) {
        if let Some(group) = self.external.group() {
            group.refused_retry();
        }
    }

    /// It gave a response that is its own.
    pub(crate) fn answered(&self) {
        if self.group(Group::answered) {
            tracing::info!(service = self.external.name(), server = self.address(), "the server answers again");
        }
    }

    /// It gave none, or one that says that it is not well.
    pub(crate) fn failed(&self, why: &dyn std::fmt::Display) {
        let now = millis(Moment::now());
        if self.group(|group, index| group.failed(index, now)) {
            let (service, server) = (self.external.name(), self.address());
            tracing::warn!(service, server, "the server is left out for some time: {why}");
        }
    }

    fn group(&self, tell: impl FnOnce(&Group, usize) -> bool) -> bool {
        self.external.group().is_some_and(|group| tell(group, self.index))
    }

    fn address(&self) -> String {
        address(&self.external, self.index)
    }
}

/// Where a server listens, for people.
pub(crate) fn address(external: &External, index: usize) -> String {
    external.spec().servers.get(index).map(ExternalAddr::to_string).unwrap_or_default()
}

/// The server of a place, or the only one.
pub(crate) fn server<'a>(external: &'a External, seat: Option<&Seat>) -> Option<Server<'a>> {
    let server = numbered(external, seat.map_or(0, Seat::index))?;
    Some(Server { connect_timeout: server.connect_timeout.filter(|_| seat.is_some()), ..server })
}

/// One of its servers.
pub(crate) fn numbered(external: &External, index: usize) -> Option<Server<'_>> {
    let connect_timeout = Some(external.spec().balance.connect_timeout);
    let addr = external.spec().servers.get(index)?;
    Some(Server { addr, number: index as u64, connect_timeout })
}

fn key_of(by: &BalanceBy, fields: &impl AskerFields, client: impl FnOnce() -> Option<IpAddr>) -> Option<u64> {
    let of_client = || match client()? {
        IpAddr::V4(address) => Some(key(&address.octets())),
        IpAddr::V6(address) => address.octets().first_chunk::<8>().map(|subscriber| key(subscriber)),
    };
    match by {
        BalanceBy::Requests => None,
        BalanceBy::Client => of_client(),
        BalanceBy::Header(name) => fields.only(name).map(key).or_else(of_client),
        BalanceBy::Cookie(name) => {
            fields.only(&COOKIE).and_then(|cookies| cookie(cookies, name.as_bytes())).map(key).or_else(of_client)
        }
    }
}

pub(crate) fn millis(moment: Moment) -> Ms {
    Ms(moment.as_ns() / 1_000_000)
}
