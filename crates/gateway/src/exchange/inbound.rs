//! A request on its way through the gateway, and what it needs there.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Version;
use http::header::{HeaderValue, UPGRADE};
use pilotlight_balance::Tried;
use pilotlight_cache::{Fill, Forward, Lookup, Stored};
use pilotlight_files::Script;
use pilotlight_supervisor::{Instance, Lease};

use super::changes::Seen;
use super::detached_fetch::DetachedFetch;
use super::spilled::Spilled;
use crate::admission::Gate;
use crate::body::ResponseBody;
use crate::cache_key::{self, CacheKey};
use crate::client::received::RedisMiss;
use crate::downstream::Downstream;
use crate::grpc;
use crate::head::Head;
use crate::options::{RouteCache, RouteLimit, RouteSpec, Settings};
use crate::outbound::{InterimSink, Outbound, OutboundChanges};
use crate::peer_address::PeerAddress;
use crate::problem::Failure;
use crate::record::Record;
use crate::request_body::{BodyLimit, BodySource, RequestBody};
use crate::request_id::RequestId;
use crate::response::ResponseHead;
use crate::routes::Route;
use crate::target::{Hop, RequestUrl, Trust};
use crate::upstream::first_byte::FirstByte;
use crate::upstream::server::Seat;
use crate::worker::{Upstream, Worker};

/// A response without its body, and the body.
pub(super) type Parted = (ResponseHead, ResponseBody);

/// Who asks.
pub(super) struct Caller {
    pub(super) settings: Arc<Settings>,
    pub(super) peer: Rc<PeerAddress>,
    /// The connection that waits for the response; none if the client has been answered.
    pub(super) connection: Option<Rc<dyn Downstream>>,
}

impl Caller {
    pub(super) fn at(client: &Rc<dyn Downstream>) -> Self {
        Self { connection: Some(Rc::clone(client)), ..Self::answered(&**client) }
    }

    /// Holds nothing of the connection, which may be closed meanwhile.
    pub(super) fn answered(client: &dyn Downstream) -> Self {
        Self { settings: Arc::clone(client.settings()), peer: Rc::clone(client.peer()), connection: None }
    }
}

/// A request as it comes in.
pub(super) struct IncomingRequest {
    pub(super) head: Head,
    /// `None` if it has none.
    pub(super) body: Option<Box<dyn BodySource>>,
    pub(super) id: RequestId,
}

/// A route to a service, and this worker's way to it.
pub(super) struct Passage {
    pub(super) route: Arc<Route>,
    upstream: Rc<Upstream>,
    /// The script that the request is for, if that was looked for.
    pub(super) script: Option<Box<Script>>,
}

impl Passage {
    /// `None`: the route leads to no service.
    pub(super) fn new(worker: &Worker, route: &Arc<Route>) -> Option<Self> {
        let upstream = worker.upstream(route.service.as_ref()?);
        Some(Self { route: Arc::clone(route), upstream, script: None })
    }
}

/// A request on its way through the gateway.
pub(super) struct Inbound {
    pub(super) worker: Rc<Worker>,
    pub(super) client: Caller,
    pub(super) record: Rc<Record>,
    pub(super) detached_fetch: DetachedFetch,
    pub(super) route: Arc<Route>,
    pub(super) upstream: Rc<Upstream>,
    pub(super) outbound: Outbound,
    /// The request's body, if it has one and nobody has begun to take it.
    pub(super) incoming: Option<Box<dyn BodySource>>,
    /// The route's `timeout`, and when it is over.
    pub(super) ends: Option<(Duration, Instant)>,
    /// What is validated, and stands in for an error.
    pub(super) stale: Option<Arc<Stored>>,
    /// The instance that is asked, or was last.
    pub(super) instance: Option<Arc<Instance>>,
    pub(super) lease: Option<Lease>,
    /// The place at a server, of a service that has several, and those that were asked.
    pub(super) seat: Option<Seat>,
    pub(super) tried: Tried,
    /// Whether the last of them took no connection, and the next one is waited for.
    pub(super) awaits_server: bool,
    /// Whether it was drawn which share of the requests it belongs to.
    pub(super) has_drawn: bool,
    /// Since when it has met servers that take none.
    pub(super) refused_since: Option<Instant>,
    /// Whether it was given to another service.
    pub(super) spilled: Spilled,
    /// By which the client comes back to the server that has answered.
    pub(super) cookie: Option<Box<HeaderValue>>,
    /// The wait for what is being done.
    pub(super) wait: Option<FirstByte>,
}

