//! Wilcoxon's signed-rank test (1945): how often chance alone would give differences as one-sided as these.
//!
//! If two variants are equal, each round is as likely to favour the one as the other, by as much: the logarithms of
//! their ratios are symmetric about zero, however times are distributed. That is all that the test assumes besides
//! independent rounds, so its level is exact for few rounds as well, where a bootstrap of medians promises more than it
//! keeps.

/// Up to so many values the distribution is counted out; beyond, the normal approximation is right to a hundredth of
/// the value.
const COUNTED_OUT: usize = 60;

/// The two-sided p-value of `values` being symmetric about 0; 1 if there are none. Zeros say nothing and are left out.
#[must_use]
pub fn signed_rank(values: &[f64]) -> f64 {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| *value != 0.0 && !value.is_nan()).collect();
    values.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    let ranks = doubled_ranks(&values);
    let all: usize = ranks.iter().sum();
    let positive: usize = ranks.iter().zip(&values).filter(|(_, value)| **value > 0.0).map(|(rank, _)| rank).sum();
    let smaller = positive.min(all - positive);
    let tail = if ranks.len() <= COUNTED_OUT { counted(&ranks, smaller) } else { approximated(&ranks, smaller) };
    (2.0 * tail).min(1.0)
}

/// Twice the rank of each of the sorted values, so that the mean rank of equal ones is whole.
fn doubled_ranks(sorted: &[f64]) -> Vec<usize> {
    let same = |one: &f64, other: &f64| one.abs() == other.abs();
    let mut ranks = Vec::with_capacity(sorted.len());
    for ties in sorted.chunk_by(same) {
        let rank = 2 * ranks.len() + ties.len() + 1;
        ranks.extend(std::iter::repeat_n(rank, ties.len()));
    }
    ranks
}

/// Of all ways to give signs to the ranks, the share whose positive ones sum to `limit` at most.
fn counted(ranks: &[usize], limit: usize) -> f64 {
    let mut ways = vec![0.0; limit + 1];
    ways[0] = 1.0;
    for rank in ranks {
        for sum in (*rank..=limit).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    ways.iter().sum::<f64>() / 2_f64.powi(i32::try_from(ranks.len()).unwrap_or(i32::MAX))
}

fn approximated(ranks: &[usize], limit: usize) -> f64 {
    let mean = ranks.iter().sum::<usize>() as f64 / 2.0;
    let variance: f64 = ranks.iter().map(|rank| (*rank as f64 / 2.0).powi(2)).sum();
    // Doubled ranks have steps of two.
    normal_tail((mean - limit as f64 - 1.0).max(0.0) / variance.sqrt())
}

/// How much of a normal distribution lies above `z` ≥ 0 (Abramowitz and Stegun 1964, 26.2.17; error below 7.5e-8).
pub(super) fn normal_tail(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let sum = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    #[track_caller]
    fn check(values: &[f64], wanted: f64) {
        let found = signed_rank(values);
        assert!((found - wanted).abs() < 1e-4, "{found} where {wanted} was due");
    }

    #[test]
    fn known_samples() {
        // Hollander and Wolfe 1973, pp. 29 and 69, as in the documentation of R's wilcox.test: V = 40, one-sided
        // 0.01953
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        // The 3.14 is 2 + 1.14 so that it is not taken for π.
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 2.0 + 1.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| before - after).collect();
        check(&differences, 0.039_062_5);
        check(&[1.0, 2.0, 3.0, 4.0, 5.0], 2.0 / 32.0);
        check(&[-1.0, -2.0, -3.0, -4.0, -5.0, 0.0], 2.0 / 32.0);
        // three equal ones: two or three of them positive, four ways of eight
        check(&[1.0, 1.0, -1.0], 1.0);
        check(&[], 1.0);
    }

    #[test]
    fn the_approximation_agrees_with_counting() {
        let mut rng = Rng::with_seed(1);
        for shift in [0.1, 0.15, 0.2] {
            let mut values: Vec<f64> = (0..COUNTED_OUT).map(|_| rng.f64() - 0.5 + shift).collect();
            values.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
            let ranks = doubled_ranks(&values);
            let negative = ranks.iter().zip(&values).filter(|(_, value)| **value < 0.0).map(|(rank, _)| rank).sum();
            let (counted, approximated) = (counted(&ranks, negative), approximated(&ranks, negative));
            assert!((counted - approximated).abs() < 0.01 * counted + 1e-4, "{counted} and {approximated}");
        }
    }

    /// Equals whose times have long tails, as times have: the level is kept for few rounds and for many.
    #[test]
    fn equals_are_told_apart_no_more_often_than_said() {
        const EXPERIMENTS: usize = 2000;
        let mut rng = Rng::with_seed(2);
        for rounds in [8, 24, 100] {
            let time = |rng: &mut Rng| 1.0 + 0.1 * rng.f64() - if rng.u8(..8) == 0 { rng.f64().ln() } else { 0.0 };
            let told = (0..EXPERIMENTS).filter(|_| {
                let ratios: Vec<f64> = (0..rounds).map(|_| (time(&mut rng) / time(&mut rng)).ln()).collect();
                signed_rank(&ratios) <= 0.01
            });
            let share = told.count() as f64 / EXPERIMENTS as f64;
            assert!(share <= 0.016, "{share} of the experiments with {rounds} rounds tell equals apart");
        }
    }
}
