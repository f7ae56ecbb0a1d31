//! What the cache would do with a request: key, lookup, what is stored, and by which rule of the route or the RFC.

use http::{HeaderMap, Method};
use pilotlight_cache::{Cache, Forward, Lookup, Parameters, QueryRules, RouteRules, Stored, Timestamp, Unstored};
use serde_json::{Map, Value, json};

use crate::admin::shared::Shared;
use crate::admin::target::Target;
use crate::cache_key::{self, CacheKey};
use crate::lookup::{self, CacheRequest};
use crate::metrics::sums::Sums;
use crate::options::RouteCache;
use crate::routes::Route;

pub(super) fn explain(shared: &Shared, route: &Route, target: &Target, method: &Method, headers: &HeaderMap) -> Value {
    let now = lookup::now();
    let request = CacheRequest { method, url: target.url(), headers, has_content: false };
    let lookup = lookup::look_up(&shared.common, route, request, now);
    let (Some(lookup), Some(cache), RouteCache::On { rules, .. }) = (lookup, &shared.common.cache, &route.cache) else {
        let why = match route.cache {
            RouteCache::Off => "the route says cache = false",
            RouteCache::On { .. } => "the configuration says cache = false",
        };
        return json!({ "key": null, "verdict": "off", "why": why, "rule": null });
    };
    let (verdict, chosen, (why, rule)) = verdict(&lookup, now);
    let bypass = cache_key::control(route).and_then(|control| control.bypass.applies(method, &target.target, headers));
    let mut told = json!({
        "key": target.text(),
        "verdict": verdict,
        "why": why,
        "rule": rule,
        "asks_redis": shared.common.second.is_some() && matches!(lookup, Lookup::Miss(_) | Lookup::Stale(..)),
        "bypassed_by": bypass.map(|key| format!("bypass.{key}")),
        "stored": chosen.map(|stored| self::stored(stored, rules, now)),
        "default_ttl_seconds": rules.default_ttl.map(|ttl| ttl.as_secs_f64()),
        "route": self::rules(route, rules),
        "not_stored_so_far": not_stored(route),
    });
    if let (Value::Object(told), Ok(key)) = (&mut told, CacheKey::of(cache_key::control(route), target.url(), headers))
    {
        told.extend(of_key(cache, &key, target, rules, chosen, now));
    }
    told
}

/// What is known of the key itself.
fn of_key(
    cache: &Cache,
    key: &CacheKey<'_>,
    asked: &Target,
    rules: &RouteRules,
    chosen: Option<&Stored>,
    now: Timestamp,
) -> Map<String, Value> {
    let key = key.as_key();
    let url = format!("{}://{}{}", key.scheme, key.authority, key.target);
    let text = if key.extra.is_empty() { url } else { format!("{url} {}", key.extra) };
    let parts = json!({
        "scheme": key.scheme,
        "authority": key.authority,
        "target": key.target,
        "fields": key.extra.split(' ').filter(|part| !part.is_empty()).collect::<Vec<_>>(),
        "left_out": left_out(&asked.target, key.target),
    });
    let variants = cache.variants(&key);
    let variants: Vec<Value> = variants
        .iter()
        .map(|one| {
            let mut told = stored(one, rules, now);
            told["chosen"] = chosen.is_some_and(|chosen| std::ptr::eq(chosen, &**one)).into();
            told
        })
        .collect();
    let last = cache.last_unstored(&key, now);
    let last = last.map(|(why, seconds)| json!({ "why": why.as_str(), "seconds_ago": seconds }));
    Map::from_iter([
        ("key".to_owned(), text.into()),
        ("key_parts".to_owned(), parts),
        ("variants".to_owned(), variants.into()),
        ("last_not_stored".to_owned(), last.unwrap_or_default()),
    ])
}

/// The parameters of the query that are not in the key.
fn left_out<'a>(asked: &'a str, kept: &str) -> Vec<&'a str> {
    let query = |target: &'_ str| target.split_once('?').map_or(0, |(path, _)| path.len() + 1);
    let mut kept: Vec<&str> = kept[query(kept)..].split('&').collect();
    let Some((_, asked)) = asked.split_once('?') else { return Vec::new() };
    let is_out = |one: &&str| match kept.iter().position(|kept| kept == one) {
        Some(place) => {
            kept.swap_remove(place);
            false
        }
        None => true,
    };
    asked.split('&').filter(is_out).collect()
}

fn verdict(lookup: &Lookup, now: Timestamp) -> (&'static str, Option<&Stored>, (&'static str, &'static str)) {
    match lookup {
        Lookup::Hit(stored) if stored.ttl_s(now) < 0 => {
            ("hit", Some(stored), ("stale, but not staler than the request accepts", "RFC 9111 §5.2.1.2"))
        }
        Lookup::Hit(stored) => ("hit", Some(stored), ("a stored answer is fresh", "RFC 9111 §4.2")),
        Lookup::StaleWhileRevalidate(stored) => (
            "stale-while-revalidate",
            Some(stored),
            ("stale, and the service lets it be used while it is revalidated", "RFC 5861 §3"),
        ),
        // Purges and replaced records say so, not its age.
        Lookup::Stale(stored, Forward::Stale) if stored.ttl_s(now) > 0 => (
            "stale",
            Some(stored),
            (
                "the stored answer is fresh, but to be validated: it says no-cache, was purged softly, or may have been replaced in cache.redis",
                "RFC 9111 §5.2.2.4",
            ),
        ),
        Lookup::Stale(stored, why) => ("stale", Some(stored), rule(*why)),
        Lookup::Miss(why) => ("miss", None, rule(*why)),
        Lookup::Bypass(why) => ("bypass", None, rule(*why)),
        Lookup::OnlyIfCached => (
            "only-if-cached",
            None,
            ("nothing usable is stored, and the request wants nothing else: 504", "RFC 9111 §5.2.1.7"),
        ),
    }
}

