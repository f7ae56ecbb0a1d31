//! What one user was answered is never another user's answer, unless the service said that it may be shared.
//!
//! Every answer names, in its body and in a field, the entry of a list that says who it was made for and what the
//! service said about it. Whoever is served a response is compared with both entries, by a model that knows nothing of
//! the cache's code: only the words of the responses.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::{
    Cache, CacheOptions, Decision, Fill, Key, LanguageOrder, Lookup, PolicyOptions, RouteRules, Stored, Timestamp,
    Turn, Validated,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::*;

/// How a user shows who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Nothing,
    Authorization,
    Cookie,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    name: &'static str,
    shows: Shows,
}

#[derive(Debug, Clone)]
struct Step {
    user: User,
    /// Asks at the same time, for the same target.
    neighbour: User,
    target: &'static str,
    wish: &'static str,
    cache_control: &'static str,
    /// `CDN-Cache-Control`
    targeted: &'static str,
    vary: &'static str,
    sets_cookie: bool,
    etag: bool,
    confirms: bool,
    /// The service answers 503.
    fails: bool,
    method: Method,
    passes_s: u64,
}

/// A response that the service made.
#[derive(Debug, Clone)]
struct Made {
    target: &'static str,
    by: User,
    wish: &'static str,
    cache_control: &'static str,
    targeted: &'static str,
    vary: &'static str,
    sets_cookie: bool,
}

impl Made {
    fn says(&self, word: &str) -> bool {
        // RFC 9213: the targeted field alone, if there is one.
        let words = if self.targeted.is_empty() { self.cache_control } else { self.targeted };
        words.split(", ").any(|member| member.split('=').next() == Some(word))
    }

    /// Leaves its freshness to the route.
    fn is_silent(&self) -> bool {
        !self.says("max-age") && !self.says("s-maxage") && !self.says("no-cache")
    }

    /// The model: may `asker` see it? `current` is the last word of the service about it, from a 304 or the same.
    fn is_for(&self, asker: User, target: &str, current: &Self) -> bool {
        if self.target != target || self.wish.contains("no-store") || self.sets_cookie {
            return false;
        }
        if self.says("private") || self.says("no-store") || matches!(self.vary, "*" | "cookie") {
            return false;
        }
        // Nothing said about freshness: made for someone who shows nothing, and until something is said only for such.
        if self.is_silent() && self.by.shows != Shows::Nothing || current.is_silent() && asker.shows != Shows::Nothing {
            return false;
        }
        let shareable = self.says("public") || self.says("must-revalidate") || self.says("s-maxage");
        if self.by.shows == Shows::Authorization && !shareable {
            return false;
        }
        let authorization = |user: User| (user.shows == Shows::Authorization).then_some(user.name);
        self.vary != "authorization" || authorization(self.by) == authorization(asker)
    }

    fn fields(&self, entry: usize, etag: bool) -> HeaderMap {
        let mut list = vec![("x-entry", entry.to_string())];
        let mut add = |name, value: &str| {
            if !value.is_empty() {
                list.push((name, value.to_owned()));
            }
        };
        add("cache-control", self.cache_control);
        add("cdn-cache-control", self.targeted);
        add("last-modified", "Wed, 01 Jan 1992 00:00:00 GMT");
        add("vary", self.vary);
        add("set-cookie", if self.sets_cookie { self.by.name } else { "" });
        add("etag", if etag { "\"v\"" } else { "" });
        let borrowed: Vec<_> = list.iter().map(|(name, value)| (*name, value.as_str())).collect();
        fields(&borrowed)
    }
}

fn request(user: User, wish: &str) -> HeaderMap {
    let mut list = Vec::new();
    match user.shows {
        Shows::Nothing => {}
        Shows::Authorization => list.push(("authorization", user.name)),
        Shows::Cookie => list.push(("cookie", user.name)),
    }
    if !wish.is_empty() {
        list.push(("cache-control", wish));
    }
    fields(&list)
}

struct World {
    cache: Cache,
    rules: RouteRules,
    now: Timestamp,
    made: Vec<Made>,
    shared: usize,
}

