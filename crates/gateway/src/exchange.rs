//! A request from its head to its answer: route, cache, service.
//!
//! What is in memory is answered without a future: [`begin`] returns the response itself. (Most hits never come here:
//! [`crate::client`] answers them from the head alone.) Everything else goes through [`forward`].

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::{EXPECT, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Response, StatusCode, Version};
use pilotlight_cache::{Cache, CacheStatus, Decision, Fill, Forward, Live, Lookup, Stored, StoredBody};
use pilotlight_cache::{Recorder, RequestDirectives, Timestamp, Timing, Turn, Validated};

use crate::body::{Outgoing, ResponseBody, keep};
use crate::cache_key::{self, CacheKey};
use crate::client::{Client, ClientBody, Known, ReceivedRequest, RedisAnswer, RequestGuard};
use crate::head::Head;
use crate::metrics::Verdict;
use crate::options::{RouteCache, RouteSpec, Settings};
use crate::outbound::Outbound;
use crate::problem::Failure;
use crate::read_ahead::ReadAhead;
use crate::record::Record;
use crate::request_body::{BodyLimit, RequestBody};
use crate::request_id::RequestId;
use crate::response::ResponseHead;
use crate::routes::Route;
use crate::server_timing;
use crate::target::{Origin, Trust};
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
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// An answer, now or later.
pub(crate) enum Reply {
    Now(Box<(ResponseHead, Outgoing)>),
    Later(PendingAnswer),
}

