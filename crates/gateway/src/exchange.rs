//! A request from its head to its answer: route, cache, service.
//!
//! What is in memory is answered without a future: [`begin`] returns the response itself. (Most hits never come here:
//! [`crate::client`] answers them from the head alone.) Everything else goes through [`forward`].

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::{CONNECTION, EXPECT, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use pilotlight_cache::{Cache, CacheStatus, Decision, Fill, Forward, Live, Lookup, Stored, StoredBody};
use pilotlight_cache::{Recorder, RequestDirectives, Timestamp, Timing, Turn, Validated};

use crate::body::{Outgoing, ResponseBody, keep};
use crate::cache_key::{self, CacheKey};
use crate::client::{Client, ClientBody, Known, ReceivedRequest, RedisAnswer, RequestGuard};
use crate::metrics::Verdict;
use crate::options::{RouteCache, RouteSpec, Settings};
use crate::outbound::Outbound;
use crate::problem::Failure;
use crate::read_ahead::ReadAhead;
use crate::record::Record;
use crate::request_body::{BodyLimit, RequestBody};
use crate::request_id::RequestId;
use crate::routes::Route;
use crate::server_timing;
use crate::target::{self, Origin, Trust, authority, target};
use crate::timing::{Layer, Moment, Timeline};
use crate::upstream::Answer;
use crate::worker::{Common, Upstream, Worker};
use second_tier::Second;

mod detached_fetch;
mod fetch;
mod local;
mod refresh;
mod second_tier;
mod unread;

use detached_fetch::DetachedFetch;
pub(crate) use detached_fetch::PendingAnswer;
pub(crate) use second_tier::{RedisLookup, hit_in_redis, lead};
use unread::Rest;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CLOSE: HeaderValue = HeaderValue::from_static("close");
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// An answer, now or later.
pub(crate) enum Reply {
    Now(Response<Outgoing>),
    Later(PendingAnswer),
}

/// Has a request answered that memory does not answer as it stands.
pub(crate) fn begin(worker: &Rc<Worker>, client: &Rc<Client>, received: ReceivedRequest) -> Reply {
    let ReceivedRequest { mut request, begun, read, known, redis } = received;
    let timeline = Timeline::new(begun);
    if let Some((asked, answered)) = redis.as_ref().map(RedisAnswer::between) {
        timeline.end_phase(Layer::Parse, asked);
        timeline.end_phase(Layer::Cache, answered);
    }
    timeline.end_phase(Layer::Parse, read);
    let found = match known {
        Some(known) => {
            timeline.end_phase(Layer::Cache, Moment::now());
            Ok(known.found(&request, worker))
        }
        None => {
            timeline.end_phase(Layer::Parse, Moment::now());
            target::complete(&mut request);
            match local::answer(&mut request) {
                Some(answer) => answer.map(Found::Own),
                None => find(worker, client, &request, &timeline),
            }
        }
    };
    let series = match &found {
        Ok(Found::Stored(route, ..) | Found::Route(route, ..)) => &route.series,
        Ok(Found::Own(_)) | Err(_) => &worker.common.metrics.none,
    };
    let record = Record::new(worker, series, timeline);
    let asked = match found {
        Ok(Found::Stored(_, verdict, answer)) => {
            record.verdict(verdict);
            return Reply::Now(answer_now(worker, client, &request, answer.map(ResponseBody::stored), record));
        }
        Ok(Found::Own(answer)) => return Reply::Now(answer_now(worker, client, &request, answer, record)),
        Ok(Found::Route(route, authority, lookup)) => Ok((route, authority, Looked { lookup, redis })),
        Err(failure) => Err(failure),
    };
    let detached_fetch = DetachedFetch::new(worker);
    let client = Rc::clone(client);
    client.awaits_answer(request.version() == Version::HTTP_11);
    let guard = RequestGuard::new(&client, Rc::clone(&record));
    let future = forward(Rc::clone(worker), (client, guard), request, asked, (record, detached_fetch.clone()));
    Reply::Later(PendingAnswer::new(Box::pin(future), detached_fetch))
}

impl Known {
    /// What was found before the request was one.
    fn found(self, request: &Request<ClientBody>, worker: &Worker) -> Found {
        let Self { route, authority, lookup } = self;
        match lookup {
            Some(Lookup::Hit(stored)) => {
                let answer = stored.answer(request.method(), request.headers(), worker.clock.timestamp(Moment::now()));
                Found::Stored(route, Verdict::Hit, answer)
            }
            lookup => Found::Route(route, authority, lookup),
        }
    }
}

fn find(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    request: &Request<ClientBody>,
    timeline: &Timeline,
) -> Result<Found, Failure> {
    let authority = authority(request)?;
    let table = worker.common.table.load();
    let path = request.uri().path();
    if !path.starts_with('/') {
        return Err(Failure::BadTarget);
    }
    let route = table.find(authority, path).ok_or_else(|| Failure::NoRoute { path: path.to_owned() })?;
    let at = Moment::now();
    timeline.end_phase(Layer::Route, at);
    let now = worker.clock.timestamp(at);
    let target = target(request.uri());
    let origin = Origin::of(request.headers(), authority, Trust::of(client.settings.trust_forwarded));
    let lookup = match route.upgrades.offered(request.headers()) {
        Some(_) => None, // the answer may be another protocol
        None => look_up(&worker.common, route, (origin, target), (request.method(), request.headers()), now),
    };
    let found = match lookup {
        Some(Lookup::Hit(stored)) => {
            let answer = stored.answer(request.method(), request.headers(), now);
            Found::Stored(Arc::clone(route), Verdict::Hit, answer)
        }
        Some(Lookup::StaleWhileRevalidate(stored)) => {
            refresh::begin((worker, client), route, request, authority, &stored);
            let status = CacheStatus::stale_while_revalidated(stored.ttl_s(now));
            let answer = stored.answer_as(status, request.method(), request.headers(), now);
            Found::Stored(Arc::clone(route), Verdict::Stale, answer)
        }
        lookup => Found::Route(Arc::clone(route), authority.to_owned(), lookup),
    };
    timeline.end_phase(Layer::Cache, Moment::now());
    Ok(found)
}

fn answer_now(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    request: &Request<ClientBody>,
    answer: Response<ResponseBody>,
    record: Rc<Record>,
) -> Response<Outgoing> {
    if worker.access_log.is_some() {
        let id = worker.ids.id(request.headers().get(X_REQUEST_ID));
        record.keep_head(request, &id, &client.peer);
    }
    record.answered(answer.status());
    let mut answer = answer;
    if server_timing::is_wanted(client.settings.server_timing, request.headers()) {
        server_timing::append_to(answer.headers_mut(), &record.timeline);
    }
    // Nobody reads a body that is not here already.
    if !request.body().is_ended() && !client.skip_body() {
        answer.headers_mut().insert(CONNECTION, CLOSE);
    }
    worker.say_goodbye(answer.headers_mut());
    let guard = RequestGuard::new(client, record);
    answer.map(|body| Outgoing::new(body, None, guard))
}

/// What is stored for a request.
struct Looked {
    /// In memory.
    lookup: Option<Lookup>,
    /// In Redis, if that was asked before.
    redis: Option<RedisAnswer>,
}

impl Looked {
    /// How long Redis was waited for, which is a part of the whole exchange's time.
    fn took(&self) -> Duration {
        self.redis.as_ref().map_or(Duration::ZERO, RedisAnswer::took)
    }
}

/// What is known of a request when its head has been read.
enum Found {
    /// It is for the gateway.
    Own(Response<ResponseBody>),
    Stored(Arc<Route>, Verdict, Response<StoredBody>),
    Route(Arc<Route>, String, Option<Lookup>),
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// What the cache has for a target (origin, path and query); `None` where the route does not use it.
pub(crate) fn look_up(
    common: &Common,
    route: &RouteSpec,
    (origin, target): (Origin<'_>, &str),
    (method, headers): (&Method, &HeaderMap),
    now: Timestamp,
) -> Option<Lookup> {
    let RouteCache::On { control, .. } = &route.cache else { return None };
    let cache = common.cache.as_ref()?;
    let control = control.as_deref();
    // RFC 9111 §5.2.1.7: whoever wants nothing but a stored response is not sent to the service by a rule either.
    let past = |why| match is_stored_method(method) && RequestDirectives::parse(headers).only_if_cached {
        true => Lookup::OnlyIfCached,
        false => Lookup::Bypass(why),
    };
    if let Some(control) = control
        && control.bypass.applies(method, target, headers).is_some()
    {
        return Some(past(Forward::Rule));
    }
    Some(match CacheKey::of(control, origin, target, headers) {
        Ok(key) => cache.lookup(&key.as_key(), method, headers, now),
        Err(why) => past(why),
    })
}

/// RFC 9111 §2: methods whose answers may come from the cache.
fn is_stored_method(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// Everything that is not answered at once.
async fn forward(
    worker: Rc<Worker>,
    (client, guard): (Rc<Client>, RequestGuard),
    request: Request<ClientBody>,
    found: Result<(Arc<Route>, String, Looked), Failure>,
    (record, detached_fetch): (Rc<Record>, DetachedFetch),
) -> Response<Outgoing> {
    let id = worker.ids.id(request.headers().get(X_REQUEST_ID));
    record.keep_head(&request, &id, &client.peer);
    let is_timed = server_timing::is_wanted(client.settings.server_timing, request.headers());
    let left = |(route, _, looked): &(Arc<Route>, _, Looked)| Some(route.timeout?.saturating_sub(looked.took()));
    let timeout = found.as_ref().ok().and_then(left);
    let deadline = timeout.map(|after| {
        let deadline = worker.deadlines.deadline();
        deadline.set(after);
        deadline
    });
    let is_expected = request.headers().contains_key(EXPECT);
    let (result, rest) = match found {
        Ok((route, authority, looked)) => {
            let (parts, incoming) = request.into_parts();
            let asks = (Caller::at(&client), &*record, &detached_fetch);
            let mut inbound = Inbound::new(&worker, asks, route, (parts, Some(incoming)), (authority, id.clone()));
            let result = inbound.respond(looked).await;
            let rest = inbound.rest(result.is_err());
            (result, rest)
        }
        Err(failure) => (Err(failure), Rest::Unread(request.into_body())),
    };
    let is_read = match rest {
        Rest::Read => true,
        rest => Box::pin(rest.drain(is_expected, || worker.deadlines.deadline())).await,
    };
    let (mut response, body) = result.unwrap_or_else(|failure| {
        let status = failure.status();
        if status.is_server_error() {
            tracing::warn!(request_id = id.as_str(), "{status}: {}", failure.log_text());
        }
        let (parts, body) = failure.response(id.as_str(), client.settings.dev).into_parts();
        let mut response = Response::from_parts(parts, ());
        CacheStatus::refused("gateway").append_to(response.headers_mut());
        (response, ResponseBody::full(body))
    });
    if let Some(id) = id.header() {
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
    record.answered(response.status());
    client.has_answer();
    if is_timed {
        server_timing::append_to(response.headers_mut(), &record.timeline);
    }
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        if !is_read {
            response.headers_mut().insert(CONNECTION, CLOSE);
        }
        worker.say_goodbye(response.headers_mut());
    }
    response.map(|()| Outgoing::new(body, deadline, guard))
}

/// A response without its body, and the body.
type Parted = (Response<()>, ResponseBody);

/// Who asks the service.
enum Asks {
    /// It has been asked: its answer.
    Nobody(Arc<Stored>),
    /// This request, for all that wait.
    First(Fill),
    /// Another one does, and a part of its answer is here.
    Another(Live),
    /// It has been asked and failed: what may be used in place of its answer.
    Failed(Arc<Stored>),
    /// This request, for itself: it has waited for another long enough.
    Alone,
}

/// Who asks.
struct Caller {
    settings: Arc<Settings>,
    peer: Rc<str>,
    /// The connection that waits for the answer; none if the client has been answered.
    connection: Option<Rc<Client>>,
}

impl Caller {
    fn at(client: &Rc<Client>) -> Self {
        Self { connection: Some(Rc::clone(client)), ..Self::answered(client) }
    }

    /// Holds nothing of the connection, which may be closed meanwhile.
    fn answered(client: &Client) -> Self {
        Self { settings: Arc::clone(&client.settings), peer: Rc::clone(&client.peer), connection: None }
    }
}

/// A request on its way through the gateway.
struct Inbound<'a> {
    worker: &'a Worker,
    client: Caller,
    record: &'a Record,
    detached_fetch: &'a DetachedFetch,
    route: Arc<Route>,
    upstream: Rc<Upstream>,
    outbound: Outbound,
    incoming: Option<ClientBody>,
    /// The body of a request that no service has answered.
    unsent: Option<RequestBody>,
    /// The route's `timeout`, and when it is over.
    ends: Option<(Duration, Instant)>,
}

impl<'a> Inbound<'a> {
    fn new(
        worker: &'a Worker,
        (client, record, detached_fetch): (Caller, &'a Record, &'a DetachedFetch),
        route: Arc<Route>,
        (parts, incoming): (Parts, Option<ClientBody>),
        (authority, id): (String, RequestId),
    ) -> Self {
        let upstream = worker.upstream(&route.target, &client.settings.limits);
        let speaks_http = !matches!(*upstream, Upstream::Pipe(..));
        // RFC 9110 §7.8: Upgrade of an HTTP/1.0 request is ignored.
        let may_switch = speaks_http && parts.version == Version::HTTP_11;
        let upgrade = may_switch.then(|| route.upgrades.offered(&parts.headers)).flatten();
        // RFC 9110 §15.2: never to an HTTP/1.0 client.
        let interim = client.connection.clone().filter(|_| parts.version == Version::HTTP_11);
        let stripped = route.strip_prefix.then(|| route.path.trim_end_matches('/').to_owned());
        let is_of_whole_service = target::is_of_whole_service(&parts.method, &parts.uri);
        let outbound = Outbound {
            parts,
            id,
            authority,
            peer: Rc::clone(&client.peer),
            stripped,
            is_of_whole_service,
            trust: Trust::of(client.settings.trust_forwarded),
            validators: None,
            upgrade,
            interim,
        };
        let ends = route.timeout.map(|after| (after, Instant::now() + after));
        Self { worker, client, record, detached_fetch, route, upstream, outbound, incoming, unsent: None, ends }
    }

    fn parts(&self) -> &Parts {
        &self.outbound.parts
    }

    /// By reference: it is large, and a future that takes what it is given holds it twice.
    async fn respond(&mut self, looked: Looked) -> Result<Parted, Failure> {
        self.ends = self.ends.map(|(after, ends)| (after, ends.checked_sub(looked.took()).unwrap_or(ends)));
        let Looked { lookup, redis } = looked;
        // Unless memory, or the rules of the route, have changed meanwhile.
        let is_for = |redis: &RedisAnswer| self.key().is_ok_and(|key| redis.redis.is_for(&key));
        let redis = redis.filter(|redis| matches!(lookup, Some(Lookup::Miss(_) | Lookup::Stale(..))) && is_for(redis));
        let cache = self.worker.common.cache.clone();
        let (why, stale) = match lookup {
            // RFC 9111 §4.4: an unsafe request makes invalid what is stored, by whatever route and with whatever wish
            // for another protocol it comes.
            None => return self.pass(cache.as_ref(), Forward::Disabled).await,
            Some(Lookup::OnlyIfCached) => return Box::pin(self.only_if_cached()).await,
            Some(Lookup::Bypass(why)) => {
                self.record.verdict(Verdict::Bypass);
                return self.pass(cache.as_ref(), why).await;
            }
            Some(Lookup::Miss(why)) => (why, None),
            Some(Lookup::Stale(stored, why)) => (why, Some(stored)),
            // Answered when it was found.
            Some(Lookup::Hit(stored) | Lookup::StaleWhileRevalidate(stored)) => {
                return Ok(self.answer_from(&stored, None));
            }
        };
        let Some(cache) = cache else { return self.pass(None, Forward::Disabled).await };
        self.record.verdict(Verdict::Miss);
        if let Some(redis) = redis {
            return match self.go_on(*redis.redis, stale).await {
                Second::Answer(parted) => Ok(parted),
                Second::Ask(fill, stale) => self.fill(fill, why, stale).await,
            };
        }
        let turn = self.turn(&cache).await;
        self.record.end_phase(Layer::Cache);
        match turn {
            Asks::Nobody(stored) => {
                self.record.verdict(Verdict::Collapsed);
                Ok(self.answer_from(&stored, Some(CacheStatus::forwarded(why).collapsed())))
            }
            Asks::Another(live) => {
                self.record.verdict(Verdict::Collapsed);
                let status = CacheStatus::forwarded(why).collapsed();
                let answer = live.answer_as(status, &self.parts().method, &self.parts().headers, now());
                let (parts, body) = answer.into_parts();
                Ok((Response::from_parts(parts, ()), ResponseBody::Live(Box::new(body))))
            }
            Asks::Failed(stale) => {
                self.record.verdict(Verdict::Stale);
                let status = CacheStatus::forwarded(why).collapsed().stale_if_error(stale.ttl_s(now()));
                Ok(self.answer_from(&stale, Some(status)))
            }
            Asks::First(fill) => match self.second_tier(fill, stale).await {
                Second::Answer(parted) => Ok(parted),
                Second::Ask(fill, stale) => self.fill(fill, why, stale).await,
            },
            Asks::Alone => self.pass(None, why).await,
        }
    }

    /// RFC 9111 §4: waits while another request asks for the same, then uses its answer or asks.
    async fn turn(&self, cache: &Cache) -> Asks {
        let first_byte = self.first_byte();
        first_byte.service_turn(); // the other request takes as long as this one may
        let headers = &self.parts().headers;
        let Ok(key) = self.key() else { return Asks::Alone };
        let key = key.as_key();
        let mut turn = cache.begin(&key, &self.parts().method, headers, now());
        loop {
            turn = match turn {
                Turn::Hit(stored) => return Asks::Nobody(stored),
                Turn::Leader(fill) => return Asks::First(fill),
                Turn::Live(live) => return Asks::Another(live),
                Turn::Failed(stale) => return Asks::Failed(stale),
                Turn::Follower(wait) => match first_byte.within(wait.landed()).await {
                    Some(landed) => landed.turn(&key, headers, now()),
                    None => return Asks::Alone,
                },
            };
        }
    }

    /// To the service and back, past the cache, which only learns what has become invalid, and what a POST has made.
    async fn pass(&mut self, cache: Option<&Cache>, why: Forward) -> Result<Parted, Failure> {
        let body = self.body()?;
        let post = cache.and_then(|cache| self.begin_post(cache, why));
        let (answer, timing) = self.fetch_or_keep(body).await?;
        // A safe method makes nothing invalid.
        if let Some(cache) = cache
            && !self.parts().method.is_safe()
        {
            let table = self.worker.common.table.load();
            let url = (self.outbound.origin(), target(&self.parts().uri));
            let answered = (&self.parts().method, answer.status);
            let invalidated = cache_key::invalidate(cache, &table, url, answered, &answer.headers, now());
            if let Some(coherence) = &self.worker.common.coherence {
                coherence.handle().publish_behind(invalidated.purges);
            }
        }
        let status = CacheStatus::forwarded(why).answered(answer.status);
        let Some(fill) = post else { return Ok(self.deliver(answer, status)) };
        let headers = &self.parts().headers;
        let rules = cache_key::rules(&self.route, headers);
        let decision = match cache_key::refuses(&self.route, answer.status, &answer.headers) {
            Some(why) => Decision::Pass(why),
            None => fill.posted(headers, answer.status, &answer.headers, timing, rules),
        };
        Ok(self.keep_or_pass(decision, answer, status, timing))
    }

    /// The place of what a POST may make, unless the route keeps the request away from the cache.
    fn begin_post(&self, cache: &Cache, why: Forward) -> Option<Fill> {
        let is_post = why == Forward::Method && self.parts().method == Method::POST;
        is_post.then(|| Some(cache.begin_post(&self.key().ok()?.as_key())))?
    }

    /// To the service, and its answer into the cache if it may be stored.
    async fn fill(&mut self, fill: Fill, why: Forward, stale: Option<Arc<Stored>>) -> Result<Parted, Failure> {
        let mut body = self.body()?;
        let mut fill = fill;
        if let Some(stored) = &stale {
            fill = fill.validating(stored);
            let mut validators = HeaderMap::new();
            stored.make_conditional(&mut validators);
            self.outbound.validators = Some(validators).filter(|v| !v.is_empty());
        }
        self.detached_fetch.begin(fill.watch());
        let fetched = self.fetch(&mut body).await;
        if let Some(stored) = &stale
            && let Some(parted) = self.instead_of_error(stored, &fetched, why)
        {
            self.detached_fetch.end();
            fill.failed(Arc::clone(stored));
            return Ok(parted);
        }
        let (mut answer, mut timing) = fetched.inspect_err(|_| self.unsent = body.take())?;
        let rules = cache_key::rules(&self.route, &self.parts().headers);
        if let (Some(stored), true, StatusCode::NOT_MODIFIED) =
            (&stale, self.outbound.validators.is_some(), answer.status)
        {
            match fill.not_modified(stored, &self.parts().headers, &answer.headers, timing, rules) {
                Validated::Answer { stored, unstored } => {
                    self.record.verdict(Verdict::Revalidated);
                    let status = CacheStatus::forwarded(why).answered(answer.status).ttl(stored.ttl_s(now()));
                    let status = unstored.map_or_else(|| status.stored(), |why| status.unstored(why));
                    let mut parted = self.answer_from(&stored, Some(status));
                    for cookie in answer.headers.get_all(http::header::SET_COOKIE) {
                        parted.0.headers_mut().append(http::header::SET_COOKIE, cookie.clone());
                    }
                    return Ok(parted);
                }
                Validated::Mismatch(again) => {
                    fill = again;
                    self.outbound.validators = None;
                    (answer, timing) = self.fetch(&mut body).await?;
                }
            }
        }
        self.detached_fetch.end();
        let status = CacheStatus::forwarded(why).answered(answer.status);
        if let Some(why) = cache_key::refuses(&self.route, answer.status, &answer.headers) {
            let why = fill.refuse(why, answer.status, timing.received);
            return Ok(self.keep_or_pass(Decision::Pass(why), answer, status, timing));
        }
        let decision = fill.response(&self.parts().headers, answer.status, &answer.headers, timing, rules);
        Ok(self.keep_or_pass(decision, answer, status, timing))
    }

    /// RFC 5861 §4: the stored response in place of an error, if it may be used so.
    fn instead_of_error(
        &self,
        stored: &Stored,
        fetched: &Result<(Answer, Timing), Failure>,
        why: Forward,
    ) -> Option<Parted> {
        let (code, status) = match fetched {
            Ok((answer, _)) => (answer.status, CacheStatus::forwarded(why).answered(answer.status)),
            Err(failure) => (failure.status(), CacheStatus::forwarded(why)),
        };
        let now = now();
        let is_error = matches!(code.as_u16(), 500 | 502 | 503 | 504);
        if !is_error || !self.serves_if_error(stored, now) {
            return None;
        }
        if let Err(failure) = fetched {
            let id = self.outbound.id.as_str();
            tracing::warn!(request_id = id, "answered with a stale response instead of {code}: {}", failure.log_text());
        }
        self.record.verdict(Verdict::Stale);
        Some(self.answer_from(stored, Some(status.stale_if_error(stored.ttl_s(now)))))
    }

    fn serves_if_error(&self, stored: &Stored, now: Timestamp) -> bool {
        let (Some(cache), Ok(key)) = (&self.worker.common.cache, self.key()) else { return false };
        cache.serves_if_error(&key.as_key(), stored, &self.parts().headers, now)
    }

    fn keep_or_pass(&self, decision: Decision, answer: Answer, status: CacheStatus, timing: Timing) -> Parted {
        match decision {
            Decision::Store(recorder) => {
                let status = status.stored().ttl(recorder.ttl_s(timing.received));
                let body = self.record(answer.body, recorder);
                self.deliver(Answer { body, ..answer }, status)
            }
            Decision::Pass(why) => {
                self.record.unstored(why);
                self.deliver(answer, status.unstored(why))
            }
        }
    }

    /// Stores an answer at once if it is here, while it is read otherwise.
    fn record(&self, body: ResponseBody, mut recorder: Box<Recorder>) -> ResponseBody {
        match &body {
            ResponseBody::Empty => keep(recorder),
            ResponseBody::Full(data) => {
                if recorder.push(data).is_ok() {
                    keep(recorder);
                }
            }
            ResponseBody::Stored(_)
            | ResponseBody::Live(_)
            | ResponseBody::Http(_)
            | ResponseBody::Pipe(_)
            | ResponseBody::Relayed(_) => {
                let timeout = self.client.settings.limits.response_timeout.unwrap_or(Duration::from_secs(60));
                let deadline = self.worker.deadlines.deadline();
                let abandoned = self.worker.common.abandoned;
                let reading = (deadline, timeout, abandoned);
                return ResponseBody::Relayed(ReadAhead::start(&self.worker.spawner, body, recorder, reading));
            }
        }
        body
    }

    fn key(&self) -> Result<CacheKey<'_>, Forward> {
        let (origin, target) = (self.outbound.origin(), target(&self.parts().uri));
        CacheKey::of(cache_key::control(&self.route), origin, target, &self.parts().headers)
    }

    fn body(&mut self) -> Result<Option<RequestBody>, Failure> {
        let limits = &self.client.settings.limits;
        let limit = match self.route.body_size {
            Some(bytes) => BodyLimit { bytes: Some(bytes), setting: "the route's body_size" },
            None => BodyLimit { bytes: limits.body_size, setting: "limits.body_size" },
        };
        let Some(incoming) = self.incoming.take() else { return Ok(None) };
        let body = RequestBody::new(incoming, limit, limits.body_timeout, || self.worker.deadlines.deadline())
            .map_err(Failure::Body)?;
        Ok(body.map(|body| body.counted(self.record.received())))
    }

    /// An answer from a stored response.
    fn answer_from(&self, stored: &Stored, status: Option<CacheStatus>) -> Parted {
        let (method, headers) = (&self.parts().method, &self.parts().headers);
        let answer = match status {
            Some(status) => stored.answer_as(status, method, headers, now()),
            None => stored.answer(method, headers, now()),
        };
        let (parts, body) = answer.into_parts();
        (Response::from_parts(parts, ()), ResponseBody::stored(body))
    }

    /// An answer of the service on its way to the client.
    fn deliver(&self, answer: Answer, status: CacheStatus) -> Parted {
        let Answer { status: code, mut headers, body, upgraded } = answer;
        headers.append(CACHE_STATUS, status.value());
        if self.route.cache != RouteCache::Off
            && let Some(cache) = &self.worker.common.cache
        {
            cache.finish(&mut headers);
        }
        if let Some(upgraded) = upgraded {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade")); // `Upgrade` itself came with the answer
            if let Some(client) = &self.client.connection {
                client.upgrade_to(upgraded);
            }
        }
        let mut response = Response::new(());
        *response.status_mut() = code;
        *response.headers_mut() = headers;
        (response, body)
    }
}
