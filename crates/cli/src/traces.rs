//! The settings of `[traces]`, with what OpenTelemetry's environment variables say where the file leaves it open.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use pilotlight_gateway::{ExportOptions, Ratio, TraceOptions, TrustForwarded, export_header, read_headers_file};

use crate::config::TracesWords;

/// Resolves the file's words against an environment, which `variable` reads. What cannot be used of the environment is
/// left out, and `complain` is told, never with a value.
pub(crate) fn resolve(
    words: &TracesWords,
    trust_forwarded: &TrustForwarded,
    variable: impl Fn(&str) -> Option<String>,
    mut complain: impl FnMut(String),
) -> Arc<TraceOptions> {
    // OpenTelemetry, "Environment Variable Specification": an empty value is as none.
    let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let mut ignored = |name: &str| complain(ignored(name));
    let endpoint = words.endpoint.clone().or_else(|| {
        let own = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let of_all =
            || variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| format!("{}/v1/traces", base.trim_end_matches('/')));
        let url = own.or_else(of_all).as_deref().map(url)?;
        url.or_else(|| {
            ignored("OTEL_EXPORTER_OTLP_ENDPOINT");
            None
        })
    });
    let sample = words.sample.or_else(|| {
        let ratio = match variable("OTEL_TRACES_SAMPLER").as_deref() {
            Some("always_on" | "parentbased_always_on") => return Some(Ratio::ALL),
            Some("always_off" | "parentbased_always_off") => return Some(Ratio::NONE),
            _ => variable("OTEL_TRACES_SAMPLER_ARG")?.trim().parse(),
        };
        ratio.map_err(|_| ignored("OTEL_TRACES_SAMPLER_ARG")).ok()
    });
    let timeout = words.timeout.or_else(|| {
        let name = "OTEL_EXPORTER_OTLP_TIMEOUT";
        let time = variable(name)?.trim().parse().ok().map(Duration::from_millis);
        time.filter(|time| ExportOptions::TIMEOUT.contains(time)).or_else(|| {
            ignored(name);
            None
        })
    });
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let attributes = pairs(&attributes).unwrap_or_else(|| {
        ignored("OTEL_RESOURCE_ATTRIBUTES");
        Vec::new()
    });
    let resource = resource(attributes, words.service_name.clone().or_else(|| variable("OTEL_SERVICE_NAME")));
    let headers = headers(words, variable, &mut complain);
    Arc::new(TraceOptions {
        sample: sample.unwrap_or(Ratio::DEFAULT),
        trust_parent: words.trust_parent.clone().unwrap_or_else(|| trust_forwarded.clone()),
        query: words.query,
        export: ExportOptions {
            endpoint: endpoint.unwrap_or_else(|| Uri::from_static(ExportOptions::DEFAULT_ENDPOINT)),
            ca: words.ca.clone(),
            headers,
            resource,
            timeout: timeout.unwrap_or(ExportOptions::DEFAULT_TIMEOUT),
        },
    })
}

fn ignored(name: &str) -> String {
    format!("{name} cannot be used and is ignored: it is malformed")
}

/// What is known of this gateway.
fn resource(mut resource: Vec<(String, String)>, service_name: Option<String>) -> Vec<(String, String)> {
    if let Some(name) = service_name {
        resource.retain(|(key, _)| key != "service.name");
        resource.push(("service.name".to_owned(), name));
    }
    for (name, value) in [
        ("service.name", "pilotlight".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("telemetry.sdk.name", "pilotlight".to_owned()),
        ("telemetry.sdk.language", "rust".to_owned()),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("process.pid", std::process::id().to_string()),
    ] {
        if resource.iter().all(|(key, _)| key != name) {
            resource.push((name.to_owned(), value));
        }
    }
    resource
}

/// The fields of the file, else of the environment.
fn headers(
    words: &TracesWords,
    variable: impl Fn(&str) -> Option<String>,
    complain: &mut impl FnMut(String),
) -> Vec<(HeaderName, HeaderValue)> {
    if let Some(path) = &words.headers_file {
        return read_headers_file(path).unwrap_or_else(|e| {
            complain(format!("the file of fields for the collector, {}, cannot be used: {e}", path.display()));
            Vec::new()
        });
    }
    let text = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"));
    listed_headers(&text.unwrap_or_default()).unwrap_or_else(|| {
        complain(ignored("OTEL_EXPORTER_OTLP_HEADERS"));
        Vec::new()
    })
}

/// `http` or `https`, with a host and without credentials.
fn url(text: &str) -> Option<Uri> {
    let url: Uri = text.trim().parse().ok()?;
    let authority = url.authority()?;
    let is_good = matches!(url.scheme_str(), Some("http" | "https")) && !authority.as_str().contains('@');
    is_good.then_some(url)
}

/// `key=value,key=value`, with percent-encoded values (W3C Baggage, as OpenTelemetry uses it).
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=')?;
            Some((decoded(name.trim())?, decoded(value.trim())?)).filter(|(name, _)| !name.is_empty())
        })
        .collect()
}

