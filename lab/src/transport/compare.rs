//! What is compared with what, and what follows: ratios of rounds with their intervals, what this machine cannot tell
//! apart, the gateway's own part of cold starts, and which transport to use for which language. By the rules of
//! [`judge`], so that `transport.json` says of the same rounds what `report.json` says.

use fastrand::Rng;
use serde::Serialize;

use super::cases::{Case, Front, Role};
use super::measure::{Measurement, Round};
use super::services::Language;
use crate::experiment::judge::{self, Machine, Unit};
use crate::experiment::model;
use crate::stats::{Interval, Level, median, median_interval, ratios};

/// The pipe is recommended where it takes at most this part of what HTTP takes, in cold starts or in CPU time.
const WORTH_IT: f64 = 0.9;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// Median time of a request.
    Time,
    /// CPU time of gateway and service for a request.
    Cpu,
}

/// Which side is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The first takes less.
    Less,
    /// The first takes more.
    More,
    /// The interval, or what two equals differ by here, has both in it.
    NoDifference,
    /// Too few rounds, or too noisy a machine.
    Unknown,
}

impl From<model::Verdict> for Verdict {
    fn from(verdict: model::Verdict) -> Self {
        match verdict {
            model::Verdict::Less => Self::Less,
            model::Verdict::More => Self::More,
            model::Verdict::NoDifference => Self::NoDifference,
            model::Verdict::NotComparable => Self::Unknown,
        }
    }
}

/// `one / other`, round by round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// What it says, for people.
    pub(crate) question: String,
    /// What is compared.
    pub(crate) metric: Metric,
    /// The variant above the line.
    pub(crate) one: String,
    /// The variant below the line.
    pub(crate) other: String,
    /// The median ratio; below 1 the first takes less.
    pub(crate) ratio: Option<f64>,
    /// Its 95 % interval.
    pub(crate) low: Option<f64>,
    /// See `low`.
    pub(crate) high: Option<f64>,
    /// What follows.
    pub(crate) verdict: Verdict,
}

/// Two equals beside each other (an A/A test).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Control {
    /// What was measured twice.
    pub(crate) variant: String,
    /// What was compared.
    pub(crate) metric: Metric,
    /// The ratio of the two, which is 1 on a machine without noise.
    pub(crate) ratio: Option<f64>,
    /// Its 99 % interval.
    pub(crate) low: Option<f64>,
    /// See `low`.
    pub(crate) high: Option<f64>,
}

impl Control {
    /// Whether 1 lies in the interval: if not, nothing may be said.
    fn passed(&self) -> bool {
        self.low.zip(self.high).is_none_or(|(low, high)| low <= 1.0 && 1.0 <= high)
    }
}

/// The gateway's own part of a cold start: the whole less what the service needs without a gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OwnPart {
    /// The cold variant.
    pub(crate) variant: String,
    /// For people.
    pub(crate) title: String,
    /// Median through the gateway.
    pub(crate) whole_ms: f64,
    /// Median of the service alone.
    pub(crate) bare_ms: f64,
    /// Median of the rounds' differences.
    pub(crate) own_ms: f64,
    /// Its 95 % interval.
    pub(crate) low_ms: Option<f64>,
    /// See `low_ms`.
    pub(crate) high_ms: Option<f64>,
}

/// Which transport to use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Recommendation {
    /// For services in this language.
    pub(crate) service: Language,
    /// What the rule says.
    pub(crate) transport: Transport,
    /// The HTTP server that the pipe was compared with, the better one if there are several.
    pub(crate) compared_with: String,
    /// Why.
    pub(crate) because: String,
}

/// The two transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    /// Pipe/1.
    Pipe,
    /// HTTP/1.1.
    Http,
    /// The intervals leave it open.
    Undecided,
}

impl Transport {
    /// What it comes to.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Pipe => "use the pipe",
            Self::Http => "use HTTP",
            Self::Undecided => "this run leaves it open",
        }
    }
}

/// Everything that follows from measurements.
#[derive(Debug)]
pub(crate) struct Conclusions {
    /// Ratios.
    pub(crate) comparisons: Vec<Comparison>,
    /// What two equals differ by.
    pub(crate) controls: Vec<Control>,
    /// Of cold starts.
    pub(crate) own_parts: Vec<OwnPart>,
    /// For each language.
    pub(crate) recommendations: Vec<Recommendation>,
}

