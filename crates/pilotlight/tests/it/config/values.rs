//! What a valid file means.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderName;
use pilotlight_cli::config::{Config, LogFormat, LogOptions, ServiceKind, Workers, commands, parse};
use pilotlight_gateway::{
    Abandoned, AccessFormat, CacheOptions, CacheSettings, ExternalAddr, ExternalSpec, LanguageOrder, Limits,
    ListenAddr, PolicyOptions, RouteCache, RouteControl, RouteLimit, RouteRules, ServerProtocol, Settings, TagFields,
    TrustForwarded, Upgrades,
};
use pilotlight_logs::{Destination, Facility, Peer, SyslogFormat};
use pilotlight_supervisor::{
    ExpectedStatus, HealthCheck, HttpSocket, InheritEnv, MinInstances, QueueLimits, RecycleLimits, Sandbox,
    ServiceSpec, Spare, Transport,
};

#[track_caller]
fn config(text: &str) -> Config {
    parse(text, Path::new("/etc/pilotlight/pilotlight.toml")).unwrap_or_else(|report| panic!("{report}")).config
}

#[track_caller]
fn managed(config: &Config, index: usize) -> &ServiceSpec {
    match &config.services[index].kind {
        ServiceKind::Managed(spec) => spec,
        ServiceKind::External(external) => panic!("{external:?}"),
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn cache_settings(max_bytes: u64, max_object_bytes: u64) -> CacheSettings {
    CacheSettings {
        memory: CacheOptions { max_bytes, max_object_bytes, tag_fields: TagFields::Removed },
        policy: PolicyOptions::default(),
        abandoned: Abandoned::Finish,
    }
}

#[test]
fn an_empty_file_is_all_defaults() {
    let config = config("");
    assert_eq!(config.listen.len(), 1);
    assert_eq!(config.listen[0].address, ListenAddr::Tcp("127.0.0.1:8080".parse().unwrap()));
    assert_eq!(config.workers, Workers::PerCore);
    assert_eq!(config.cache, Some(cache_settings(64 << 20, 1 << 20)));
    assert_eq!(config.settings, Settings { limits: config.settings.limits.clone(), ..Settings::default() });
    assert!(!config.settings.dev && config.settings.trust_forwarded == TrustForwarded::Nobody);
    assert_eq!(
        config.settings.limits,
        Limits {
            json_look_ahead: 64 << 10,
            header_size: 32 << 10,
            header_count: 100,
            body_size: Some(1 << 30),
            header_timeout: 10 * SECOND,
            body_timeout: 30 * SECOND,
            keepalive_timeout: 75 * SECOND,
            response_timeout: Some(60 * SECOND),
            response_body_timeout: Some(60 * SECOND),
            shutdown_timeout: 10 * SECOND,
            connections: 10_000,
            streams: 100,
            handshake_timeout: 10 * SECOND,
            handshakes: 1024,
        }
    );
    assert!(config.services.is_empty() && config.routes.is_empty());
}

fn full_policy() -> PolicyOptions {
    PolicyOptions {
        targets: ["own-cache-control", "cdn-cache-control"].map(HeaderName::from_static).into(),
        max_heuristic: Some(86_400 * SECOND),
        stale_if_error: Some(3600 * SECOND),
        language_order: LanguageOrder::Ignored,
    }
}

#[test]
fn every_key_of_a_full_file_arrives() {
    let config = config(include_str!("full.toml"));
    let addresses: Vec<String> = config.listen.iter().map(|listener| listener.address.to_string()).collect();
    assert_eq!(addresses, ["http://127.0.0.1:8081", "http://[::1]:8081", "unix:/etc/pilotlight/run/p.sock"]);
    assert_eq!(config.workers, Workers::Exactly(3));
    assert!(config.settings.dev && config.settings.trust_forwarded == TrustForwarded::Everybody);
    let networks: Vec<String> = config.settings.proxy_protocol.listed().iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.0.0.0/8", "2001:db8::/32"]);
    let mut cache =
        CacheSettings { policy: full_policy(), abandoned: Abandoned::Drop, ..cache_settings(8 << 20, 64 << 10) };
    cache.memory.tag_fields = TagFields::Kept;
    assert_eq!(config.cache, Some(cache));
    assert_eq!(
        config.settings.limits,
        Limits {
            json_look_ahead: 128 << 10,
            header_size: 16 << 10,
            header_count: 50,
            body_size: None,
            header_timeout: 2 * SECOND,
            body_timeout: 3 * SECOND,
            keepalive_timeout: 4 * SECOND,
            response_timeout: Some(5 * SECOND),
            response_body_timeout: None,
            shutdown_timeout: Duration::ZERO,
            connections: 77,
            streams: 33,
            handshake_timeout: 6 * SECOND,
            handshakes: 66,
        }
    );
    let names: Vec<&str> = config.services.iter().map(|service| service.name()).collect();
    assert_eq!(names, ["users", "node", "plain", "old", "socket"], "in the order of the file");
}

#[test]
fn services_have_their_paths_joined_to_the_folder_of_the_file() {
    let config = config(include_str!("full.toml"));
    let users = managed(&config, 0);
    assert_eq!(users.argv, ["/etc/pilotlight/services/users/target/release/users", "--db", "users db"]);
    assert_eq!(users.dir, Some(PathBuf::from("/etc/pilotlight/services/users")));
    assert_eq!(users.env, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), String::new())]);
    assert_eq!(users.transport, Transport::Pipe);
    assert_eq!((users.start_timeout, users.stop_grace, users.drain_timeout), (SECOND, 2 * SECOND, 3 * SECOND));
    assert_eq!((users.idle_timeout, users.min_instances), (None, MinInstances::One));

    let node = managed(&config, 1);
    assert_eq!(node.dir.as_deref(), Some(Path::new("/etc/pilotlight")));
    assert_eq!(node.argv, ["node", "app.js", "two words"]);
    assert_eq!(node.transport, Transport::Http(HttpSocket::Tcp));
    assert_eq!((node.idle_timeout, node.min_instances), (Some(900 * SECOND), MinInstances::Zero));
    assert_eq!(node.start_timeout, 10 * SECOND);
    assert_eq!((node.max_instances, node.concurrency, node.spare), (8, Some(20), Spare::One));
    assert_eq!(node.queue, QueueLimits { max: 500, timeout: 2 * SECOND });
    assert_eq!((node.scale_up_after, node.scale_down_after), (SECOND / 20, 300 * SECOND));
    assert_eq!((node.recycle.max_requests, node.recycle.max_age), (Some(10_000), Some(86_400 * SECOND)));
    assert_eq!((node.recycle.max_memory, node.max_request_time), (Some(512 << 20), Some(SECOND * 9 / 10)));
    assert_eq!(node.max_failures, 5);
    let here = |path: &str| Path::new("/etc/pilotlight").join(path);
    let bounds = &node.isolation;
    assert_eq!((bounds.user.as_deref(), bounds.group.as_deref()), (Some("www-data"), Some("33")));
    assert_eq!(bounds.env_files, [here("common.env"), "/etc/node.env".into()]);
    assert_eq!(bounds.secrets, [("DB_PASSWORD".to_owned(), here("db.key"))]);
    let limits = &bounds.limits;
    assert_eq!((limits.open_files, limits.processes, limits.cpu_seconds), (Some(1024), Some(64), Some(3600)));
    assert_eq!((limits.file_size, limits.core, limits.address_space), (Some(1 << 30), Some(0), Some(2 << 30)));
    assert_eq!((bounds.cgroup.memory, bounds.cgroup.cpu_milli), (Some(512 << 20), Some(1500)));
    let (read, write) = (vec!["/opt/app".into()], vec![here("data"), "/var/lib/app".into()]);
    assert_eq!(bounds.sandbox, Sandbox::Strict { read, write });
    assert_eq!(node.inherit_env, Some(InheritEnv::Named(vec!["SSL_CERT_FILE".to_owned()])));
    assert!(users.isolation.is_none() && users.inherit_env.is_none());
    assert_eq!((users.max_instances, users.concurrency, users.spare), (1, None, Spare::None));
    let limits_queue = 64; // of [limits], the default of each service
    assert_eq!(users.queue, QueueLimits { max: limits_queue, timeout: 30 * SECOND });
    assert_eq!((users.max_failures, users.recycle), (3, RecycleLimits::default()));

    assert_eq!(managed(&config, 2).transport, Transport::Http(HttpSocket::Unix));
    assert_eq!(managed(&config, 2).argv, ["/usr/bin/plain"]);
    let upstreams: Vec<&ServiceKind> = config.services[3..].iter().map(|service| &service.kind).collect();
    let external =
        |name: &str, addr, protocol| ServiceKind::External(Box::new(ExternalSpec::one(name, addr, protocol)));
    let tcp = external("old", ExternalAddr::Tcp("localhost".to_owned(), 9000), ServerProtocol::H2c);
    let unix = external("socket", ExternalAddr::Unix("/etc/pilotlight/run/app.sock".into()), ServerProtocol::Http1);
    assert_eq!(upstreams, [&tcp, &unix]);
}

