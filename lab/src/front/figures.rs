//! What is wanted of the experiment, beside what was measured.

use super::server::Kind;
use super::{OWN, Work};
use crate::experiment::model::{Figure, GroupResults, Metric, Results};

const MIB: f64 = 1024.0 * 1024.0;
/// A large file may make a server grow by so much.
const GROWTH_MIB: f64 = 2.0;

/// Adds the figures.
pub(super) fn add(results: &mut Results) {
    let figures = results.groups.iter().flat_map(of_group).collect::<Vec<_>>();
    results.figures.extend(figures);
}

fn of_group(group: &GroupResults) -> Vec<Figure> {
    let Some(work) = Work::ALL.into_iter().find(|work| work.id() == group.id) else { return Vec::new() };
    let best = [Kind::Nginx, Kind::Haproxy, Kind::H2o].as_slice();
    let nginx = [Kind::Nginx].as_slice();
    let (most, others, beside) = match work {
        Work::Http1 => (0.85, best, "the best of nginx, HAProxy and H2O"),
        Work::Http2 => (0.8, best, "the best of nginx, HAProxy and H2O"),
        Work::Handshake => (1.0, nginx, "nginx"),
        Work::SmallFile => (0.9, nginx, "nginx"),
        Work::LargeFile | Work::LargeFileTls => (1.1, nginx, "nginx"),
    };
    let compared = |kind: &Kind| {
        let asked = group.comparisons.iter().find(|asked| asked.one == OWN && asked.other == kind.id());
        asked.and_then(|asked| asked.value)
    };
    let worst = others.iter().filter_map(compared).max_by(|one, other| one.median.total_cmp(&other.median));
    let name = format!("{}: CPU of a request / {beside}", group.id);
    let cpu = Figure::at_most(group, Metric::CpuUs, name, (most, " ×"), worst);
    if !matches!(work, Work::LargeFile | Work::LargeFileTls) {
        return vec![cpu];
    }
    let own = group.variants.iter().find(|variant| variant.id == OWN && variant.failed.is_none());
    let growth = own.and_then(|own| own.summary.get(&Metric::RssBytes).copied());
    let name = format!("{}: growth of memory", group.id);
    let limit = (GROWTH_MIB * MIB, " bytes");
    vec![cpu, Figure::at_most(group, Metric::RssBytes, name, limit, growth)]
}
