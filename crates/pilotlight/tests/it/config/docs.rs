//! The reference for people and the schema of the program say the same.

use std::fs;
use std::path::Path;

use pilotlight_cli::config::retired::RETIRED;
use pilotlight_cli::config::schema::Part;
use pilotlight_cli::config::{Code, Severity, parse};

pub(crate) fn reference() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The part of the reference below the heading of a part of the file.
pub(crate) fn chapter(reference: &str, part: Part) -> &str {
    let heading = match part {
        Part::Top => "## The top of the file",
        Part::Tls => "## `[tls]`",
        Part::TlsAcme => "## `[tls.acme]`",
        Part::TlsAcmeFallback => "## `fallback` of `[tls.acme]`",
        Part::TlsAcmeOnDemand => "## `on_demand` of `[tls.acme]`",
        Part::TlsAcmeEab => "## `eab` of `[tls.acme]`",
        Part::TlsCertificate => "## `certificates` of `[tls]`",
        Part::TlsClientCertificates => "## `client_certificates` of `[tls]`",
        Part::Limits => "## `[limits]`",
        Part::Cache => "## `[cache]`",
        Part::CacheRedis => "## `[cache.redis]`",
        Part::Group => "## `[groups.NAME]`",
        Part::Containers => "## `[containers]`",
        Part::Service => "## `[services.NAME]`",
        Part::ServiceContainer => "## `[services.NAME.container]`",
        Part::ServiceBalance => "## `[services.NAME.balance]`",
        Part::ServiceDns => "## `[services.NAME.dns]`",
        Part::ServiceSpill => "## `[services.NAME.spill]`",
        Part::ServiceTls => "## `[services.NAME.tls]`",
        Part::ServiceCgi => "## `[services.NAME.cgi]`",
        Part::ServiceLambda => "## `[services.NAME.lambda]`",
        Part::ServiceStdio => "## `[services.NAME.stdio]`",
        Part::ServiceHealth => "## `[services.NAME.health]`",
        Part::ServiceLimits => "## `[services.NAME.limits]`",
        Part::ServiceCgroup => "## `[services.NAME.cgroup]`",
        Part::ServiceQueue => "## `[services.NAME.queue]`",
        Part::Route => "## `[[routes]]`",
        Part::RouteFiles => "## `[routes.files]`",
        Part::Errors => "## `[errors]`",
        Part::ErrorService => "## Pages of a service",
        Part::RouteRequestFields => "## `[routes.request_fields]`",
        Part::RouteResponseFields => "## `[routes.response_fields]`",
        Part::RouteRedirect => "## `[routes.redirect]`",
        Part::RouteRewrite => "## `[routes.rewrite]`",
        Part::RouteWhen => "## `[routes.when]`",
        Part::RouteCompress => "## `[routes.compress]`",
        Part::RouteCache => "## `[routes.cache]`",
        Part::RouteCacheKey => "## `[routes.cache.key]`",
        Part::RouteCacheBypass => "## `[routes.cache.bypass]`",
        Part::RouteCacheStore => "## `[routes.cache.store]`",
        Part::RouteAllow => "## `[routes.allow]`",
        Part::RouteAllowJwt => "## `[routes.allow.jwt]`",
        Part::RouteAllowForward => "## `[routes.allow.forward]`",
        Part::RouteDeny => "## `[routes.deny]`",
        Part::RouteLimit => "## `[routes.limit]`",
        Part::Schedule => "## `[[schedules]]`",
        Part::Admin => "## `[admin]`",
        Part::Metrics => "## `[metrics]`",
        Part::Log => "## `[log]`",
        Part::ServiceLog => "## `[service_log]`",
        Part::AccessLog => "## `[access_log]`",
        Part::Traces => "## `[traces]`",
    };
    let (_, rest) = reference.split_once(heading).unwrap_or_else(|| panic!("{heading} is missing"));
    rest.split("\n## ").next().unwrap()
}