#[test]
fn releases_of_a_service() {
    let spec = |text: &str| managed(&config(&format!("[services.a]\ncommand = [\"bin/a\"]\n{text}")), 0).clone();
    let none = spec("");
    assert_eq!((none.releases, none.keep_releases, none.health), (None, 5, HealthCheck::default()));
    let some = spec("releases = \"srv\"\nkeep_releases = 2\nhealth = \"/up\"");
    assert_eq!(some.releases.as_deref(), Some(Path::new("/etc/pilotlight/srv")));
    assert_eq!(some.dir.as_deref(), Some(Path::new("/etc/pilotlight/srv/current")));
    assert_eq!(some.argv, ["/etc/pilotlight/srv/current/bin/a"]);
    assert_eq!(some.keep_releases, 2);
    // Whoever names a path means one that is answered well.
    let expected = HealthCheck { target: "/up".to_owned(), status: ExpectedStatus::Success, ..HealthCheck::default() };
    assert_eq!(some.health, expected);
    let whole = spec("releases = \"/srv/a\"\nhealth = { host = \"a.example\", status = 204, timeout = \"2s\" }");
    assert_eq!(whole.releases.as_deref(), Some(Path::new("/srv/a")));
    let expected = HealthCheck {
        target: "/".to_owned(),
        host: "a.example".to_owned(),
        status: ExpectedStatus::Exactly(204),
        timeout: 2 * SECOND,
    };
    assert_eq!(whole.health, expected);
    let any = spec("releases = \"/srv/a\"\nhealth.status = \"2xx\"");
    assert_eq!(any.health.status, ExpectedStatus::Success);
}

