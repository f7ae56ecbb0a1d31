//! The keys of services.

use super::key::{
    A_NUMBER_OR_NONE, A_PATH_LIST, A_SECTION, A_SIZE, A_STRING, A_TIME, A_TIME_OR_NONE, Key, TRUE_OR_FALSE, key,
};

/// The keys of `[services.NAME]`.
pub const SERVICE: &[Key] = &[
    key(
        "command",
        "a list of strings, or a string",
        "[\"./app\", \"--flag\"]",
        &["cmd", "exec", "run", "executable", "start", "program"],
    ),
    key(
        "url",
        "a string or a list of strings",
        "\"http://127.0.0.1:9000\"",
        &["upstream", "target", "proxy_pass", "uri", "backend", "servers", "urls", "upstreams", "backends"],
    ),
    key(
        "container",
        A_SECTION,
        "{ image = \"app:1\", port = 8080 }",
        &["docker", "podman", "image", "compose", "containers"],
    ),
    key("balance", A_SECTION, "{ by = \"client\" }", &["lb_policy", "load_balancing", "lb", "loadbalancer"]),
    key("spill", A_SECTION, "{ to = \"app-elsewhere\" }", &["overflow", "burst", "fallback", "backup"]),
    key("dns", A_SECTION, "{ max_ttl = \"1m\" }", &["resolver", "resolvers", "resolve", "dynamic"]),
    key("max_connections", A_NUMBER_OR_NONE, "100", &["maxconn", "max_conns", "max_conn"]),
    key("proxy_protocol", "\"v1\" or \"v2\"", "\"v2\"", &["send_proxy", "send-proxy", "send-proxy-v2", "proxy_header"]),
    key("tls", A_SECTION, "{ ca = \"ca.pem\" }", &["tls_client", "upstream_tls", "server_tls"]),
    key(
        "transport",
        "\"pipe\", \"http\", \"h2c\", \"fastcgi\", \"scgi\", \"uwsgi\", \"lambda\" or \"stdio\"",
        "\"pipe\"",
        &["mode", "protocol", "communication_mode", "type"],
    ),
    key("socket", "\"unix\", \"tcp\" or \"port\"", "\"unix\"", &["listen"]),
    key("cgi", A_SECTION, "{ root = \"public\", fallback = \"index.php\" }", &["fastcgi", "php", "php_fastcgi"]),
    key("lambda", A_SECTION, "{ events = \"v1\" }", &["aws_lambda", "function", "serverless"]),
    key("stdio", A_SECTION, "{ max_processes = 4 }", &["mcp", "jsonrpc", "json_rpc", "mcp_server"]),
    key("dir", A_STRING, "\"services/app\"", &["cwd", "directory", "working_dir", "workdir", "folder", "chdir"]),
    key("releases", "a path", "\"/srv/app\"", &["release_dir", "deploy_to", "releases_dir", "release_folder"]),
    key("keep_releases", "a number", "5", &["keep", "retain_containers", "releases_to_keep"]),
    key(
        "health",
        "a path, or a section",
        "\"/healthz\"",
        &["health_check", "healthcheck", "health_uri", "health_path", "readiness"],
    ),
    key("env", "a table of strings", "{ NAME = \"value\" }", &["environment", "vars"]),
    key(
        "inherit_env",
        "true, false, or a list of strings",
        "[\"SSL_CERT_FILE\"]",
        &["pass_env", "pass_environment", "clear_env", "inherit_environment"],
    ),
    key(
        "preload",
        "a list of strings",
        "[\"flask\"]",
        &["preload_app", "zygote", "preload_modules", "import", "imports"],
    ),
    key("preload_at", "\"boot\" or \"first\"", "\"boot\"", &["lazy", "lazy_apps"]),
    key("start_timeout", A_TIME, "\"10s\"", &["startup_timeout", "ready_timeout"]),
    key("idle_timeout", "a time with its unit or \"none\"", "\"15m\"", &["idle", "ttl"]),
    key("freeze_after", A_TIME_OR_NONE, "\"30s\"", &["freeze", "suspend_after", "pause_after"]),
    key("drain_timeout", A_TIME, "\"30s\"", &["drain"]),
    key("stop_grace", A_TIME, "\"10s\"", &["stop_timeout", "kill_timeout", "grace_period", "stopwaitsecs"]),
    key(
        "restart",
        "\"start-first\" or \"stop-first\"",
        "\"stop-first\"",
        &["restart_order", "update_order", "strategy"],
    ),
    key("min_instances", "0 or 1", "0", &["min", "always_on"]),
    key(
        "max_instances",
        "a number",
        "4",
        &["max", "instances", "replicas", "max_workers", "max_children", "max_processes", "max_replicas"],
    ),
    key("concurrency", A_NUMBER_OR_NONE, "10", &["max_concurrency", "max_concurrent_requests", "threads", "target"]),
    key("spare", "0 or 1", "1", &["spares", "min_spare_servers", "warm"]),
    key("queue", "a section", "{ max = 100, timeout = \"5s\" }", &["max_queue", "queue_size", "backlog"]),
    key("scale_up_after", A_TIME, "\"100ms\"", &["scale_up", "spawn_after"]),
    key("scale_down_after", A_TIME, "\"1m\"", &["scale_down", "scale_down_delay", "process_idle_timeout"]),
    key("max_requests", A_NUMBER_OR_NONE, "10000", &["max_jobs", "requests"]),
    key("max_age", A_TIME_OR_NONE, "\"1d\"", &["max_lifetime", "max_worker_lifetime", "lifetime"]),
    key("max_memory", "a size with its unit or \"none\"", "\"512MiB\"", &["max_rss", "reload_on_rss", "memory"]),
    key("max_request_time", A_TIME_OR_NONE, "\"30s\"", &["request_timeout", "harakiri", "request_terminate_timeout"]),
    key("max_failures", "a number", "3", &["failures", "max_fails", "max_retries"]),
    key("user", "a name or a number", "\"www-data\"", &["uid", "run_as", "runas"]),
    key("group", "a name or a number", "\"www-data\"", &["gid"]),
    key("in_group", "the name of a group", "\"models\"", &["group_name", "member_of", "budget", "share", "pool"]),
    key("group_memory", A_SIZE, "\"8GiB\"", &["weight", "vram", "memory_weight", "group_weight"]),
    key("env_file", "a path or a list of paths", "\".env\"", &["envfile", "environment_file", "dotenv", "env_files"]),
    key("secrets", "a table of paths", "{ DB_PASSWORD = \"db.key\" }", &["secret", "credentials", "load_credential"]),
    key("limits", A_SECTION, "{ open_files = 1024 }", &["limit", "rlimits", "ulimits", "ulimit"]),
    key("cgroup", A_SECTION, "{ memory = \"512MiB\", cpu = 1.5 }", &["cgroups", "resources", "slice"]),
    key("sandbox", "\"none\" or \"strict\"", "\"strict\"", &["isolation", "jail", "confinement"]),
    key("sandbox_read", A_PATH_LIST, "[\"/opt/app\"]", &["read", "read_only_paths", "readable"]),
    key("sandbox_write", A_PATH_LIST, "[\"/var/lib/app\"]", &["write", "read_write_paths", "writable"]),
];

