//! The distribution of latencies as a picture.

use pilotlight_plot::{Curve, Distribution, Kind};

use super::measure::Row;

const WIDTH: f64 = 900.0;

/// The picture of all rows; one without commands has no curve.
pub(crate) fn svg(rows: &[Row]) -> String {
    let curves = rows.iter().filter_map(|row| Curve::new(&row.name, Kind::Peer, &row.tally.latency)).collect();
    let title = "latency of commands by percentile".to_owned();
    Distribution { title, axis: "percentile of commands".to_owned(), curves }.draw(WIDTH).file()
}
