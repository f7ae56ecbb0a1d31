//! The keys of what the operator sees: `[admin]`, `[metrics]`, `[access_log]`, `[traces]`.

use super::key::{A_STRING, A_TIME, Key, TRUE_OR_FALSE, key};

/// The keys of `[admin]`.
pub const ADMIN: &[Key] = &[key("socket", A_STRING, "\"admin.sock\"", &["path", "listen"])];

/// The keys of `[metrics]`.
pub const METRICS: &[Key] = &[key("listen", "an address", "\"127.0.0.1:9090\"", &["address", "port", "bind"])];

/// The keys of `[access_log]`.
pub const ACCESS_LOG: &[Key] = &[
    key("path", A_STRING, "\"access.log\"", &["file", "output", "to"]),
    key("format", "\"json\" or \"text\"", "\"json\"", &[]),
    key("fields", "a list of strings", "[\"time\", \"status\"]", &["columns"]),
    key("max_size", "a size with its unit or \"none\"", "\"100MiB\"", &["rotate", "size"]),
];

/// The keys of `[traces]`.
pub const TRACES: &[Key] = &[
    key(
        "endpoint",
        A_STRING,
        "\"http://127.0.0.1:4318/v1/traces\"",
        &["url", "collector", "otlp_endpoint", "exporter"],
    ),
    key("sample", "a number from 0 to 1", "0.01", &["ratio", "sample_rate", "sampling", "sampler_arg", "probability"]),
    key(
        "trust_parent",
        "true, false or a list of networks",
        "[\"10.0.0.0/8\"]",
        &["parent_based", "trust_traceparent"],
    ),
    key("service_name", A_STRING, "\"pilotlight\"", &["name", "service"]),
    key("query", TRUE_OR_FALSE, "false", &["url_query", "record_query"]),
    key("headers_file", "the path of a file", "\"traces.headers\"", &["headers", "api_key", "header_file"]),
    key("ca", "the path of a file", "\"collector-ca.pem\"", &["ca_file", "certificate", "root"]),
    key("timeout", A_TIME, "\"10s\"", &["export_timeout"]),
];