impl World {
    fn step(&mut self, step: &Step) {
        self.now = Timestamp(self.now.0 + step.passes_s * 1000);
        let key = key(step.target);
        let asks = request(step.user, step.wish);
        match self.cache.lookup(&key, &step.method, &asks, self.now) {
            Lookup::Hit(stored) => self.served(&stored, step.user, step.target),
            Lookup::StaleWhileRevalidate(stored) => {
                self.served(&stored, step.user, step.target);
                self.upstream(step, &key, Some(stored));
            }
            Lookup::Bypass(_) | Lookup::OnlyIfCached => {}
            Lookup::Miss(_) => self.upstream(step, &key, None),
            Lookup::Stale(stored, _) => self.upstream(step, &key, Some(stored)),
        }
    }

    fn upstream(&mut self, step: &Step, key: &Key<'_>, stale: Option<Arc<Stored>>) {
        let asks = request(step.user, step.wish);
        let fill = match self.cache.begin(key, &step.method, &asks, self.now) {
            Turn::Leader(fill) => fill,
            Turn::Hit(stored) => return self.served(&stored, step.user, step.target),
            Turn::Follower(_) | Turn::Live(_) | Turn::Failed(_) => panic!("nobody else is asking"),
        };
        let fill = stale.iter().fold(fill, |fill, stored| fill.validating(stored));
        let neighbour_asks = request(step.neighbour, "");
        let neighbour = self.cache.begin(key, &Method::GET, &neighbour_asks, self.now);
        if step.fails {
            match stale.filter(|stored| self.cache.serves_if_error(key, stored, &asks, self.now)) {
                Some(stored) => {
                    self.served(&stored, step.user, step.target);
                    fill.failed(stored);
                }
                None => drop(fill),
            }
        } else {
            self.answer(step, fill, &asks, stale);
        }
        match neighbour {
            Turn::Hit(stored) => self.served(&stored, step.neighbour, step.target),
            Turn::Leader(fill) => drop(fill),
            Turn::Failed(_) => panic!("it has only begun"),
            Turn::Live(_) => panic!("the answer has come in one piece"),
            Turn::Follower(wait) => {
                let landed = block_on(wait.landed());
                if let Turn::Hit(stored) | Turn::Failed(stored) = landed.turn(key, &neighbour_asks, self.now) {
                    self.served(&stored, step.neighbour, step.target);
                }
            }
        }
    }

    fn answer(&mut self, step: &Step, fill: Fill, asks: &HeaderMap, stale: Option<Arc<Stored>>) {
        let entry = self.made.len();
        let mut made = Made {
            target: step.target,
            by: step.user,
            wish: step.wish,
            cache_control: step.cache_control,
            targeted: step.targeted,
            vary: step.vary,
            sets_cookie: step.sets_cookie,
        };
        let timing = at(self.now);
        if let (Some(stored), true) = (stale, step.confirms) {
            let fields = made.fields(entry, false);
            // What a 304 leaves out is taken over from the stored response.
            let before = self.entries(&stored).1;
            made.cache_control = if made.cache_control.is_empty() { before.cache_control } else { made.cache_control };
            made.targeted = if made.targeted.is_empty() { before.targeted } else { made.targeted };
            made.vary = if made.vary.is_empty() { before.vary } else { made.vary };
            self.made.push(made);
            match fill.not_modified(&stored, asks, &fields, timing, self.rules) {
                // The user who asked sees it in any case: it was validated for them, if the body was for them.
                Validated::Response { stored, .. } => self.served_body(&stored, &before, step.user, step.target),
                Validated::Mismatch(_) => panic!("a 304 without a validator is about what was asked"),
            }
            return;
        }
        let fields = made.fields(entry, step.etag);
        self.made.push(made);
        if let Decision::Store(mut recorder) = fill.response(asks, StatusCode::OK, &fields, timing, self.rules) {
            recorder.push(entry.to_string().as_bytes()).unwrap();
            recorder.finish(self.now).unwrap();
        }
    }

    /// The entries that made the body and the fields of a response.
    fn entries(&self, stored: &Arc<Stored>) -> (Made, Made) {
        let answer = stored.response(&Method::GET, &HeaderMap::new(), self.now);
        let entry = |text: &[u8]| self.made[std::str::from_utf8(text).unwrap().parse::<usize>().unwrap()].clone();
        (entry(&answer.body().to_bytes()), entry(answer.headers().get("x-entry").unwrap().as_bytes()))
    }

