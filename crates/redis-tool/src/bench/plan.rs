//! What is to be measured, and what each command of a measurement is made of.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_redis::Config;

use super::arguments::BenchArgs;
use super::operation::Operation;
use super::template::Template;
use crate::connection::UsageError;
use crate::load::default_threads;
use crate::load::distribution::Distribution;
use crate::load::noise::Noise;

/// All measurements of one run, checked.
pub(crate) struct Bench<'a> {
    pub(crate) args: &'a BenchArgs,
    pub(crate) config: Config,
    pub(crate) plans: Vec<Arc<Plan>>,
    pub(crate) threads: u64,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(args: &'a BenchArgs) -> anyhow::Result<Self> {
        let mut config = args.connection.config()?;
        config.lanes = args.lanes as usize;
        config.command_timeout = Some(args.timeout);
        let threads = args.threads.unwrap_or(default_threads() as u64).min(args.workers);
        let batch_bytes = args.pipeline.saturating_mul(args.value_size + 128);
        let most = config.max_queued_bytes as u64;
        if batch_bytes > most {
            let why = format!(
                "--pipeline × --value-size: a batch of {batch_bytes} bytes is more than {most}: give less of one of them"
            );
            return Err(UsageError(why).into());
        }
        let operations = match Template::parse(&args.command)? {
            Some(template) => vec![Operation::Command(Arc::new(template))],
            None => args.operation.clone(),
        };
        let shared = Plan::shared(args);
        let plans = operations.into_iter().map(|operation| Arc::new(shared.of(operation))).collect();
        Ok(Self { args, config, plans, threads })
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
