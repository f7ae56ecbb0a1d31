//! `[routes.cache]`: what a route says about caching beyond on, off and a lifetime.

use std::time::Duration;

use pilotlight_gateway::{
    BypassRules, CacheOptions, ERROR_STATUSES, ErrorLifetimes, KeyRules, NamePattern, NamePatterns, Parameters,
    QueryRules, RouteCache, RouteControl, RouteRules, StatusSet, StoreRules,
};
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Code, Diagnostic, Span};
use super::readers::read_words;
use super::schema::{self, Part};
use super::section::{Field, Section, a_size, a_time, noted};
use super::shown::shown;
use super::value::{HumanTime, Rejected};

/// Statuses that `errors` with a single time is for.
const ALL_ERRORS: [u16; 7] = [404, 410, 500, 501, 502, 503, 504];
/// Request fields that must not be in a key, with the reason.
const REFUSED_HEADERS: [(&str, &str); 7] = [
    ("cookie", "name single cookies in `cookies` instead"),
    ("authorization", "what it unlocks is for one user; a service that wants it shared says `public`"),
    ("proxy-authorization", "it is for this gateway, not for the service"),
    ("host", "every key has it already"),
    ("connection", "it is about the connection, not about the target"),
    ("range", "ranges are cut from whole answers"),
    ("cache-control", "it is a wish for the cache itself"),
];

/// Reads the section.
pub(super) fn read<'a>(at: Span, table: &'a DeTable<'a>, found: &mut Vec<Diagnostic>) -> RouteCache {
    let section = Section::read(Part::RouteCache, "in [routes.cache]", at, table, found);
    let mut rules = RouteRules::default();
    section.set("default_ttl", a_time(&RouteRules::LIFETIME), &mut rules.default_ttl, found);
    section.set("max_ttl", a_time(&RouteRules::LIFETIME), &mut rules.max_ttl, found);
    rules.errors = section.field("errors").map(|field| errors(&field, found)).unwrap_or_default();
    let longest = rules.errors.iter().map(|(_, time)| time).max();
    for (name, time) in [("default_ttl", rules.default_ttl), ("errors", longest)] {
        if let (Some(time), Some(max), Some(field)) = (time, rules.max_ttl, section.field(name))
            && time > max
        {
            let (time, max) = (HumanTime(time), HumanTime(max));
            found.push(
                Diagnostic::error(
                    Code::Conflict,
                    field.at,
                    format!("`{name}` ({time}) is more than `max_ttl` ({max})"),
                )
                .help("lower the one or raise the other"),
            );
        }
    }
    let store = section
        .part("store", Part::RouteCacheStore, "in the route's cache.store", found)
        .map(|section| store(&section, &mut rules, found))
        .unwrap_or_default();
    let key = section
        .part("key", Part::RouteCacheKey, "in the route's cache.key", found)
        .map(|section| key(&section, found))
        .unwrap_or_default();
    let bypass = section
        .part("bypass", Part::RouteCacheBypass, "in the route's cache.bypass", found)
        .map(|section| bypass(&section, found))
        .unwrap_or_default();
    RouteCache::on(rules, RouteControl { key, bypass, store })
}

