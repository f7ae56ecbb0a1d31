//! Why answers are not stored, whoever finds out.

/// Why a response was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("not stored: {}", self.as_str())]
pub enum Unstored {
    /// Not the response to a GET.
    Method,
    /// The request had a body, which the cache key does not cover.
    RequestBody,
    /// Informational, 206, 304, 412 or 416.
    Status,
    /// The request says `no-store`.
    RequestNoStore,
    /// The response says `no-store`.
    NoStore,
    /// The response says `private`.
    Private,
    /// The request has `Authorization` and the response does not say that it may be shared.
    Authorization,
    /// The response sets a cookie.
    SetCookie,
    /// `Vary: *`
    VaryAny,
    /// `Vary: Cookie`
    VaryCookie,
    /// More than [`super::MAX_VARY_FIELDS`] fields in `Vary`.
    VaryTooLong,
    /// `Cache-Control`, `Vary` or `Content-Length` cannot be understood.
    Malformed,
    /// Neither the response nor the route gives a freshness lifetime.
    NoFreshness,
    /// Only the route gives a freshness lifetime, and the request has `Cookie` or `Authorization`.
    Credentials,
    /// Stale on arrival and without a validator, so of no use.
    Stale,
    /// Larger than `max_object_bytes`.
    TooLarge,
    /// Too many responses are being recorded at the same time.
    Busy,
    /// The body ended early, or has not the length that was announced.
    Incomplete,
    /// The target was changed by an unsafe request while the response was on its way.
    Invalidated,
    /// The stored response was replaced or evicted while it was being validated.
    Superseded,
    /// The route does not store this status.
    RouteStatus,
    /// The route does not store this media type.
    RouteType,
}

impl Unstored {
    /// Every reason, in the order of their numbers (`why as usize`).
    pub const ALL: [Self; 22] = [
        Self::Method,
        Self::RequestBody,
        Self::Status,
        Self::RequestNoStore,
        Self::NoStore,
        Self::Private,
        Self::Authorization,
        Self::SetCookie,
        Self::VaryAny,
        Self::VaryCookie,
        Self::VaryTooLong,
        Self::Malformed,
        Self::NoFreshness,
        Self::Credentials,
        Self::Stale,
        Self::TooLarge,
        Self::Busy,
        Self::Incomplete,
        Self::Invalidated,
        Self::Superseded,
        Self::RouteStatus,
        Self::RouteType,
    ];

    /// A token for `Cache-Status`'s `detail` and for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::RequestBody => "request-body",
            Self::Status => "status",
            Self::RequestNoStore => "request-no-store",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::SetCookie => "set-cookie",
            Self::VaryAny => "vary-any",
            Self::VaryCookie => "vary-cookie",
            Self::VaryTooLong => "vary-too-long",
            Self::Malformed => "malformed",
            Self::NoFreshness => "no-freshness",
            Self::Credentials => "credentials",
            Self::Stale => "stale-on-arrival",
            Self::TooLarge => "too-large",
            Self::Busy => "busy",
            Self::Incomplete => "incomplete",
            Self::Invalidated => "invalidated",
            Self::Superseded => "superseded",
            Self::RouteStatus => "route-status",
            Self::RouteType => "route-type",
        }
    }

    /// Whether the reason lies in the resource, so that the next response will be no different.
    pub(crate) fn is_lasting(self) -> bool {
        match self {
            Self::NoStore
            | Self::Private
            | Self::SetCookie
            | Self::VaryAny
            | Self::VaryCookie
            | Self::VaryTooLong
            | Self::Malformed
            | Self::NoFreshness
            | Self::Stale
            | Self::TooLarge
            | Self::RouteStatus
            | Self::RouteType => true,
            Self::Method
            | Self::RequestBody
            | Self::Status
            | Self::RequestNoStore
            | Self::Authorization
            | Self::Credentials
            | Self::Busy
            | Self::Incomplete
            | Self::Invalidated
            | Self::Superseded => false,
        }
    }
}