#[test]
fn the_queue_of_a_service() {
    let limits = |text: &str| managed(&config(&format!("{text}\n[services.a]\ncommand = [\"a\"]")), 0).queue;
    assert_eq!(limits(""), QueueLimits { max: 4096, timeout: 30 * SECOND });
    assert_eq!(limits("[limits]\nqueue = 7"), QueueLimits { max: 7, timeout: 30 * SECOND });
    let own = "queue = { max = 9, timeout = \"20s\" }";
    let config = config(&format!("[limits]\nqueue = 7\n[services.a]\ncommand = [\"a\"]\n{own}"));
    assert_eq!(managed(&config, 0).queue, QueueLimits { max: 9, timeout: 20 * SECOND }, "its own wins");
}

#[test]
fn routes_leave_what_they_do_not_say_to_the_limits() {
    let config = config(include_str!("full.toml"));
    let first = &config.routes[0];
    assert_eq!((first.path.as_str(), first.exact, first.strip_prefix), ("/users", false, false));
    assert_eq!((&first.host, &first.cache, first.timeout), (&None, &RouteCache::default(), None));
    assert_eq!((first.body_size, first.response_timeout), (RouteLimit::General, None));
    assert_eq!(first.response_body_timeout, RouteLimit::General);
    assert_eq!(config.service_of(first).unwrap().name(), "users");
    assert_eq!(first.upgrades, Upgrades::default());
    assert_eq!(config.routes[1].upgrades, Upgrades::of(["websocket".to_owned(), "chat/2".to_owned()]));

    let second = &config.routes[1];
    assert_eq!((second.path.as_str(), second.exact, second.strip_prefix), ("/node/", true, true));
    assert_eq!(second.host.as_deref(), Some("*.example.org"));
    let rules = RouteRules { default_ttl: Some(90 * SECOND), ..RouteRules::default() };
    assert_eq!(second.cache, RouteCache::On { rules, control: None });
    assert_eq!((second.timeout, second.response_timeout), (Some(30 * SECOND), Some(SECOND)));
    assert_eq!(second.response_body_timeout, RouteLimit::Own(Some(7 * SECOND)));
    assert_eq!(second.body_size, RouteLimit::Own(Some(10_000_000)));
    assert_eq!(config.service_of(second).unwrap().name(), "node");

    let third = &config.routes[2];
    assert_eq!((third.host.as_deref(), &third.cache), (Some("a.example.org"), &RouteCache::Off));
}

#[test]
fn a_route_may_have_no_limit_where_there_is_a_general_one() {
    let text = "[services.a]\nurl = \"http://a\"\n[[routes]]\npath = \"/\"\nservice = \"a\"\n\
                body_size = \"none\"\nresponse_body_timeout = \"none\"";
    let route = &config(text).routes[0];
    assert_eq!((route.body_size, route.response_body_timeout), (RouteLimit::Own(None), RouteLimit::Own(None)));
}

