//! What follows from what was measured: errors of the predictions as figures, costs and fleets as tables, and which
//! resource binds first in sentences.

use super::model::{Capacity, Costs, Fleet, Line, Resource, Shared, error_percent, per_second};
use super::{
    ALL_SIZES, ANSWERS, BUSIEST, CONNECTIONS, EMPTY, GATEWAYS, HANDSHAKE, HELD, HIT, HTTP, LIMITED, MEMORY, PIPE,
    REDIS, SERVICES, SIZES, Scale, Size, TOLD, WORK, told_id,
};
use crate::experiment::Setting;
use crate::experiment::judge::summary_of;
use crate::experiment::model::{
    Column, Figure, GroupResults, Metric, Report, Results, RowResults, TableResults, VariantResults,
};
use crate::gateway::loads::{MEMORY_HIT, REDIS_HIT};
use crate::report::number;
use crate::show::words::grouped;

const MAX_ERROR_PERCENT: f64 = 15.0;
const MACHINES: [u32; 3] = [10, 100, 1000];

/// Adds all of it, as far as it was measured.
pub(super) fn add(results: &mut Results, about: &Report) {
    let setting = Setting { quick: about.quick, scratch: "".into(), peers: None, seed: about.seed };
    let measured = Measured { groups: &results.groups, scale: Scale::here(&setting), seed: about.seed };
    let Some(costs) = measured.costs() else { return };
    let (figures, mut tables) = (measured.errors(&costs), vec![table_of(&costs)]);
    tables.extend(measured.sizes(&costs));
    let mut findings = Vec::new();
    if let Some(shared) = measured.shared() {
        let fleet = Fleet::TYPICAL;
        let found = MACHINES.map(|machines| (machines, fleet.capacity(f64::from(machines), &costs, &shared)));
        tables.push(fleets(&found));
        findings.push(assumed(&fleet));
        findings.extend(found.iter().map(|(machines, capacity)| said(*machines, capacity, &fleet)));
    }
    results.figures.extend(figures);
    results.tables.extend(tables);
    results.findings.extend(findings);
}

/// What was measured, group by group.
struct Measured<'a> {
    groups: &'a [GroupResults],
    scale: Scale,
    seed: u64,
}

