//! A gateway's cache with its tier, without the gateway.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pilotlight_cache::{
    Adopted, Cache, CacheOptions, Decision, Fill, Key, RouteRules, Stored, Timestamp, Timing, Turn,
};
use pilotlight_cache_redis::{Asked, Config, Options, SharedTier, Status, Ticket, Tier, record_name};

/// Longer than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

pub(crate) fn key(target: &str) -> Key<'_> {
    Key { scheme: "http", authority: "example.org", target, extra: "" }
}

pub(crate) fn fields(of: &[(&'static str, &str)]) -> HeaderMap {
    of.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
}

pub(crate) const FRESH: &[(&str, &str)] = &[("cache-control", "max-age=60")];

/// Runs a test on one thread, as a worker does.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(LIMIT * 3, test()).await.expect("the test is over in time");
    });
}

/// A budget that a busy machine keeps.
pub(crate) fn options() -> Options {
    Options { budget: Duration::from_secs(1), ..Options::default() }
}

pub(crate) struct Node {
    pub(crate) cache: Cache,
    pub(crate) shared: SharedTier,
    pub(crate) tier: Rc<Tier>,
    task: tokio::task::JoinHandle<()>,
    fetched: Cell<u32>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A flight whose response the service is to be asked for.
pub(crate) struct Flight {
    pub(crate) fill: Fill,
    pub(crate) request: HeaderMap,
}

impl Node {
    pub(crate) fn new(url: &str) -> Self {
        Self::with(url, options())
    }

    pub(crate) fn with(url: &str, options: Options) -> Self {
        let shared = SharedTier::new(Config::from_url(url).unwrap(), options);
        let cache = Cache::shared(CacheOptions::default(), record_name).unwrap();
        cache.tell_invalidations(shared.invalidations());
        let tier = Tier::new(&shared, &cache).unwrap();
        let task = tokio::task::spawn_local(Rc::clone(&tier).run());
        Self { cache, shared, tier, task, fetched: Cell::new(0) }
    }

    pub(crate) async fn ask(&self, target: &str, request: &HeaderMap) -> Asked {
        self.tier.ask(&key(target), request, now()).await
    }

    /// What Redis has, if it can be used.
    pub(crate) async fn found(&self, target: &str, request: &HeaderMap) -> Option<Bytes> {
        let serves = |stored: &Arc<Stored>| self.cache.serves(&key(target), stored, request, now());
        let stored = self.ask(target, request).await.stored.filter(serves)?;
        Some(stored.body().to_bytes())
    }

    pub(crate) fn begin(&self, target: &str, request: &HeaderMap) -> Fill {
        match self.cache.begin(&key(target), &Method::GET, request, now()) {
            Turn::Leader(fill) => fill,
            other => panic!("{other:?}"),
        }
    }

    /// A flight that has found nothing in Redis.
    pub(crate) async fn takeoff(&self, target: &str, request: &HeaderMap) -> Flight {
        self.takeoff_as(&key(target), request).await
    }

    pub(crate) async fn takeoff_as(&self, key: &Key<'_>, request: &HeaderMap) -> Flight {
        let Turn::Leader(mut fill) = self.cache.begin(key, &Method::GET, request, now()) else { panic!("it is there") };
        fill.write_behind(Box::new(self.until_answered(key, request).await));
        Flight { fill, request: request.clone() }
    }

    /// Asks until Redis answers: on a busy machine, a budget may be over before the connection is open.
    pub(crate) async fn until_answered(&self, key: &Key<'_>, request: &HeaderMap) -> Ticket {
        let begun = Instant::now();
        loop {
            if let Some(ticket) = self.tier.ask(key, request, now()).await.ticket {
                return ticket;
            }
            assert!(begun.elapsed() < LIMIT, "no answer of Redis: {:?}", self.status());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// As the gateway does: memory apart, Redis, the lease, the service.
    pub(crate) async fn get(&self, target: &str, service: impl AsyncFnOnce() -> (HeaderMap, Bytes)) -> Bytes {
        let request = HeaderMap::new();
        let mut fill = self.begin(target, &request);
        let Asked { mut stored, ticket } = self.ask(target, &request).await;
        let mut ticket: Ticket = ticket.expect("an answer of Redis");
        if stored.is_none() {
            stored = self.tier.lead(&mut ticket, &key(target), &request, now).await;
        }
        if let Some(stored) = stored {
            let Adopted::Landed(stored) = fill.adopt(stored, now()) else { panic!("it was not invalidated") };
            return stored.body().to_bytes();
        }
        fill.write_behind(Box::new(ticket));
        self.fetched.set(self.fetched.get() + 1);
        let (headers, body) = service().await;
        let _ = Flight { fill, request }.land(&headers, &body);
        body
    }

    /// How often the service was asked.
    pub(crate) fn fetched(&self) -> u32 {
        self.fetched.get()
    }

    /// Stores a response, and waits until Redis has it.
    pub(crate) async fn store(
        &self,
        target: &str,
        request: &[(&'static str, &str)],
        answer: &[(&'static str, &str)],
        body: &[u8],
    ) {
        let flight = self.takeoff(target, &fields(request)).await;
        flight.land(&fields(answer), body).expect("it may be stored");
        self.settled().await;
    }

    pub(crate) fn post(&self, target: &str) {
        self.cache.invalidate(&key(target), &Method::POST, StatusCode::OK, &HeaderMap::new(), now());
    }

    pub(crate) fn status(&self) -> Status {
        self.shared.status()
    }

    /// Waits until nothing is to be written any more.
    pub(crate) async fn settled(&self) {
        self.until("everything is written", |status| status.queued == 0 && status.pending_invalidations == 0).await;
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Status) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.status()) {
            assert!(begun.elapsed() < LIMIT, "{what}: not after {LIMIT:?}: {:?}", self.status());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Flight {
    pub(crate) fn land(self, headers: &HeaderMap, body: &[u8]) -> Option<Arc<Stored>> {
        let timing = Timing { sent: now(), received: now() };
        match self.fill.response(&self.request, StatusCode::OK, headers, timing, RouteRules::default()) {
            Decision::Store(mut recorder) => {
                recorder.push(body).unwrap();
                recorder.finish(now()).ok()
            }
            Decision::Pass(_) => None,
        }
    }
}
