use std::time::Duration;

use super::*;
use crate::config::{Overload, ProtocolChoice, ReadFrom, WhenDown};
#[cfg(feature = "rustls")]
use crate::config::{Pem, TlsRoots, TlsServerName};

/// `expected`: `Config`'s display form, then what `select` reads.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "expected values are literals")]
fn check<T: PartialEq + std::fmt::Debug>(url: &str, display: &str, select: impl Fn(&Config) -> T, expected: T) {
    let config = Config::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    assert_eq!(config.to_string(), display, "{url}");
    assert_eq!(select(&config), expected, "{url}");
}

#[track_caller]
fn check_servers(url: &str, display: &str) {
    check(url, display, |_| (), ());
}

/// `culprit` is where the error points, up to its length.
#[track_caller]
fn check_error(url: &str, culprit: &str, message: &str) {
    let error = Config::from_url(url).map(|config| config.to_string()).unwrap_err();
    assert_eq!(error.kind().to_string(), message, "{url}");
    assert!(url[error.position()..].starts_with(culprit), "{url}: points at {:?}", &url[error.position()..]);
    assert!(!error.to_string().contains("s3cret"), "{url}: {error}");
}

/// User and password of fixed credentials.
fn credentials(provider: Option<&Arc<dyn crate::config::CredentialProvider>>) -> Option<(Option<String>, String)> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match provider?.credentials().as_mut().poll(&mut context) {
        std::task::Poll::Ready(Ok(known)) => Some((known.username().map(str::to_owned), known.secret().to_owned())),
        other => panic!("{other:?}"),
    }
}

fn login(username: Option<&str>, password: &str) -> Option<(Option<String>, String)> {
    Some((username.map(str::to_owned), password.to_owned()))
}

#[test]
fn schemes_and_servers() {
    check_servers("redis://", "redis://localhost:6379");
    check_servers("redis:///", "redis://localhost:6379");
    check_servers("redis://example", "redis://example:6379");
    check_servers("REDIS://example:7000", "redis://example:7000");
    check_servers("valkey://example", "redis://example:6379");
    check_servers("redis://10.1.2.3:7000/", "redis://10.1.2.3:7000");
    check_servers("redis://[::1]:7000", "redis://[::1]:7000");
    check_servers("redis://[::1]", "redis://[::1]:6379");
    check_servers("redis://[fe80::1%25eth0]:7000", "redis://[fe80::1%eth0]:7000");
    check_servers("redis://one:1,two:2", "redis://one:1,two:2");
    check_servers("redis+cluster://one:1,[::2]:2,three", "redis+cluster://one:1,[::2]:2,three:6379");
    check_servers("valkey+cluster://one", "redis+cluster://one:6379");
    check_servers("redis+sentinel://one,two:2/main", "redis+sentinel://one:26379,two:2/main/0");
    check_servers("valkey+sentinel://one/my%20main/3", "redis+sentinel://one:26379/my main/3");
    check_servers("unix:///run/redis.sock", "redis+unix:///run/redis.sock");
    check_servers("redis+unix:///run/my%20redis.sock?db=2", "redis+unix:///run/my redis.sock?db=2");
    check_servers("valkey+unix:///run/valkey.sock", "redis+unix:///run/valkey.sock");
}

#[cfg(feature = "rustls")]
#[test]
fn schemes_with_tls() {
    check_servers("rediss://example", "rediss://example:6379");
    check_servers("valkeys://example", "rediss://example:6379");
    check_servers("rediss+cluster://example", "rediss+cluster://example:6379");
    check_servers("valkeys+cluster://example", "rediss+cluster://example:6379");
    check_servers("rediss+sentinel://example/main", "rediss+sentinel://example:26379/main/0");
    check_servers("valkeys+sentinel://example/main", "rediss+sentinel://example:26379/main/0");
    check_servers("rediss+unix:///run/redis.sock?sni=redis", "rediss+unix:///run/redis.sock");
}

#[cfg(not(feature = "rustls"))]
#[test]
fn without_tls() {
    check_error("rediss://example", "rediss", "TLS needs the feature `tls` of pilotlight-redis");
}

