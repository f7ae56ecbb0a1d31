//! The keys for access and limits of a route.

use super::key::{A_LIST, A_SECTION, A_STRING, A_TIME, Key, TRUE_OR_FALSE, key};

/// The keys of `[routes.allow]`.
pub const ROUTE_ALLOW: &[Key] = &[
    key("networks", A_LIST, "[\"10.0.0.0/8\"]", &["network", "ips", "ip", "addresses", "cidrs", "source_range"]),
    key(
        "basic",
        "the path of a file",
        "\"users.htpasswd\"",
        &["basic_auth", "users", "htpasswd", "auth_basic_user_file"],
    ),
    key("realm", A_STRING, "\"staff\"", &["auth_basic", "name"]),
    key(
        "jwt",
        A_SECTION,
        "{ jwks = \"https://id.example/jwks.json\" }",
        &["auth_jwt", "jwt_auth", "jwt_authn", "bearer", "token", "oidc", "openid"],
    ),
    key(
        "forward",
        A_SECTION,
        "{ url = \"http://127.0.0.1:9000/auth\" }",
        &["forward_auth", "auth_request", "ext_authz"],
    ),
    key("preflight", TRUE_OR_FALSE, "true", &["cors", "options"]),
];

/// The keys of `[routes.allow.jwt]`.
pub const ROUTE_ALLOW_JWT: &[Key] = &[
    key(
        "jwks",
        "a URL, or the path of a file",
        "\"https://id.example/jwks.json\"",
        &[
            "jwks_uri",
            "jwks_url",
            "jwksurl",
            "remote_jwks",
            "local_jwks",
            "auth_jwt_key_file",
            "auth_jwt_key_request",
            "keys",
            "key",
            "public_key",
            "signing_secret",
        ],
    ),
    key("ca", "the path of a file", "\"ca.pem\"", &["trusted_ca", "root", "cafile", "ca_file", "trusted_certificate"]),
    key(
        "refresh",
        A_TIME,
        "\"10m\"",
        &["cache_duration", "cachettl", "cache_ttl", "ttl", "auth_jwt_key_cache", "every"],
    ),
    key("issuer", "a string or a list of strings", "\"https://id.example\"", &["iss", "issuers", "auth_jwt_require"]),
    key("audience", "a string or a list of strings", "\"shop\"", &["aud", "audiences", "valid_audiences"]),
    key("algorithms", A_LIST, "[\"RS256\", \"ES256\"]", &["alg", "algs", "algorithm", "signing_algorithms"]),
    key("scopes", A_LIST, "[\"read\"]", &["scope", "scp", "required_scopes", "scopes_required"]),
    key(
        "expiry",
        "\"required\" or \"optional\"",
        "\"required\"",
        &["exp", "require_exp", "require_expiration", "claims_to_verify"],
    ),
    key("leeway", A_TIME, "\"60s\"", &["clock_skew", "clock_skew_seconds", "auth_jwt_leeway", "skew", "tolerance"]),
    key(
        "from",
        "\"bearer\", \"header:NAME\" or \"cookie:NAME\"",
        "\"cookie:session\"",
        &["cookie", "header", "from_headers", "from_cookies", "header_names", "cookie_names", "token_source"],
    ),
    key(
        "claims",
        "a table of strings",
        "{ \"X-User\" = \"sub\" }",
        &[
            "claim_to_headers",
            "claims_to_headers",
            "claim_headers",
            "forward_headers",
            "headers",
            "fields",
            "auth_jwt_claim_set",
        ],
    ),
];

/// The keys of `[routes.allow.forward]`.
pub const ROUTE_ALLOW_FORWARD: &[Key] = &[
    key("url", A_STRING, "\"http://127.0.0.1:9000/auth\"", &["address", "uri", "endpoint"]),
    key("ca", "the path of a file", "\"ca.pem\"", &["trusted_ca", "root", "cafile", "ca_file"]),
    key("service", "the name of a service", "\"auth\"", &["upstream", "backend", "to"]),
    key("path", "a path", "\"/verify\"", &["target"]),
    key("fields", A_LIST, "[\"X-User\"]", &["headers", "copy_headers", "response_headers", "auth_response_headers"]),
    key("cache", A_TIME, "\"30s\"", &["ttl", "cache_for"]),
    key("timeout", A_TIME, "\"5s\"", &["max_wait"]),
];

/// The keys of `[routes.deny]`.
pub const ROUTE_DENY: &[Key] =
    &[key("networks", A_LIST, "[\"192.0.2.0/24\"]", &["network", "ips", "ip", "addresses", "cidrs"])];

/// The keys of `[routes.limit]`.
pub const ROUTE_LIMIT: &[Key] = &[
    key("rate", A_STRING, "\"100/s\"", &["requests", "average", "limit", "rps"]),
    key("burst", "a number", "20", &["bursts"]),
    key("by", A_STRING, "\"client\"", &["key", "zone", "per", "group_by"]),
    key("shared", TRUE_OR_FALSE, "true", &["share", "global", "distributed", "redis", "sync"]),
    key("concurrent", "a number", "10", &["limit_conn", "max_concurrent", "connections", "concurrency"]),
    key("bandwidth", A_STRING, "\"1MiB/s\"", &["limit_rate", "throughput", "bytes_per_second"]),
];
