//! The policy against a model of RFC 9111 (`model`), for random requests, responses and clocks.
//!
//! Two promises: what the cache answers from memory, the model allows; and what a perfect cache would answer from
//! memory, the cache does, but for the deviations that are listed by name ([`model::Stricter`]).

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pilotlight_cache::{Cache, Decision, Fill, Lookup, RouteRules, Stored, Timestamp, Timing, Turn, Validated};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::support::*;
use model::{Argument, Directives, Entry, Millis, Model, Request, Response};

mod model;

/// How a message is written down: the same meaning in other letters.
#[derive(Debug, Clone, Copy)]
enum Spelling {
    Plain,
    Shouted,
    Quoted,
    Lines,
}

#[derive(Debug, Clone)]
struct Step {
    passes_ms: u64,
    request: Request,
    response: Response,
    delay_ms: u64,
    spelling: Spelling,
    /// The service confirms what it is asked about.
    confirms: bool,
    /// The request is one that changes its target.
    is_unsafe: bool,
    is_head: bool,
}

struct World {
    cache: Cache,
    model: Model,
    now: Timestamp,
    bodies: usize,
    reused: usize,
}

impl World {
    fn new() -> Self {
        Self { cache: cache(), model: Model::default(), now: START, bodies: 0, reused: 0 }
    }

    fn step(&mut self, step: &Step) {
        self.now = Timestamp(self.now.0 + step.passes_ms);
        let asks = write_request(&step.request, step.spelling);
        if step.is_unsafe {
            let status = StatusCode::from_u16(step.response.status).unwrap();
            self.cache.invalidate(&KEY, &Method::POST, status, &HeaderMap::new(), self.now);
            if status.is_success() || status.is_redirection() {
                self.model.invalidate();
            }
            return;
        }
        let method = if step.is_head { Method::HEAD } else { Method::GET };
        let best = self.model.best(&step.request, millis(self.now));
        let looked_up = self.cache.lookup(&KEY, &method, &asks, self.now);
        if let Lookup::Hit(stored) = &looked_up {
            return self.reuse(stored, step);
        }
        assert!(
            best.is_none(),
            "not reused: {:#?}\nbut {looked_up:?}, for {step:#?}",
            self.model.entries[best.unwrap()]
        );
        let stale = match looked_up {
            Lookup::Stale(stored, _) => Some(stored),
            Lookup::Hit(_) | Lookup::Miss(_) => None,
            Lookup::StaleWhileRevalidate(_) => panic!("no response of the model says so"),
            Lookup::Bypass(_) | Lookup::OnlyIfCached => return,
        };
        if step.is_head {
            return;
        }
        match self.cache.begin(&KEY, &method, &asks, self.now) {
            Turn::Leader(fill) => self.answer(fill, step, &asks, stale.as_deref()),
            Turn::Hit(stored) => self.reuse(&stored, step),
            Turn::Follower(_) | Turn::Live(_) | Turn::Failed(_) => panic!("nobody else is asking"),
        }
    }

    fn reuse(&mut self, stored: &Stored, step: &Step) {
        let now = millis(self.now);
        let body = body(stored);
        let allowed = |entry: &&Entry| entry.body == body && entry.may_be_reused(&step.request, now);
        let made: Vec<&Entry> = self.model.entries.iter().filter(|entry| entry.body == body).collect();
        assert!(self.model.entries.iter().any(|entry| allowed(&entry)), "reused: {made:#?}\nfor {step:#?} at {now}");
        self.reused += 1;
    }

    fn answer(&mut self, fill: Fill, step: &Step, asks: &HeaderMap, stale: Option<&Stored>) {
        let sent = self.now;
        self.now = Timestamp(self.now.0 + step.delay_ms);
        let timing = Timing { sent, received: self.now };
        let entry = Entry {
            request: step.request.clone(),
            response: step.response.clone(),
            body: self.bodies,
            request_time: millis(sent),
            response_time: millis(self.now),
            is_gone: false,
            is_unsure: false,
        };
        let rules = RouteRules::default();
        let asked_about = stale.filter(|stored| step.confirms && has_etag(stored, self.now));
        if let Some(stored) = asked_about {
            self.model.freshen(body(stored), &entry);
            // Without Vary: what it would be selected by then is not the RFC's to say.
            let confirms = Response { vary: Vec::new(), ..step.response.clone() };
            let says = write_response(&confirms, self.now, step.spelling);
            let Validated::Response { .. } =
                fill.not_modified(&arc_of(&self.cache, stored), asks, &says, timing, rules)
            else {
                panic!("a 304 without a validator is about what was asked");
            };
            return;
        }
        self.bodies += 1;
        let says = write_response(&step.response, self.now, step.spelling);
        let status = StatusCode::from_u16(step.response.status).unwrap();
        if let Decision::Store(mut recorder) = fill.response(asks, status, &says, timing, rules) {
            assert!(entry.may_be_stored(), "stored: {entry:#?}");
            recorder.push(entry.body.to_string().as_bytes()).unwrap();
            recorder.finish(self.now).unwrap();
        }
        self.model.entries.push(entry);
    }
}