/// Draws them.
#[must_use]
pub(crate) fn conclude(measurements: &[Measurement], seed: u64, machine: Machine) -> Conclusions {
    let mut judge = Judge { measurements, seed, machine, controls: Vec::new(), comparisons: Vec::new() };
    judge.control();
    let languages = languages(measurements);
    for language in &languages {
        judge.transports(*language);
        judge.cache(*language);
    }
    judge.peers();
    let own_parts = judge.own_parts();
    let recommendations = languages.iter().filter_map(|language| judge.recommend(*language)).collect();
    Conclusions { comparisons: judge.comparisons, controls: judge.controls, own_parts, recommendations }
}

fn languages(measurements: &[Measurement]) -> Vec<Language> {
    let mut languages: Vec<Language> = measurements.iter().map(|m| m.variant.language).collect();
    languages.sort();
    languages.dedup();
    languages
}

struct Judge<'a> {
    measurements: &'a [Measurement],
    seed: u64,
    machine: Machine,
    controls: Vec<Control>,
    comparisons: Vec<Comparison>,
}

impl<'a> Judge<'a> {
    fn find(&self, language: Language, case: Case, front: Front) -> impl Iterator<Item = &'a Measurement> + use<'a> {
        let wanted = move |m: &&Measurement| {
            let v = &m.variant;
            v.language == language
                && v.case == case
                && v.front == front
                && v.role == Role::Measured
                && !m.times.is_empty()
        };
        self.measurements.iter().filter(wanted)
    }