impl Inbound {
    pub(super) fn new(
        worker: &Rc<Worker>,
        client: Caller,
        record: Rc<Record>,
        detached_fetch: DetachedFetch,
        passage: Passage,
        request: IncomingRequest,
    ) -> Box<Self> {
        let IncomingRequest { head, body: incoming, id } = request;
        let Passage { route, upstream, script } = passage;
        // RFC 9110 §7.8: Upgrade of an HTTP/1.0 request is ignored.
        let may_switch = head.version != Version::HTTP_10;
        let upgrade = may_switch.then(|| offered(&route, &head)).flatten().map(Box::new);
        // RFC 9110 §15.2: never to an HTTP/1.0 client.
        let takes_interim = head.version != Version::HTTP_10;
        let interim = client.connection.clone().filter(|_| takes_interim).map(|client| client as Rc<dyn InterimSink>);
        let stripped = route.strip_prefix.then(|| route.path.trim_end_matches('/').to_owned());
        let trust = Trust::of(&client.settings.trust_forwarded, client.peer.address(), || head.headers());
        let changes = route.changes.as_ref().filter(|changes| changes.changes_requests()).map(|changes| {
            let hop = Hop { scheme: client.peer.scheme(), trust };
            let told = client.settings.trust_forwarded.client(head.headers(), client.peer.address());
            let told = told.filter(|told| Some(*told) != client.peer.address()).map(|told| told.to_string());
            let asking = told.as_deref().unwrap_or(client.peer.ip());
            let seen = Seen { head: &head, hop, client: asking, request_id: id.as_str() };
            OutboundChanges::of(changes, seen.head, &seen.facts())
        });
        let trace = match (&client.settings.traces, record.trace()) {
            (None, _) => None,
            (Some(_), Some(trace)) => trace.propagation(),
            (Some(_), None) => Some(worker.tracer.unsampled()),
        };
        let outbound = Outbound {
            trace,
            is_cached: route.cache != RouteCache::Off && client.peer.certificate().is_none(),
            head,
            id,
            peer: Rc::clone(&client.peer),
            stripped,
            changes,
            trust,
            validators: None,
            upgrade,
            interim,
            script,
            event: None,
        };
        let (ends, stale, instance, lease, wait) = (None, None, None, None, None);
        Box::new(Self {
            worker: Rc::clone(worker),
            client,
            record,
            detached_fetch,
            route,
            upstream,
            outbound,
            incoming,
            ends,
            stale,
            instance,
            lease,
            seat: None,
            tried: Tried::default(),
            awaits_server: false,
            has_drawn: false,
            refused_since: None,
            spilled: Spilled::No,
            cookie: None,
            wait,
        })
    }

    pub(super) fn head(&self) -> &Head {
        &self.outbound.head
    }

    /// The place of what a POST may make, unless the route keeps the request away from the cache.
    pub(super) fn begin_post(&self) -> Option<Box<Fill>> {
        let cache = self.worker.common.cache.as_ref()?;
        Some(Box::new(cache.begin_post(&self.key().ok()?.as_key())))
    }

    pub(super) fn key(&self) -> Result<CacheKey<'_>, Forward> {
        CacheKey::of(cache_key::control(&self.route), self.url(), self.head().headers())
    }

    pub(super) fn url(&self) -> RequestUrl<'_> {
        RequestUrl { origin: self.outbound.origin(), target: self.head().target() }
    }

    pub(super) fn body(&mut self) -> Result<Option<Box<RequestBody>>, Failure> {
        let limits = &self.client.settings.limits;
        let limit = match self.route.body_size {
            RouteLimit::Own(bytes) => BodyLimit { bytes, setting: "the route's body_size" },
            RouteLimit::General => BodyLimit { bytes: limits.body_size, setting: "limits.body_size" },
        };
        let Some(incoming) = self.incoming.take() else { return Ok(None) };
        let body = RequestBody::new(incoming, limit, limits.body_timeout, || self.worker.deadlines.deadline())
            .map_err(Failure::Body)?;
        let body = match self.route.gate.as_ref().and_then(Gate::claims) {
            Some(claims) => body.map(|body| body.without(claims)),
            None => body,
        };
        let is_talk = self.head().version == Version::HTTP_2 && grpc::is_grpc(self.head());
        let body = if is_talk { body.map(RequestBody::talking) } else { body };
        Ok(body.map(|body| Box::new(body.counted(self.record.received()))))
    }
}

/// What is stored for a request.
pub(super) struct Looked {
    /// In memory.
    pub(super) lookup: Option<Lookup>,
    /// In Redis, if that was asked before.
    pub(super) redis: Option<RedisMiss>,
}

impl Looked {
    /// How long Redis was waited for, which is a part of the whole exchange's time.
    pub(super) fn took(&self) -> Duration {
        self.redis.as_ref().map_or(Duration::ZERO, RedisMiss::took)
    }
}

/// The protocols that the route lets a client switch to, of those that it offers.
pub(super) fn offered(route: &RouteSpec, head: &Head) -> Option<HeaderValue> {
    head.has(&UPGRADE).then(|| route.upgrades.offered(head.headers())).flatten()
}
