//! A request from its head to its response: route, cache, service.
//!
//! What is in memory is answered without a future: [`begin`] returns the response itself. (Most hits never come here:
//! [`crate::client`] answers them from the head alone.) Everything else goes through [`forward`].

use std::rc::Rc;
use std::sync::Arc;

use http::header::{ACCEPT, EXPECT, HeaderName, UPGRADE};
use http::{Response, Version};
use pilotlight_cache::{CacheStatus, Lookup};
use pilotlight_exchange::Connection;

use crate::admission::{Asker, Checked, Entered, Place};
use crate::body::ResponseBody;
use crate::client::outgoing::Outgoing;
use crate::client::received::{Known, ReceivedRequest, RedisMiss};
use crate::compress;
use crate::conditions::HeadFacts;
use crate::deadline::Deadline;
use crate::downstream::{Downstream, RequestGuard, TakesInterim};
use crate::error_pages::{ErrorBy, LoadedPage};
use crate::forwarded::TrustForwarded;
use crate::grpc;
use crate::head::Head;
use crate::json_choice::Choice;
use crate::lookup::{CacheRequest, look_up};
use crate::metrics::Verdict;
use crate::options::RouteCache;
use crate::peer_address::PeerAddress;
use crate::problem::{self, Failure};
use crate::record::Record;
use crate::request_body::{BodySource, has_content};
use crate::request_id::RequestId;
use crate::response::ResponseHead;
use crate::routes::Route;
use crate::server_timing;
use crate::target::{Hop, Origin, RequestUrl};
use crate::timing::{Layer, Moment, Timeline};
use crate::traces::RequestTrace;
use crate::worker::Worker;

mod access;
mod admit;
mod changes;
mod choice_of_server;
mod choose;
mod delivery;
mod detached_fetch;
mod driver;
mod forward_auth;
mod found;
mod handles;
pub(crate) mod https;
mod inbound;
mod local;
mod own;
mod page;
mod refresh;
pub(crate) mod scheduled;
mod second_tier;
mod sending;
pub(crate) mod site;
mod spill;
mod spilled;
mod unread;
mod validation;

use changes::Seen;
pub(crate) use detached_fetch::PendingResponse;
use detached_fetch::{DetachedFetch, Forwarded};
use found::Found;
use inbound::{Caller, Inbound, IncomingRequest, Looked, Parted, Passage, offered};
use page::PageRequest;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A response, now or later.
pub(crate) enum Reply {
    Now(Box<(ResponseHead, Outgoing)>),
    Later(PendingResponse),
}