    /// The pipe, or the HTTP server with the shorter median where a language has several.
    fn pilotlight(&self, language: Language, case: Case) -> Option<&'a Measurement> {
        self.find(language, case, Front::Pilotlight).min_by(|a, b| a.times.median_ms().total_cmp(&b.times.median_ms()))
    }

    fn control(&mut self) {
        for measured in self.measurements.iter().filter(|m| m.variant.role == Role::Measured) {
            let Some(control) = self.again(measured) else { continue };
            for metric in [Metric::Time, Metric::Cpu] {
                let rounds = ratios(&values(control, metric), &values(measured, metric));
                let interval = self.interval(&rounds, Level::Percent99);
                self.controls.push(Control {
                    variant: measured.variant.id(),
                    metric,
                    ratio: interval.map(|i| i.median),
                    low: interval.map(|i| i.low),
                    high: interval.map(|i| i.high),
                });
            }
        }
    }

    /// The second of two equals, where this is the first.
    fn again(&self, measured: &Measurement) -> Option<&'a Measurement> {
        let equal = super::cases::Variant { role: Role::Control, ..measured.variant.clone() };
        self.measurements.iter().find(|m| m.variant == equal)
    }

    /// Of each round; of a variant that is measured twice, the mean of both.
    fn both_times(&self, measured: &Measurement, metric: Metric, unit: Unit) -> Vec<Option<f64>> {
        let first = values(measured, metric);
        match self.again(measured).filter(|again| again.failed.is_none()) {
            Some(again) => judge::means(&first, &values(again, metric), unit),
            None => first,
        }
    }

    fn interval(&self, rounds: &[f64], level: Level) -> Option<Interval> {
        median_interval(rounds, level, &mut Rng::with_seed(self.seed))
    }

    /// Two equals of the same language and kind.
    fn control_beside(&self, measured: &Measurement, metric: Metric) -> Option<&Control> {
        let (language, cold) = (measured.variant.language, measured.variant.case.is_cold());
        self.controls.iter().find(|control| {
            let controlled = self.measurements.iter().find(|m| m.variant.id() == control.variant);
            control.metric == metric
                && controlled.is_some_and(|m| m.variant.language == language && m.variant.case.is_cold() == cold)
        })
    }

    fn compare(&mut self, question: String, metric: Metric, one: &Measurement, other: &Measurement) {
        let of = |measured| self.both_times(measured, metric, Unit::Ratio);
        let rounds = ratios(&of(one), &of(other));
        let interval = self.interval(&rounds, Level::Percent95);
        let control = self.control_beside(one, metric);
        let noise = control.and_then(|control| control.ratio).map_or(0.0, |ratio| (ratio - 1.0).abs());
        let verdict = match (interval, self.machine) {
            (Some(interval), Machine::Quiet) if control.is_none_or(Control::passed) => {
                judge::verdict(&rounds, interval, Unit::Ratio, noise).0.into()
            }
            _ => Verdict::Unknown,
        };
        self.comparisons.push(Comparison {
            question,
            metric,
            one: one.variant.id(),
            other: other.variant.id(),
            ratio: interval.map(|i| i.median),
            low: interval.map(|i| i.low),
            high: interval.map(|i| i.high),
            verdict,
        });
    }

    fn transports(&mut self, language: Language) {
        for (pipe, http) in [(Case::PipeWarm, Case::HttpWarm), (Case::PipeCold, Case::HttpCold)] {
            let Some(pipe) = self.pilotlight(language, pipe) else { continue };
            for http in self.find(language, http, Front::Pilotlight) {
                for (metric, what) in [(Metric::Time, "time"), (Metric::Cpu, "CPU time")] {
                    let question = format!("{what} of {} / {}", pipe.variant.title(), http.variant.title());
                    self.compare(question, metric, pipe, http);
                }
            }
        }
    }

    fn cache(&mut self, language: Language) {
        let Some(cached) = self.pilotlight(language, Case::Cached) else { return };
        let warm = [Case::PipeWarm, Case::HttpWarm].map(|case| self.pilotlight(language, case));
        for warm in warm.into_iter().flatten() {
            let question = format!("time of {} / {}", cached.variant.title(), warm.variant.title());
            self.compare(question, Metric::Time, cached, warm);
        }
    }

    /// Pilotlight beside each peer in the same case; an on-demand peer beside the pipe as well, which is what would
    /// replace it.
    fn peers(&mut self) {
        for peer in self.measurements {
            let v = &peer.variant;
            if matches!(v.front, Front::Pilotlight | Front::Bare) || peer.times.is_empty() {
                continue;
            }
            let pipe = match v.case {
                _ if v.front == Front::Nginx => None,
                Case::HttpWarm => self.pilotlight(v.language, Case::PipeWarm),
                Case::HttpCold => self.pilotlight(v.language, Case::PipeCold),
                _ => None,
            };
            let same = self
                .find(v.language, v.case, Front::Pilotlight)
                .find(|m| m.variant.server == v.server || v.case == Case::Cached);
            for ours in pipe.into_iter().chain(same) {
                for (metric, what) in [(Metric::Time, "time"), (Metric::Cpu, "CPU time")] {
                    let question = format!("{what} of {}, Pilotlight / {}", ours.variant.title(), v.title());
                    self.compare(question, metric, ours, peer);
                }
            }
        }
    }

    fn own_parts(&self) -> Vec<OwnPart> {
        let mut parts = Vec::new();
        for whole in self
            .measurements
            .iter()
            .filter(|m| m.variant.front == Front::Pilotlight && m.variant.role == Role::Measured)
        {
            let v = &whole.variant;
            let bare = self.find(v.language, v.case, Front::Bare).find(|m| m.variant.server == v.server);
            let Some(bare) = bare.filter(|_| v.case.is_cold() && !whole.times.is_empty()) else { continue };
            let of = |measured| self.both_times(measured, Metric::Time, Unit::Difference);
            let (of_whole, of_bare) = (of(whole), of(bare));
            let differences: Vec<f64> =
                of_whole.iter().zip(&of_bare).filter_map(|(whole, bare)| Some((*whole)? - (*bare)?)).collect();
            let Some(own_ms) = median(&differences) else { continue };
            let interval = self.interval(&differences, Level::Percent95);
            parts.push(OwnPart {
                variant: v.id(),
                title: v.title(),
                whole_ms: whole.times.median_ms(),
                bare_ms: bare.times.median_ms(),
                own_ms,
                low_ms: interval.map(|i| i.low),
                high_ms: interval.map(|i| i.high),
            });
        }
        parts
    }

    fn recommend(&self, language: Language) -> Option<Recommendation> {
        let (cold, warm) = (self.pilotlight(language, Case::HttpCold), self.pilotlight(language, Case::HttpWarm));
        let ratio = |pipe: Case, http: Option<&Measurement>, metric: Metric| {
            let (one, other) = (self.pilotlight(language, pipe)?.variant.id(), http?.variant.id());
            self.comparisons.iter().find(|c| c.one == one && c.other == other && c.metric == metric)
        };
        let facts = [
            (ratio(Case::PipeCold, cold, Metric::Time), "a cold start"),
            (ratio(Case::PipeWarm, warm, Metric::Cpu), "CPU time of a warm request"),
            (ratio(Case::PipeWarm, warm, Metric::Time), "a warm request"),
        ];
        let mut servers: Vec<&'static str> = cold.iter().chain(&warm).map(|http| http.variant.server).collect();
        servers.dedup();
        recommendation(language, servers.join(" (cold) and "), facts)
    }
}

