//! From a request to its place in the cache, by the rules of its route.

use std::borrow::Cow;

use http::{HeaderMap, StatusCode};
use pilotlight_cache::{
    Answered, Cache, Forward, Invalidated, Key, Place, RouteControl, RouteRules, Timestamp, Unstored,
};

use crate::options::{RouteCache, RouteSpec};
use crate::path::{is_normal, normalized_target};
use crate::routes::Table;
use crate::target::{RequestUrl, Scheme, key_authority};

/// A key, borrowed as far as the route's rules leave the request as it is.
pub(crate) struct CacheKey<'a> {
    scheme: Scheme,
    authority: Cow<'a, str>,
    target: Cow<'a, str>,
    extra: String,
}

impl<'a> CacheKey<'a> {
    /// The key of a request.
    pub(crate) fn of(
        control: Option<&RouteControl>,
        url: RequestUrl<'a>,
        headers: &HeaderMap,
    ) -> Result<Self, Forward> {
        let Some(control) = control else { return Ok(Self::of_url(None, url)) };
        let mut extra = control.key.extra(headers).map_err(|_| Forward::KeyTooLong)?;
        let key = Self::of_url(Some(control), url);
        extra.push_str(&key.extra);
        Ok(Self { extra, ..key })
    }

    /// The key of a URL whose route puts nothing else into keys.
    ///
    /// A target that is not in normal form is stored under its normal form and its own spelling: a purge of either
    /// finds it, and a service that answers the spelling in another way does not answer for the normal form.
    #[inline]
    pub(crate) fn of_url(control: Option<&RouteControl>, url: RequestUrl<'a>) -> Self {
        let RequestUrl { origin, target } = url;
        if !is_normal(target) {
            let (target, extra) = (keyed(control, target), format!("\n{target}"));
            return Self { scheme: origin.scheme, authority: key_authority(origin), target, extra };
        }
        let target = control.map_or(Cow::Borrowed(target), |control| control.key.target(target));
        Self { target, ..Self::of_normal_url(url) }
    }

    /// The same of a target in normal form, by no rules.
    #[inline]
    pub(crate) fn of_normal_url(url: RequestUrl<'a>) -> Self {
        let RequestUrl { origin, target } = url;
        let authority = key_authority(origin);
        Self { scheme: origin.scheme, authority, target: Cow::Borrowed(target), extra: String::new() }
    }

    pub(crate) fn as_key(&self) -> Key<'_> {
        Key { scheme: self.scheme.as_str(), authority: &self.authority, target: &self.target, extra: &self.extra }
    }
}

/// Path and query in normal form, as the route's rules have them.
#[inline]
fn keyed<'a>(control: Option<&RouteControl>, target: &'a str) -> Cow<'a, str> {
    match (normalized_target(target), control) {
        (target, None) => target,
        (Cow::Borrowed(target), Some(control)) => control.key.target(target),
        (Cow::Owned(target), Some(control)) => Cow::Owned(control.key.target(&target).into_owned()),
    }
}

/// The route's rules, if it has any.
pub(crate) fn control(route: &RouteSpec) -> Option<&RouteControl> {
    match &route.cache {
        RouteCache::On { control, .. } => control.as_deref(),
        RouteCache::Off => None,
    }
}

/// What the route adds to the policy, for a response to this request.
pub(crate) fn rules(route: &RouteSpec, request: &HeaderMap) -> RouteRules {
    match &route.cache {
        RouteCache::On { rules, control } => {
            let cookies_in_key = control.as_ref().is_some_and(|control| control.key.covers_cookies(request));
            let behind_credentials = route.admission.as_ref().is_some_and(|admission| admission.asks_credentials());
            RouteRules { cookies_in_key, behind_credentials, ..*rules }
        }
        RouteCache::Off => RouteRules::default(),
    }
}

/// Why the route does not want a response stored.
pub(crate) fn refuses(route: &RouteSpec, status: StatusCode, response: &HeaderMap) -> Option<Unstored> {
    // RFC 9110 §12.5.5: it depends on more than the fields that the client sent, which is what `*` says.
    if route.changes.as_ref().is_some_and(|changes| changes.request_fields.makes_vary(response)) {
        return Some(Unstored::VaryAny);
    }
    // 304 says nothing of the type, and its status is not what is stored.
    control(route).filter(|_| status != StatusCode::NOT_MODIFIED)?.store.refuses(status, response)
}

/// Takes note of a response to an unsafe request (RFC 9111 §4.4). What it names is looked for where the route of that
/// target has it stored.
pub(crate) fn invalidate(
    cache: &Cache,
    table: &Table,
    url: RequestUrl<'_>,
    answered: Answered<'_>,
    now: Timestamp,
) -> Invalidated {
    let key = CacheKey::of_url(None, url);
    cache.invalidate_as(&key.as_key(), answered, now, |target| place(table, url.origin.authority, target))
}

/// Where the route of a target has stored what answers it.
pub(crate) fn place(table: &Table, authority: &str, target: &str) -> Place {
    let path = target.split('?').next().unwrap_or_default();
    // With conditions, it may be stored for several routes, whose keys have more than the URL.
    let has_conditions = table.has_conditions();
    match table.find(authority, path).and_then(|route| control(route)) {
        None => Place { has_extra: has_conditions, ..Place::of(&normalized_target(target)) },
        Some(control) => Place {
            target: keyed(Some(control), target).into_owned(),
            has_extra: has_conditions || control.key.has_extra(),
        },
    }
}