#[test]
fn cache_can_be_switched_off_and_on() {
    assert_eq!(config("cache = false").cache, None);
    assert_eq!(config("cache = true").cache, config("").cache);
}

#[test]
fn the_starter_file_shows_the_defaults() {
    let shown = commands::STARTER.replace("# ", "");
    // The commented limits and cache settings, uncommented, are what an empty file means.
    let limits: String = shown.lines().skip_while(|line| *line != "[limits]").take_while(|line| *line != "#").fold(
        String::new(),
        |mut text, line| {
            text.extend([line.split(" # ").next().unwrap().split("   ").next().unwrap(), "\n"]);
            text
        },
    );
    assert!(limits.lines().count() > 5, "{limits}");
    assert_eq!(config(&limits).settings, config("").settings);
    let loaded = parse(commands::STARTER, Path::new("pilotlight.toml")).unwrap();
    assert_eq!(loaded.warnings.diagnostics(), []);
    assert!(loaded.config.settings.dev);
}

#[test]
fn the_cache_rules_of_a_route() {
    let config = config(include_str!("full.toml"));
    let ruled = |index: usize| match &config.routes[index].cache {
        RouteCache::On { rules, control: Some(control) } => (rules, &**control),
        other => panic!("{other:?}"),
    };
    let (rules, control) = ruled(4);
    assert_eq!((rules.default_ttl, rules.max_ttl), (Some(10 * SECOND), Some(3600 * SECOND)));
    assert_eq!(rules.max_object_bytes, Some(64 << 10));
    // A status before its class.
    let errors: Vec<_> = rules.errors.iter().map(|(status, time)| (status, time.as_secs())).collect();
    assert_eq!(errors, [(404, 60), (500, 2), (501, 2), (502, 2), (503, 1), (504, 2)]);
    let RouteControl { key, bypass, store } = control;
    assert_eq!(key.target("/x?utm_a=1&b=2&a=1&fbclid=3"), "/x?a=1&b=2");
    assert_eq!((key.cookies.join(" "), key.headers[0].as_str()), ("theme".to_owned(), "accept-language"));
    assert_eq!(
        (bypass.methods.len(), bypass.cookies.0.len(), bypass.headers.len(), bypass.query.0.len()),
        (1, 1, 1, 1)
    );
    assert_eq!(store.types, ["text/*"]);

    let (rules, control) = ruled(5);
    let lifetimes: Vec<_> = rules.errors.iter().map(|(status, time)| (status, time.as_secs())).collect();
    assert_eq!(lifetimes, [404, 410, 500, 501, 502, 503, 504].map(|status| (status, 5)));
    assert_eq!(control.key.target("/x?a=1"), "/x");
}

#[test]
fn lines_of_services_go_where_the_gateways_do() {
    let logs = |text: &str| {
        let operate = config(text).operate;
        (operate.log, operate.service_log)
    };
    assert_eq!(logs(""), (LogOptions::default(), LogOptions::default()));
    let own = LogOptions {
        destination: Destination::Journal("/etc/pilotlight/j".into()),
        format: LogFormat::Json,
        facility: Facility::Local1,
        ..LogOptions::default()
    };
    let text = "[log]\npath = \"journald:j\"\nformat = \"json\"\nfacility = \"local1\"\n[service_log]\n";
    assert_eq!(logs(text), (own.clone(), own.clone()));
    assert_eq!(logs(&format!("{text}format = \"text\"")).1, LogOptions { format: LogFormat::Text, ..own.clone() });
    let elsewhere = LogOptions {
        destination: Destination::Syslog(Peer::Tcp("h:514".into())),
        syslog_format: Some(SyslogFormat::Rfc3164),
        ..own
    };
    let text = format!("{text}path = \"syslog:tcp://h:514\"\nsyslog_format = \"rfc3164\"");
    assert_eq!(logs(&text).1, elsewhere);
}

#[test]
fn the_text_of_a_message_is_for_people_unless_asked_otherwise() {
    let format = |path: &str, more: &str| {
        let config = config(&format!("[access_log]\npath = \"{path}\"\n{more}"));
        config.operate.access_log.map(|log| log.format)
    };
    assert_eq!(format("a.log", ""), Some(AccessFormat::Json));
    assert_eq!(format("stderr", ""), Some(AccessFormat::Json));
    assert_eq!(format("syslog", ""), Some(AccessFormat::Text));
    assert_eq!(format("journald", "format = \"json\""), Some(AccessFormat::Json));
}