/// The rule: the pipe where it saves a tenth of a cold start or of CPU time; HTTP, which everything speaks, where it
/// saves less than that of both; undecided where the intervals leave it open.
fn recommendation(
    service: Language,
    compared_with: String,
    [cold, cpu, warm]: [(Option<&Comparison>, &str); 3],
) -> Option<Recommendation> {
    let known = [cold, cpu, warm].into_iter().filter_map(|(comparison, what)| Some((comparison?, what)));
    let known: Vec<_> = known.filter(|(comparison, _)| comparison.verdict != Verdict::Unknown).collect();
    if known.is_empty() {
        return None;
    }
    let deciding = || [cold.0, cpu.0].into_iter().flatten();
    let worth_it = |c: &Comparison| c.verdict == Verdict::Less && c.ratio.is_some_and(|ratio| ratio <= WORTH_IT);
    let not_worth_it = |c: &Comparison| c.low.is_some_and(|low| low > WORTH_IT);
    let transport = if deciding().any(worth_it) {
        Transport::Pipe
    } else if deciding().all(not_worth_it) && deciding().count() == 2 {
        Transport::Http
    } else {
        Transport::Undecided
    };
    let facts: Vec<String> = known.iter().map(|(comparison, what)| fact(comparison, what)).collect();
    Some(Recommendation { service, transport, compared_with, because: facts.join("; ") })
}

/// `a cold start: the pipe takes 0.61 of what http.server takes`
fn fact(comparison: &Comparison, what: &str) -> String {
    let other = comparison.other.splitn(4, '/').nth(3).unwrap_or("HTTP"); // front/language/case/server
    let ratio = comparison.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    match comparison.verdict {
        Verdict::Less => format!("{what}: the pipe takes {ratio} of what {other} takes"),
        Verdict::More => format!("{what}: the pipe does not win, it takes {ratio} of what {other} takes"),
        Verdict::NoDifference | Verdict::Unknown => format!("{what}: no difference that can be told here ({ratio})"),
    }
}