/// The keys of `[groups.NAME]`.
pub const GROUP: &[Key] = &[
    key("max_running", "a number", "1", &["max", "max_instances", "running", "max_services", "limit"]),
    key("memory", A_SIZE, "\"20GiB\"", &["max_memory", "budget", "vram", "mem"]),
    key("grace", A_TIME, "\"10s\"", &["grace_period", "min_time", "keep_for", "patience"]),
];

/// The keys of `[services.NAME.container]`.
pub const SERVICE_CONTAINER: &[Key] = &[
    key("image", A_STRING, "\"ghcr.io/example/app:1\"", &["from", "build", "reference"]),
    key("compose", "a path", "\"docker-compose.yml\"", &["file", "compose_file", "docker_compose"]),
    key("service", A_STRING, "\"web\"", &["compose_service"]),
    key("project", A_STRING, "\"shop\"", &["compose_project", "project_name"]),
    key("name", A_STRING, "\"web\"", &["container_name", "id"]),
    key("labels", "a table of strings", "{ app = \"web\" }", &["label", "filter", "filters"]),
    key("port", "a number", "8080", &["ports", "expose", "container_port", "target_port"]),
    key("network", A_STRING, "\"backend\"", &["networks", "network_mode", "net"]),
    key("command", "a list of strings, or a string", "[\"--flag\"]", &["cmd", "args", "arguments"]),
    key("entrypoint", "a list of strings, or a string", "[\"/app\"]", &["exec"]),
    key("volumes", "a list of strings", "[\"/data:/data:ro\"]", &["volume", "mounts", "binds", "mount"]),
    key("pull", "\"missing\", \"always\" or \"never\"", "\"missing\"", &["pull_policy", "image_pull_policy"]),
    key("workdir", A_STRING, "\"/app\"", &["working_dir", "cwd", "dir"]),
    key("read_only", TRUE_OR_FALSE, "true", &["readonly", "read_only_rootfs"]),
    key("init", TRUE_OR_FALSE, "true", &["tini", "reap"]),
];

