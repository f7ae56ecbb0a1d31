//! What each command of a measurement is made of.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::BenchArgs;
use super::template::Template;
use crate::load::distribution::Distribution;
use crate::load::noise::Noise;

/// What is done.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Get,
    Set,
    Mixed,
    Command(Arc<Template>),
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "get" => Ok(Self::Get),
            "set" => Ok(Self::Set),
            "mixed" => Ok(Self::Mixed),
            _ => Err("get, set or mixed; other commands go after --".to_owned()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => f.write_str("GET"),
            Self::Set => f.write_str("SET"),
            Self::Mixed => f.write_str("mixed"),
            Self::Command(template) => f.write_str(template.name()),
        }
    }
}

/// One measurement.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) operation: Operation,
    pub(crate) workers: u64,
    pub(crate) pipeline: u64,
    pub(crate) rate: Option<u64>,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    pub(crate) keys: u64,
    pub(crate) key_prefix: Arc<str>,
    pub(crate) value_size: usize,
    pub(crate) write_percent: u64,
    pub(crate) distribution: Distribution,
    pub(crate) seed: u64,
    pub(crate) noise: Arc<Noise>,
}

impl Plan {
    /// What all measurements of a run have in common.
    pub(crate) fn shared(args: &BenchArgs) -> Self {
        Self {
            operation: Operation::Get,
            workers: args.workers,
            pipeline: args.pipeline,
            rate: args.rate,
            warmup: args.warmup,
            duration: args.duration,
            keys: args.keys,
            key_prefix: args.key_prefix.as_str().into(),
            value_size: args.value_size as usize,
            write_percent: args.writes,
            distribution: args.distribution,
            seed: args.seed,
            noise: Arc::new(Noise::new(args.seed, args.value_size as usize)),
        }
    }

    pub(crate) fn of(&self, operation: Operation) -> Self {
        Self { operation, ..self.clone() }
    }

    /// Whether it asks for values, so that keys have to exist.
    pub(crate) fn reads(&self) -> bool {
        matches!(self.operation, Operation::Get | Operation::Mixed)
    }

    /// Appends the key of a number: the prefix and 12 digits.
    #[inline]
    pub(crate) fn append_key(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.key_prefix.as_bytes());
        append_digits(number, out);
    }
}

/// Appends 12 digits.
#[inline]
pub(crate) fn append_digits(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 12];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits);
}
