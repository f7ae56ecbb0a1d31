//! The keys of what the operator sees: `[admin]`, `[metrics]`, the logs, `[traces]`.

use super::key::{A_STRING, A_TIME, Key, TRUE_OR_FALSE, key};

/// The keys of `[admin]`.
pub const ADMIN: &[Key] = &[key("socket", A_STRING, "\"admin.sock\"", &["path", "listen"])];

/// The keys of `[metrics]`.
pub const METRICS: &[Key] = &[key("listen", "an address", "\"127.0.0.1:9090\"", &["address", "port", "bind"])];

const PATH: Key = key("path", A_STRING, "\"journald\"", &["file", "output", "to", "destination", "target"]);
const FORMAT: Key = key("format", "\"json\" or \"text\"", "\"json\"", &[]);
const MAX_SIZE: Key = key("max_size", "a size with its unit or \"none\"", "\"100MiB\"", &["rotate", "size"]);
const FACILITY: Key = key(
    "facility",
    "\"user\", \"daemon\", \"local0\", \"local1\", \"local2\", \"local3\", \"local4\", \"local5\", \"local6\" or \"local7\"",
    "\"daemon\"",
    &["syslog_facility"],
);
const SYSLOG_FORMAT: Key = key("syslog_format", "\"rfc3164\" or \"rfc5424\"", "\"rfc5424\"", &["rfc", "protocol"]);

/// The keys of `[log]` and `[service_log]`.
pub const LOG: &[Key] = &[PATH, FORMAT, MAX_SIZE, FACILITY, SYSLOG_FORMAT];

/// The keys of `[access_log]`.
pub const ACCESS_LOG: &[Key] = &[
    key("path", A_STRING, "\"access.log\"", &["file", "output", "to", "destination", "target"]),
    FORMAT,
    key("fields", "a list of strings", "[\"time\", \"status\"]", &["columns"]),
    MAX_SIZE,
    FACILITY,
    SYSLOG_FORMAT,
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