/// One time for all errors that may have one, or a time for each status or class.
fn errors(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> ErrorLifetimes {
    let mut errors = ErrorLifetimes::default();
    let DeValue::Table(table) = field.value else {
        if let Some(time) = noted(field.time(&RouteRules::LIFETIME), found) {
            errors.insert_all(&ALL_ERRORS, time);
        }
        return errors;
    };
    let mut classes: Vec<(Vec<u16>, Duration)> = Vec::new();
    for (name, value) in table {
        let field = Field { key_at: name.span(), at: value.span(), value: value.get_ref(), ..field.clone() };
        let statuses = match noted(error_statuses(name.get_ref(), &field), found) {
            Some(statuses) => statuses,
            None => continue,
        };
        if let Some(time) = noted(field.time(&RouteRules::LIFETIME), found) {
            classes.push((statuses, time));
        }
    }
    // A status before its class, wherever it stands.
    classes.sort_by_key(|(statuses, _)| std::cmp::Reverse(statuses.len()));
    for (statuses, time) in classes {
        errors.insert_all(&statuses, time);
    }
    errors
}

fn error_statuses(name: &str, field: &Field<'_>) -> Result<Vec<u16>, Diagnostic> {
    let class = match name {
        "4xx" => Some(4),
        "5xx" => Some(5),
        _ => None,
    };
    let statuses: Vec<u16> = ERROR_STATUSES
        .into_iter()
        .filter(|status| class.map_or_else(|| *name == status.to_string(), |class| status / 100 == class))
        .collect();
    if !statuses.is_empty() {
        return Ok(statuses);
    }
    let known: Vec<String> = ERROR_STATUSES.iter().map(u16::to_string).collect();
    let is_status = name.parse::<u16>().is_ok_and(|status| (400..600).contains(&status));
    let message = match is_status {
        true => format!("`errors`: {name} depends on who asks or how, so nobody else may get it from the cache"),
        false => format!("`errors`: {} is not a status of an error", shown(name)),
    };
    Err(Diagnostic::error(Code::BadValue, field.key_at.clone(), message)
        .help(format!("the statuses are {}, and the classes \"4xx\" and \"5xx\" of them", known.join(", "))))
}

fn key(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> KeyRules {
    let (ignored, only) = (section.field("ignore_query"), section.field("only_query"));
    if let (Some(ignored), Some(only)) = (&ignored, &only) {
        let message = "`only_query` and `ignore_query` cannot both be there";
        found.push(
            Diagnostic::error(Code::Conflict, only.key_at.clone(), message)
                .related(ignored.key_at.clone(), "`ignore_query` is")
                .help("name what counts, or what does not count"),
        );
    }
    let parameters = match (ignored, only) {
        (_, Some(field)) => Parameters::Only(patterns(&field, found)),
        (Some(field), None) => Parameters::Except(patterns(&field, found)),
        (None, None) => Parameters::All,
    };
    let mut sort = false;
    section.set("sort_query", Field::boolean, &mut sort, found);
    if let (true, Parameters::Only(only), Some(field)) = (sort, &parameters, section.field("sort_query"))
        && only.is_empty()
    {
        let message = "`sort_query` has no effect: no parameter counts";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help("take it away"));
    }
    KeyRules {
        route: String::new(),
        query: QueryRules { parameters, sort },
        cookies: words(section.field("cookies").as_ref(), found, |word, _| cookie(word)),
        headers: words(section.field("headers").as_ref(), found, |word, _| {
            let refused = REFUSED_HEADERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            match refused {
                Some((name, why)) => Err(Rejected::help(format!("`{name}` cannot be part of a key"), *why)),
                None => header(word),
            }
        }),
    }
}

fn bypass(section: &Section<'_>, found: &mut Vec<Diagnostic>) -> BypassRules {
    let mut names = |name| section.field(name).map(|field| patterns(&field, found)).unwrap_or_default();
    let (cookies, query) = (names("cookies"), names("query"));
    BypassRules {
        methods: words(section.field("methods").as_ref(), found, |word, _| match word {
            "GET" | "HEAD" => word.parse().map_err(|_| Rejected::new(format!("{} is not a method", shown(word)))),
            _ => Err(Rejected::help(
                format!("{} is not GET or HEAD", shown(word)),
                "requests with other methods go past the cache in any case",
            )),
        }),
        cookies,
        headers: words(section.field("headers").as_ref(), found, |word, _| header(word)),
        query,
    }
}

fn store(section: &Section<'_>, rules: &mut RouteRules, found: &mut Vec<Diagnostic>) -> StoreRules {
    let types = words(section.field("types").as_ref(), found, |word, _| media_type(word));
    section.set("max_object", a_size(&CacheOptions::MAX_OBJECT_BYTES), &mut rules.max_object_bytes, found);
    StoreRules { statuses: section.field("statuses").map(|field| statuses(&field, found)), types }
}

/// Statuses as numbers, classes as "2xx".
fn statuses(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> StatusSet {
    let mut set = StatusSet::default();
    let DeValue::Array(list) = field.value else {
        found.push(field.wrong_type());
        return set;
    };
    if list.is_empty() {
        let message = "`statuses` is empty, so nothing would be stored";
        found.push(Diagnostic::error(Code::BadValue, field.at.clone(), message).help("write cache = false instead"));
    }
    for item in list.iter() {
        let status = match item.get_ref() {
            DeValue::Integer(number) => number.as_str().parse().ok().filter(|status| (200..600).contains(status)),
            _ => None,
        };
        let class = item.get_ref().as_str().and_then(|text| match text {
            "2xx" => Some(2),
            "3xx" => Some(3),
            "4xx" => Some(4),
            "5xx" => Some(5),
            _ => None,
        });
        match (status, class) {
            (Some(206 | 304), _) => {
                let message = "206 and 304 go with the answer that they are a part or a confirmation of";
                found.push(Diagnostic::error(Code::BadValue, item.span(), message).help("name 200"));
            }
            (Some(status), _) => set.insert(status),
            (None, Some(class)) => set.insert_class(class),
            (None, None) => {
                let message = "each of `statuses` must be a status from 200 to 599 or a class";
                found.push(Diagnostic::error(Code::BadValue, item.span(), message).help("for example 404, or \"2xx\""));
            }
        }
    }
    set
}

fn patterns(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> NamePatterns {
    NamePatterns(words(Some(field), found, |word, _| {
        word.parse::<NamePattern>().map_err(|why| {
            let help = "write a name as it stands in the request, or its beginning: \"utm_*\"";
            Rejected::help(format!("{} {why}", shown(word)), help)
        })
    }))
}

/// The words of a list, each read by `one`.
pub(super) fn words<T>(
    field: Option<&Field<'_>>,
    found: &mut Vec<Diagnostic>,
    one: impl Fn(&str, &Field<'_>) -> Result<T, Rejected>,
) -> Vec<T> {
    let Some(field) = field else { return Vec::new() };
    let DeValue::Array(list) = field.value else {
        found.push(match field.value {
            DeValue::String(_) => field.wrong_type().help(format!("write it as a list: {} = […]", field.key.name)),
            _ => field.wrong_type(),
        });
        return Vec::new();
    };
    if list.len() > schema::MAX_CACHE_NAMES {
        let (name, length, most) = (field.key.name, list.len(), schema::MAX_CACHE_NAMES);
        let message = format!("`{name}` has {length} entries; at most {most} are allowed");
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message));
        return Vec::new();
    }
    let words = read_words(field, list, found).unwrap_or_default();
    let read = |(word, at): (String, Span)| {
        let field = Field { at, ..field.clone() };
        noted(one(&word, &field).map_err(|wrong| field.rejected(wrong)), found)
    };
    words.into_iter().filter_map(read).collect()
}

/// A cookie's name (RFC 6265 §4.1.1) that no service reads as another one.
pub(super) fn cookie(word: &str) -> Result<String, Rejected> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_good) {
        true => Ok(word.to_owned()),
        false => Err(Rejected::help(
            format!("{} is not the name of a cookie", shown(word)),
            "a name has letters, digits and `-._~`; patterns are for `bypass` only",
        )),
    }
}

fn header<T: std::str::FromStr>(word: &str) -> Result<T, Rejected> {
    word.parse().map_err(|_| Rejected::help(format!("{} is not the name of a field", shown(word)), "see RFC 9110 §5.1"))
}

/// `type/subtype` or `type/*`, in small letters.
fn media_type(word: &str) -> Result<String, Rejected> {
    let is_token =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b));
    match word.split_once('/') {
        Some((class, kind)) if is_token(class) && (kind == "*" || is_token(kind)) => Ok(word.to_ascii_lowercase()),
        _ => Err(Rejected::help(
            format!("{} is not a media type", shown(word)),
            "write it without parameters, for example \"text/html\" or \"image/*\"",
        )),
    }
}
