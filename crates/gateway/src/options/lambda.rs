//! Settings of functions of AWS Lambda: the events that they get, and how large their results may be.

use std::ops::RangeInclusive;
use std::time::Duration;

use pilotlight_lambda::{EventFormat, Function};

/// Settings of a service that is a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LambdaOptions {
    /// The events that it gets of requests.
    pub events: EventFormat,
    /// What events say of it.
    pub function: Function,
    /// Bytes of an event, and of a result that is not streamed.
    pub max_payload: usize,
    /// Bytes of a result that is streamed.
    pub max_stream: u64,
}

impl LambdaOptions {
    /// Values of `max_payload`.
    pub const MAX_PAYLOAD: RangeInclusive<usize> = 1024..=256 << 20;
    /// Values of `max_stream`.
    pub const MAX_STREAM: RangeInclusive<u64> = 1024..=1 << 40;
    /// Values of `memory_size`, in MiB.
    pub const MEMORY_SIZE: RangeInclusive<u32> = 1..=1 << 20;
    /// How long an invocation may take where no setting says so.
    pub const LONGEST: Duration = Duration::from_secs(15 * 60);
}

impl Default for LambdaOptions {
    fn default() -> Self {
        Self {
            events: EventFormat::default(),
            function: Function::default(),
            max_payload: 6 << 20,
            max_stream: 20 << 20,
        }
    }
}
