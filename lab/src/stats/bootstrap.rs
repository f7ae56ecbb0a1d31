//! Ratios of rounds, and between which values their median lies.
//!
//! Variants are measured one after another inside a round, so what disturbs a machine for longer than a round disturbs
//! both sides of a ratio. The median of the rounds' ratios stands for the comparison; its 95 % interval is a percentile
//! bootstrap over rounds (Efron and Tibshirani 1993, §13.3), with a seed that is stored, so that a report can be
//! computed again.

use fastrand::Rng;

/// Samples with replacement that an interval is made of.
pub const RESAMPLES: usize = 2000;

/// How sure an interval is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// 95 %: of what is compared.
    Percent95,
    /// 99 %: of controls, of which a report has dozens.
    Percent99,
}

impl Level {
    /// What lies below the interval, and above it.
    const fn tail(self) -> f64 {
        match self {
            Self::Percent95 => 0.025,
            Self::Percent99 => 0.005,
        }
    }
}

/// A median and the interval around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The median of the sample.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The median; `None` of nothing. Of an even number the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// The median of `values` and its interval; `None` for fewer than two, which say nothing about their spread.
#[must_use]
pub fn median_interval(values: &[f64], level: Level, rng: &mut Rng) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut room = Vec::new();
    let medians = (0..RESAMPLES).filter_map(|_| resampled_median(values, &mut room, rng)).collect();
    Some(between(median(values)?, medians, level))
}

/// The ratio of the medians of two samples that have nothing to do with each other, and its interval; `None` if either
/// has fewer than two values, or a median of the second is 0.
#[must_use]
pub fn medians_interval(one: &[f64], other: &[f64], level: Level, rng: &mut Rng) -> Option<Interval> {
    if one.len() < 2 || other.len() < 2 {
        return None;
    }
    let ratio = |one: f64, other: f64| Some(one / other).filter(|ratio| ratio.is_finite());
    let mut room = Vec::new();
    let mut again = |values| resampled_median(values, &mut room, rng);
    let again = (0..RESAMPLES).map(|_| ratio(again(one)?, again(other)?));
    let ratios = again.collect::<Option<Vec<f64>>>()?;
    Some(between(ratio(median(one)?, median(other)?)?, ratios, level))
}

fn resampled_median(values: &[f64], room: &mut Vec<f64>, rng: &mut Rng) -> Option<f64> {
    room.clear();
    room.extend((0..values.len()).map(|_| values[rng.usize(..values.len())]));
    room.sort_by(f64::total_cmp);
    median_of_sorted(room)
}

fn between(median: f64, mut resampled: Vec<f64>, level: Level) -> Interval {
    resampled.sort_by(f64::total_cmp);
    let at = |quantile: f64| resampled[((resampled.len() - 1) as f64 * quantile).round() as usize];
    Interval { median, low: at(level.tail()), high: at(1.0 - level.tail()) }
}

/// `one / other`, round by round. Rounds in which either has nothing are left out.
#[must_use]
pub fn ratios(one: &[Option<f64>], other: &[Option<f64>]) -> Vec<f64> {
    let ratio = |(one, other): (&Option<f64>, &Option<f64>)| match (one, other) {
        (Some(one), Some(other)) if *other > 0.0 => Some(one / other),
        _ => None,
    };
    one.iter().zip(other).filter_map(ratio).collect()
}

/// The median of [`ratios`] and its 95 % interval.
#[must_use]
pub fn ratio_interval(one: &[Option<f64>], other: &[Option<f64>], rng: &mut Rng) -> Option<Interval> {
    median_interval(&ratios(one, other), Level::Percent95, rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 7.0]), Some(6.0));
    }

    #[test]
    fn too_few_rounds_have_no_interval() {
        let mut rng = Rng::with_seed(1);
        assert_eq!(median_interval(&[], Level::Percent95, &mut rng), None);
        assert_eq!(median_interval(&[1.0], Level::Percent95, &mut rng), None);
        assert_eq!(ratio_interval(&[Some(1.0), None], &[Some(1.0), Some(1.0)], &mut rng), None);
        assert_eq!(ratio_interval(&[Some(1.0), Some(1.0)], &[Some(0.0), Some(0.0)], &mut rng), None);
    }

    #[test]
    fn ratios_are_taken_inside_rounds() {
        // Each round twice as slow as the one before: without pairing the spread would hide the factor.
        let other: Vec<Option<f64>> = (0..10).map(|round| Some(f64::from(1 << round))).collect();
        let one: Vec<Option<f64>> = other.iter().map(|value| value.map(|v| v * 0.5)).collect();
        let interval = ratio_interval(&one, &other, &mut Rng::with_seed(1)).expect("ten rounds");
        assert_eq!(interval, Interval { median: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values = [1.0, 1.3, 0.9, 1.1, 1.7, 0.8];
        let again = || median_interval(&values, Level::Percent95, &mut Rng::with_seed(7));
        assert_eq!(again(), again());
    }

    #[test]
    fn the_surer_interval_is_wider() {
        let values: Vec<f64> = (0..24).map(|value| f64::from(value * value)).collect();
        let at = |level| median_interval(&values, level, &mut Rng::with_seed(1)).expect("24 values");
        let (sure, surer) = (at(Level::Percent95), at(Level::Percent99));
        assert!(surer.low < sure.low && sure.high < surer.high, "{sure:?} {surer:?}");
    }

    /// Of many simulated experiments, nearly as many as the level says must have the true median in their interval:
    /// skewed samples, as times are. Fewer than ten rounds cover less, which is why no verdict rests on the interval
    /// alone.
    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        const EXPERIMENTS: usize = 400;
        for (level, wanted) in [(Level::Percent95, 0.88..=0.99), (Level::Percent99, 0.955..=1.0)] {
            for rounds in [6, 10, 24] {
                let mut rng = Rng::with_seed(rounds as u64);
                let covered = (0..EXPERIMENTS).filter(|_| {
                    // exp(x), x the sum of twelve uniform numbers less 6, is nearly log-normal with median 1
                    let values: Vec<f64> =
                        (0..rounds).map(|_| (((0..12).map(|_| rng.f64()).sum::<f64>() - 6.0) * 0.2).exp()).collect();
                    median_interval(&values, level, &mut rng).is_some_and(|i| i.low <= 1.0 && 1.0 <= i.high)
                });
                let share = covered.count() as f64 / EXPERIMENTS as f64;
                assert!(
                    wanted.contains(&share),
                    "{share} of the {level:?} intervals of {rounds} rounds cover the median"
                );
            }
        }
    }
}
