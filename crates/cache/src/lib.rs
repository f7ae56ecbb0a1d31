//! HTTP response cache by RFC 9111: policy, memory tier, collapsing.