#[test]
fn credentials_and_database() {
    #[track_caller]
    fn check_login(url: &str, expected: Option<(Option<String>, String)>, database: u16) {
        check(
            url,
            &Config::from_url(url).unwrap().to_string(),
            |c| (credentials(c.credentials.as_ref()), c.database),
            (expected, database),
        );
    }
    check_login("redis://example", None, 0);
    check_login("redis://@example", None, 0);
    check_login("redis://:s3cret@example", login(None, "s3cret"), 0);
    check_login("redis://alice:s3cret@example/7", login(Some("alice"), "s3cret"), 7);
    check_login("redis://alice:@example", login(Some("alice"), ""), 0);
    check_login("redis://alice:p%40%2F%3A%C3%A9@example", login(Some("alice"), "p@/:é"), 0);
    check_login("redis://alice:p@ss:word@example", login(Some("alice"), "p@ss:word"), 0);
    check_login("redis://a%3Ab:s3cret@example", login(Some("a:b"), "s3cret"), 0);
    check_login("redis://example?db=65535", None, 65535);
    check_login("redis+cluster://alice:s3cret@example/2", login(Some("alice"), "s3cret"), 2);
    check_login("unix://alice:s3cret@/run/redis.sock?db=4", login(Some("alice"), "s3cret"), 4);
    check_login("redis+sentinel://alice:s3cret@example/main/5", login(Some("alice"), "s3cret"), 5);
}