/// Has a request answered that memory does not answer as it stands.
pub(crate) fn begin(worker: &Rc<Worker>, client: Rc<dyn Downstream>, received: Box<ReceivedRequest>) -> Reply {
    let is_demanded = |host: &str| worker.common.table.load().takes_unnamed(host);
    if let Some(answer) = worker.common.issuers.validation(&received.head, is_demanded) {
        return validation::respond(worker, client, *received, answer);
    }
    let ReceivedRequest { mut head, body, begun, read, checked, known, redis } = *received;
    let (timeline, trace) = traced(worker, &*client, &head, begun, redis.as_ref().map(RedisMiss::between));
    timeline.end_phase(Layer::Parse, read);
    let mut entry = Entry { checked, place: None, has_body: body.is_some(), has_content: has_content(body.as_deref()) };
    let found = match known {
        Some(known) => {
            timeline.end_phase(Layer::Cache, Moment::now());
            known.found(&head, worker, client.hop(&head))
        }
        None => {
            timeline.end_phase(Layer::Parse, Moment::now());
            match local::answer(&mut head) {
                Some(answer) => answer.map(|answer| Found::Own(None, answer)),
                None => find(worker, &*client, &mut head, &timeline, &mut entry),
            }
            .unwrap_or_else(|failure| Found::Refused(None, failure))
        }
    };
    let route = found.route_of();
    let record = recorded(worker, &found, timeline);
    record.traced(trace);
    if let Some(gate) = route.and_then(|route| route.gate.as_ref()) {
        record.admitted(gate, entry.place, client.peer());
    }
    let asked = match found {
        Found::Stored(route, verdict, answer) if !PageRequest::is_wanted(&route, answer.status()) => {
            record.verdict(verdict);
            let answer = answer.map(ResponseBody::stored);
            let asked = Asked { head: &head, body: body.as_deref(), route: Some(&route) };
            let answer = respond_now(worker, client, asked, answer, record);
            return Reply::Now(Box::new(answer));
        }
        Found::Own(route, answer) => {
            let asked = Asked { head: &head, body: body.as_deref(), route: route.as_deref() };
            return Reply::Now(Box::new(respond_now(worker, client, asked, answer, record)));
        }
        found => found,
    };
    let detached_fetch = DetachedFetch::new(worker);
    let takes_interim = if head.version == Version::HTTP_10 { TakesInterim::No } else { TakesInterim::Yes };
    client.awaits_response(takes_interim);
    let caller = Caller::at(&client);
    let waiting = Waiting::new(worker, client, &head, &record);
    let request = IncomingRequest { head, body, id: waiting.id.clone() };
    let on_its_way =
        OnItsWay { worker: Rc::clone(worker), caller, record, detached_fetch: detached_fetch.clone(), request };
    let future: Forwarded = match asked {
        Found::Route(passage, lookup) => {
            let inbound = on_its_way.inbound(passage);
            Box::pin(forward(waiting, inbound, Looked { lookup, redis }))
        }
        Found::Asks(route) => Box::pin(admit::admit(waiting, on_its_way, route, admit::Client::Unknown)),
        Found::Chooses(choice) => Box::pin(choose::choose(waiting, on_its_way, choice)),
        Found::Refused(route, failure) => Box::pin(on_its_way.refuse(waiting, route, failure)),
        Found::Stored(route, verdict, answer) => {
            on_its_way.record.verdict(verdict);
            let answer = ResponseHead::part(answer.map(ResponseBody::stored));
            Box::pin(async move { admit::here(waiting, &on_its_way, Some(&route), answer).await })
        }
        Found::Own(..) => Box::pin(on_its_way.refuse(waiting, None, Failure::Bug)), // answered above
    };
    Reply::Later(PendingResponse::new(future, detached_fetch))
}

/// What is noted of a request, by its route, or until it has one.
fn recorded(worker: &Rc<Worker>, found: &Found, timeline: Timeline) -> Rc<Record> {
    match (found, found.route_of()) {
        (Found::Chooses(_), _) => Record::without_route(worker, timeline),
        (_, Some(route)) => Record::new(worker, &route.series, timeline),
        (_, None) => Record::new(worker, &worker.common.metrics.none, timeline),
    }
}

/// The timeline of a request for which Redis may have been asked, and its trace, if there are any.
fn traced(
    worker: &Worker,
    client: &dyn Downstream,
    head: &Head,
    begun: Moment,
    redis: Option<(Moment, Moment)>,
) -> (Timeline, Option<RequestTrace>) {
    let timeline = Timeline::new(begun);
    let trace = worker.tracer.begin(client.settings().traces.as_ref(), head, client.peer());
    trace.iter().filter_map(RequestTrace::sampled).for_each(|_| timeline.mark_phases());
    if let Some((asked, answered)) = redis {
        timeline.end_phase(Layer::Parse, asked);
        timeline.end_named(Layer::Cache, "redis", answered);
    }
    (timeline, trace)
}

impl Known {
    /// What was found before the request was one.
    fn found(self, head: &Head, worker: &Rc<Worker>, hop: Hop) -> Found {
        let Self { route, lookup } = self;
        match lookup {
            Some(Lookup::Hit(stored)) => {
                let answer = stored.response(&head.method, head.headers(), worker.clock.timestamp(Moment::now()));
                Found::Stored(route, Verdict::Hit, answer)
            }
            lookup => Found::route(worker, &route, head, hop, lookup),
        }
    }
}

/// How far a request has come into its route.
struct Entry {
    checked: Checked,
    place: Option<Place>,
    has_body: bool,
    has_content: bool,
}

