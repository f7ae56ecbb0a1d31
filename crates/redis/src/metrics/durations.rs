//! Histograms of durations, one for each combination of attributes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::observer::{Observer, Operation, error_type};

/// Upper bounds of the histograms' buckets in seconds, as the conventions advise; above the last there is one more
/// bucket.
pub const BOUNDS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// Most combinations of attributes; all further ones become one, with the attribute `otel.metric.overflow`.
pub const MAX_SERIES: usize = 2000;

/// An [`Observer`] that keeps a histogram for each combination of attributes, for an exporter that asks now and then.
/// It takes a lock at each operation, for some tens of nanoseconds, and allocates for the first one of a combination:
/// for very many threads, one of your own may do better.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use pilotlight_redis::metrics::Durations;
/// use pilotlight_redis::{Client, Config};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let durations = Arc::new(Durations::default());
/// let mut config = Config::from_url("redis://localhost")?;
/// config.observer = Some(Arc::clone(&durations) as _);
/// let client = Client::new(config)?;
///
/// for series in durations.snapshot() {
///     println!("{:?}: {} in {:?}", series.attributes, series.count(), series.sum);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Durations {
    hasher: RandomState,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    /// By the hash of what tells them apart, so that nothing is allocated to find one.
    series: HashMap<u64, SmallVec<[(Attributes, Histogram); 1]>>,
    count: usize,
    overflow: Option<Histogram>,
}

type Attributes = Vec<(&'static str, String)>;

#[derive(Debug, Clone, Default)]
struct Histogram {
    buckets: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

/// The histogram of one combination of attributes, since the beginning.
///
/// ```no_run
/// use pilotlight_redis::metrics::Durations;
///
/// fn print(durations: &Durations) {
///     for series in durations.snapshot() {
///         println!("{:?}: {} operations in {:?}", series.attributes, series.count(), series.sum);
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DurationSeries {
    /// By the conventions' names.
    pub attributes: Vec<(&'static str, String)>,
    /// Operations in each bucket; the bounds are [`BOUNDS`].
    pub buckets: [u64; BOUNDS.len() + 1],
    /// All durations together.
    pub sum: Duration,
}

impl Durations {
    /// All histograms, in the order of their attributes.
    #[must_use]
    pub fn snapshot(&self) -> Vec<DurationSeries> {
        let series = |attributes: Attributes, histogram: &Histogram| DurationSeries {
            attributes,
            buckets: histogram.buckets,
            sum: histogram.sum,
        };
        let all = self.all.lock();
        let known = all.series.values().flatten().map(|(attributes, histogram)| series(attributes.clone(), histogram));
        let overflow = all.overflow.iter().map(|it| series(vec![("otel.metric.overflow", "true".to_owned())], it));
        let mut found: Vec<_> = known.chain(overflow).collect();
        found.sort_by(|a, b| a.attributes.cmp(&b.attributes));
        found
    }
}

impl DurationSeries {
    /// Operations in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl Observer for Durations {
    fn ended(&self, operation: &Operation<'_>) {
        let seconds = operation.duration.as_secs_f64();
        let bucket = BOUNDS.iter().position(|&bound| seconds <= bound).unwrap_or(BOUNDS.len());
        let failed =
            operation.error.map(|error| (error_type(error.kind()), error.server().map(|server| server.code())));
        let hash = self.hasher.hash_one((&*operation.name, operation.node, operation.database, failed));
        let mut all = self.all.lock();
        let histogram = all.of(hash, operation);
        histogram.buckets[bucket] += 1;
        histogram.sum += operation.duration;
    }
}

impl All {
    fn of(&mut self, hash: u64, operation: &Operation<'_>) -> &mut Histogram {
        let Self { series, count, overflow } = self;
        let is_it = |(attributes, _): &(Attributes, Histogram)| {
            operation.attributes().eq(attributes.iter().map(|(name, value)| (*name, Cow::Borrowed(value.as_str()))))
        };
        let known = series.get(&hash).and_then(|alike| alike.iter().position(is_it));
        if known.is_none() && *count >= MAX_SERIES {
            return overflow.get_or_insert_default();
        }
        let alike = series.entry(hash).or_default();
        let at = known.unwrap_or_else(|| {
            let attributes = operation.attributes().map(|(name, value)| (name, value.into_owned())).collect();
            alike.push((attributes, Histogram::default()));
            *count += 1;
            alike.len() - 1
        });
        &mut alike[at].1
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn operation(name: String, millis: u64) -> Operation<'static> {
        let duration = Duration::from_millis(millis);
        Operation {
            name: Cow::Owned(name),
            slot: None,
            node: Some("[::1]:7"),
            database: 3,
            batch_size: None,
            attempts: 1,
            duration,
            error: None,
        }
    }

    #[test]
    fn each_duration_is_in_its_bucket() {
        let durations = Durations::default();
        [1, 2, 5, 10_000, 10_001].into_iter().for_each(|millis| durations.ended(&operation("GET".into(), millis)));
        let all = durations.snapshot();
        assert_eq!((all.len(), all[0].buckets), (1, [1, 2, 0, 0, 0, 0, 0, 0, 1, 1]));
        assert_eq!((all[0].count(), all[0].sum), (5, Duration::from_millis(20_009)));
        let expected = [
            ("db.system.name", "redis"),
            ("db.operation.name", "GET"),
            ("db.namespace", "3"),
            ("server.address", "::1"),
            ("server.port", "7"),
        ];
        assert_eq!(all[0].attributes, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let durations = Durations::default();
        (0..MAX_SERIES + 10).for_each(|number| durations.ended(&operation(number.to_string(), 1)));
        let all = durations.snapshot();
        assert_eq!(all.len(), MAX_SERIES + 1);
        let overflow = all.iter().find(|series| series.attributes[0].0 == "otel.metric.overflow").unwrap();
        assert_eq!(overflow.count(), 10);
        assert_eq!(durations.all.lock().series.len(), MAX_SERIES, "what overflows is not kept");
    }
}
