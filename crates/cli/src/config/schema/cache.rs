//! The keys of the cache.

use super::key::{A_LIST, A_SECTION, A_SIZE, A_TIME, A_TIME_OR_NONE, Key, TRUE_OR_FALSE, key};

/// The keys of `[cache]`.
pub const CACHE: &[Key] = &[
    key("memory", A_SIZE, "\"64MiB\"", &["size", "max_size", "max_memory", "max_bytes"]),
    key("max_object", A_SIZE, "\"1MiB\"", &["max_object_size", "object_size", "max_entry"]),
    key("keep_tags", TRUE_OR_FALSE, "false", &["pass_tags", "expose_tags", "tags"]),
    key("targets", "a list of strings", "[\"CDN-Cache-Control\"]", &["target_list", "targeted", "target"]),
    key("max_heuristic", A_TIME_OR_NONE, "\"1d\"", &["heuristic", "heuristics", "heuristic_freshness"]),
    key("stale_if_error", A_TIME_OR_NONE, "\"1h\"", &["use_stale", "proxy_cache_use_stale", "grace", "keep_stale"]),
    key("language_order", "\"counts\" or \"ignored\"", "\"ignored\"", &["accept_language"]),
    key("finish_abandoned", TRUE_OR_FALSE, "true", &["complete_abandoned", "ignore_client_abort", "background_fetch"]),
    key(
        "redis",
        A_SECTION,
        "{ url = \"redis+cluster://10.0.0.1,10.0.0.2\" }",
        &["valkey", "shared", "l2", "second_tier"],
    ),
];

/// The keys of `[cache.redis]`.
pub const CACHE_REDIS: &[Key] = &[
    key(
        "url",
        "a string",
        "\"redis+cluster://10.0.0.1,10.0.0.2\"",
        &["urls", "server", "servers", "address", "host", "nodes"],
    ),
    key("prefix", "a string", "\"pilotlight\"", &["namespace", "key_prefix"]),
    key("budget", A_TIME, "\"5ms\"", &["timeout", "read_timeout", "max_wait"]),
    key("lease", "a time with its unit, or \"none\"", "\"3s\"", &["lock", "lock_timeout", "collapse"]),
    key("queue", "a number", "1024", &["max_queue", "write_queue"]),
    key("queue_memory", A_SIZE, "\"16MiB\"", &["queue_size", "max_queue_bytes"]),
    key("keep_stale", A_TIME, "\"60s\"", &["grace", "stale", "keep"]),
];

/// The keys of `[routes.cache]`.
pub const ROUTE_CACHE: &[Key] = &[
    key("default_ttl", A_TIME, "\"5s\"", &["ttl", "lifetime", "default_lifetime", "proxy_cache_valid"]),
    key("max_ttl", A_TIME, "\"1h\"", &["max_lifetime", "max_age", "s_maxage"]),
    key("errors", "a time with its unit, or a table of statuses", "\"5s\"", &["negative", "negative_ttl", "error_ttl"]),
    key("key", A_SECTION, "{ ignore_query = [\"utm_*\"] }", &["cache_key", "keys", "vary"]),
    key("bypass", A_SECTION, "{ cookies = [\"session\"] }", &["skip", "no_cache", "proxy_cache_bypass", "pass"]),
    key("store", A_SECTION, "{ types = [\"text/*\"] }", &["storing", "cacheable", "only"]),
];

/// The keys of `[routes.cache.key]`.
pub const ROUTE_CACHE_KEY: &[Key] = &[
    key("sort_query", TRUE_OR_FALSE, "true", &["sort", "query_sort", "query_string_sort"]),
    key("ignore_query", A_LIST, "[\"utm_*\", \"fbclid\"]", &["ignore", "query_ignore", "exclude", "ignore_params"]),
    key("only_query", A_LIST, "[\"page\", \"q\"]", &["only", "allow", "include", "query", "query_allow", "params"]),
    key("cookies", A_LIST, "[\"theme\"]", &["cookie"]),
    key("headers", A_LIST, "[\"accept-language\"]", &["header", "fields"]),
];

/// The keys of `[routes.cache.bypass]`.
pub const ROUTE_CACHE_BYPASS: &[Key] = &[
    key("methods", A_LIST, "[\"HEAD\"]", &["method"]),
    key("cookies", A_LIST, "[\"session\", \"wordpress_*\"]", &["cookie"]),
    key("headers", A_LIST, "[\"x-preview\"]", &["header", "fields"]),
    key("query", A_LIST, "[\"preview\"]", &["params", "parameters", "args"]),
];

/// The keys of `[routes.cache.store]`.
pub const ROUTE_CACHE_STORE: &[Key] = &[
    key("statuses", "a list of statuses", "[\"2xx\", 404]", &["status", "codes"]),
    key("types", A_LIST, "[\"text/*\", \"image/png\"]", &["content_types", "content_type", "mime_types"]),
    key("max_object", A_SIZE, "\"64KiB\"", &["max_object_size", "object_size", "max_size"]),
];