impl Measured<'_> {
    fn variant(&self, group: &str, id: &str) -> Option<&VariantResults> {
        let group = self.groups.iter().find(|found| found.id == group)?;
        group.variants.iter().find(|variant| variant.id == id && variant.failed.is_none())
    }

    fn median(&self, group: &str, id: &str, metric: Metric) -> Option<f64> {
        Some(self.variant(group, id)?.summary.get(&metric)?.median)
    }

    fn costs(&self) -> Option<Costs> {
        let cpu = |id| self.median(WORK, id, Metric::GatewayCpuUs);
        let bytes = |id| self.median(MEMORY, id, Metric::PssBytes);
        let held = self.scale.content(HELD);
        let empty_bytes = bytes(EMPTY)?;
        let each = |id, count: u32| Some((bytes(id)? - empty_bytes) / f64::from(count));
        Some(Costs {
            hit_us: cpu(HIT)?,
            http_us: cpu(HTTP)?,
            pipe_us: cpu(PIPE)?,
            handshake_us: cpu(HANDSHAKE)?,
            empty_bytes,
            connection_bytes: each(CONNECTIONS, held.connections)?,
            answer_bytes: each(ANSWERS, held.answers)?,
            service_bytes: each(SERVICES, held.services)?,
        })
    }

    fn shared(&self) -> Option<Shared> {
        let of = |id: &str, who: &str| self.variant(REDIS, id)?.cpu_us.get(who).copied();
        let more = |id, who| Some(of(id, who)? - of(MEMORY_HIT, who)?);
        let line = |work: &str, value: &dyn Fn(&VariantResults) -> Option<f64>| {
            let [one, other] =
                GATEWAYS.map(|gateways| Some([gateways as f64, value(self.variant(TOLD, &told_id(work, gateways))?)?]));
            Some(Line::through(one?, other?))
        };
        let cpu = |work, who: &str| line(work, &|found| found.cpu_us.get(who).copied());
        Some(Shared {
            hit_us: [of(REDIS_HIT, "gateway")?, more(REDIS_HIT, "redis")?],
            limit_us: [more(LIMITED, "gateway")?, more(LIMITED, "redis")?],
            record: cpu("record", "redis")?,
            purge: cpu("purge", BUSIEST)?,
            second: cpu("second", BUSIEST)?,
            record_heard: cpu("record", "gateway")?,
            purge_heard: cpu("purge", "gateway")?,
            second_heard: cpu("second", "gateway")?,
            connections: line("second", &|found| Some(found.summary.get(&Metric::Connections)?.median))?,
        })
    }

    /// What was predicted of a size, and of which metric.
    fn predicted(&self, size: &Size, costs: &Costs) -> [(Metric, f64); 2] {
        let (content, mix) = (self.scale.content(size.content), self.scale.mix(size.mix));
        [(Metric::GatewayCpuUs, costs.cpu_us(mix)), (Metric::PssBytes, costs.bytes(content))]
    }

    /// Of each round.
    fn errors(&self, costs: &Costs) -> Vec<Figure> {
        let figure = |size: &Size, metric: Metric, predicted: f64| {
            let rounds = self.variant(SIZES, size.id).map_or(&[][..], |variant| &variant.rounds);
            let rounds = rounds.iter().filter_map(|round| round.get(&metric));
            let rounds: Vec<f64> = rounds.map(|measured| error_percent(predicted, *measured)).collect();
            let measured = summary_of(&rounds, self.seed);
            let what = if metric == Metric::PssBytes { "memory" } else { "CPU of a request" };
            Figure {
                name: format!("{}: error of the predicted {what}", size.id),
                wanted: format!("≤ {MAX_ERROR_PERCENT} %"),
                measured,
                rounds,
                met: measured.map(|found| found.median <= MAX_ERROR_PERCENT),
            }
        };
        let of = |size: &'static Size| self.predicted(size, costs).map(|(metric, value)| figure(size, metric, value));
        ALL_SIZES.iter().flat_map(of).collect()
    }

    /// Predicted beside measured.
    fn sizes(&self, costs: &Costs) -> Option<TableResults> {
        let row = |size: &Size| {
            let [(_, cpu_us), (_, bytes)] = self.predicted(size, costs);
            let measured_us = self.median(SIZES, size.id, Metric::GatewayCpuUs)?;
            let measured_bytes = self.median(SIZES, size.id, Metric::PssBytes)?;
            let values =
                [cpu_us, measured_us, per_second(cpu_us), per_second(measured_us), bytes / 1e6, measured_bytes / 1e6];
            Some(RowOf { id: size.id.into(), title: size.id.into(), values: values.map(Some).into() })
        };
        let rows = ALL_SIZES.iter().filter_map(row).collect::<Vec<_>>();
        let columns = [
            ("cpu-predicted", "CPU of a request, predicted", "µs"),
            ("cpu-measured", "measured", "µs"),
            ("capacity-predicted", "requests of a core, predicted", "/s"),
            ("capacity-measured", "measured", "/s"),
            ("memory-predicted", "memory, predicted", "MB"),
            ("memory-measured", "measured", "MB"),
        ];
        (!rows.is_empty())
            .then(|| table("predicted", "Predicted and measured", "medians of the groups", &columns, rows))
    }
}

fn table_of(costs: &Costs) -> TableResults {
    let row = |id: &str, title: &str, cpu_us, bytes| RowOf {
        id: id.into(),
        title: title.into(),
        values: vec![cpu_us, bytes],
    };
    let rows = vec![
        row(HIT, "an answer from memory", Some(costs.hit_us), None),
        row(HTTP, "passed on over HTTP", Some(costs.http_us), None),
        row(PIPE, "passed on over the pipe", Some(costs.pipe_us), None),
        row(HANDSHAKE, "a full TLS handshake and an answer", Some(costs.handshake_us), None),
        row(EMPTY, "an empty gateway", None, Some(costs.empty_bytes)),
        row(CONNECTIONS, "a silent client", None, Some(costs.connection_bytes)),
        row(ANSWERS, "a stored answer of 200 bytes", None, Some(costs.answer_bytes)),
        row(SERVICES, "a stopped service", None, Some(costs.service_bytes)),
    ];
    table(
        "costs",
        "What one of each costs",
        "medians of the groups",
        &[("cpu", "CPU", "µs"), ("memory", "memory", "bytes")],
        rows,
    )
}

