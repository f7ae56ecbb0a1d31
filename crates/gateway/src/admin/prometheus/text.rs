//! Samples in an exposition format.

use std::fmt::Write;

use crate::metrics::{Distribution, Exemplar, Step};

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::admin) enum Exposition {
    /// Prometheus's text format, version 0.0.4.
    Text,
    /// OpenMetrics 1.0: the same samples, exemplars, and an end by which a part is known from the whole.
    OpenMetrics,
}

impl Exposition {
    /// What the client prefers, by its lines of `Accept` (RFC 9110 §12.5.1). OpenMetrics only if it is named.
    pub(in crate::admin) fn accepted<'a>(accept: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut text, mut open) = (Preference::default(), Preference::default());
        for member in accept.flat_map(|line| line.split(|byte| *byte == b',')) {
            let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let range = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut is_ours) = (1.0, true);
            for part in parts {
                match part.split_at_checked(2) {
                    Some((b"q=" | b"Q=", value)) => weight = quality(value),
                    _ if part.starts_with(b"version=") => is_ours = part == b"version=1.0.0",
                    _ => {}
                }
            }
            match range.as_slice() {
                b"application/openmetrics-text" if is_ours => open.see(2, weight),
                b"text/plain" => text.see(2, weight),
                b"text/*" => text.see(1, weight),
                b"*/*" => text.see(0, weight),
                _ => {}
            }
        }
        if open.weight > 0.0 && open.weight >= text.weight { Self::OpenMetrics } else { Self::Text }
    }

    pub(in crate::admin) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// How welcome a media type is, by the most exact range that names it.
#[derive(Default)]
struct Preference {
    weight: f32,
    exactness: u8,
}

impl Preference {
    fn see(&mut self, exactness: u8, weight: f32) {
        if exactness > self.exactness {
            *self = Self { weight, exactness };
        } else if exactness == self.exactness {
            self.weight = self.weight.max(weight);
        }
    }
}

/// RFC 9110 §12.4.2; what is no weight counts as none.
fn quality(text: &[u8]) -> f32 {
    let weight = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    if (0.0..=1.0).contains(&weight) { weight } else { 0.0 }
}

/// What was written.
pub(super) struct Text(String, Exposition);

// Writing to a String cannot fail.
impl Text {
    pub(super) fn new(exposition: Exposition) -> Self {
        Self(String::with_capacity(16 * 1024), exposition)
    }

    pub(super) fn into_string(mut self) -> String {
        if self.1 == Exposition::OpenMetrics {
            self.0.push_str("# EOF\n");
        }
        self.0
    }

    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // OpenMetrics names the family of a counter without the ending of its samples.
        let family = match self.1 {
            Exposition::OpenMetrics if kind == "counter" => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let _ = write!(self.0, "# HELP {family} {help}\n# TYPE {family} {kind}\n");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &str, value: &dyn std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{{{labels}}} {value}");
    }

    pub(super) fn one(&mut self, name: &str, kind: &str, help: &str, value: &dyn std::fmt::Display) {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    pub(super) fn histogram(&mut self, name: &str, labels: &str, times: &Distribution, step: usize) {
        for Step { bound_ns, below, exemplar } in times.steps(step) {
            let _ = match bound_ns {
                Some(bound) => write!(self.0, "{name}_bucket{{{labels},le=\"{}\"}} {below}", Seconds(bound)),
                None => write!(self.0, "{name}_bucket{{{labels},le=\"+Inf\"}} {below}"),
            };
            match exemplar {
                Some(exemplar) if self.1 == Exposition::OpenMetrics => self.exemplar(&exemplar),
                _ => self.0.push('\n'),
            }
        }
        let _ = writeln!(self.0, "{name}_sum{{{labels}}} {}", Seconds(times.sum_ns()));
        let _ = writeln!(self.0, "{name}_count{{{labels}}} {}", times.count());
    }

    fn exemplar(&mut self, exemplar: &Exemplar) {
        let Exemplar { trace_id, span_id, ns, at } = exemplar;
        let (seconds, ms) = (at.0 / 1000, at.0 % 1000);
        let ids = format_args!("trace_id=\"{trace_id}\",span_id=\"{span_id}\"");
        let _ = writeln!(self.0, " # {{{ids}}} {} {seconds}.{ms:03}", Seconds(*ns));
    }
}

/// Nanoseconds as seconds, exactly.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    pairs.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    pub(super) fn labels_are_escaped() {
        assert_eq!(labels(&[("route", "a\"\\\n"), ("service", "b")]), "route=\"a\\\"\\\\\\n\",service=\"b\"");
    }

    #[test]
    fn openmetrics_is_given_to_those_who_prefer_it() {
        let check = |accept: &[&str], expected| {
            let chosen = Exposition::accepted(accept.iter().map(|line| line.as_bytes()));
            assert_eq!(chosen, expected, "{accept:?}");
        };
        let (text, open) = (Exposition::Text, Exposition::OpenMetrics);
        check(&[], text);
        check(&["*/*"], text);
        check(&["application/*"], text);
        check(&["application/openmetrics-text"], open);
        check(&["Application/OpenMetrics-Text; version=1.0.0; charset=utf-8"], open);
        check(&["application/openmetrics-text;version=0.0.1"], text);
        check(&["application/openmetrics-text;version=2.0.0"], text);
        check(&["application/openmetrics-text;q=0"], text);
        check(&["application/openmetrics-text;q=x"], text);
        check(&["application/openmetrics-text;q=0.4, text/*;q=0.5"], text);
        check(&["application/openmetrics-text;q=0.4", "text/plain;q=0.3, text/*;q=0.9, */*"], open);
        // Prometheus 2.42 and 3.0.
        check(
            &["application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
               text/plain;version=0.0.4;q=0.5,*/*;q=0.1"],
            open,
        );
        check(
            &["application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
               application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
               text/plain;version=0.0.4;q=0.3,*/*;q=0.2"],
            open,
        );
    }

    #[test]
    fn seconds_are_exact() {
        assert_eq!(Seconds(1_024).to_string(), "0.000001024");
        assert_eq!(Seconds(61_000_000_001).to_string(), "61.000000001");
    }
}