/// The same stored response, shared.
fn arc_of(cache: &Cache, stored: &Stored) -> std::sync::Arc<Stored> {
    cache.variants(&KEY).into_iter().find(|one| std::ptr::eq(&**one, stored)).unwrap()
}

fn body(stored: &Stored) -> usize {
    std::str::from_utf8(&stored.body().to_bytes()).unwrap().parse().unwrap()
}

fn has_etag(stored: &Stored, now: Timestamp) -> bool {
    stored.response(&Method::GET, &HeaderMap::new(), now).headers().contains_key("etag")
}

fn millis(time: Timestamp) -> Millis {
    Millis::from(time.0)
}

fn write_directives(directives: &Directives, spelling: Spelling, headers: &mut HeaderMap) {
    let written: Vec<String> = directives
        .iter()
        .map(|(name, argument)| {
            let name = if matches!(spelling, Spelling::Shouted) { name.to_uppercase() } else { (*name).to_owned() };
            match argument {
                Argument::None => name,
                Argument::Seconds(seconds) if matches!(spelling, Spelling::Quoted) => format!("{name}=\"{seconds}\""),
                Argument::Seconds(seconds) => format!("{name}={seconds}"),
                Argument::Fields(fields) => format!("{name}=\"{fields}\""),
            }
        })
        .collect();
    let lines = match spelling {
        Spelling::Lines => written,
        Spelling::Shouted => vec![written.join(" ,\t")],
        Spelling::Plain | Spelling::Quoted => vec![written.join(", ")],
    };
    for line in lines.iter().filter(|line| !line.is_empty()) {
        headers.append("cache-control", HeaderValue::from_str(line).unwrap());
    }
}

fn write_request(request: &Request, spelling: Spelling) -> HeaderMap {
    let mut headers = HeaderMap::new();
    write_directives(&request.directives, spelling, &mut headers);
    let named = [("authorization", request.authorization), ("cookie", request.cookie)];
    let named = named.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in named.chain(request.fields.iter().map(|(name, value)| (*name, *value))) {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
}

fn write_response(response: &Response, received: Timestamp, spelling: Spelling) -> HeaderMap {
    let mut headers = HeaderMap::new();
    write_directives(&response.directives, spelling, &mut headers);
    let received_s = i64::try_from(received.0 / 1000).unwrap();
    let date = |seconds: i64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(u64::try_from(seconds).unwrap());
        HeaderValue::from_str(&httpdate::fmt_http_date(time)).unwrap()
    };
    let date_s = received_s + response.date_s.unwrap_or(0);
    if response.date_s.is_some() {
        headers.insert("date", date(date_s));
    }
    match response.expires_s {
        Some(Some(seconds)) => drop(headers.insert("expires", date(date_s + seconds))),
        Some(None) => drop(headers.insert("expires", HeaderValue::from_static("0"))),
        None => {}
    }
    if let Some(age) = response.age_s {
        headers.insert("age", HeaderValue::from(age));
    }
    for name in &response.vary {
        headers.append("vary", HeaderValue::from_static(name));
    }
    if response.sets_cookie {
        headers.insert("set-cookie", HeaderValue::from_static("id=1"));
    }
    if let Some(etag) = response.etag {
        headers.insert("etag", HeaderValue::from_static(etag));
    }
    headers
}

fn seconds() -> impl Strategy<Value = Argument> {
    select(vec![0u64, 1, 2, 5, 5, 30, 4_000_000_000]).prop_map(Argument::Seconds)
}

