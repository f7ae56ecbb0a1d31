//! The server that takes a request of a service that somebody else runs, and the request's place there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use pilotlight_balance::{Ask, Tried, key};
use pilotlight_proxy_protocol::Version;
use pilotlight_tls::{Offer, ServerTls};

use crate::admission::AskerFields;
use crate::admission::asker::{Key, KeyBy, sole_cookie};
use crate::options::{BalanceBy, External, ExternalAddr};
use crate::servers::{OneServer, Servers};
use crate::target::Scheme;
use crate::timing::{Moment, millis};

/// A server, as the way to it needs it.
#[derive(Clone, Copy)]
pub(crate) struct Server<'a> {
    pub(crate) addr: &'a ExternalAddr,
    pub(crate) one: &'a OneServer,
    /// Which kept connections lead to it.
    pub(crate) number: u64,
    /// `None`: as long as the response may.
    pub(crate) connect_timeout: Option<Duration>,
    /// With TLS.
    pub(crate) secured: Option<Secured<'a>>,
    /// Behind a header that says whose the connection is, and which therefore carries one request.
    pub(crate) announced: Option<Announced>,
}

/// How a server is spoken to with TLS.
#[derive(Clone, Copy)]
pub(crate) struct Secured<'a> {
    pub(crate) tls: Result<&'a ServerTls, &'a str>,
    /// The host of its address, whose name its certificate has unless the settings say another.
    pub(crate) host: &'a str,
    pub(crate) offer: Offer,
}

/// What a header of the PROXY protocol says.
#[derive(Clone, Copy)]
pub(crate) struct Announced {
    pub(crate) version: Version,
    /// `None`: it is the gateway that asks.
    pub(crate) client: Option<SocketAddr>,
}

/// A request's place at one of several servers. It counts as open there while this lives.
pub(crate) struct Seat {
    external: Arc<External>,
    /// The list when it was chosen; the server may have left it since.
    servers: Arc<Servers>,
    index: usize,
    /// Whether the client is to be told of the server, so that it comes back to it.
    is_news: bool,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.servers.group().ended(self.index);
        if let Some(live) = self.external.live() {
            live.is_used(Moment::now());
            live.line().call_first();
        }
    }
}

impl Seat {
    /// A place for a request that was at `tried` before; none if there is no server, or all have as many requests as
    /// they may.
    pub(crate) fn choose(
        external: &Arc<External>,
        tried: Tried,
        now: Moment,
        fields: &impl AskerFields,
        client: impl FnOnce() -> Option<IpAddr>,
    ) -> Option<Self> {
        let live = external.live()?;
        let servers = live.now();
        let by = &external.spec().balance.by;
        let key = key_of(by, fields, client);
        let at = match by {
            BalanceBy::Sticky(name) => sole_cookie(fields, name).and_then(|id| servers.of_id(id)),
            _ => None,
        };
        let ask = Ask { now: millis(now), chance: fastrand::u64(..), key, at, tried };
        let index = servers.group().choose(ask)?;
        live.is_used(now);
        let is_news = matches!(by, BalanceBy::Sticky(_)) && at != Some(index);
        Some(Self { external: Arc::clone(external), servers, index, is_news })
    }

    /// The cookie by which the client comes back to this server, if it has not got it.
    pub(crate) fn cookie(&self, scheme: Scheme) -> Option<HeaderValue> {
        let BalanceBy::Sticky(name) = &self.external.spec().balance.by else { return None };
        let id = self.one()?.id().filter(|_| self.is_news)?;
        let secure = if scheme == Scheme::Https { "; Secure" } else { "" };
        HeaderValue::from_str(&format!("{name}={id}; Path=/; HttpOnly; SameSite=Lax{secure}")).ok()
    }

    fn one(&self) -> Option<&OneServer> {
        self.servers.one(self.index)
    }

    pub(crate) fn number(&self) -> u64 {
        self.servers.group().number(self.index)
    }

    /// Whether the server is not in the list any more.
    pub(crate) fn has_left(&self) -> bool {
        !self.external.has(self.number())
    }

    /// Whether there is a server now that was not tried, and is not left out; or none at all, so that the next one to
    /// come is waited for.
    pub(crate) fn has_others(&self, tried: Tried) -> bool {
        let (now, servers) = (millis(Moment::now()), self.external.live().map(|live| live.now()));
        servers.is_some_and(|servers| servers.group().is_empty() || servers.group().has_others(tried, now))
    }

    /// Whether no further request may be sent again at the moment.
    pub(crate) fn is_over_budget(&self) -> bool {
        let now = millis(Moment::now());
        !self.servers.group().may_retry(now)
    }

    /// One was not, for that reason.
    pub(crate) fn refused_retry(&self) {
        self.servers.group().refused_retry();
    }

    /// It gave a response that is its own.
    pub(crate) fn answered(&self) {
        if self.servers.group().answered(self.index) {
            tracing::info!(service = self.external.name(), server = self.address(), "the server answers again");
        }
    }

    /// It gave none, or one that says that it is not well.
    pub(crate) fn failed(&self, why: &dyn std::fmt::Display) {
        let now = millis(Moment::now());
        if self.servers.group().failed(self.index, now) {
            let (service, server) = (self.external.name(), self.address());
            tracing::warn!(service, server, "the server is left out for some time: {why}");
        }
    }

    /// It took no connection. Returns whether the next server that does is waited for.
    pub(crate) fn refused(&self) -> bool {
        let is_given = self.external.live().is_some_and(|live| live.is_given(self.external.spec()));
        if is_given {
            self.servers.group().refused(self.index, millis(Moment::now()));
        }
        is_given
    }

    fn address(&self) -> &str {
        self.one().map_or("", OneServer::address)
    }
}

/// The server of a place, or the only one. `client` asks.
pub(crate) fn server<'a>(
    external: &'a External,
    seat: Option<&'a Seat>,
    client: impl FnOnce() -> Option<SocketAddr>,
) -> Option<Server<'a>> {
    let one = match seat {
        Some(seat) => seat.one()?,
        None => external.only()?,
    };
    let server = of(external, one);
    let connect_timeout = server.connect_timeout.filter(|_| seat.is_some());
    let announced = server.announced.map(|announced| Announced { client: client(), ..announced });
    Some(Server { connect_timeout, announced, ..server })
}

/// One of its servers.
pub(crate) fn of<'a>(external: &'a External, one: &'a OneServer) -> Server<'a> {
    let spec = external.spec();
    let connect_timeout = Some(spec.balance.connect_timeout);
    let announced = spec.proxy_protocol.map(|version| Announced { version, client: None });
    let (addr, number) = (&one.spec().addr, one.number());
    Server { addr, one, number, connect_timeout, secured: None, announced }
}

fn key_of(by: &BalanceBy, fields: &impl AskerFields, client: impl FnOnce() -> Option<IpAddr>) -> Option<u64> {
    let by = match by {
        BalanceBy::Requests | BalanceBy::Sticky(_) => return None,
        BalanceBy::Client => KeyBy::Client,
        BalanceBy::Header(name) => KeyBy::Header(name),
        BalanceBy::Cookie(name) => KeyBy::Cookie(name),
    };
    match Key::new(by, fields, client) {
        Key::All | Key::Local => None,
        Key::V4(address) => Some(key(&address.to_be_bytes())),
        Key::V6(network) => Some(key(&network.to_be_bytes())),
        Key::Value(value) => Some(key(value)),
    }
}
