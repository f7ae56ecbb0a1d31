//! Figures of other machines as rows below those of a group.

use std::collections::BTreeMap;

use crate::experiment::model::{GroupResults, Metric, Published};

/// A row: what was measured, where, and how much of each metric.
#[derive(Debug, PartialEq)]
pub(crate) struct Elsewhere<'a> {
    name: &'a str,
    source: &'a str,
    pub(crate) values: BTreeMap<Metric, f64>,
}

impl Elsewhere<'_> {
    /// Its machine is part of the name: the values are of no use without it.
    pub(crate) fn title(&self) -> String {
        format!("{} (published: {})", self.name, self.source)
    }
}

/// Those of a group that have a metric in its table.
pub(crate) fn rows<'a>(group: &GroupResults, published: &'a [Published]) -> Vec<Elsewhere<'a>> {
    let mut rows: Vec<Elsewhere<'a>> = Vec::new();
    for figure in published.iter().filter(|figure| is_in(group, figure)) {
        let (name, source) = (figure.name.as_str(), figure.source.as_str());
        let row = match rows.iter().position(|row| row.name == name && row.source == source) {
            Some(at) => &mut rows[at],
            None => {
                rows.push(Elsewhere { name, source, values: BTreeMap::new() });
                let last = rows.len() - 1;
                &mut rows[last]
            }
        };
        row.values.insert(figure.metric, figure.value);
    }
    rows
}

/// Whether a figure is in a group's table.
pub(crate) fn is_in(group: &GroupResults, figure: &Published) -> bool {
    figure.group == group.id && group.metrics.contains(&figure.metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_one_measurement_are_one_row() {
        let group = GroupResults {
            id: "list".into(),
            title: String::new(),
            workload: String::new(),
            metrics: vec![Metric::PerSecond, Metric::P99Ms],
            rounds: 1,
            seconds: 1.0,
            variants: Vec::new(),
            controls: Vec::new(),
            comparisons: Vec::new(),
        };
        let figure = |group: &str, name: &str, metric, value| Published {
            group: group.into(),
            name: name.into(),
            metric,
            value,
            source: "a desktop".into(),
        };
        let published = [
            figure("list", "one", Metric::PerSecond, 10.0),
            figure("list", "other", Metric::PerSecond, 20.0),
            figure("list", "one", Metric::P99Ms, 3.0),
            figure("list", "one", Metric::CpuUs, 4.0),
            figure("post", "one", Metric::P99Ms, 5.0),
        ];
        let rows = rows(&group, &published);
        let found: Vec<_> = rows.iter().map(|row| (row.title(), row.values.values().copied().collect())).collect();
        assert_eq!(
            found,
            [
                ("one (published: a desktop)".to_owned(), vec![10.0, 3.0]),
                ("other (published: a desktop)".into(), vec![20.0])
            ]
        );
    }
}