#[test]
fn keys_that_are_retired_are_read_with_a_warning_and_not_documented() {
    let reference = reference();
    for retired in RETIRED {
        assert!(retired.part.keys().iter().all(|key| key.name != retired.name), "{retired:?}");
        assert!(!chapter(&reference, retired.part).contains(&format!("`{}`", retired.name)), "{retired:?}");
    }
    let text = "[cache.redis]\nurl = \"redis://a\"\nbusy_poll = true\n";
    let loaded = parse(text, Path::new("pilotlight.toml")).unwrap();
    let warned = loaded.warnings.diagnostics().iter().find(|found| found.message.contains("busy_poll")).unwrap();
    assert_eq!((warned.code, warned.severity), (Code::NoEffect, Severity::Warning));
}

#[test]
fn every_key_and_no_other_is_in_the_reference() {
    let reference = reference();
    for part in Part::ALL {
        let documented: Vec<&str> =
            chapter(&reference, part).lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let known: Vec<&str> = part.keys().iter().map(|key| key.name).collect();
        assert_eq!(documented, known, "{part:?}");
    }
}

#[test]
fn every_code_is_in_the_reference() {
    let reference = reference();
    for code in Code::ALL {
        assert!(reference.contains(&format!("| `{}` |", code.as_str())), "{}", code.as_str());
    }
}

#[test]
fn every_example_of_the_reference_is_valid() {
    let reference = reference();
    let examples: Vec<&str> =
        reference.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        if let Err(report) = parse(example, Path::new("example.toml")) {
            panic!("{report}\n{example}");
        }
    }
}

#[test]
fn every_example_of_the_guides_to_files_compression_php_functions_and_stdio_is_valid() {
    for name in ["files", "compression", "php", "lambda", "stdio"] {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/guide/{name}.md"));
        let guide = fs::read_to_string(&guide).unwrap_or_else(|error| panic!("{}: {error}", guide.display()));
        let examples: Vec<&str> =
            guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(!examples.is_empty(), "{name}");
        for example in examples {
            let text = format!("[services.app]\ncommand = [\"./app\"]\n{example}");
            if let Err(report) = parse(&text, Path::new("example.toml")) {
                panic!("{report}\n{text}");
            }
        }
    }
}

