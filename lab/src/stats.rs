//! What is said about measured times: moments, percentiles, ratios of rounds and how sure they are.

mod bootstrap;
mod rank_sum;
mod signed_rank;
mod times;

pub use bootstrap::{Interval, Level, RESAMPLES, median, median_interval, medians_interval, ratio_interval, ratios};
pub use rank_sum::{least_rank_sum, rank_sum};
pub use signed_rank::signed_rank;
pub use times::Times;