fn listed_headers(text: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let headers: Option<Vec<_>> = pairs(text)?.iter().map(|(name, value)| export_header(name, value)).collect();
    headers.filter(|headers| headers.len() <= ExportOptions::MAX_HEADERS)
}

/// RFC 3986 §2.1.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(words: &TracesWords, variables: &[(&str, &str)]) -> (Arc<TraceOptions>, Vec<String>) {
        let mut complaints = Vec::new();
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let options = resolve(words, &TrustForwarded::Nobody, find, |complaint| complaints.push(complaint));
        (options, complaints)
    }

    fn resource<'a>(options: &'a TraceOptions, name: &str) -> Option<&'a str> {
        options.export.resource.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn without_words_the_defaults_of_the_specification() {
        let (options, complaints) = resolved(&TracesWords::default(), &[("OTEL_SERVICE_NAME", " ")]);
        assert_eq!(options.export.endpoint, "http://localhost:4318/v1/traces");
        assert_eq!((options.sample, options.export.timeout), (Ratio::DEFAULT, Duration::from_secs(10)));
        assert_eq!(resource(&options, "service.name"), Some("pilotlight"));
        assert!(complaints.is_empty() && options.export.headers.is_empty());
    }

    #[test]
    fn the_environment_says_what_the_file_leaves_open() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example/otlp/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=a%2Cb, x-team=7"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_SERVICE_NAME", "edge"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=prod%20eu"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ];
        let (options, complaints) = resolved(&TracesWords::default(), &variables);
        assert_eq!(complaints, [""; 0]);
        assert_eq!(options.export.endpoint, "https://collector.example/otlp/v1/traces");
        assert_eq!(options.sample, "0.25".parse().unwrap());
        assert_eq!(options.export.timeout, Duration::from_millis(2500));
        assert_eq!(resource(&options, "service.name"), Some("edge"));
        assert_eq!(resource(&options, "deployment.environment.name"), Some("prod eu"));
        assert_eq!(options.export.headers[0].1, "a,b");
        assert!(!format!("{options:?}").contains("a,b"), "{options:?}");
    }

    #[test]
    fn the_file_wins() {
        let words = TracesWords {
            endpoint: Some(Uri::from_static("http://127.0.0.1:1/x")),
            sample: Some(Ratio::ALL),
            service_name: Some("mine".to_owned()),
            ..TracesWords::default()
        };
        let variables = [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://other/"),
            ("OTEL_TRACES_SAMPLER", "always_off"),
            ("OTEL_SERVICE_NAME", "edge"),
        ];
        let (options, _) = resolved(&words, &variables);
        assert_eq!(options.export.endpoint, "http://127.0.0.1:1/x");
        assert_eq!((options.sample, resource(&options, "service.name")), (Ratio::ALL, Some("mine")));
    }

    #[test]
    fn what_is_malformed_is_ignored_and_not_shown() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@host"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=%secret"),
            ("OTEL_TRACES_SAMPLER_ARG", "7"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
        ];
        let (options, complaints) = resolved(&TracesWords::default(), &variables);
        assert_eq!(complaints.len(), 5);
        assert!(complaints.iter().all(|complaint| !complaint.contains("secret")), "{complaints:?}");
        assert_eq!((options.sample, options.export.timeout), (Ratio::DEFAULT, ExportOptions::DEFAULT_TIMEOUT));
    }
}