#[test]
fn every_limit_of_the_schema_is_in_the_reference() {
    // The parser's own words for a range are compared with the table's, so that neither can change alone.
    let reference = reference();
    for (part, text) in [
        (Part::Top, "workers = 0"),
        (
            Part::Limits,
            "[limits]\nheader_size = \"1B\"\nheader_count = 0\nbody_size = \"0B\"\nheader_timeout = \"0s\"\nbody_timeout = \"0s\"",
        ),
        (
            Part::Limits,
            "[limits]\nkeepalive_timeout = \"0s\"\nresponse_timeout = \"0s\"\nresponse_body_timeout = \"0s\"\nshutdown_timeout = \"900d\"\nconnections = 0",
        ),
        (Part::Limits, "[limits]\njson_look_ahead = \"1B\""),
        (Part::Limits, "[limits]\nhandshake_timeout = \"0s\"\nhandshakes = 0"),
        (
            Part::Schedule,
            "[[schedules]]\ncron=\"@daily\"\nservice=\"a\"\npath=\"/\"\njitter = \"2d\"\ntimeout = \"0s\"",
        ),
        (Part::Traces, "[traces]\nsample = 2\ntimeout = \"0s\""),
        (Part::Log, "[log]\npath=\"log\"\nmax_size = \"1B\""),
        (Part::ServiceLog, "[service_log]\npath=\"log\"\nmax_size = \"1B\""),
        (Part::AccessLog, "[access_log]\npath=\"stdout\"\nmax_size = \"1B\""),
        (
            Part::CacheRedis,
            "[cache.redis]\nurl=\"redis://a\"\nbudget = \"0s\"\nlease = \"0s\"\nqueue = 0\nqueue_memory = \"1B\"\nkeep_stale = \"31d\"",
        ),
        (Part::Cache, "[cache]\nmemory = \"1B\"\nmax_object = \"1B\"\nmax_heuristic = \"0s\"\nstale_if_error = \"0s\""),
        (
            Part::Service,
            "[services.a]\ncommand=\"a\"\nstart_timeout = \"0s\"\nidle_timeout = \"0s\"\ndrain_timeout = \"900d\"\nstop_grace = \"900d\"\nmin_instances = 9",
        ),
        (
            Part::Service,
            "[services.a]\ncommand=\"a\"\nmax_instances = 0\nconcurrency = 0\nspare = 2\nscale_up_after = \"0s\"\nscale_down_after = \"0s\"",
        ),
        (
            Part::Service,
            "[services.a]\ncommand=\"a\"\nmax_requests = 0\nmax_age = \"0s\"\nmax_memory = \"1B\"\nmax_request_time = \"0s\"\nmax_failures = 0",
        ),
        (Part::Group, "[groups.a]\nmax_running = 0\nmemory = \"1B\"\ngrace = \"2d\""),
        (
            Part::Service,
            "[groups.g]\nmax_running=1\n[services.a]\ncommand=\"a\"\nin_group=\"g\"\ngroup_memory = \"1B\"",
        ),
        (Part::Service, "[services.a]\ncommand=\"a\"\nfreeze_after = \"0s\""),
        (Part::Service, "[services.a]\ncommand=\"a\"\nkeep_releases = 0"),
        (
            Part::ServiceHealth,
            "[services.a]\ncommand=\"a\"\nreleases=\"a\"\n[services.a.health]\nstatus = 100\ntimeout = \"0s\"",
        ),
        (
            Part::ServiceLimits,
            "[services.a]\ncommand=\"a\"\n[services.a.limits]\nopen_files = 0\nprocesses = 0\ncpu_seconds = 0\nfile_size = \"0B\"\naddress_space = \"1B\"",
        ),
        (Part::ServiceCgroup, "[services.a]\ncommand=\"a\"\n[services.a.cgroup]\nmemory = \"1B\"\ncpu = 0"),
        (Part::ServiceContainer, "[services.a.container]\nimage=\"a\"\nport = 0"),
        (
            Part::ServiceBalance,
            "[services.a]\nurl=[\"http://a\", \"http://b\"]\n[services.a.balance]\nmax_failures = 0\neject_time = \"0s\"\nslow_start = \"0s\"\nconnect_timeout = \"0s\"",
        ),
        (Part::ServiceQueue, "[services.a]\ncommand=\"a\"\n[services.a.queue]\nmax = 0\ntimeout = \"0s\""),
        (
            Part::RouteCache,
            "[[routes]]\npath=\"/\"\nservice=\"a\"\n[routes.cache]\ndefault_ttl = \"0s\"\nmax_ttl = \"900d\"\nerrors = \"0s\"",
        ),
        (Part::RouteCacheStore, "[[routes]]\npath=\"/\"\nservice=\"a\"\n[routes.cache.store]\nmax_object = \"1B\""),
        (
            Part::Route,
            "[[routes]]\npath=\"/\"\nservice=\"a\"\ncache = \"0s\"\ntimeout = \"0s\"\nresponse_timeout = \"0s\"\nresponse_body_timeout = \"0s\"\nbody_size = \"0B\"",
        ),
    ] {
        let report = parse(text, Path::new("p.toml")).unwrap_err();
        let ranges: Vec<&str> = report
            .diagnostics()
            .iter()
            .filter(|found| found.code == Code::OutOfRange)
            .map(|found| found.message.as_str())
            .collect();
        assert_eq!(ranges.len(), text.lines().filter(|line| line.contains(" = ")).count(), "{report}");
        for message in ranges {
            let name = message.split('`').nth(1).unwrap();
            let range = message.split("from ").nth(1).unwrap().replace(" to ", " – ");
            let row = chapter(&reference, part).lines().find(|line| line.starts_with(&format!("| `{name}`"))).unwrap();
            assert!(row.contains(&range), "{name}: {range} is not in\n{row}");
        }
    }
}
