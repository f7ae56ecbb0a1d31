//! The keys of `[limits]`.

use super::key::{A_SIZE, A_TIME, A_TIME_OR_NONE, Key, key};

/// The keys of `[limits]`.
pub const LIMITS: &[Key] = &[
    key("header_size", A_SIZE, "\"32KiB\"", &["max_header_size", "large_client_header_buffers", "headers"]),
    key("header_count", "a number", "100", &["max_headers", "max_header_count"]),
    key(
        "body_size",
        "a size with its unit or \"none\"",
        "\"10MiB\"",
        &["max_body_size", "client_max_body_size", "max_body"],
    ),
    key("json_look_ahead", A_SIZE, "\"64KiB\"", &["look_ahead", "json_size", "client_body_buffer_size"]),
    key("header_timeout", A_TIME, "\"10s\"", &["client_header_timeout", "read_timeout"]),
    key("body_timeout", A_TIME, "\"30s\"", &["client_body_timeout", "send_timeout", "write_timeout"]),
    key("keepalive_timeout", A_TIME, "\"75s\"", &["idle_timeout", "keep_alive", "keepalive", "keep_alive_timeout"]),
    key("response_timeout", A_TIME, "\"60s\"", &["timeout", "proxy_read_timeout", "request_timeout"]),
    key("response_body_timeout", A_TIME_OR_NONE, "\"60s\"", &["stream_timeout", "stream_idle_timeout"]),
    key("shutdown_timeout", A_TIME, "\"10s\"", &["shutdown_grace", "grace_period"]),
    key("handshake_timeout", A_TIME, "\"10s\"", &["ssl_handshake_timeout", "tls_timeout"]),
    key("handshakes", "a number", "1024", &["max_handshakes", "max_tls_handshakes"]),
    key("connections", "a number", "10000", &["max_connections", "worker_connections", "maxconn"]),
    key(
        "streams",
        "a number",
        "100",
        &["max_concurrent_streams", "concurrent_streams", "http2_max_concurrent_streams"],
    ),
    key("queue", "a number", "1024", &["max_queue", "backlog"]), // deprecated: the default of each service's `queue.max`
];
