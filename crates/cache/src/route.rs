//! What a route says about caching, beyond what requests and answers say themselves: what belongs to the key, what goes
//! past the cache, what may be stored.
//!
//! All of it is text that a client chose, read by us and by a service that may read it differently: names in other
//! letters or percent-encoded, `;` instead of `&`, two parameters of one name. Where a rule would take something *out*
//! of the key, a difference in reading would store one request's answer under another's key ("parameter cloaking").
//! Hence:
//!
//! Invariant: what is dropped from a key is dropped only if no service reads anything else into it than its plain name;
//! what is chosen for a key is chosen only from a form that can be read in one way, otherwise the whole of it counts.
//! Invariant: what is looked for to go past the cache is found in every form in which a service may find it.

mod bypass;
mod cookies;
mod extra;
mod names;
mod query;
mod store;

pub use bypass::BypassRules;
pub use extra::{ExtraTooLong, MAX_EXTRA_BYTES};
pub use names::{NamePattern, NamePatterns, PatternError};
pub use query::{Parameters, QueryRules};
pub use store::{StatusSet, StoreRules};

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};

/// A route's rules. The default has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteControl {
    /// What the key is made of.
    pub key: KeyRules,
    /// What goes to the service, whatever is stored.
    pub bypass: BypassRules,
    /// What may be stored of what the RFC allows to store.
    pub store: StoreRules,
}

/// What the key of a route is made of, besides scheme, authority and path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRules {
    /// Which parameters of the query count.
    pub query: QueryRules,
    /// Cookies whose values belong to the key.
    pub cookies: Vec<String>,
    /// Request fields whose values belong to the key.
    pub headers: Vec<HeaderName>,
    /// What tells the route from others that take the same URL; empty: nothing has to.
    pub route: String,
}

impl KeyRules {
    /// The target as it stands in the key: borrowed where the rules change nothing.
    pub fn target<'a>(&self, target: &'a str) -> Cow<'a, str> {
        self.query.canonical(target)
    }

    /// Whether keys hold more than the URL, so that one URL may have many.
    pub fn has_extra(&self) -> bool {
        !(self.cookies.is_empty() && self.headers.is_empty() && self.route.is_empty())
    }

    /// What the key holds of the request's fields, for [`crate::Key::extra`]: empty if the rules name none.
    ///
    /// # Errors
    /// The values are too long for a key.
    pub fn extra(&self, request: &HeaderMap) -> Result<String, ExtraTooLong> {
        extra::extra(&self.route, &self.cookies, &self.headers, request)
    }

    /// Whether the key holds every cookie of the request: a response that varies on `Cookie` varies on nothing then
    /// that the key does not have.
    pub fn covers_cookies(&self, request: &HeaderMap) -> bool {
        !self.cookies.is_empty() && cookies::are_all_chosen(request, &self.cookies)
    }
}