/// Has a request answered that memory does not answer as it stands.
pub(crate) fn begin(worker: &Rc<Worker>, client: &Rc<Client>, received: ReceivedRequest) -> Reply {
    let ReceivedRequest { mut head, body, begun, read, known, redis } = received;
    let timeline = Timeline::new(begun);
    if let Some((asked, answered)) = redis.as_ref().map(RedisAnswer::between) {
        timeline.end_phase(Layer::Parse, asked);
        timeline.end_phase(Layer::Cache, answered);
    }
    timeline.end_phase(Layer::Parse, read);
    let found = match known {
        Some(known) => {
            timeline.end_phase(Layer::Cache, Moment::now());
            Ok(known.found(&head, worker))
        }
        None => {
            timeline.end_phase(Layer::Parse, Moment::now());
            match local::answer(&mut head) {
                Some(answer) => answer.map(Found::Own),
                None => find(worker, client, &head, &timeline),
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
            let answer = answer_now(worker, client, (&head, &body), answer.map(ResponseBody::stored), record);
            return Reply::Now(Box::new(answer));
        }
        Ok(Found::Own(answer)) => {
            return Reply::Now(Box::new(answer_now(worker, client, (&head, &body), answer, record)));
        }
        Ok(Found::Route(route, lookup)) => Ok((route, Looked { lookup, redis })),
        Err(failure) => Err(failure),
    };
    let detached_fetch = DetachedFetch::new(worker);
    let client = Rc::clone(client);
    client.awaits_answer(head.version == Version::HTTP_11);
    let guard = RequestGuard::new(&client, Rc::clone(&record));
    let future = forward(Rc::clone(worker), (client, guard), (head, body), asked, (record, detached_fetch.clone()));
    Reply::Later(PendingAnswer::new(Box::pin(future), detached_fetch))
}

impl Known {
    /// What was found before the request was one.
    fn found(self, head: &Head, worker: &Worker) -> Found {
        let Self { route, lookup } = self;
        match lookup {
            Some(Lookup::Hit(stored)) => {
                let answer = stored.answer(&head.method, head.headers(), worker.clock.timestamp(Moment::now()));
                Found::Stored(route, Verdict::Hit, answer)
            }
            lookup => Found::Route(route, lookup),
        }
    }
}

fn find(worker: &Rc<Worker>, client: &Rc<Client>, head: &Head, timeline: &Timeline) -> Result<Found, Failure> {
    local::check_scope(head)?;
    let table = worker.common.table.load();
    let path = head.path();
    let route = table.find(head.authority(), path).ok_or_else(|| Failure::NoRoute { path: path.to_owned() })?;
    let at = Moment::now();
    timeline.end_phase(Layer::Route, at);
    let now = worker.clock.timestamp(at);
    let lookup = match offered(route, head) {
        _ if route.cache == RouteCache::Off => None,
        Some(_) => None, // the answer may be another protocol
        None => {
            let origin = Origin::of_head(head, Trust::of(client.settings.trust_forwarded));
            look_up(&worker.common, route, (origin, head.target()), (&head.method, head.headers()), now)
        }
    };
    let found = match lookup {
        Some(Lookup::Hit(stored)) => {
            let answer = stored.answer(&head.method, head.headers(), now);
            Found::Stored(Arc::clone(route), Verdict::Hit, answer)
        }
        Some(Lookup::StaleWhileRevalidate(stored)) => {
            refresh::begin((worker, client), route, head, &stored);
            let status = CacheStatus::stale_while_revalidated(stored.ttl_s(now));
            let answer = stored.answer_as(status, &head.method, head.headers(), now);
            Found::Stored(Arc::clone(route), Verdict::Stale, answer)
        }
        lookup => Found::Route(Arc::clone(route), lookup),
    };
    timeline.end_phase(Layer::Cache, Moment::now());
    Ok(found)
}

fn answer_now(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    (head, body): (&Head, &ClientBody),
    answer: Response<ResponseBody>,
    record: Rc<Record>,
) -> (ResponseHead, Outgoing) {
    if worker.access_log.is_some() {
        let id = worker.ids.id(head.field(&X_REQUEST_ID));
        record.keep_head(head, &id, &client.peer);
    }
    let (mut response, source) = ResponseHead::part(answer);
    record.answered(response.status);
    if server_timing::is_wanted(client.settings.server_timing, |name| head.has(name)) {
        server_timing::append_to(&mut response.fields, &record.timeline);
    }
    // Nobody reads a body that is not here already.
    response.closes = worker.is_leaving() || !body.is_ended() && !client.skip_body();
    let guard = RequestGuard::new(client, record);
    (response, Outgoing::new(source, None, guard))
}

/// The protocols that the route lets a client switch to, of those that it offers.
fn offered(route: &RouteSpec, head: &Head) -> Option<HeaderValue> {
    head.has(&UPGRADE).then(|| route.upgrades.offered(head.headers())).flatten()
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
    Route(Arc<Route>, Option<Lookup>),
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
    (head, body): (Head, ClientBody),
    found: Result<(Arc<Route>, Looked), Failure>,
    (record, detached_fetch): (Rc<Record>, DetachedFetch),
) -> (ResponseHead, Outgoing) {
    let id = worker.ids.id(head.field(&X_REQUEST_ID));
    record.keep_head(&head, &id, &client.peer);
    let is_timed = server_timing::is_wanted(client.settings.server_timing, |name| head.has(name));
    let left = |(route, looked): &(Arc<Route>, Looked)| Some(route.timeout?.saturating_sub(looked.took()));
    let timeout = found.as_ref().ok().and_then(left);
    let deadline = timeout.map(|after| {
        let deadline = worker.deadlines.deadline();
        deadline.set(after);
        deadline
    });
    let is_expected = head.has(&EXPECT);
    let (result, rest) = match found {
        Ok((route, looked)) => {
            let asks = (Caller::at(&client), &*record, &detached_fetch);
            let mut inbound = Inbound::new(&worker, asks, route, (head, Some(body)), id.clone());
            let result = inbound.respond(looked).await;
            let rest = inbound.rest(result.is_err());
            (result, rest)
        }
        Err(failure) => (Err(failure), Rest::Unread(body)),
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
        let (mut response, body) = ResponseHead::part(failure.response(id.as_str(), client.settings.dev));
        response.closes = failure.closes();
        CacheStatus::refused("gateway").append_to(response.fields.map());
        (response, ResponseBody::full(body))
    });
    response.fields.set(X_REQUEST_ID, id.as_bytes());
    record.answered(response.status);
    client.has_answer();
    if is_timed {
        server_timing::append_to(&mut response.fields, &record.timeline);
    }
    response.closes |= !is_read || worker.is_leaving();
    (response, Outgoing::new(body, deadline, guard))
}

/// A response without its body, and the body.
type Parted = (ResponseHead, ResponseBody);

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
    unsent: Option<Box<RequestBody>>,
    /// The route's `timeout`, and when it is over.
    ends: Option<(Duration, Instant)>,
}