fn fleets(found: &[(u32, Capacity)]) -> TableResults {
    let row = |(machines, capacity): &(u32, Capacity)| {
        let Capacity { by_gateway, by_primary, primary_at_rest, connections, certificate_commands, .. } = *capacity;
        let values = [Some(by_gateway), Some(by_primary), Some(primary_at_rest * 100.0), Some(connections)];
        let more = [Some(certificate_commands), capacity.primaries_wanted];
        let title = format!("{} machines", grouped(f64::from(*machines)));
        RowOf { id: machines.to_string(), title, values: values.into_iter().chain(more).collect() }
    };
    let columns = [
        ("by-gateway", "requests of a machine that its cores have time for", "/s"),
        ("by-primary", "that the busiest primary has time for", "/s"),
        ("at-rest", "of that primary is taken without requests", "%"),
        ("connections", "connections of a primary", ""),
        ("certificates", "commands for certificates", "/s"),
        ("primaries", "primaries with which the gateways bind first", ""),
    ];
    let rows = found.iter().map(row).collect();
    table("fleet", "Machines on one Redis Cluster, predicted", "from the medians of the groups", &columns, rows)
}

fn assumed(fleet: &Fleet) -> String {
    let Fleet { cores, primaries, mix, from_redis, limited, purges, records, certificates, max_connections } = *fleet;
    let share = |count: u32| f64::from(count) / f64::from(mix.requests()) * 100.0;
    format!(
        "Taken for granted of a fleet: {cores} cores and workers of a gateway; {primaries} primaries with a core each, keys spread evenly over them, \
         and maxclients {}; {} % of the requests answered by Redis, of the others {} % from memory, {} % passed on over HTTP and {} % over the pipe, \
         {} % on a new TLS connection; {} % of all with a shared limit; of all machines together {purges} purges and {records} stored answers in a \
         second, and {} certificates of 60 days.",
        grouped(max_connections),
        from_redis * 100.0,
        share(mix.hits),
        share(mix.http),
        share(mix.pipe),
        share(mix.handshakes),
        limited * 100.0,
        grouped(certificates),
    )
}

fn said(machines: u32, capacity: &Capacity, fleet: &Fleet) -> String {
    let (of, least) = (grouped(f64::from(machines)), capacity.by_gateway.min(capacity.by_primary));
    let first = match capacity.first {
        Resource::Gateway => format!("the cores of the gateways bind first, at {} requests/s of each", grouped(least)),
        Resource::Primary if least <= 0.0 => "the busiest primary binds first: it has no time for any request".into(),
        Resource::Primary => {
            format!("the busiest primary binds first, at {} requests/s of each machine", grouped(least))
        }
        Resource::Connections => format!(
            "the connections of a primary bind first: {}, where it takes {}",
            grouped(capacity.connections),
            grouped(fleet.max_connections)
        ),
    };
    let wanted = match capacity.primaries_wanted {
        Some(_) if capacity.first == Resource::Gateway => String::new(),
        Some(primaries) => format!("; the gateways would with {} primaries", grouped(primaries)),
        None => "; no number of primaries is enough, as one has the log of purges".into(),
    };
    let rest = number(capacity.primary_at_rest * 100.0);
    format!("{of} machines: {first}{wanted}. Without any request that primary is busy for {rest} % of its time.")
}

/// One number for each column, where there is one.
struct RowOf {
    id: String,
    title: String,
    values: Vec<Option<f64>>,
}

fn table(id: &str, title: &str, workload: &str, columns: &[(&str, &str, &str)], rows: Vec<RowOf>) -> TableResults {
    let column = |(id, title, unit): &(&str, &str, &str)| Column {
        id: (*id).into(),
        title: (*title).into(),
        unit: (*unit).into(),
    };
    let row = |row: RowOf| {
        let values = columns.iter().zip(row.values).filter_map(|((id, ..), value)| Some(((*id).to_owned(), value?)));
        RowResults::once(row.id, row.title, Ok(values.collect()))
    };
    TableResults {
        id: id.into(),
        title: title.into(),
        workload: workload.into(),
        rounds: 1,
        columns: columns.iter().map(column).collect(),
        rows: rows.into_iter().map(row).collect(),
    }
}
