//! Wilcoxon's rank-sum test (Mann and Whitney 1947): how often chance alone would set two samples as far apart.
//!
//! Rounds of two runs have no partner, as those of one run have: all that is assumed is that they are independent. If
//! both are of the same distribution, every order of them is as likely as any other.

use std::cmp::Ordering;

use super::signed_rank::normal_tail;

/// Up to so many pairs of values the distribution is counted out; beyond, the normal approximation errs by less than a
/// fifth of the value where that is about a thousandth.
const COUNTED_OUT: usize = 3600;

/// The two-sided p-value of two samples being of one distribution; 1 if either is empty. Ties count half.
#[must_use]
pub fn rank_sum(one: &[f64], other: &[f64]) -> f64 {
    let pairs = one.len() * other.len();
    let half_wins = |one: &f64, other: &f64| match one.total_cmp(other) {
        Ordering::Greater => 2,
        Ordering::Equal => 1,
        Ordering::Less => 0,
    };
    let doubled: usize = one.iter().map(|a| other.iter().map(|b| half_wins(a, b)).sum::<usize>()).sum();
    // Of half a win the worse is taken.
    let smaller = doubled.min(2 * pairs - doubled).div_ceil(2);
    let counted_out = pairs <= COUNTED_OUT;
    let tail = if counted_out { counted(one.len(), other.len(), smaller) } else { approximated(one, other, smaller) };
    (2.0 * tail).min(1.0)
}

/// The least that [`rank_sum`] can give for samples of these sizes: every value of the one is above all of the other.
#[must_use]
pub fn least_rank_sum(one: usize, other: usize) -> f64 {
    (2.0 / orders(one, other)).min(1.0)
}

/// In how many orders of two samples the one is above the other in so many pairs at most, of all orders: each way to
/// choose the ranks of the one.
fn counted(one: usize, other: usize, limit: usize) -> f64 {
    // ways[n][wins]: n values of the one were placed, which are above `wins` of the other.
    let mut ways = vec![vec![0.0; limit + 1]; one + 1];
    ways[0][0] = 1.0;
    for below in 0..=other {
        for placed in 1..=one {
            for wins in below..=limit {
                ways[placed][wins] += ways[placed - 1][wins - below];
            }
        }
    }
    ways[one].iter().sum::<f64>() / orders(one, other)
}

/// `one + other` over `one`.
fn orders(one: usize, other: usize) -> f64 {
    (1..=one).map(|n| (other + n) as f64 / n as f64).product()
}

fn approximated(one: &[f64], other: &[f64], limit: usize) -> f64 {
    let (one, other) = (one.len() as f64, other.len() as f64);
    let deviation = (one * other * (one + other + 1.0) / 12.0).sqrt();
    normal_tail((one * other / 2.0 - limit as f64 - 0.5).max(0.0) / deviation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    #[track_caller]
    fn check(one: &[f64], other: &[f64], wanted: f64) {
        for found in [rank_sum(one, other), rank_sum(other, one)] {
            assert!((found - wanted).abs() < 1e-4, "{found} where {wanted} was due");
        }
    }

    #[test]
    fn known_samples() {
        // Hollander and Wolfe 1973, pp. 69–71, as in the documentation of R's wilcox.test: W = 35, one-sided 0.1272
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        check(&term, &[1.15, 0.88, 0.90, 0.74, 1.21], 0.254_412_3);
        check(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0], 2.0 / 252.0);
        check(&[1.0, 1.0], &[1.0, 1.0], 1.0);
        check(&[], &[1.0], 1.0);
        assert!((least_rank_sum(5, 5) - 2.0 / 252.0).abs() < 1e-12 && least_rank_sum(0, 3) == 1.0);
    }

    #[test]
    fn the_approximation_agrees_with_counting() {
        let mut rng = Rng::with_seed(1);
        for shift in [0.1, 0.15, 0.2] {
            let mut sample = |shift: f64| -> Vec<f64> { (0..40).map(|_| rng.f64() + shift).collect() };
            let (one, other) = (sample(0.0), sample(shift));
            let wins = one.iter().map(|a| other.iter().filter(|b| a > b).count()).sum();
            let (counted, approximated) = (counted(40, 40, wins), approximated(&one, &other, wins));
            assert!((counted - approximated).abs() < 0.2 * counted, "{counted} and {approximated}");
        }
    }
}