impl<'a> Inbound<'a> {
    fn new(
        worker: &'a Worker,
        (client, record, detached_fetch): (Caller, &'a Record, &'a DetachedFetch),
        route: Arc<Route>,
        (head, incoming): (Head, Option<ClientBody>),
        id: RequestId,
    ) -> Self {
        let upstream = worker.upstream(&route.target);
        let speaks_http = !matches!(*upstream, Upstream::Pipe(..));
        // RFC 9110 §7.8: Upgrade of an HTTP/1.0 request is ignored.
        let may_switch = speaks_http && head.version == Version::HTTP_11;
        let upgrade = may_switch.then(|| offered(&route, &head)).flatten().map(Box::new);
        // RFC 9110 §15.2: never to an HTTP/1.0 client.
        let interim = client.connection.clone().filter(|_| head.version == Version::HTTP_11);
        let stripped = route.strip_prefix.then(|| route.path.trim_end_matches('/').to_owned());
        let outbound = Outbound {
            is_cached: route.cache != RouteCache::Off,
            head,
            id,
            peer: Rc::clone(&client.peer),
            stripped,
            trust: Trust::of(client.settings.trust_forwarded),
            validators: None,
            upgrade,
            interim,
        };
        let ends = route.timeout.map(|after| (after, Instant::now() + after));
        Self { worker, client, record, detached_fetch, route, upstream, outbound, incoming, unsent: None, ends }
    }

    fn head(&self) -> &Head {
        &self.outbound.head
    }

    /// By reference: it is large, and a future that takes what it is given holds it twice. What only some requests need
    /// is in boxes of its own, so that the others do not pay for its size.
    async fn respond(&mut self, looked: Looked) -> Result<Parted, Failure> {
        self.ends = self.ends.map(|(after, ends)| (after, ends.checked_sub(looked.took()).unwrap_or(ends)));
        let past = match looked.lookup {
            None => Forward::Disabled,
            Some(Lookup::Bypass(why)) => {
                self.record.verdict(Verdict::Bypass);
                why
            }
            Some(lookup) => return Box::pin(self.respond_cached(lookup, looked.redis)).await,
        };
        // RFC 9111 §4.4: an unsafe request makes invalid what is stored, by whatever route and with whatever wish for
        // another protocol it comes.
        let cache = self.worker.common.cache.clone();
        self.pass(cache.as_ref(), past).await
    }

