//! What the file says of a schedule.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use pilotlight_schedule::Cron;

/// A request that a service gets at certain times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// Unique in the file. Default: `SERVICE/PATH`.
    pub name: String,
    /// When.
    pub cron: Cron,
    /// By whose clock: a name of the IANA's database. Default `UTC`.
    pub timezone: String,
    /// The name of the service.
    pub service: String,
    /// Path and query of the request.
    pub target: String,
    /// What a function of AWS Lambda gets instead of a request: JSON. Default `None`.
    pub event: Option<Arc<str>>,
    /// Its method. Default `POST`.
    pub method: Method,
    /// The host that it names. Default `localhost`.
    pub host: String,
    /// It is sent up to so much later, at random each time. Default 0.
    pub jitter: Duration,
    /// How long it may take, answer included. Default 10 min.
    pub timeout: Duration,
    /// What becomes of times at which the gateway did not run. Default [`Missed::Skip`].
    pub missed: Missed,
    /// One of the gateways that share a Redis runs it each time. Default: each runs it.
    pub is_shared: bool,
}

/// What becomes of times at which nothing could be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// Nothing.
    #[default]
    Skip,
    /// One request is sent when it can be, for all of them.
    Run,
}

impl ScheduleSpec {
    /// Values of `jitter`.
    pub const JITTER: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(24 * 3600);
    /// Values of `timeout`.
    pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    /// Default of `timeout`.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
    /// Most schedules.
    pub const MAX: usize = 1000;
    /// Methods of their requests.
    pub const METHODS: [&'static str; 6] = ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"];
}