fn stored(stored: &Stored, rules: &RouteRules, now: Timestamp) -> Value {
    let report = stored.report(rules, now);
    json!({
        "status": report.status.as_u16(),
        "body_bytes": report.body_bytes,
        "weight_bytes": report.weight_bytes,
        "tier": "memory",
        "age_seconds": report.age_s,
        "lifetime_seconds": report.lifetime_s,
        "lifetime_by": report.lifetime_by,
        "ttl_seconds": stored.ttl_s(now),
        "no_cache": report.no_cache,
        "must_revalidate": report.must_revalidate,
        "vary": report.vary.into_iter().map(|(name, value)| (name, value.into())).collect::<Map<_, _>>(),
        "tags": report.tags,
        "validators": report.validators.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>(),
    })
}

/// What the route says, by the keys of its section; only what it does say.
fn rules(route: &Route, rules: &RouteRules) -> Value {
    let mut said = Map::new();
    let seconds = |time: std::time::Duration| Value::from(time.as_secs_f64());
    let mut say = |key: &str, value: Value| {
        let is_nothing = value.as_array().is_some_and(Vec::is_empty) || value.is_null();
        if !is_nothing {
            said.insert(key.to_owned(), value);
        }
    };
    say("default_ttl_seconds", rules.default_ttl.map(seconds).unwrap_or_default());
    say("max_ttl_seconds", rules.max_ttl.map(seconds).unwrap_or_default());
    let errors: Map<_, _> = rules.errors.iter().map(|(status, time)| (status.to_string(), seconds(time))).collect();
    say("errors_seconds", if errors.is_empty() { Value::Null } else { errors.into() });
    say("store.max_object_bytes", rules.max_object_bytes.into());
    let Some(control) = cache_key::control(route) else { return said.into() };
    let QueryRules { parameters, sort } = &control.key.query;
    let names =
        |list: &pilotlight_cache::NamePatterns| Value::from(list.0.iter().map(ToString::to_string).collect::<Vec<_>>());
    say("key.sort_query", if *sort { true.into() } else { Value::Null });
    match parameters {
        Parameters::All => {}
        Parameters::Except(list) => say("key.ignore_query", names(list)),
        Parameters::Only(list) if list.is_empty() => say("key.only_query", "none".into()),
        Parameters::Only(list) => say("key.only_query", names(list)),
    }
    say("key.cookies", control.key.cookies.clone().into());
    let headers = |list: &[http::HeaderName]| Value::from(list.iter().map(ToString::to_string).collect::<Vec<_>>());
    say("key.headers", headers(&control.key.headers));
    say("bypass.methods", control.bypass.methods.iter().map(ToString::to_string).collect::<Vec<_>>().into());
    say("bypass.cookies", names(&control.bypass.cookies));
    say("bypass.headers", headers(&control.bypass.headers));
    say("bypass.query", names(&control.bypass.query));
    say("store.types", control.store.types.clone().into());
    let statuses = control.store.statuses.map(|set| set.ranges());
    say("store.statuses", statuses.unwrap_or_default().into());
    said.into()
}

/// Why answers of this route were not stored, and how often.
fn not_stored(route: &Route) -> Value {
    let sums = Sums::of(&route.series);
    let some = Unstored::ALL.iter().zip(&sums.unstored).filter(|(_, count)| **count > 0);
    some.map(|(why, count)| (why.as_str().to_owned(), Value::from(*count))).collect::<Map<_, _>>().into()
}

fn rule(why: Forward) -> (&'static str, &'static str) {
    match why {
        Forward::Method => ("only answers to GET and HEAD are stored", "RFC 9111 §3"),
        Forward::RequestBody => ("the request has a body, which the cache key does not cover", "RFC 9111 §2"),
        Forward::UriMiss => ("nothing is stored for this target", "RFC 9111 §4"),
        Forward::VaryMiss => ("what is stored was made for other values of the fields in Vary", "RFC 9111 §4.1"),
        Forward::Stale => ("the stored answer is stale, or must always be validated", "RFC 9111 §4.2, §5.2.2.4"),
        Forward::Request => ("the request's own Cache-Control does not accept what is stored", "RFC 9111 §5.2.1"),
        Forward::Credentials => (
            "the stored answer is fresh by an assumed lifetime only (the route's, or a heuristic one), which does not count for requests with Cookie or Authorization",
            "stricter than RFC 9111 §3.5",
        ),
        Forward::Disabled => ("the cache is switched off", ""),
        Forward::Rule => ("a rule of the route sends the request past the cache", ""),
        Forward::KeyTooLong => ("its cookies and fields are too long for the key", "at most 4096 bytes"),
    }
}