    async fn respond_cached(&mut self, lookup: Lookup, redis: Option<RedisAnswer>) -> Result<Parted, Failure> {
        // Unless memory, or the rules of the route, have changed meanwhile.
        let is_for = |redis: &RedisAnswer| self.key().is_ok_and(|key| redis.redis.is_for(&key));
        let redis = redis.filter(|redis| matches!(lookup, Lookup::Miss(_) | Lookup::Stale(..)) && is_for(redis));
        let cache = self.worker.common.cache.clone();
        let (why, stale) = match lookup {
            Lookup::Miss(why) => (why, None),
            Lookup::Stale(stored, why) => (why, Some(stored)),
            Lookup::OnlyIfCached => return self.only_if_cached().await,
            Lookup::Bypass(why) => return self.pass(cache.as_ref(), why).await,
            // Answered when it was found.
            Lookup::Hit(stored) | Lookup::StaleWhileRevalidate(stored) => {
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
                let answer = live.answer_as(status, &self.head().method, self.head().headers(), now());
                let (response, body) = ResponseHead::part(answer);
                Ok((response, ResponseBody::Live(Box::new(body))))
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
        let headers = self.head().headers();
        let Ok(key) = self.key() else { return Asks::Alone };
        let key = key.as_key();
        let mut turn = cache.begin(&key, &self.head().method, headers, now());
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
        let (mut answer, timing) = self.fetch_or_keep(body).await?;
        // A safe method makes nothing invalid.
        if let Some(cache) = cache
            && !self.head().method.is_safe()
        {
            let table = self.worker.common.table.load();
            let url = (self.outbound.origin(), self.head().target());
            let answered = (&self.head().method, answer.status);
            let invalidated = cache_key::invalidate(cache, &table, url, answered, answer.fields.map(), now());
            if let Some(coherence) = &self.worker.common.coherence {
                coherence.handle().publish_behind(invalidated.purges);
            }
        }
        let status = CacheStatus::forwarded(why).answered(answer.status);
        let Some(fill) = post else { return Ok(self.deliver(answer, status)) };
        let answer_status = answer.status;
        let answer_headers = answer.fields.map();
        let headers = self.head().headers();
        let rules = cache_key::rules(&self.route, headers);
        let decision = match cache_key::refuses(&self.route, answer_status, answer_headers) {
            Some(why) => Decision::Pass(why),
            None => fill.posted(headers, answer_status, answer_headers, timing, rules),
        };
        Ok(self.keep_or_pass(decision, answer, status, timing))
    }

    /// The place of what a POST may make, unless the route keeps the request away from the cache.
    fn begin_post(&self, cache: &Cache, why: Forward) -> Option<Fill> {
        let is_post = why == Forward::Method && self.head().method == Method::POST;
        is_post.then(|| Some(cache.begin_post(&self.key().ok()?.as_key())))?
    }

    /// To the service, and its answer into the cache if it may be stored.
    async fn fill(&mut self, fill: Fill, why: Forward, stale: Option<Arc<Stored>>) -> Result<Parted, Failure> {
        let mut body = self.body()?;
        let mut fill = fill;
        if let Some(stored) = &stale {
            fill = fill.validating(stored);
            let mut validators = Box::<HeaderMap>::default();
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
        let rules = cache_key::rules(&self.route, self.head().headers());
        if let (Some(stored), true, StatusCode::NOT_MODIFIED) =
            (&stale, self.outbound.validators.is_some(), answer.status)
        {
            match fill.not_modified(stored, self.head().headers(), answer.fields.map(), timing, rules) {
                Validated::Answer { stored, unstored } => {
                    self.record.verdict(Verdict::Revalidated);
                    let status = CacheStatus::forwarded(why).answered(answer.status).ttl(stored.ttl_s(now()));
                    let status = unstored.map_or_else(|| status.stored(), |why| status.unstored(why));
                    let mut parted = self.answer_from(&stored, Some(status));
                    for cookie in answer.fields.map().get_all(http::header::SET_COOKIE) {
                        parted.0.fields.append(http::header::SET_COOKIE, cookie.clone());
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
        if let Some(why) = cache_key::refuses(&self.route, answer.status, answer.fields.map()) {
            let why = fill.refuse(why, answer.status, timing.received);
            return Ok(self.keep_or_pass(Decision::Pass(why), answer, status, timing));
        }
        let decision = fill.response(self.head().headers(), answer.status, answer.fields.map(), timing, rules);
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
        cache.serves_if_error(&key.as_key(), stored, self.head().headers(), now)
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
        let (origin, target) = (self.outbound.origin(), self.head().target());
        CacheKey::of(cache_key::control(&self.route), origin, target, self.head().headers())
    }

    fn body(&mut self) -> Result<Option<Box<RequestBody>>, Failure> {
        let limits = &self.client.settings.limits;
        let limit = match self.route.body_size {
            Some(bytes) => BodyLimit { bytes: Some(bytes), setting: "the route's body_size" },
            None => BodyLimit { bytes: limits.body_size, setting: "limits.body_size" },
        };
        let Some(incoming) = self.incoming.take() else { return Ok(None) };
        let body = RequestBody::new(incoming, limit, limits.body_timeout, || self.worker.deadlines.deadline())
            .map_err(Failure::Body)?;
        Ok(body.map(|body| Box::new(body.counted(self.record.received()))))
    }

    /// An answer from a stored response.
    fn answer_from(&self, stored: &Stored, status: Option<CacheStatus>) -> Parted {
        let (method, headers) = (&self.head().method, self.head().headers());
        let answer = match status {
            Some(status) => stored.answer_as(status, method, headers, now()),
            None => stored.answer(method, headers, now()),
        };
        let (response, body) = ResponseHead::part(answer);
        (response, ResponseBody::stored(body))
    }

    /// An answer of the service on its way to the client.
    fn deliver(&self, answer: Answer, status: CacheStatus) -> Parted {
        let Answer { status: code, mut fields, body, upgraded } = answer;
        fields.append(CACHE_STATUS, status.value());
        if self.route.cache != RouteCache::Off
            && let Some(cache) = &self.worker.common.cache
        {
            cache.finish(fields.map());
        }
        // `Upgrade` itself came with the answer.
        if let (Some(upgraded), Some(client)) = (upgraded, &self.client.connection) {
            client.upgrade_to(upgraded);
        }
        (ResponseHead::new(code, fields), body)
    }
}
