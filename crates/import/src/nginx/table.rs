//! Directives of nginx that are nothing in Pilotlight, with the reason.

const OWN: &str = "the gateway does this itself, or has no use for it";
const STREAMS: &str = "bodies are streamed, in bounded memory";
const TLS: &str = "the gateway chooses ciphers, curves and tickets itself";
const MANAGER: &str = "the service manager says this";

const NOT_NEEDED: [(&str, &[&str]); 8] = [
    (
        OWN,
        &[
            "accept_mutex",
            "aio",
            "chunked_transfer_encoding",
            "connection_pool_size",
            "default_type",
            "directio",
            "disable_symlinks",
            "error_log",
            "etag",
            "events",
            "grpc_http_version",
            "http2",
            "ignore_invalid_headers",
            "if_modified_since",
            "keepalive_requests",
            "limit_conn_log_level",
            "limit_conn_status",
            "limit_req_log_level",
            "limit_req_status",
            "lingering_close",
            "log_not_found",
            "merge_slashes",
            "msie_padding",
            "multi_accept",
            "open_file_cache",
            "open_file_cache_errors",
            "open_file_cache_min_uses",
            "open_file_cache_valid",
            "output_buffers",
            "port_in_redirect",
            "postpone_output",
            "proxy_bind",
            "proxy_connect_timeout",
            "proxy_headers_hash_bucket_size",
            "proxy_headers_hash_max_size",
            "proxy_http_version",
            "proxy_pass_request_body",
            "proxy_pass_request_headers",
            "proxy_send_timeout",
            "proxy_socket_keepalive",
            "real_ip_recursive",
            "recursive_error_pages",
            "request_pool_size",
            "reset_timedout_connection",
            "resolver",
            "resolver_timeout",
            "sendfile",
            "sendfile_max_chunk",
            "server_name_in_redirect",
            "server_names_hash_bucket_size",
            "server_names_hash_max_size",
            "server_tokens",
            "tcp_nodelay",
            "tcp_nopush",
            "types",
            "types_hash_bucket_size",
            "types_hash_max_size",
            "underscores_in_headers",
            "use",
            "variables_hash_bucket_size",
            "variables_hash_max_size",
        ],
    ),
    (
        "the gateway finds the script of a path, and splits it from the path info, itself",
        &["fastcgi_index", "fastcgi_split_path_info"],
    ),
    (
        "a connection for each request, as an idle one holds a process; `cgi.keep_connections` keeps them",
        &["fastcgi_keep_conn"],
    ),
    (
        STREAMS,
        &[
            "client_body_buffer_size",
            "client_body_in_file_only",
            "client_body_temp_path",
            "client_header_buffer_size",
            "grpc_buffer_size",
            "proxy_buffer_size",
            "proxy_buffering",
            "proxy_buffers",
            "proxy_busy_buffers_size",
            "proxy_max_temp_file_size",
            "proxy_request_buffering",
            "proxy_temp_file_write_size",
            "proxy_temp_path",
        ],
    ),
    (
        TLS,
        &[
            "ssl_buffer_size",
            "ssl_ciphers",
            "ssl_dhparam",
            "ssl_early_data",
            "ssl_ecdh_curve",
            "ssl_prefer_server_ciphers",
            "ssl_reject_handshake",
            "ssl_session_cache",
            "ssl_session_tickets",
            "ssl_session_timeout",
            "ssl_stapling",
            "ssl_stapling_verify",
            "ssl_trusted_certificate",
            "ssl_verify_depth",
        ],
    ),
    (
        MANAGER,
        &[
            "daemon",
            "load_module",
            "pid",
            "user",
            "worker_cpu_affinity",
            "worker_priority",
            "worker_rlimit_nofile",
            "worker_shutdown_timeout",
        ],
    ),
    (
        "zstd, brotli and gzip are chosen by what a client takes; files with neighbours (.gz, .br) are sent as those",
        &[
            "brotli_comp_level",
            "brotli_static",
            "gzip_buffers",
            "gzip_comp_level",
            "gzip_disable",
            "gzip_http_version",
            "gzip_proxied",
            "gzip_static",
            "gzip_vary",
        ],
    ),
    (
        "the cache collapses requests, revalidates and uses stale answers by RFC 9111, in memory of [cache]",
        &[
            "proxy_cache_background_update",
            "proxy_cache_lock",
            "proxy_cache_lock_age",
            "proxy_cache_lock_timeout",
            "proxy_cache_methods",
            "proxy_cache_path",
            "proxy_cache_revalidate",
        ],
    ),
];

const NOT_MAPPED: [(&str, &[&str]); 9] = [
    ("only HTTP is served; TCP and mail are for another program", &["stream", "mail"]),
    (
        "nothing is computed: a route has placeholders like {host} and {path}",
        &["set", "map", "geo", "split_clients", "js_import"],
    ),
    ("`fields` in [access_log] says what is logged", &["log_format"]),
    ("`pilotlight status`, and [metrics] for Prometheus", &["stub_status"]),
    ("bodies are not changed", &["sub_filter", "sub_filter_once", "sub_filter_types", "ssi", "addition_types"]),
    ("types of files go by the ends of their names, texts are UTF-8", &["charset", "add_before_body"]),
    (
        "a request that failed is sent again only if that is safe, three times at most",
        &["proxy_next_upstream", "proxy_next_upstream_tries", "proxy_next_upstream_timeout"],
    ),
    ("`stale_if_error` in [cache] is for all routes", &["proxy_cache_use_stale"]),
    ("the key is the URL; [routes.cache.key] says what else counts", &["proxy_cache_key", "proxy_cache_min_uses"]),
];

/// Why a directive is not needed.
pub(super) fn not_needed(name: &str) -> Option<&'static str> {
    find(&NOT_NEEDED, name)
}

/// Why a directive cannot be mapped.
pub(super) fn not_mapped(name: &str) -> &'static str {
    let proxied_tls = ["proxy_ssl_", "grpc_ssl_", "uwsgi_ssl_"].iter().any(|prefix| name.starts_with(prefix));
    match find(&NOT_MAPPED, name) {
        Some(why) => why,
        None if proxied_tls => "services are spoken to without TLS",
        None => "there is no key for it",
    }
}

fn find(table: &[(&'static str, &[&str])], name: &str) -> Option<&'static str> {
    table.iter().find(|(_, names)| names.contains(&name)).map(|(why, _)| *why)
}