fn find(
    worker: &Rc<Worker>,
    client: &dyn Downstream,
    head: &mut Head,
    timeline: &Timeline,
    entry: &mut Entry,
) -> Result<Found, Failure> {
    local::check_scope(head)?;
    let table = worker.common.table.load();
    let path = head.path();
    let facts =
        || HeadFacts { method: &head.method, fields: &*head, query: head.query(), port: client.peer().listener_port() };
    let route = table.find_for(head.authority(), path, facts);
    if let Some(choice) = Choice::of(&table, head.authority(), path, route)
        && (entry.has_body || choice.plain.is_none())
    {
        return Ok(Found::Chooses(choice));
    }
    let route = route.ok_or_else(|| Failure::NoRoute { path: path.to_owned() })?;
    table.check_readings(head.authority(), path, route, facts).map_err(Failure::AmbiguousPath)?;
    let at = Moment::now();
    // Before anybody is asked for a password.
    if let Some(response) = https::redirect(&worker.common, client, route, head) {
        timeline.end_phase(Layer::Route, at);
        return Ok(Found::Own(Some(Arc::clone(route)), response));
    }
    if let Some(gate) = &route.gate {
        let asker = Asker { address: asking(client, head).address(), fields: head, now: at };
        match gate.enter(&worker.common.counts, &asker, std::mem::take(&mut entry.checked)) {
            Ok(Entered::Now(place)) => entry.place = place,
            Ok(Entered::Later(place)) => {
                entry.place = place;
                return Ok(Found::Asks(Arc::clone(route)));
            }
            Err(refusal) => return Ok(Found::Refused(Some(Arc::clone(route)), Failure::Admission(refusal))),
        }
    }
    timeline.end_phase(Layer::Route, at);
    Ok(look(worker, client, route, head, entry.has_content, timeline))
}

/// What a route has for a request that is let in.
fn look(
    worker: &Rc<Worker>,
    client: &dyn Downstream,
    route: &Arc<Route>,
    head: &mut Head,
    has_content: bool,
    timeline: &Timeline,
) -> Found {
    if route.service.is_none() {
        return Found::route(worker, route, head, client.hop(head), None);
    }
    compress::normalise_head(route, head);
    let (now, offered) = (worker.clock.timestamp(timeline.last()), offered(route, head));
    // RFC 8441 §4: a stream that is to become another protocol is nothing else, where it cannot.
    if offered.is_none() && head.version == Version::HTTP_2 && head.has(&UPGRADE) {
        return Found::Refused(Some(Arc::clone(route)), Failure::UpgradeNotAllowed);
    }
    let lookup = match offered {
        _ if route.cache == RouteCache::Off => None,
        Some(_) => None, // the answer may be another protocol
        // What a service answers to one client's certificate is no other client's (RFC 9440 §3).
        _ if client.peer().certificate().is_some() => None,
        None => {
            let origin = Origin::of_head(head, client.hop(head));
            let url = RequestUrl { origin, target: head.target() };
            let request = CacheRequest { method: &head.method, url, headers: head.headers(), has_content };
            look_up(&worker.common, route, request, now)
        }
    };
    let found = match lookup {
        Some(Lookup::Hit(stored)) => {
            let answer = stored.response(&head.method, head.headers(), now);
            Found::Stored(Arc::clone(route), Verdict::Hit, answer)
        }
        Some(Lookup::StaleWhileRevalidate(stored)) => {
            refresh::begin(worker, client, route, head, &stored);
            let status = CacheStatus::stale_while_revalidated(stored.ttl_s(now));
            let answer = stored.response_as(status, &head.method, head.headers(), now);
            Found::Stored(Arc::clone(route), Verdict::Stale, answer)
        }
        lookup => Found::route(worker, route, head, client.hop(head), lookup),
    };
    timeline.end_phase(Layer::Cache, Moment::now());
    found
}

/// A request that is answered at once.
#[derive(Clone, Copy)]
struct Asked<'a> {
    head: &'a Head,
    body: Option<&'a dyn BodySource>,
    /// `None` if it is for the gateway.
    route: Option<&'a Route>,
}

