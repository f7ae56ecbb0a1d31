//! The keys of `[tls]` and its parts.

use super::key::{A_SECTION, A_STRING, Key, TRUE_OR_FALSE, key};

/// The keys of `[tls]`.
pub const TLS: &[Key] = &[
    key(
        "certificates",
        "a section or a list of sections",
        "{ certificate = \"cert.pem\", key = \"key.pem\" }",
        &["certificate", "cert", "certs", "ssl_certificate", "crt"],
    ),
    key("min_version", "\"1.2\" or \"1.3\"", "\"1.3\"", &["ssl_protocols", "protocols", "min_tls_version", "version"]),
    key(
        "client_certificates",
        A_SECTION,
        "{ ca = \"ca.pem\", mode = \"required\" }",
        &["client_auth", "ssl_verify_client", "mtls", "ssl_client_certificate"],
    ),
    key(
        "acme",
        "a section, or true or false",
        "{ email = \"ops@example.org\" }",
        &["letsencrypt", "auto", "automatic", "lets_encrypt"],
    ),
];

// What `acme` says of each of its authorities.
const DIRECTORY: Key =
    key("directory", A_STRING, "\"https://acme.example/directory\"", &["server", "url", "ca_url", "caserver"]);
const CA: Key = key("ca", A_STRING, "\"root.pem\"", &["ca_root", "root", "roots", "trusted_roots", "cacert"]);
const EAB: Key = key(
    "eab",
    A_SECTION,
    "{ kid = \"kid-1\", key_file = \"eab.key\" }",
    &["external_account", "external_account_binding"],
);

/// The keys of `[tls.acme]`.
pub const TLS_ACME: &[Key] = &[
    key("email", A_STRING, "\"ops@example.org\"", &["contact", "mail", "account"]),
    DIRECTORY,
    CA,
    EAB,
    key(
        "fallback",
        "a section or a list of sections",
        "{ directory = \"https://acme.example/dir\" }",
        &["issuers", "others"],
    ),
    key("staging", TRUE_OR_FALSE, "true", &["test", "testing"]),
    key("storage", "\"folder\" or \"redis\"", "\"redis\"", &["store", "cache"]),
    key("folder", A_STRING, "\"certificates\"", &["dir", "path", "directory_cache"]),
    key(
        "on_demand",
        A_SECTION,
        "{ ask = \"http://127.0.0.1:9000/may-have\" }",
        &["on_demand_tls", "ondemand", "demand", "ask"],
    ),
];

/// The keys of `on_demand` in `[tls.acme]`.
pub const TLS_ACME_ON_DEMAND: &[Key] = &[
    key("ask", A_STRING, "\"http://127.0.0.1:9000/may-have\"", &["url", "permission", "endpoint", "check"]),
    key("limit", A_STRING, "\"10/m\"", &["rate", "rate_limit", "burst", "interval"]),
];

/// The keys of an authority in `fallback` of `[tls.acme]`.
pub const TLS_ACME_FALLBACK: &[Key] = &[DIRECTORY, CA, EAB];

/// The keys of `eab` in `[tls.acme]`.
pub const TLS_ACME_EAB: &[Key] = &[
    key("kid", A_STRING, "\"kid-1\"", &["key_id", "id"]),
    key("key_file", A_STRING, "\"eab.key\"", &["key", "hmac", "mac_key", "hmac_key"]),
];

/// The keys of an entry of `certificates` in `[tls]`.
pub const TLS_CERTIFICATE: &[Key] = &[
    key("certificate", A_STRING, "\"cert.pem\"", &["cert", "crt", "chain", "fullchain", "ssl_certificate"]),
    key("key", A_STRING, "\"key.pem\"", &["private_key", "ssl_certificate_key", "keyfile"]),
];

/// The keys of `client_certificates` in `[tls]`.
pub const TLS_CLIENT_CERTIFICATES: &[Key] = &[
    key("ca", A_STRING, "\"ca.pem\"", &["ca_file", "cafile", "authority", "trust", "ssl_client_certificate"]),
    key("mode", "\"required\" or \"optional\"", "\"required\"", &["verify", "require"]),
];