fn values(measurement: &Measurement, metric: Metric) -> Vec<Option<f64>> {
    let value = |round: &Round| match metric {
        Metric::Time => round.median_ms,
        Metric::Cpu => Some(round.gateway_cpu_us? + round.service_cpu_us?),
    };
    measurement.rounds.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{measured, ours};
    use super::*;

    const PIPE_WARM: (Case, &str) = (Case::PipeWarm, "SDK");
    const PIPE_COLD: (Case, &str) = (Case::PipeCold, "SDK");
    const HTTP_WARM: (Case, &str) = (Case::HttpWarm, "http.server");
    const HTTP_COLD: (Case, &str) = (Case::HttpCold, "http.server");

    #[track_caller]
    fn advice(pipe_warm: f64, http_warm: f64, pipe_cold: f64, http_cold: f64) -> Recommendation {
        let all = [
            ours(PIPE_WARM, pipe_warm),
            ours(HTTP_WARM, http_warm),
            ours(PIPE_COLD, pipe_cold),
            ours(HTTP_COLD, http_cold),
        ];
        let mut conclusions = conclude(&all, 1, Machine::Quiet);
        assert_eq!(conclusions.recommendations.len(), 1);
        conclusions.recommendations.remove(0)
    }

    #[test]
    fn the_pipe_is_advised_where_it_saves_a_tenth() {
        let found = advice(10.0, 10.0, 50.0, 80.0);
        assert_eq!((found.transport, found.compared_with.as_str()), (Transport::Pipe, "http.server"));
        assert!(found.because.contains("a cold start: the pipe takes 0.6"), "{}", found.because);
        assert_eq!(advice(5.0, 10.0, 80.0, 80.0).transport, Transport::Pipe);
    }

    #[test]
    fn http_is_advised_where_the_pipe_does_not_win() {
        let found = advice(15.0, 10.0, 99.0, 80.0);
        assert_eq!(found.transport, Transport::Http);
        assert!(found.because.contains("a warm request: the pipe does not win, it takes 1.5"), "{}", found.because);
    }

    #[test]
    fn without_cold_starts_the_advice_is_open_unless_the_pipe_wins() {
        let transport = |pipe| {
            conclude(&[ours(PIPE_WARM, pipe), ours(HTTP_WARM, 10.0)], 1, Machine::Quiet).recommendations[0].transport
        };
        assert_eq!(transport(10.0), Transport::Undecided);
        assert_eq!(transport(5.0), Transport::Pipe);
        assert_eq!(conclude(&[ours(PIPE_WARM, 1.0)], 1, Machine::Quiet).recommendations, []);
    }

    #[test]
    fn the_better_http_server_counts() {
        let uvicorn = (Case::HttpCold, "uvicorn");
        let all = [ours(PIPE_COLD, 50.0), ours(HTTP_COLD, 80.0), ours(uvicorn, 160.0)];
        let conclusions = conclude(&all, 1, Machine::Quiet);
        assert_eq!(conclusions.recommendations[0].compared_with, "http.server");
        let others: Vec<&str> = conclusions.comparisons.iter().map(|c| c.other.as_str()).collect();
        assert!(others.contains(&"pilotlight/python/http-cold/uvicorn"), "{others:?}");
    }

    #[test]
    fn where_two_equals_differ_nothing_is_said() {
        let control = measured(PIPE_WARM, Front::Pilotlight, Role::Control, 13.0);
        let conclusions = conclude(&[ours(PIPE_WARM, 10.0), control, ours(HTTP_WARM, 12.0)], 1, Machine::Quiet);
        assert!(conclusions.controls.iter().all(|c| c.ratio.is_some_and(|ratio| ratio > 1.2)));
        assert!(conclusions.comparisons.iter().all(|c| c.verdict == Verdict::Unknown), "{conclusions:?}");
    }

    #[test]
    fn both_measurements_of_the_control_count() {
        let control = measured(PIPE_WARM, Front::Pilotlight, Role::Control, 12.1);
        let conclusions = conclude(&[ours(PIPE_WARM, 10.0), control, ours(HTTP_WARM, 11.0)], 1, Machine::Quiet);
        let ratio = conclusions.comparisons[0].ratio.expect("ten rounds");
        assert!((ratio - 1.0).abs() < 0.04, "{ratio}: the geometric mean of 10.0 and 12.1 is 11.0");
    }

    #[test]
    fn the_gateways_own_part_is_the_rest() {
        let bare = measured(PIPE_COLD, Front::Bare, Role::Measured, 40.0);
        let parts = conclude(&[ours(PIPE_COLD, 50.0), bare], 1, Machine::Quiet).own_parts;
        assert_eq!(parts.len(), 1);
        assert!((9.0..=11.0).contains(&parts[0].own_ms), "{parts:?}");
    }

    #[test]
    fn peers_stand_beside_the_same_case_and_the_pipe() {
        let peer = measured((Case::HttpCold, "WSGI"), Front::Uwsgi, Role::Measured, 20.0);
        let nginx = measured(HTTP_WARM, Front::Nginx, Role::Measured, 20.0);
        let conclusions = conclude(&[ours(PIPE_COLD, 50.0), ours(HTTP_WARM, 10.0), peer, nginx], 1, Machine::Quiet);
        let pairs: Vec<(&str, &str)> = conclusions
            .comparisons
            .iter()
            .filter(|c| c.metric == Metric::Time)
            .map(|c| (c.one.as_str(), c.other.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("pilotlight/python/pipe-cold/SDK", "uwsgi/python/http-cold/WSGI"),
                ("pilotlight/python/http-warm/http.server", "nginx/python/http-warm/http.server"),
            ]
        );
    }
}
