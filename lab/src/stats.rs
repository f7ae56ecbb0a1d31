//! What is said about measured times: moments, percentiles, ratios of rounds and how sure they are.

mod bootstrap;
mod signed_rank;
mod times;

pub use bootstrap::{Interval, Level, RESAMPLES, median, median_interval, ratio_interval, ratios};
pub use signed_rank::signed_rank;
pub use times::{Bin, Times};
