//! What can be measured: names, units, and which way is better.

use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// CPU time of the servers for one request.
    CpuUs,
    /// That of the gateway alone.
    GatewayCpuUs,
    /// Requests in a second.
    PerSecond,
    /// Median time of a request.
    P50Ms,
    /// Times that 97.5 % do not exceed.
    P975Ms,
    /// Times that 99 % do not exceed.
    P99Ms,
    /// Times that 99.9 % do not exceed.
    P999Ms,
    /// Mean time of a request.
    MeanMs,
    /// The first request to a service that was stopped.
    ColdMs,
    /// CPU time of the load driver for one request.
    LoadCpuUs,
    /// Instructions for one request.
    Instructions,
    /// Resident memory.
    RssBytes,
    /// Resident memory in which pages that processes share count once.
    PssBytes,
    /// Resident memory after the work.
    RssAfterBytes,
    /// What memory grows by, at its peak.
    GrowthBytes,
    /// Bytes passed on in a second.
    BytesPerSecond,
    /// CPU time of the gateway for a byte.
    NsPerByte,
    /// Bytes of a piece that is passed on.
    PieceBytes,
    /// The longest time.
    MaxMs,
    /// From readiness of a service to its handler, median.
    HandlerMs,
    /// The longest of these.
    HandlerMaxMs,
    /// Processes of Pilotlight's own.
    Processes,
    /// Instances that were started.
    Instances,
    /// Connections of a server.
    Connections,
    /// Requests whose answer was kept, of a hundred.
    HitPercent,
    /// Requests that failed.
    Failed,
    /// Until a server that is gone gets no more requests.
    NoticedMs,
    /// What was let in beyond a rate: in the worst of windows that follow each other.
    WindowBeyondPercent,
    /// The same in the worst of all seconds.
    SecondBeyondPercent,
    /// The same in all windows together.
    BeyondPercent,
    /// Requests that Redis has not decided in time.
    Undecided,
    /// Requests that were let in without Redis.
    LetInAlone,
}

impl Metric {
    /// As the data and `pilotlight lab figures` call it: `cpu-us`.
    #[must_use]
    pub fn id(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => self.title().to_owned(),
        }
    }

    /// For headings: `CPU`.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::CpuUs => "CPU per request",
            Self::GatewayCpuUs => "CPU of the gateway",
            Self::PerSecond => "throughput",
            Self::P50Ms => "p50",
            Self::P975Ms => "p97.5",
            Self::P99Ms => "p99",
            Self::P999Ms => "p99.9",
            Self::MeanMs => "mean",
            Self::ColdMs => "cold start",
            Self::LoadCpuUs => "CPU of the load",
            Self::Instructions => "instructions per request",
            Self::RssBytes => "memory",
            Self::PssBytes => "memory, shared pages once",
            Self::RssAfterBytes => "memory afterwards",
            Self::GrowthBytes => "growth",
            Self::BytesPerSecond => "passed on",
            Self::NsPerByte => "CPU of the gateway for a byte",
            Self::PieceBytes => "bytes of a piece",
            Self::MaxMs => "slowest",
            Self::HandlerMs => "ready → handler, p50",
            Self::HandlerMaxMs => "ready → handler, slowest",
            Self::Processes => "processes",
            Self::Instances => "instances",
            Self::Connections => "connections",
            Self::HitPercent => "hits",
            Self::Failed => "failed",
            Self::NoticedMs => "until it is left out",
            Self::WindowBeyondPercent => "beyond the rate, worst window",
            Self::SecondBeyondPercent => "any second",
            Self::BeyondPercent => "in all",
            Self::Undecided => "not decided by Redis",
            Self::LetInAlone => "let in without Redis",
        }
    }

    /// `µs`.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::CpuUs | Self::GatewayCpuUs | Self::LoadCpuUs => "µs",
            Self::PerSecond => "requests/s",
            Self::P50Ms
            | Self::P975Ms
            | Self::P99Ms
            | Self::P999Ms
            | Self::MeanMs
            | Self::ColdMs
            | Self::MaxMs
            | Self::HandlerMs
            | Self::HandlerMaxMs
            | Self::NoticedMs => "ms",
            Self::Instructions | Self::Processes | Self::Instances | Self::PieceBytes | Self::Connections => "",
            Self::Failed | Self::Undecided | Self::LetInAlone => "requests",
            Self::HitPercent | Self::WindowBeyondPercent | Self::SecondBeyondPercent | Self::BeyondPercent => "%",
            Self::NsPerByte => "ns",
            Self::BytesPerSecond => "bytes/s",
            Self::RssBytes | Self::PssBytes | Self::RssAfterBytes | Self::GrowthBytes => "bytes",
        }
    }

    /// Whether it is shown in MB.
    #[must_use]
    pub const fn is_memory(self) -> bool {
        matches!(self, Self::RssBytes | Self::PssBytes | Self::RssAfterBytes | Self::GrowthBytes)
    }

    /// Whether more of it is better.
    #[must_use]
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::PerSecond | Self::BytesPerSecond | Self::HitPercent)
    }
}