/// The keys of `[containers]`.
pub const CONTAINERS: &[Key] = &[
    key("socket", "a path", "\"/run/docker.sock\"", &["host", "docker_host", "url", "engine"]),
    key("discover", TRUE_OR_FALSE, "true", &["discovery", "autodiscover", "labels", "watch", "expose_by_default"]),
];

/// The keys of `[services.NAME.cgi]`.
pub const SERVICE_CGI: &[Key] = &[
    key("root", "a folder", "\"public\"", &["document_root", "docroot", "webroot", "folder"]),
    key("links", "a list of strings", "[\"/var/lib/dokuwiki\"]", &["symlinks", "follow_symlinks", "disable_symlinks"]),
    key(
        "index",
        "the name of a file, or a list of names",
        "[\"index.php\", \"index.html\"]",
        &["directory_index", "fastcgi_index"],
    ),
    key("suffix", A_STRING, "\".php\"", &["split", "split_path", "extension", "fastcgi_split_path_info"]),
    key("fallback", "the path of a file", "\"index.php\"", &["try_files", "front_controller", "script"]),
    key(
        "run",
        "a pattern of paths, or a list of patterns",
        "[\"index.php\", \"admin/\"]",
        &["scripts", "allow", "only"],
    ),
    key(
        "params",
        "a table of strings",
        "{ APP_ENV = \"prod\" }",
        &["env", "fastcgi_param", "variables", "uwsgi_param", "scgi_param"],
    ),
    key(
        "sendfile",
        "a table of paths",
        "{ \"/private\" = \"storage\" }",
        &["x_sendfile", "x_accel_redirect", "xsendfile", "accel"],
    ),
    key("keep_connections", "a number", "2", &["keepalive", "keep_conn", "fastcgi_keep_conn"]),
];

/// The keys of `[services.NAME.lambda]`.
pub const SERVICE_LAMBDA: &[Key] = &[
    key(
        "events",
        "\"v2\", \"v1\", \"alb\" or \"alb-multi-value\"",
        "\"v2\"",
        &["event", "format", "payload_format", "payload_format_version"],
    ),
    key("handler", A_STRING, "\"app.handler\"", &["function", "entry", "entrypoint"]),
    key("function_name", A_STRING, "\"hello\"", &["name"]),
    key("memory_size", "a number", "256", &["memory", "mem"]),
    key("region", A_STRING, "\"eu-central-1\"", &["aws_region"]),
    key("account", A_STRING, "\"123456789012\"", &["account_id"]),
    key("max_payload", A_SIZE, "\"6MiB\"", &["payload_size", "max_event", "max_response"]),
    key("max_stream", A_SIZE, "\"20MiB\"", &["stream_size", "max_streamed_response"]),
];

/// The keys of `[services.NAME.stdio]`.
pub const SERVICE_STDIO: &[Key] = &[
    key("mode", "\"mcp\" or \"lines\"", "\"mcp\"", &["protocol", "framing", "type"]),
    key("max_processes", "a number", "16", &["max_sessions", "sessions", "processes", "max_clients"]),
    key("max_line", A_SIZE, "\"16MiB\"", &["max_message", "line_size", "message_size"]),
    key("replay_buffer", A_SIZE, "\"1MiB\"", &["replay", "event_store", "resume_buffer"]),
    key("origins", "a list of strings", "[\"https://app.example\"]", &["allowed_origins", "cors", "allow_origin"]),
];

/// The keys of `[services.NAME.queue]`.
pub const SERVICE_QUEUE: &[Key] = &[
    key("max", "a number", "100", &["size", "length", "limit"]),
    key("timeout", A_TIME, "\"5s\"", &["wait", "max_wait"]),
];