fn respond_now(
    worker: &Rc<Worker>,
    client: Rc<dyn Downstream>,
    asked: Asked<'_>,
    answer: Response<ResponseBody>,
    record: Rc<Record>,
) -> (ResponseHead, Outgoing) {
    let Asked { head, body, route } = asked;
    let changing = route.filter(|route| route.changes_responses);
    let needs_id = worker.access_log.is_some() || changing.is_some();
    let id = needs_id.then(|| worker.ids.id(head.field(&X_REQUEST_ID)));
    if let Some(id) = id.as_ref().filter(|_| worker.access_log.is_some()) {
        record.keep_head(head, id, &asking(&*client, head));
    }
    let (mut response, mut source) = ResponseHead::part(answer);
    record.answered(response.status);
    if server_timing::is_wanted(client.settings().server_timing, |name| head.has(name)) {
        server_timing::append_to(&mut response.fields, &record.timeline);
    }
    if let (Some(route), Some(id)) = (changing, &id) {
        seen(&*client, &asking(&*client, head), head, id).change(route, &mut response, &mut source);
    }
    // Nobody reads a body that is not here already.
    response.closes = worker.is_leaving() || body.is_some_and(|body| !body.is_ended()) && !client.skip_body();
    let guard = RequestGuard::new(client, record);
    (response, Outgoing::new(source, None, guard))
}

fn seen<'a>(client: &dyn Downstream, asking: &'a PeerAddress, head: &'a Head, id: &'a RequestId) -> Seen<'a> {
    Seen { head, hop: client.hop(head), client: asking.ip(), request_id: id.as_str() }
}

/// Whose request it is: who has connected, or who that is said to ask for, where it is believed.
fn asking(client: &dyn Downstream, head: &Head) -> Rc<PeerAddress> {
    let (trusted, peer) = (&client.settings().trust_forwarded, client.peer());
    if *trusted == TrustForwarded::Nobody {
        return Rc::clone(peer);
    }
    match trusted.client(head.headers(), peer.address()) {
        Some(address) if Some(address) != peer.address() => peer.told(address),
        _ => Rc::clone(peer),
    }
}

/// Who waits for a response that is not here at once.
struct Waiting {
    guard: RequestGuard,
    id: RequestId,
    is_timed: bool,
    expects_continue: bool,
}

impl Waiting {
    fn new(worker: &Rc<Worker>, client: Rc<dyn Downstream>, head: &Head, record: &Rc<Record>) -> Self {
        let id = worker.ids.id(head.field(&X_REQUEST_ID));
        record.keep_head(head, &id, &asking(&*client, head));
        let is_timed = server_timing::is_wanted(client.settings().server_timing, |name| head.has(name));
        Self { guard: RequestGuard::new(client, Rc::clone(record)), id, is_timed, expects_continue: head.has(&EXPECT) }
    }

    /// The response as the connection writes it, and as the route has it. No route: none was found.
    fn answer(
        self,
        worker: &Worker,
        head: &Head,
        route: Option<&Route>,
        answered: (Result<Parted, Failure>, Connection),
        page: Option<Parted>,
        deadline: Option<Deadline>,
    ) -> (ResponseHead, Outgoing) {
        let (result, connection) = answered;
        let (client, record) = self.guard.parts();
        let status = result.as_ref().map_or_else(Failure::status, |(response, _)| response.status);
        let (is_ours, (mut response, mut body)) = match result {
            Ok(parted) => (false, parted),
            Err(failure) => (true, self.failed(worker, head, route, &failure)),
        };
        if let Some(page) = page {
            (response, body) = changes::replaced(&mut response, page);
        }
        response.fields.set(X_REQUEST_ID, self.id.as_bytes());
        record.answered(status);
        client.response_began();
        if self.is_timed {
            server_timing::append_to(&mut response.fields, &record.timeline);
        }
        if let Some(route) = route.filter(|route| route.changes_responses) {
            let asking = asking(client, head);
            let seen = seen(client, &asking, head, &self.id);
            match is_ours {
                true => seen.change_fields(route, &mut response),
                false => seen.change(route, &mut response, &mut body),
            }
        }
        response.closes |= connection != Connection::Keep || worker.is_leaving();
        response.closes |= !is_ours && body.is_here() && !record.has_received_all(); // RFC 9112 §9.6: nobody reads the rest
        (response, Outgoing::new(body, deadline, self.guard))
    }

