//! What is known of a stored response, for people who ask.

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};

use crate::policy::directives::{ResponseDirectives, Seconds};
use crate::policy::freshness::Source;
use crate::policy::{RouteRules, Timestamp};
use crate::stored::Stored;

/// The fields that hold tags and groups.
const TAG_FIELDS: [&str; 3] = ["cache-tag", "surrogate-key", "cache-groups"];

/// A stored response at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its status.
    pub status: StatusCode,
    /// Bytes of its body.
    pub body_bytes: usize,
    /// Bytes of memory that it counts for.
    pub weight_bytes: usize,
    /// RFC 9111 §4.2.3
    pub age_s: u64,
    /// RFC 9111 §4.2.1, as far as the route allows.
    pub lifetime_s: u64,
    /// What gave the lifetime: a directive, a field, or a setting of the route.
    pub lifetime_by: &'static str,
    /// It must not be used without asking, even fresh.
    pub no_cache: bool,
    /// It must not be used stale.
    pub must_revalidate: bool,
    /// The request fields that it was selected by, with the values it was made for, `None` for an absent one.
    pub vary: Vec<(String, Option<String>)>,
    /// The values of its fields with tags and groups, by which it can be purged.
    pub tags: Vec<String>,
    /// `ETag` and `Last-Modified`, as far as it has them.
    pub validators: Vec<(&'static str, String)>,
}

impl Stored {
    /// Describes the response, for a route of these rules.
    pub fn report(&self, rules: &RouteRules, now: Timestamp) -> Report {
        let freshness = self.freshness();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let validator = |name| Some(text(self.headers().get(name)?.as_bytes()));
        let given = match freshness.source {
            Source::Route if rules.errors.of(self.status()).is_some() => "errors of the route",
            Source::Route => "default_ttl of the route",
            Source::Heuristic => "max_heuristic, from Last-Modified",
            Source::Targeted => "a targeted field",
            Source::Response => lifetime_by(self.headers()),
        };
        let is_cut = rules.max_ttl.is_some_and(|max| u128::from(freshness.lifetime_ms) == max.as_millis());
        Report {
            status: self.status(),
            body_bytes: self.body().len(),
            weight_bytes: self.weight(),
            age_s: freshness.age_s(now),
            lifetime_s: freshness.lifetime_ms / 1000,
            lifetime_by: if is_cut { "max_ttl of the route" } else { given },
            no_cache: freshness.no_cache,
            must_revalidate: freshness.must_revalidate,
            vary: self.vary().fields().map(|(name, value)| (name.to_string(), value.map(text))).collect(),
            tags: TAG_FIELDS
                .iter()
                .flat_map(|name| self.headers().get_all(*name))
                .map(|line| text(line.as_bytes()))
                .collect(),
            validators: [("ETag", validator(ETAG)), ("Last-Modified", validator(LAST_MODIFIED))]
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
        }
    }
}

/// RFC 9111 §4.2.1: the first of these that is there.
fn lifetime_by(headers: &HeaderMap) -> &'static str {
    let directives = ResponseDirectives::parse(headers);
    if directives.s_maxage != Seconds::Absent {
        "s-maxage"
    } else if directives.max_age != Seconds::Absent {
        "max-age"
    } else if headers.contains_key(http::header::EXPIRES) {
        "Expires"
    } else {
        "no-cache"
    }
}
