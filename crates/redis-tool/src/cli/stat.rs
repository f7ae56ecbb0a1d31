//! `--stat`: what a server, or all primaries of a cluster together, is doing; a line a second.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use pilotlight_redis::{Command, Route};
use pilotlight_resp::Value;

use super::arguments::CliArgs;
use super::format::Format;
use super::output::Output;
use super::session::Session;

/// Time between lines, unless `-i` says otherwise.
const EVERY: Duration = Duration::from_secs(1);
/// Lines between two headings.
const HEADING_EVERY: u64 = 20;

/// Sums over the servers.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Sums {
    keys: u64,
    memory: u64,
    clients: u64,
    blocked: u64,
    commands: u64,
    connections: u64,
    servers: u64,
    failed: u64,
}

/// Does it, until Ctrl-C, or for as many lines as `-r` says.
pub(super) async fn run(session: &Session, arguments: &CliArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let every = arguments.input.interval.unwrap_or(EVERY);
    // Once is the default of -r, and no way to look at a server.
    let mut left = if arguments.input.repeat <= 1 { u64::MAX } else { arguments.input.repeat.unsigned_abs() };
    let mut before: Option<(Sums, Instant)> = None;
    let mut lines = 0;
    while left > 0 {
        let sums = tokio::select! {
            sums = sums(session) => sums?,
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        };
        let now = Instant::now();
        let rate = before.map(|(before, then)| {
            sums.commands.saturating_sub(before.commands) as f64 / now.duration_since(then).as_secs_f64().max(1e-9)
        });
        before = Some((sums, now));
        output.bytes(line(&sums, rate, lines, output.format()).as_bytes())?;
        lines += 1;
        left -= 1;
        if left > 0 {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn line(sums: &Sums, rate: Option<f64>, lines: u64, format: Format) -> String {
    let rate_text = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    if matches!(format, Format::Json | Format::QuotedJson) {
        let rate = rate.map_or_else(|| "null".to_owned(), |rate| format!("{rate:.1}"));
        return format!(
            "{{\"keys\":{},\"memory_bytes\":{},\"clients\":{},\"blocked\":{},\"commands\":{},\"commands_per_second\":{rate},\"connections\":{},\"servers\":{},\"failed\":{}}}\n",
            sums.keys,
            sums.memory,
            sums.clients,
            sums.blocked,
            sums.commands,
            sums.connections,
            sums.servers,
            sums.failed
        );
    }
    let mut out = String::new();
    if lines.is_multiple_of(HEADING_EVERY) {
        out.push_str("        keys     memory  clients  blocked      commands         /s   connections  servers\n");
    }
    let servers = match sums.failed {
        0 => sums.servers.to_string(),
        failed => format!("{} ({failed} silent)", sums.servers),
    };
    out.push_str(&format!(
        "{:>12} {:>10} {:>8} {:>8} {:>13} {rate_text:>10} {:>13} {servers:>8}\n",
        sums.keys,
        bytes(sums.memory),
        sums.clients,
        sums.blocked,
        sums.commands,
        sums.connections
    ));
    out
}

async fn sums(session: &Session) -> anyhow::Result<Sums> {
    let mut sums = Sums::default();
    let mut first_error = None;
    for answer in session.client().on_all(Route::AllPrimaries, Command::raw("INFO")).await? {
        match answer.reply {
            Ok(Value::Bulk(info) | Value::Verbatim { text: info, .. }) => {
                sums.servers += 1;
                sums.add(&String::from_utf8_lossy(&info));
            }
            Ok(_) => sums.failed += 1,
            Err(error) => {
                sums.failed += 1;
                first_error.get_or_insert(error);
            }
        }
    }
    match first_error {
        Some(error) if sums.servers == 0 => Err(error.into()),
        _ => Ok(sums),
    }
}

impl Sums {
    fn add(&mut self, info: &str) {
        for line in info.lines() {
            let Some((name, value)) = line.trim().split_once(':') else { continue };
            let number = || value.parse::<u64>().unwrap_or_default();
            match name {
                "used_memory" => self.memory += number(),
                "connected_clients" => self.clients += number(),
                "blocked_clients" => self.blocked += number(),
                "total_commands_processed" => self.commands += number(),
                "total_connections_received" => self.connections += number(),
                // db0:keys=1,expires=0,avg_ttl=0
                name if name.starts_with("db") => {
                    let keys = value.split(',').find_map(|field| field.strip_prefix("keys="));
                    self.keys += keys.and_then(|keys| keys.parse::<u64>().ok()).unwrap_or_default();
                }
                _ => {}
            }
        }
    }
}

/// A size for people: `1.50M`.
pub(super) fn bytes(size: u64) -> String {
    let mut value = size as f64;
    for unit in ["B", "K", "M", "G"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{size}B") } else { format!("{value:.2}{unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.2}T")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_summed() {
        let mut sums = Sums::default();
        let info = "# Clients\r\nconnected_clients:2\r\nused_memory:1048576\r\ndb0:keys=3,expires=0\r\ndb5:keys=4,expires=1\r\ntotal_commands_processed:9\r\n";
        sums.add(info);
        sums.add(info);
        assert_eq!((sums.keys, sums.memory, sums.clients, sums.commands), (14, 2 << 20, 4, 18));
        assert_eq!(bytes(sums.memory), "2.00M");
        assert_eq!(bytes(12), "12B");
    }
}