    fn served(&mut self, stored: &Arc<Stored>, asker: User, target: &str) {
        let (body, fields) = self.entries(stored);
        for made in [&body, &fields] {
            assert!(made.is_for(asker, target, &fields), "{asker:?} was served, at {target}, {made:?}");
        }
        let answer = stored.response(&Method::GET, &HeaderMap::new(), self.now);
        assert!(!answer.headers().contains_key("set-cookie"));
        self.shared += usize::from(body.by != asker);
    }

    /// The fields are new and made for the asker; the body was theirs to see before.
    fn served_body(&self, stored: &Arc<Stored>, before: &Made, asker: User, target: &str) {
        let body = self.entries(stored).0;
        assert!(body.is_for(asker, target, before), "{asker:?} was served, at {target}, the body of {body:?}");
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), future).await }).expect("it has landed")
}

fn user() -> impl Strategy<Value = User> {
    let shows = select(vec![Shows::Nothing, Shows::Authorization, Shows::Cookie]);
    (select(vec!["ann", "bob"]), shows).prop_map(|(name, shows)| User { name, shows })
}

fn step() -> impl Strategy<Value = Step> {
    let cache_control = select(vec![
        "",
        "public",
        "max-age=5",
        "max-age=5",
        "max-age=5, public",
        "s-maxage=5",
        "max-age=5, must-revalidate",
        "max-age=5, proxy-revalidate",
        "max-age=5, private",
        "max-age=5, public, private",
        "s-maxage=5, no-store",
        "no-cache",
        "no-cache, public",
        "max-age=0, public",
        "max-age=1, stale-while-revalidate=3",
        "max-age=1, stale-while-revalidate=3, private",
        "max-age=1, public, stale-if-error=9",
    ]);
    let targeted = select(vec!["", "", "", "", "max-age=5", "private, max-age=5", "public"]);
    let vary = select(vec!["", "", "", "accept", "authorization", "cookie", "*"]);
    let wish = select(vec!["", "", "", "no-cache", "no-store", "max-stale", "max-age=0", "only-if-cached"]);
    let target = select(vec!["/one", "/two"]);
    let method = select(vec![Method::GET, Method::GET, Method::GET, Method::HEAD]);
    let flags = (prop::bool::weighted(0.15), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    let says = (cache_control, targeted, vary);
    (user(), user(), target, wish, says, flags, method, 0u64..4).prop_map(
        |(user, neighbour, target, wish, (cache_control, targeted, vary), flags, method, passes_s)| Step {
            user,
            neighbour,
            target,
            wish,
            cache_control,
            targeted,
            vary,
            sets_cookie: flags.0,
            etag: flags.1,
            confirms: flags.2,
            fails: flags.3,
            method,
            passes_s,
        },
    )
}

fn world(default_ttl_s: Option<u64>, heuristic: bool) -> World {
    let rules = RouteRules { default_ttl: default_ttl_s.map(Duration::from_secs), ..RouteRules::default() };
    let policy = PolicyOptions {
        max_heuristic: heuristic.then_some(Duration::from_secs(4)),
        stale_if_error: heuristic.then_some(Duration::from_secs(6)),
        language_order: LanguageOrder::Ignored,
        ..PolicyOptions::default()
    };
    let cache = Cache::new(CacheOptions::default()).unwrap();
    cache.set_policy(policy);
    World { cache, rules, now: START, made: Vec::new(), shared: 0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn two_users_never_see_each_others_answers(
        steps in proptest::collection::vec(step(), 1..40),
        default_ttl_s in proptest::option::of(1u64..8),
        heuristic in any::<bool>(),
    ) {
        let mut world = world(default_ttl_s, heuristic);
        for step in &steps {
            world.step(step);
        }
    }
}

/// The property is not true for want of hits: what may be shared is.
#[test]
fn what_may_be_shared_is_shared() {
    let ann = User { name: "ann", shows: Shows::Authorization };
    let bob = User { name: "bob", shows: Shows::Authorization };
    let mut world = world(None, false);
    for user in [ann, bob] {
        world.step(&Step {
            user,
            neighbour: bob,
            target: "/one",
            wish: "",
            cache_control: "max-age=5, public",
            targeted: "",
            vary: "",
            sets_cookie: false,
            etag: false,
            confirms: false,
            fails: false,
            method: Method::GET,
            passes_s: 1,
        });
    }
    assert_eq!((world.made.len(), world.shared), (1, 1));
}