fn response_directives() -> impl Strategy<Value = Directives> {
    let flags = ["public", "must-revalidate", "proxy-revalidate", "must-understand", "no-transform"];
    let rare = ["no-store", "private", "no-cache"];
    let lifetimes = (proptest::option::weighted(0.6, seconds()), proptest::option::weighted(0.2, seconds()));
    let flags = (subsequence(flags.to_vec(), 0..3), proptest::option::weighted(0.15, select(rare.to_vec())));
    let fields =
        proptest::option::weighted(0.05, (select(vec!["private", "no-cache"]), select(vec!["x-a", "x-a, x-b"])));
    (lifetimes, flags, fields).prop_map(|((max_age, s_maxage), (flags, rare), fields)| {
        let mut directives: Directives = flags.into_iter().chain(rare).map(|name| (name, Argument::None)).collect();
        directives.extend(max_age.map(|seconds| ("max-age", seconds)));
        directives.extend(s_maxage.map(|seconds| ("s-maxage", seconds)));
        directives.extend(fields.map(|(name, fields)| (name, Argument::Fields(fields))));
        directives
    })
}

fn request_directives() -> impl Strategy<Value = Directives> {
    let one = prop_oneof![
        select(vec!["no-cache", "no-store", "only-if-cached", "max-stale", "no-transform"])
            .prop_map(|name| (name, Argument::None)),
        (select(vec!["max-age", "min-fresh", "max-stale"]), seconds()),
    ];
    prop_oneof![4 => Just(Directives::new()), 3 => proptest::collection::btree_map(
        select(vec![0, 1]), one, 1..3).prop_map(|map| map.into_values().collect())]
}

fn request() -> impl Strategy<Value = Request> {
    let authorization = proptest::option::weighted(0.2, select(vec!["ann", "bob"]));
    let cookie = proptest::option::weighted(0.2, select(vec!["a=1", "a=2"]));
    let value = || proptest::option::of(select(vec!["", "1", "2"]));
    (request_directives(), authorization, cookie, value(), value()).prop_map(
        |(directives, authorization, cookie, one, two)| Request {
            directives,
            authorization,
            cookie,
            fields: [("x-one", one), ("x-two", two)].into_iter().filter_map(|(n, v)| Some((n, v?))).collect(),
        },
    )
}

fn response() -> impl Strategy<Value = Response> {
    let status = prop_oneof![
        5 => Just(200u16),
        2 => select(vec![203, 204, 206, 299, 301, 302, 308, 404, 410, 418, 500, 503, 599]),
    ];
    let date_s = proptest::option::weighted(0.7, prop_oneof![3 => Just(0i64), 1 => -40i64..40]);
    let expires_s = proptest::option::weighted(0.2, proptest::option::weighted(0.8, -10i64..40));
    let age_s = proptest::option::weighted(0.2, 0u64..40);
    let vary = subsequence(vec!["x-one", "x-two", "cookie", "authorization", "*"], 0..3);
    let vary = prop_oneof![3 => Just(Vec::new()), 2 => subsequence(vec!["x-one", "x-two"], 1..3), 1 => vary];
    let etag = proptest::option::of(Just("\"v\""));
    (status, response_directives(), date_s, expires_s, age_s, vary, prop::bool::weighted(0.05), etag).prop_map(
        |(status, directives, date_s, expires_s, age_s, vary, sets_cookie, etag)| Response {
            status,
            directives,
            date_s,
            expires_s,
            age_s,
            vary,
            sets_cookie,
            etag,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    // Whole seconds often: where a lifetime ends is where mistakes are.
    let whole = (0u64..8).prop_map(|seconds| seconds * 1000);
    let passes_ms = prop_oneof![4 => whole, 2 => 0u64..1500, 1 => 1500u64..8000, 1 => 8000u64..60_000];
    let delay_ms = prop_oneof![3 => Just(0u64), 1 => 0u64..4000];
    let spelling = select(vec![Spelling::Plain, Spelling::Shouted, Spelling::Quoted, Spelling::Lines]);
    let flags = (any::<bool>(), prop::bool::weighted(0.05), prop::bool::weighted(0.1));
    (passes_ms, request(), response(), delay_ms, spelling, flags).prop_map(
        |(passes_ms, request, response, delay_ms, spelling, (confirms, is_unsafe, is_head))| Step {
            passes_ms,
            request,
            response,
            delay_ms,
            spelling,
            confirms,
            is_unsafe,
            is_head,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn reuses_what_the_rfc_allows_and_all_of_it(steps in proptest::collection::vec(step(), 1..25)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
    }
}

/// The property is not true for want of reuse.
#[test]
fn much_is_reused() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut reused, mut steps) = (0, 0);
    for _ in 0..200 {
        let list = proptest::collection::vec(step(), 20).new_tree(&mut runner).unwrap().current();
        let mut world = World::new();
        list.iter().for_each(|step| world.step(step));
        (reused, steps) = (reused + world.reused, steps + list.len());
    }
    assert!(reused * 10 > steps, "{reused} of {steps}");
}