/// The keys of `[services.NAME.balance]`.
pub const SERVICE_BALANCE: &[Key] = &[
    key(
        "by",
        "\"requests\", \"client\", \"header:NAME\", \"cookie:NAME\" or \"sticky:NAME\"",
        "\"client\"",
        &["policy", "algorithm", "method", "lb_policy", "hash"],
    ),
    key("sticky_key", "a path", "\"sticky.key\"", &["sticky_secret", "cookie_secret", "cookie_key"]),
    key("weights", "a list of numbers", "[3, 1]", &["weight", "weighted"]),
    key("max_failures", "a number", "3", &["max_fails", "failures", "consecutive_errors", "unhealthy_threshold"]),
    key("eject_time", A_TIME, "\"10s\"", &["fail_duration", "fail_timeout", "ejection_time", "base_ejection_time"]),
    key("slow_start", A_TIME_OR_NONE, "\"30s\"", &["slowstart", "warm_up", "slow_start_window"]),
    key("retry_percent", "a number", "20", &["retry_budget", "budget_percent"]),
    key("retry_per_second", "a number", "10", &["min_retries_per_second", "min_retry_concurrency", "retry_floor"]),
    key("connect_timeout", A_TIME, "\"2s\"", &["dial_timeout", "proxy_connect_timeout"]),
];

/// The keys of `[services.NAME.dns]`.
pub const SERVICE_DNS: &[Key] = &[
    key("servers", "a list of strings", "[\"10.0.0.53\"]", &["resolvers", "nameservers", "nameserver", "server"]),
    key("min_ttl", A_TIME, "\"1s\"", &["refresh", "min_valid"]),
    key("max_ttl", A_TIME, "\"1m\"", &["valid", "hold", "ttl", "hold_valid"]),
    key("timeout", A_TIME, "\"5s\"", &["resolver_timeout", "resolve_timeout", "timeout_resolve"]),
    key("max_addresses", "a number", "64", &["slots", "max_servers"]),
    key("family", "\"both\", \"ipv4\" or \"ipv6\"", "\"ipv4\"", &["ipv6", "ipv4", "versions", "resolve_prefer"]),
];

/// The keys of `[services.NAME.spill]`.
pub const SERVICE_SPILL: &[Key] = &[
    key("to", A_STRING, "\"app-elsewhere\"", &["service", "url", "servers", "target"]),
    key("queue", A_NUMBER_OR_NONE, "100", &["after", "waiting", "max_waiting"]),
];

/// The keys of `[services.NAME.tls]`.
pub const SERVICE_TLS: &[Key] = &[
    key("ca", "a path", "\"ca.pem\"", &["ca_file", "trusted_ca", "tls_trust_pool", "proxy_ssl_trusted_certificate"]),
    key("server_name", A_STRING, "\"app.internal\"", &["sni", "tls_server_name", "proxy_ssl_name", "verifyhost"]),
    key("certificate", "a path", "\"gateway.pem\"", &["cert", "crt", "proxy_ssl_certificate"]),
    key("key", "a path", "\"gateway.key\"", &["private_key", "proxy_ssl_certificate_key"]),
    key(
        "pins",
        "a list of strings",
        "[\"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"]",
        &["pin", "pinned_keys", "pinnedpubkey", "spki"],
    ),
];

/// The keys of `[services.NAME.health]`.
pub const SERVICE_HEALTH: &[Key] = &[
    key("path", "a path", "\"/healthz\"", &["url", "uri", "target", "endpoint"]),
    key("host", A_STRING, "\"app.example.org\"", &["hostname", "authority"]),
    key("status", "a number, or \"2xx\"", "204", &["code", "expect", "expected_status", "expect_status"]),
    key("timeout", A_TIME, "\"5s\"", &["time", "max_wait"]),
    key("interval", A_TIME, "\"5s\"", &["every", "period", "inter"]),
    key("healthy", "a number", "2", &["rise", "passes", "healthy_threshold"]),
    key("unhealthy", "a number", "3", &["fall", "fails", "unhealthy_threshold"]),
];

/// The keys of `[services.NAME.limits]`.
pub const SERVICE_LIMITS: &[Key] = &[
    key("open_files", "a number", "1024", &["nofile", "max_open_files"]),
    key("processes", "a number", "64", &["nproc", "pids", "max_processes", "tasks_max"]),
    key("cpu_seconds", "a number", "3600", &["cpu_time"]),
    key("file_size", A_SIZE, "\"1GiB\"", &["fsize", "max_file_size"]),
    key("core", A_SIZE, "\"0B\"", &["core_size", "coredump"]),
    key("address_space", A_SIZE, "\"2GiB\"", &["as", "virtual_memory", "vmem"]),
];

/// The keys of `[services.NAME.cgroup]`.
pub const SERVICE_CGROUP: &[Key] = &[
    key("memory", A_SIZE, "\"512MiB\"", &["memory_max", "mem", "memory_limit"]),
    key("cpu", "a number of processors", "1.5", &["cpus", "cpu_quota", "cpu_max"]),
];