#[test]
fn passwords_are_not_shown() {
    for url in [
        "redis://alice:s3cret@example",
        "redis+sentinel://alice:s3cret@example/main?sentinel_password=s3cret&sentinel_username=bob",
    ] {
        let config = Config::from_url(url).unwrap();
        assert!(!format!("{config:?} {config:#?} {config}").contains("s3cret"), "{config:?}");
    }
    let shown = format!("{:?}", Credentials::new("alice", "s3cret"));
    assert_eq!(shown, r#"Credentials { username: Some("alice"), password: "***" }"#);
}

#[test]
fn options() {
    #[track_caller]
    fn check_option<T: PartialEq + std::fmt::Debug>(option: &str, select: impl Fn(&Config) -> T, expected: T) {
        check(&format!("redis+cluster://example?{option}"), "redis+cluster://example:6379", select, expected);
    }
    let ms = Duration::from_millis;
    check_option("connect_timeout=500ms", |c| c.connect_timeout, ms(500));
    check_option("connect_timeout=1.5s", |c| c.connect_timeout, ms(1500));
    check_option("command_timeout=2m", |c| c.command_timeout, Some(ms(120_000)));
    check_option("command_timeout=none", |c| c.command_timeout, None);
    check_option("client_name=api-1", |c| c.client_name.clone(), Some("api-1".into()));
    check_option("protocol=resp2", |c| c.protocol, ProtocolChoice::Resp2);
    check_option("protocol=3", |c| c.protocol, ProtocolChoice::Resp3);
    check_option("lanes=2", |c| c.lanes, 2);
    check_option("max_waiting_commands=7", |c| c.max_waiting_commands, 7);
    check_option("max_blocking_connections=9", |c| c.max_blocking_connections, 9);
    check_option("reconnect_min=1ms&reconnect_max=1h", |c| (c.reconnect.min, c.reconnect.max), (ms(1), ms(3_600_000)));
    check_option("reconnect_factor=1.5", |c| c.reconnect.factor.to_bits(), 1.5_f64.to_bits());
    check_option("keepalive=off&keepalive_probes=9", |c| c.keepalive, None);
    check_option(
        "keepalive=7s&keepalive_interval=2s&keepalive_probes=4",
        |c| c.keepalive.map(|k| (k.idle, k.interval, k.probes)),
        Some((ms(7000), ms(2000), 4)),
    );
    check_option("tcp_user_timeout=none", |c| c.tcp_user_timeout, None);
    check_option("no_delay=false", |c| c.no_delay, false);
    check_option("no_evict=true", |c| c.no_evict, true);
    check_option("no_touch=true", |c| c.no_touch, true);
    check_option("idle_ping=1s&stall=none", |c| (c.probe.idle_ping, c.probe.stall), (Some(ms(1000)), None));
    check_option("max_queued_bytes=8MiB", |c| c.max_queued_bytes, 8 << 20);
    check_option(
        "overload=reject&when_down=fail_fast",
        |c| (c.overload, c.when_down),
        (Overload::Reject, WhenDown::FailFast),
    );
    check_option("overload=shed", |c| c.overload, Overload::Shed);
    check_option(
        "max_bulk_bytes=1000&max_depth=9",
        |c| (c.reply_limits.max_bulk_bytes, c.reply_limits.max_depth),
        (1000, 9),
    );
    check_option("read_from=replica", |c| c.read_from.clone(), ReadFrom::PreferReplica);
    check_option("read_from=replica_only", |c| c.read_from.clone(), ReadFrom::OnlyReplicas);
    check_option("read_from=latency", |c| c.read_from.clone(), ReadFrom::LowestLatency);
    check_option(
        "large_bytes=64KiB&flush_delay=100us",
        |c| (c.large_bytes, c.flush_delay),
        (Some(64 << 10), Some(Duration::from_micros(100))),
    );
    check_option("large_bytes=none&flush_delay=none", |c| (c.large_bytes, c.flush_delay), (None, None));
    check_option("read_from=round_robin", |c| c.read_from.clone(), ReadFrom::RoundRobin);
    check_option("read_from=az:eu-1a", |c| c.read_from.clone(), ReadFrom::AzAffinity { zone: "eu-1a".into() });
    check_option("max_redirects=0", |c| c.cluster.max_redirects, 0);
    check_option("refresh_min_interval=2s", |c| c.cluster.refresh_min_interval, ms(2000));
    check_option("refresh_interval=none&&", |c| c.cluster.refresh_interval, None);
    check_option("lanes=%32", |c| c.lanes, 2);
}

#[test]
fn options_of_sentinels() {
    let sentinel = |c: &Config| match &c.topology {
        Topology::Sentinel(sentinel) => (credentials(sentinel.credentials.as_ref()), sentinel.tls.is_some()),
        other => panic!("{other:?}"),
    };
    let shown = "redis+sentinel://example:26379/main/0";
    check("redis+sentinel://example/main", shown, sentinel, (None, false));
    check("redis+sentinel://example/main?sentinel_password=s3cret", shown, sentinel, (login(None, "s3cret"), false));
    check(
        "redis+sentinel://example/main?sentinel_password=s3cret&sentinel_username=bob",
        shown,
        sentinel,
        (login(Some("bob"), "s3cret"), false),
    );
    check("redis+sentinel://example/main?sentinel_tls=true", shown, sentinel, (None, true));
}

#[cfg(feature = "rustls")]
#[test]
fn options_of_tls() {
    let config =
        Config::from_url("rediss://example?tls_ca=/ca.pem&tls_cert=/c.pem&tls_key=/k.pem&sni=main&insecure=true");
    let tls = config.unwrap().tls.unwrap();
    assert!(matches!(tls.roots, TlsRoots::Only(Pem::File(path)) if path.as_os_str() == "/ca.pem"));
    assert!(matches!(tls.server_name, TlsServerName::Fixed(name) if &*name == "main"));
    let identity = tls.identity.unwrap();
    assert!(matches!(identity.certificates, Pem::File(path) if path.as_os_str() == "/c.pem"));
    assert!(matches!(identity.key, Pem::File(path) if path.as_os_str() == "/k.pem"));
    assert!(tls.danger_accept_invalid_certs);
    let sentinel = Config::from_url("rediss+sentinel://example/main?sentinel_tls=false").unwrap();
    assert!(sentinel.tls.is_some());
    assert!(matches!(sentinel.topology, Topology::Sentinel(SentinelConfig { tls: None, .. })));

    check_error("rediss://example?tls_cert=/c.pem", "tls_cert", "option \"tls_cert\" needs tls_key");
    check_error("rediss://example?tls_key=/k.pem", "tls_key", "option \"tls_key\" needs tls_cert");
    check_error("rediss://example?tls_ca=", "tls_ca=", "option \"tls_ca\" takes the path of a file, not \"\"");
    check_error("rediss://example?tlsca=/c", "tlsca=", "unknown option \"tlsca\": did you mean \"tls_ca\"?");
}

#[test]
fn errors_of_schemes_and_servers() {
    check_error("localhost:6379", "localhost", "it begins with no scheme, as in redis://localhost:6379");
    check_error("unix:/run/redis.sock", "unix", "it begins with no scheme, as in redis://localhost:6379");
    check_error("", "", "it begins with no scheme, as in redis://localhost:6379");
    check_error("http://example", "http", "unknown scheme \"http\"");
    check_error("redsi://example", "redsi", "unknown scheme \"redsi\": did you mean \"redis\"?");
    check_error("redis+clutser://a", "redis+clu", "unknown scheme \"redis+clutser\": did you mean \"redis+cluster\"?");
    check_error("redis-cluster://a", "redis-clu", "unknown scheme \"redis-cluster\": did you mean \"redis+cluster\"?");
    check_error("redis://:6379", ":6379", "server \":6379\": the host is missing");
    check_error("redis+cluster://", "", "server \"\": the host is missing");
    check_error("redis+cluster://one,,two", ",two", "server \"\": the host is missing");
    check_error("redis://one,two:x", "two:x", "server \"two:x\": the port must be a number from 1 to 65535");
    check_error("redis://one:65536", "one", "server \"one:65536\": the port must be a number from 1 to 65535");
    check_error(
        "redis://::1:x",
        "::1:x",
        "server \"::1:x\": an IPv6 address with a port needs brackets, as in [::1]:6379",
    );
    check_error("redis://[::1", "[::1", "server \"[::1\": brackets enclose an IPv6 address, as in [::1]:6379");
    check_error("redis://%2Frun", "%2F", "server \"%2Frun\": the host is neither a name nor an IP address");
    check_error("redis+sentinel://one", "", "the primary's name is missing, as in redis+sentinel://host/mymaster");
    check_error("redis+sentinel://one/", "/", "the primary's name is missing, as in redis+sentinel://host/mymaster");
    let unix = "the URL of a Unix socket has a path and no host, as in unix:///run/redis.sock";
    check_error("unix://run/redis.sock", "run", unix);
    check_error("unix://", "", unix);
}

#[test]
fn errors_of_credentials_and_paths() {
    let unescaped = "write / as %2F, ? as %3F and # as %23 in a password, and @ as %40 in an option";
    check_error("redis://:s3cret/s3cret@example", ":s3cret", unescaped);
    check_error("redis://12:34?s3cret@example", "12:34", unescaped);
    check_error("redis://alice:12#s3cret@example", "alice", unescaped);
    check_error(
        "redis://s3cret@example",
        "s3cret",
        "there is a user without a password: write user:password@ or :password@",
    );
    check_error("redis://:s3cret%4@example", "s3cret", "percent-encoding is % and two hexadecimal digits, of UTF-8");
    check_error("redis://:s3cret%+4@example", "s3cret", "percent-encoding is % and two hexadecimal digits, of UTF-8");
    check_error("redis://:s3cret%ff@example", "s3cret", "percent-encoding is % and two hexadecimal digits, of UTF-8");
    check_error("redis://example/x", "x", "\"x\" is no number of a database from 0 to 65535");
    check_error("redis://example/0/1", "0/1", "\"0/1\" is no number of a database from 0 to 65535");
    check_error("redis://example/65536", "65536", "\"65536\" is no number of a database from 0 to 65535");
    check_error("redis+sentinel://one/main/x", "x", "\"x\" is no number of a database from 0 to 65535");
    check_error("redis://example#top", "#top", "a URL of a server has no fragment: write # as %23");
}

#[test]
fn errors_of_options() {
    check_error(
        "redis://a?connect_timout=1s",
        "connect",
        "unknown option \"connect_timout\": did you mean \"connect_timeout\"?",
    );
    check_error("redis://a?clientName=x", "client", "unknown option \"clientName\": did you mean \"client_name\"?");
    check_error("redis://a?lanes=1&zebra=1", "zebra", "unknown option \"zebra\"");
    check_error("redis://a?lanes", "lanes", "option \"lanes\" has no value");
    check_error("redis://a?lanes=0", "lanes=0", "option \"lanes\" takes a positive whole number, not \"0\"");
    check_error("redis://a?lanes=+1", "lanes", "option \"lanes\" takes a positive whole number, not \"+1\"");
    check_error("redis://a?lanes=1&lanes=2", "lanes=2", "option \"lanes\" is given twice");
    check_error("redis://a/1?db=1", "db=1", "option \"db\" is given twice");
    let time = "a positive time such as 500ms, 2s, 1.5s, 5m or 1h";
    check_error(
        "redis://a?connect_timeout=5",
        "connect",
        &format!("option \"connect_timeout\" takes {time}, not \"5\""),
    );
    check_error(
        "redis://a?connect_timeout=0s",
        "connect",
        &format!("option \"connect_timeout\" takes {time}, not \"0s\""),
    );
    check_error(
        "redis://a?connect_timeout=-1s",
        "connect",
        &format!("option \"connect_timeout\" takes {time}, not \"-1s\""),
    );
    check_error(
        "redis://a?connect_timeout=none",
        "connect",
        &format!("option \"connect_timeout\" takes {time}, not \"none\""),
    );
    check_error("redis://a?protocol=4", "protocol", "option \"protocol\" takes auto, resp2 or resp3, not \"4\"");
    check_error(
        "redis://a?client_name=a%20b",
        "client",
        "option \"client_name\" takes printable ASCII without blanks, not \"a b\"",
    );
    check_error("redis://a?no_delay=maybe", "no_delay", "option \"no_delay\" takes true or false, not \"maybe\"");
    check_error(
        "redis://a?read_from=az:",
        "read",
        "option \"read_from\" takes primary, replica, replica_only, latency, round_robin or az:ZONE, not \"az:\"",
    );
    check_error(
        "redis://a?reconnect_factor=0.5",
        "rec",
        "option \"reconnect_factor\" takes a number from 1, not \"0.5\"",
    );
    check_error(
        "redis://a?max_queued_bytes=64MB",
        "max",
        "option \"max_queued_bytes\" takes a positive number of bytes such as 65536, 64KiB, 64MiB or 1GiB, not \"64MB\"",
    );
    check_error(
        "redis://a?max_redirects=1",
        "max_redirects",
        "option \"max_redirects\" needs a cluster, as in redis+cluster://",
    );
    check_error("redis://a?sni=b", "sni", "option \"sni\" needs TLS, as in rediss://");
    check_error(
        "redis://a?sentinel_password=s3cret",
        "sentinel",
        "option \"sentinel_password\" needs Sentinels, as in redis+sentinel://",
    );
    check_error(
        "redis+sentinel://a/m?sentinel_username=u",
        "sentinel",
        "option \"sentinel_username\" needs sentinel_password",
    );
}

#[test]
fn what_is_not_named_has_its_default() {
    let config = Config::from_url("redis://localhost:6379").unwrap();
    assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(redis|rediss|unix|valkey\\+cluster|redis\\+sentinel)://[ -~é]{0,40}") {
        if let Err(error) = Config::from_url(&text) {
            proptest::prop_assert!(error.position() <= text.len());
        }
    }

    #[test]
    fn any_password_can_be_written(password in "\\PC{1,20}") {
        let encoded = percent_encoding::utf8_percent_encode(&password, percent_encoding::NON_ALPHANUMERIC);
        let config = Config::from_url(&format!("redis://alice:{encoded}@example")).unwrap();
        proptest::prop_assert_eq!(credentials(config.credentials.as_ref()), login(Some("alice"), &password));
    }
}

/// What a template makes of a user and a password that are not set.
#[test]
fn an_empty_user_with_an_empty_password_is_none() {
    let of = |config: &Config| credentials(config.credentials.as_ref());
    check("redis://:@example", "redis://example:6379", of, None);
    check("redis://@example", "redis://example:6379", of, None);
    check("redis://ada:@example", "redis://example:6379", of, login(Some("ada"), ""));
}
