//! Metrics as text for Prometheus: `cargo run -p pilotlight-redis --example metrics [URL]`.
//!
//! An exporter of OpenTelemetry takes the same two: histograms from an observer, all else from
//! `client.stats().metrics()`.

use std::fmt::Write;
use std::sync::Arc;

use pilotlight_redis::metrics::{BOUNDS, DurationSeries, Durations, MetricKind, OPERATION_DURATION};
use pilotlight_redis::{Client, Commands, Config, Error};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    println!("{}", run(Config::from_url(&url)?).await?);
    Ok(())
}

pub(crate) async fn run(config: Config) -> Result<String, Error> {
    let durations = Arc::new(Durations::default());
    let client = Client::new(Config { observer: Some(Arc::clone(&durations) as _), ..config })?;
    client.set("metrics:name", "Ada").await?;
    for _ in 0..3 {
        client.get("metrics:name").await?;
    }
    // An error is an operation, too.
    let _ = client.incr("metrics:name").await;
    let mut pipeline = client.pipeline();
    for visit in 0..5 {
        let _ = pipeline.sadd("metrics:visits", visit);
    }
    pipeline.run().await?;
    Ok(text(&client, &durations))
}

fn text(client: &Client, durations: &Durations) -> String {
    let mut text = String::new();
    for series in durations.snapshot() {
        histogram(&mut text, &series);
    }
    for metric in client.stats().metrics() {
        let end = if metric.kind == MetricKind::Counter { "_total" } else { "" };
        let _ =
            writeln!(text, "{}{end}{} {}", underscored(metric.name), labels(&metric.attributes, None), metric.value);
    }
    text
}

fn histogram(text: &mut String, series: &DurationSeries) {
    let name = underscored(OPERATION_DURATION) + "_seconds";
    let mut below = 0;
    for (bucket, count) in series.buckets.iter().enumerate() {
        below += count;
        let bound = BOUNDS.get(bucket).map_or("+Inf".to_owned(), f64::to_string);
        let _ = writeln!(text, "{name}_bucket{} {below}", labels(&series.attributes, Some(bound)));
    }
    let all = labels(&series.attributes, None);
    let _ = writeln!(text, "{name}_sum{all} {}\n{name}_count{all} {below}", series.sum.as_secs_f64());
}

fn labels(attributes: &[(&'static str, String)], bound: Option<String>) -> String {
    let bound = bound.map(|bound| format!("le=\"{bound}\""));
    let label = |(name, value): &(&str, String)| format!("{}={value:?}", underscored(name));
    let all: Vec<_> = attributes.iter().map(label).chain(bound).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn underscored(name: &str) -> String {
    name.replace('.', "_")
}
