//! What is said about measured times: moments, percentiles, ratios of rounds and how sure they are.

mod bootstrap;
mod times;

pub use bootstrap::{Interval, RESAMPLES, median, median_interval, ratio_interval};
pub use times::{Bin, Times};