    /// The page that a service makes in place of an error, if there is one.
    async fn page(
        &self,
        worker: &Rc<Worker>,
        head: &Head,
        route: Option<&Route>,
        result: &Result<Parted, Failure>,
    ) -> Option<Parted> {
        let (client, record) = self.guard.parts();
        let status = result.as_ref().map_or_else(Failure::status, |(response, _)| response.status);
        if !status.is_client_error() && !status.is_server_error() {
            return None;
        }
        let asking = asking(client, head);
        let request = PageRequest::of(worker, route, &seen(client, &asking, head, &self.id), result)?;
        // In a box: almost no request needs it.
        Box::pin(request.fetch(worker, client, head, &self.id, record.trace_id())).await
    }

    /// What the gateway answers where nobody else does.
    fn failed(&self, worker: &Worker, head: &Head, route: Option<&Route>, failure: &Failure) -> Parted {
        let ((client, record), status) = (self.guard.parts(), failure.status());
        if status.is_server_error() {
            let (id, trace_id, text) = (self.id.as_str(), record.trace_id(), failure.request_log_text());
            tracing::warn!(request_id = id, trace_id, "{status}: {text}");
        }
        if head.version == Version::HTTP_2 && grpc::is_grpc(head) {
            let (response, body) = ResponseHead::part(failure.grpc_response());
            return (response, ResponseBody::full(body));
        }
        let accept = head.joined(ACCEPT.as_str());
        let asked = problem::Asked::of(self.id.as_str(), accept.as_deref(), client.settings());
        let table = worker.common.table.load();
        let pages = route.map_or(table.pages(), |route| &route.pages);
        let own = pages.find(status, ErrorBy::Gateway).and_then(LoadedPage::text);
        let (mut response, body) = ResponseHead::part(failure.response(&asked, own));
        response.closes = failure.closes();
        CacheStatus::refused("gateway").append_to(response.fields.map());
        (response, ResponseBody::full(body))
    }
}

/// What a service, or the cache after a wait, answers.
async fn forward(waiting: Waiting, mut inbound: Box<Inbound>, looked: Looked) -> (ResponseHead, Outgoing) {
    let took = looked.took();
    let deadline = inbound.route.timeout.map(|after| {
        let deadline = inbound.worker.deadlines.deadline();
        deadline.set(after.saturating_sub(took));
        deadline
    });
    let begin = inbound.begin(looked);
    let answered = inbound.respond(begin, took).await;
    let page = waiting.page(&inbound.worker, inbound.head(), Some(&inbound.route), &answered.0).await;
    waiting.answer(&inbound.worker, inbound.head(), Some(&inbound.route), answered, page, deadline)
}

/// A request that no service is asked for.
struct Refused {
    /// `None` if it has none.
    route: Option<Arc<Route>>,
    failure: Failure,
    head: Head,
}

/// A request that is not answered at once, and what goes with it.
struct OnItsWay {
    worker: Rc<Worker>,
    caller: Caller,
    record: Rc<Record>,
    detached_fetch: DetachedFetch,
    request: IncomingRequest,
}

impl OnItsWay {
    fn inbound(self, passage: Passage) -> Box<Inbound> {
        let Self { worker, caller, record, detached_fetch, request } = self;
        Inbound::new(&worker, caller, record, detached_fetch, passage, request)
    }

    /// It has no route, or is not let in.
    async fn refuse(self, waiting: Waiting, route: Option<Arc<Route>>, failure: Failure) -> (ResponseHead, Outgoing) {
        let IncomingRequest { head, body, .. } = self.request;
        refuse(waiting, self.worker, Refused { route, failure, head }, body).await
    }
}

async fn refuse(
    waiting: Waiting,
    worker: Rc<Worker>,
    refused: Refused,
    body: Option<Box<dyn BodySource>>,
) -> (ResponseHead, Outgoing) {
    let Refused { route, failure, head } = refused;
    if let Failure::Admission(refusal) = &failure {
        waiting.guard.parts().1.refused(refusal);
    }
    let refused = driver::refuse(failure, body, waiting.expects_continue, || worker.deadlines.deadline()).await;
    let (failure, connection) = refused;
    let answered = (Err(failure), connection);
    let page = waiting.page(&worker, &head, route.as_deref(), &answered.0).await;
    waiting.answer(&worker, &head, route.as_deref(), answered, page, None)
}
