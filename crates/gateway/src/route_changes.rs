//! What a route changes of requests before its service gets them, and of responses before clients get them.

use crate::error_pages::ErrorPages;
use crate::field_rules::FieldRules;
use crate::rewrite::Rewrite;

/// What a route changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteChanges {
    /// Fields of requests, for the service.
    pub request_fields: FieldRules,
    /// Fields of responses, for the client, whoever made them: the service, the cache, or the gateway itself.
    pub response_fields: FieldRules,
    /// The path that the service is asked for, if it is another one than the client's.
    pub rewrite: Option<Rewrite>,
    /// Pages for errors, before the general ones.
    pub errors: ErrorPages,
}

impl RouteChanges {
    /// Whether the service gets something else than the client sent.
    pub(crate) fn changes_requests(&self) -> bool {
        !self.request_fields.is_empty() || self.rewrite.is_some()
    }
}
