//! What the gateway answered, as text for people. Colours on a terminal only; nothing that a service said can drive it.

use std::fmt::Write;

use serde_json::Value;

use super::columns::{Cell, Column, Style, Width, fitting, folded, left, right, rows};
use super::options::{Action, Escapes};
use super::stop;

/// The table of all services.
pub(super) fn gateway(answer: &Value, style: Style, width: Width) -> String {
    let gateway = &answer["gateway"];
    let mut text = format!(
        "pilotlight {}  pid {}  up {}  {}  {}  {}\n",
        string(&gateway["version"]),
        gateway["pid"],
        time(gateway["uptime_seconds"].as_f64()),
        list(&gateway["listen"]),
        counted(&gateway["connections_open"], "connection"),
        size(gateway["memory_bytes"].as_u64()),
    );
    if let Some(certificates) = answer["tls"]["certificates"].as_array() {
        let _ = writeln!(text, "tls {}", tls(certificates));
    }
    for source in answer["jwks"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "jwks {}: {}", string(&source["source"]), keys(source));
    }
    if let Some(cache) = answer["cache"].as_object() {
        let (bytes, most) = (size(cache["bytes"].as_u64()), size(cache["max_bytes"].as_u64()));
        let (targets, hits) = (counted(&cache["resources"], "target"), counted(&cache["hits"], "hit"));
        let _ = writeln!(text, "cache {bytes} of {most}, {targets}, {hits}");
    }
    if answer["cache"]["redis"].is_object() {
        text.push_str(&redis(&answer["cache"]["redis"], &answer["cache"]["coherence"]));
    }
    for group in answer["groups"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{}", self::group(group));
    }
    let seconds = answer["services"].as_array().into_iter().flatten().find_map(|one| one["recent"]["seconds"].as_f64());
    if seconds.is_some() {
        let _ = writeln!(text, "p50 and p99 of the last {}, cold starts apart", time(seconds));
    }
    let mut text = folded(&text, width, 2);
    text.push('\n');
    let services: Vec<Vec<Cell>> = answer["services"].as_array().into_iter().flatten().map(row).collect();
    text.push_str(&fitting(&COLUMNS, services, style, width));
    text
}

/// Of the table of services.
const COLUMNS: [Column; 12] = [
    Column::kept("SERVICE", "SERVICE"),
    Column::kept("STATE", "STATE"),
    Column::dropped("INSTANCES", "INST", 4),
    Column::dropped("PID", "PID", 1),
    Column::dropped("UPTIME", "UPTIME", 2),
    Column::dropped("REQUESTS", "REQS", 8),
    Column::dropped("IN FLIGHT", "BUSY", 6),
    Column::dropped("QUEUE", "QUEUE", 5),
    Column::dropped("P50", "P50", 9),
    Column::dropped("P99", "P99", 10),
    Column::dropped("MEMORY", "MEMORY", 7),
    Column::dropped("CACHE HITS", "HITS", 3),
];

/// How many keys a source has given to verify tokens by, and why it gives no others.
fn keys(source: &Value) -> String {
    let count = counted(&source["keys"], "key");
    match source["error"].as_str() {
        Some(error) => format!("{count}, and no others: {}", printable(error)),
        None => count,
    }
}

/// How many certificates there are, and which of them ends first.
fn tls(certificates: &[Value]) -> String {
    let count = counted(&certificates.len().into(), "certificate");
    let first = certificates.iter().min_by_key(|one| one["ends_in_seconds"].as_i64());
    let Some(first) = first else { return count };
    let (name, days) = (string(&first["names"][0]), first["ends_in_seconds"].as_i64().unwrap_or(0) / 86_400);
    match days {
        ..0 => format!("{count}, {name} has expired"),
        days => format!("{count}, {name} ends in {}", self::counted(&days.into(), "day")),
    }
}

/// The cache's tier in Redis, and what is known of the gateways that share it.
fn redis(redis: &Value, coherence: &Value) -> String {
    let is_covered = coherence["covered"] != false;
    let state = match (is_covered, redis["open_breakers"].as_u64().unwrap_or_default()) {
        (true, 0) if !redis["write_problem"].is_null() => "answers and does not write".to_owned(),
        (true, 0) => "answers".to_owned(),
        // Idle workers find out with their next request.
        (true, open) => format!("answers ({open} breakers not closed yet)"),
        (false, 0) => "cannot be followed".to_owned(),
        (false, _) => "does not answer".to_owned(),
    };
    let sum = |of: &Value| of.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
    let asked: u64 = sum(&redis["reads"]);
    let hits = counted(&redis["reads"]["hit"], "hit");
    let mut text = format!(
        "cache.redis {state}, {hits} of {}, {} to be written\n",
        counted(&asked.into(), "read"),
        redis["queued"]
    );
    if let Some(reason) = redis["write_problem"]["reason"].as_str() {
        let of = string(&redis["write_problem"]["of"]);
        let _ = writeln!(text, "cache.redis refuses {of}: {}", printable(reason));
    }
    let (requests, of): (u64, _) = (sum(&redis["rates"]), |name: &str| redis["rates"][name].as_u64().unwrap_or(0));
    if requests > 0 {
        let state = match redis["open_rate_breakers"].as_u64() {
            Some(0) | None => "counted by cache.redis",
            Some(_) => "held by this gateway alone, as cache.redis does not count",
        };
        let (requests, refused) = (counted(&requests.into(), "request"), of("refused"));
        let alone = of("timeout") + of("error") + of("skipped");
        let _ = writeln!(text, "shared limits {state}: {requests}, {refused} refused, {alone} counted here alone");
    }
    if !is_covered {
        text.push_str("what other gateways purge is not known: stored answers are validated before their use\n");
    }
    if coherence["waiting"].as_u64() > Some(0) {
        let _ = writeln!(text, "not told to other gateways yet: {}", counted(&coherence["waiting"], "purge"));
    }
    text
}

/// A budget that services share, and what is used of it.
fn group(group: &Value) -> String {
    let running = match group["max_running"].as_u64() {
        Some(most) => format!("{} of {most} running", group["running"]),
        None => format!("{} running", group["running"]),
    };
    let memory = match group["max_memory_bytes"].as_u64() {
        Some(most) => format!(", {} of {}", size(group["memory_bytes"].as_u64()), size(Some(most))),
        None => String::new(),
    };
    let waiting = match group["waiting"].as_u64() {
        Some(0) | None => String::new(),
        Some(_) => format!(", {} waiting", counted(&group["waiting"], "request")),
    };
    format!("group {} {running}{memory}{waiting}", string(&group["name"]))
}

/// So many of them.
fn counted(count: &Value, one: &str) -> String {
    format!("{count} {one}{}", if count.as_u64() == Some(1) { "" } else { "s" })
}

fn row(service: &Value) -> Vec<Cell> {
    let instances = service["instances"].as_array().map_or(&[][..], Vec::as_slice);
    let (serving, ending): (Vec<&Value>, Vec<&Value>) = instances
        .iter()
        .partition(|instance| ["starting", "ready", "frozen"].iter().any(|state| instance["state"] == *state));
    let pid = match instances {
        [] => "-".to_owned(),
        [first, others @ ..] => {
            let more = if others.is_empty() { String::new() } else { format!(" +{}", others.len()) };
            first["pid"].as_i64().map_or("-".to_owned(), |pid| format!("{pid}{more}"))
        }
    };
    let count = match ending.len() {
        0 => serving.len().to_string(),
        ending => format!("{} ({ending} ending)", serving.len()),
    };
    let oldest = instances.iter().filter_map(|instance| instance["uptime_seconds"].as_f64()).reduce(f64::max);
    vec![
        left(string(&service["name"])),
        state(service),
        right(if service["kind"] == "external" { "-".to_owned() } else { count }),
        right(pid),
        right(time(oldest)),
        right(service["requests"].to_string()),
        right(service["in_flight"].to_string()),
        right(service["queue"]["length"].as_u64().map_or("-".to_owned(), |length| length.to_string())),
        right(milliseconds(&recent(service)["p50_ms"])),
        right(milliseconds(&recent(service)["p99_ms"])),
        right(size(service["memory_bytes"].as_u64().filter(|_| !instances.is_empty()))),
        right(service["cache_hits"].to_string()),
    ]
}

/// Times of the last minutes; of a gateway that does not know them, since its start.
fn recent(service: &Value) -> &Value {
    if service["recent"].is_object() { &service["recent"] } else { &service["latency"] }
}

fn state(service: &Value) -> Cell {
    let state = string(&service["state"]);
    let failing = service["failures"].as_u64().is_some_and(|failures| failures > 0);
    let refusing = service["circuit"]["state"].as_str().is_some_and(|circuit| circuit != "closed");
    let (text, colour) = match state.as_str() {
        "stopped" | "starting" if refusing => ("circuit open".to_owned(), "31"),
        "ready" => (state, "32"),
        "starting" => (state, "33"),
        "frozen" => (state, "36"),
        "stopped" if failing => ("failing".to_owned(), "31"),
        _ => (state, "2"),
    };
    left(text).coloured(colour)
}

/// One service.
pub(super) fn service(answer: &Value, style: Style, width: Width) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    fact(
        "service",
        format!("{} ({}, {})", string(&answer["name"]), string(&answer["kind"]), string(&answer["transport"])),
    );
    let cell = state(answer);
    fact("state", cell.painted(style));
    fact("routes", list(&answer["routes"]));
    let answers = answer["answers"].as_object().into_iter().flatten();
    let answers: Vec<String> = answers.map(|(class, count)| format!("{count} × {class}")).collect();
    fact("requests", format!("{}, {} in flight", answer["requests"], answer["in_flight"]));
    fact("answers", if answers.is_empty() { "-".to_owned() } else { answers.join(", ") });
    fact("cache hits", answer["cache_hits"].to_string());
    if answer["recent"].is_object() {
        fact("times", last_minutes(&answer["recent"]));
    }
    if let Some(starts) = answer["starts"].as_u64() {
        fact("starts", starts.to_string());
        scaling(answer, &mut fact);
    }
    if let Some(retries) = answer["retries"].as_object() {
        fact("retries", format!("{} sent to another server, {} refused", retries["sent"], retries["refused"]));
    }
    if answer["kind"] == "external" && answer["queue"].is_object() {
        let (queue, refused) = (&answer["queue"], &answer["queue"]["refused"]);
        let (length, max) = (&queue["length"], &queue["max"]);
        let text = format!("{length} of {max}, refused: {} full, {} timeout", refused["full"], refused["timeout"]);
        fact("queue", text);
    }
    if answer["releases"].is_object() {
        let current = answer["releases"]["current"].as_str().unwrap_or("none yet; `pilotlight deploy` makes one");
        fact("release", printable(current));
    }
    if answer["last_error"].is_object() {
        fact("last error", printable(answer["last_error"]["reason"].as_str().unwrap_or_default()));
        last_words(&answer["last_error"]).for_each(|line| fact("", line));
    }
    let mut text = folded(&text, width, 12);
    let instances: Vec<Vec<Cell>> = answer["instances"].as_array().into_iter().flatten().map(instance).collect();
    if !instances.is_empty() {
        let heads = ["INSTANCE", "STATE", "PID", "UPTIME", "IN FLIGHT", "REQUESTS", "MEMORY"];
        let _ = write!(text, "\n{}", rows(&heads, &instances, style));
    }
    let names: Vec<Vec<Cell>> = answer["names"].as_array().into_iter().flatten().map(name).collect();
    if !names.is_empty() {
        let _ = write!(text, "\n{}", rows(&["NAME", "SERVERS", "ANSWERED", "STATE"], &names, style));
    }
    let servers: Vec<Vec<Cell>> = answer["servers"].as_array().into_iter().flatten().map(server).collect();
    if !servers.is_empty() {
        let _ = write!(text, "\n{}", rows(&["SERVER", "STATE", "IN FLIGHT"], &servers, style));
    }
    let layers = answer["layers"].as_object().into_iter().flatten().map(|(name, times)| times_row(name, times));
    let phases = answer["start_phases"].as_object().into_iter().flatten();
    let phases = phases.map(|(name, times)| times_row(&format!("cold: {name}"), times));
    let total = times_row("total", &answer["latency"]);
    // JSON objects have no order; the layers have.
    let mut times: Vec<Vec<Cell>> = layers.chain(phases).collect();
    if !times.is_empty() {
        times.sort_by_key(|row| LAYERS.iter().position(|name| *name == row[0].text()));
        times.push(total);
        let heads = ["LAYER", "COUNT", "P50", "P90", "P99", "SUM"];
        let _ = write!(text, "\n{}", rows(&heads, &times, style));
    }
    text
}

/// A name that the DNS is asked for.
fn name(name: &Value) -> Vec<Cell> {
    let answered = name["answered_seconds_ago"].as_f64().map(|ago| format!("{} ago", time(Some(ago))));
    let (state, colour) = match name["error"].as_str() {
        Some(error) if answered.is_none() => (format!("no answer: {error}"), "31"),
        Some(error) => (format!("the last answer counts: {error}"), "31"),
        None if answered.is_none() => ("asked".to_owned(), "33"),
        None => (format!("asked again in {}", time(name["asked_again_in_seconds"].as_f64())), "32"),
    };
    vec![
        left(string(&name["name"])),
        right(name["servers"].to_string()),
        left(answered.unwrap_or_else(|| "-".to_owned())),
        left(state).coloured(colour),
    ]
}

/// A server that somebody else runs.
fn server(server: &Value) -> Vec<Cell> {
    let (state, colour) = match (server["state"].as_str(), server["back_in_seconds"].as_f64()) {
        (Some("in"), _) => ("in".to_owned(), "32"),
        (_, Some(left)) => (format!("ejected, {} left", time(Some(left))), "31"),
        (_, None) => (string(&server["state"]), "31"),
    };
    vec![left(string(&server["address"])), left(state).coloured(colour), right(server["open"].to_string())]
}

/// How long requests took of late.
fn last_minutes(recent: &Value) -> String {
    let of = |times: &Value, one: &str| {
        let (p50, p99) = (milliseconds(&times["p50_ms"]), milliseconds(&times["p99_ms"]));
        match times["count"].as_u64() {
            Some(0) | None => None,
            Some(_) => Some(format!("{}, p50 {p50}, p99 {p99}", counted(&times["count"], one))),
        }
    };
    let both: Vec<String> = [of(recent, "request"), of(&recent["cold"], "cold start")].into_iter().flatten().collect();
    let said = if both.is_empty() { "no requests".to_owned() } else { both.join("; ") };
    format!("of the last {}: {said}", time(recent["seconds"].as_f64()))
}

/// Instances, queue and circuit of a service that Pilotlight starts.
fn scaling(answer: &Value, fact: &mut impl FnMut(&str, String)) {
    let (queue, circuit) = (&answer["queue"], &answer["circuit"]);
    let each =
        answer["concurrency"].as_u64().map_or("any number of requests".to_owned(), |each| format!("{each} requests"));
    fact("instances", format!("at most {}, {each} each", answer["max_instances"]));
    let counts = |counts: &Value| {
        let some = counts.as_object().into_iter().flatten().filter(|(_, count)| count.as_u64() > Some(0));
        some.map(|(why, count)| format!("{count} × {}", printable(why))).collect::<Vec<_>>().join(", ")
    };
    let refused = counts(&queue["refused"]);
    let refused = if refused.is_empty() { refused } else { format!("; refused: {refused}") };
    fact("queue", format!("{} of {}{refused}", queue["length"], queue["max"]));
    let next = circuit["next_attempt_seconds"].as_f64();
    let next = next.map_or(String::new(), |seconds| format!(", next attempt in {seconds:.1} s"));
    let failures = format!("{} of {} failures", answer["failures"], circuit["max_failures"]);
    fact("circuit", format!("{} ({failures}{next})", string(&circuit["state"])));
    let errors = &answer["function_errors"];
    if errors["count"].as_u64() > Some(0) {
        let last = &errors["last"];
        let (said, ago) = (string(&last["error"]), time(last["seconds_ago"].as_f64()));
        fact("errors", format!("{} of the function; the last, {ago} ago: {said}", errors["count"]));
    }
    let zygote = &answer["zygote"];
    if let Some(state) = zygote["state"].as_str() {
        let pid = zygote["pid"].as_i64().map_or(String::new(), |pid| format!(", pid {pid}"));
        let why = zygote["reason"].as_str().map_or(String::new(), |why| format!(" ({})", printable(why)));
        fact("zygote", format!("{state}{pid}{why}"));
    }
    if let Some(bounds) = answer["sandbox"].as_object() {
        let named = |(name, by): (&String, &Value)| by.as_str().map(|by| format!("{name} ({by})"));
        let held: Vec<String> = bounds.iter().filter_map(named).collect();
        let open: Vec<&str> = bounds.iter().filter(|(_, by)| by.is_null()).map(|(name, _)| name.as_str()).collect();
        let open = if open.is_empty() { String::new() } else { format!("; not kept from it: {}", open.join(", ")) };
        fact("sandbox", printable(&format!("strict: {}{open}", held.join(", "))));
    }
    let replaced = counts(&answer["replaced"]);
    if !replaced.is_empty() {
        fact("replaced", replaced);
    }
    if answer["stuck"].as_u64() > Some(0) {
        fact("stuck", format!("{} instances ended (max_request_time)", answer["stuck"]));
    }
}

const LAYERS: [&str; 12] = [
    "parse",
    "route",
    "cache",
    "queue",
    "start",
    "cold: queue",
    "cold: spawn",
    "cold: connect",
    "cold: ready",
    "service",
    "body",
    "write",
];

fn instance(instance: &Value) -> Vec<Cell> {
    vec![
        right(instance["number"].to_string()),
        left(string(&instance["state"])),
        right(instance["pid"].as_i64().map_or("-".to_owned(), |pid| pid.to_string())),
        right(time(instance["uptime_seconds"].as_f64())),
        right(instance["in_flight"].to_string()),
        right(instance["requests"].to_string()),
        right(size(instance["memory_bytes"].as_u64())),
    ]
}

fn times_row(name: &str, times: &Value) -> Vec<Cell> {
    vec![
        left(name),
        right(times["count"].to_string()),
        right(milliseconds(&times["p50_ms"])),
        right(milliseconds(&times["p90_ms"])),
        right(milliseconds(&times["p99_ms"])),
        right(milliseconds(&times["sum_ms"])),
    ]
}

/// A line of output, as the gateway itself prints it.
pub(super) fn log_line(service: &str, line: &Value, escapes: Escapes) -> String {
    let mut text = String::new();
    let said = line["text"].as_str().unwrap_or_default();
    let said = if escapes == Escapes::Visible { pilotlight_printable::printable(said) } else { said.into() };
    if let Some(missed) = line["missed"].as_u64() {
        let _ = writeln!(text, "{service} | … {missed} lines missed");
        return text;
    }
    let instance = if line["instance"] == 0 { "zygote".to_owned() } else { line["instance"].to_string() };
    if let Some(dropped @ 1..) = line["dropped"].as_u64() {
        let _ = writeln!(text, "{service}#{instance} | … {dropped} lines dropped");
    }
    let cut = if line["cut"] == true { " … (cut)" } else { "" };
    let _ = writeln!(text, "{service}#{instance} | {said}{cut}");
    text
}

/// Why a service did not start, with what it printed.
pub(super) fn failure(error: &Value) -> String {
    let reason = error["reason"].as_str().unwrap_or("it did not start");
    std::iter::once(printable(reason)).chain(last_words(error)).collect::<Vec<_>>().join("\n  ")
}

fn last_words(error: &Value) -> impl Iterator<Item = String> {
    let lines = error["output"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.map(|line| format!("| {}", printable(line)))
}

/// What `restart`, `stop` and `start` say.
pub(super) fn acted(service: &str, action: Action, before: &Value, now: &Value, unfinished: bool) -> String {
    let was_running = before["state"] != "stopped";
    let pid = now["instances"][0]["pid"].as_i64().map(|pid| format!(", pid {pid}")).unwrap_or_default();
    match action {
        _ if unfinished => format!("{service}: told to {}", action.name()),
        Action::Restart if was_running => format!("{service} restarted: instance {}{pid}", now["last_instance"]),
        Action::Restart => format!("{service} does not run; its next request starts it anew"),
        Action::Stop if was_running => stop::said(service, now),
        Action::Stop => format!("{service} was not running"),
        Action::Start if before["state"] == "ready" || before["state"] == "frozen" => {
            format!("{service} runs already{pid}")
        }
        Action::Start => format!("{service} started: instance {}{pid}", now["last_instance"]),
    }
}

pub(super) fn string(value: &Value) -> String {
    printable(value.as_str().unwrap_or("-"))
}

/// As it can be shown in one line.
pub(super) fn printable(text: &str) -> String {
    pilotlight_printable::printable(text).into_owned()
}

fn list(value: &Value) -> String {
    let all: Vec<String> = value.as_array().into_iter().flatten().map(string).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(" ") }
}

fn milliseconds(value: &Value) -> String {
    match value.as_f64() {
        None => "-".to_owned(),
        Some(ms) if ms < 1.0 => format!("{:.0}µs", ms * 1000.0),
        Some(ms) if ms < 100.0 => format!("{ms:.1}ms"),
        Some(ms) if ms < 10_000.0 => format!("{ms:.0}ms"),
        Some(ms) => format!("{:.1}s", ms / 1000.0),
    }
}

/// The two largest units.
fn time(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => format!("{}m{}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h{}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d{}h", whole / 86_400, whole / 3600 % 24),
    }
}

pub(super) fn size(bytes: Option<u64>) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let Some(bytes) = bytes else { return "-".to_owned() };
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_aligned_and_plain() {
        let service = |name: &str, state: &str, instances: Value| {
            json!({ "name": name, "kind": "managed", "state": state, "instances": instances, "requests": 12, "in_flight": 1,
                    "latency": { "p50_ms": 9.9, "p99_ms": 99.9 }, "recent": { "seconds": 330.0, "p50_ms": 0.4, "p99_ms": 12.34 }, "memory_bytes": 2_621_440, "cache_hits": 7, "failures": 0,
                    "queue": { "length": 3 }, "circuit": { "state": "closed" } })
        };
        let instance =
            |pid: u64, state: &str, uptime: f64| json!({ "pid": pid, "state": state, "uptime_seconds": uptime });
        let running =
            json!([instance(4711, "ready", 75.2), instance(4712, "starting", 3.0), instance(4709, "draining", 76.0)]);
        let answer = json!({
            "gateway": { "version": "1", "pid": 1, "uptime_seconds": 90061, "listen": ["http://a"], "connections_open": 2, "memory_bytes": 9 },
            "cache": null,
            "services": [service("a", "ready", running), service("longer", "stopped", json!([]))],
        });
        assert_eq!(
            gateway(&answer, Style::Plain, Width::Any),
            "pilotlight 1  pid 1  up 1d1h  http://a  2 connections  9B\n\
             p50 and p99 of the last 5m30s, cold starts apart\n\n\
             SERVICE  STATE       INSTANCES      PID  UPTIME  REQUESTS  IN FLIGHT  QUEUE    P50     P99  MEMORY  CACHE HITS\n\
             a        ready    2 (1 ending)  4711 +2   1m16s        12          1      3  400µs  12.3ms  2.5MiB           7\n\
             longer   stopped             0        -       -        12          1      3  400µs  12.3ms       -           7\n"
        );
        assert!(gateway(&answer, Style::Coloured, Width::Any).contains("\x1b[32mready\x1b[0m"));
        let narrow = gateway(&answer, Style::Plain, Width::Columns(80));
        assert!(narrow.contains("p50 and p99 of the last 5m30s, cold starts apart\n\n"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains("SERVICE  STATE "), "{narrow}");
        assert!(narrow.contains("  400µs  12.3ms  2.5MiB"), "{narrow}");
    }

    #[test]
    fn times_of_late() {
        let times = |count: u64| json!({ "count": count, "p50_ms": 1.5, "p99_ms": 20.0 });
        let check = |warm: u64, cold: u64, expected: &str| {
            let mut recent = times(warm);
            recent["seconds"] = 61.into();
            recent["cold"] = times(cold);
            assert_eq!(last_minutes(&recent), expected);
        };
        check(0, 0, "of the last 1m1s: no requests");
        check(3, 0, "of the last 1m1s: 3 requests, p50 1.5ms, p99 20.0ms");
        check(0, 1, "of the last 1m1s: 1 cold start, p50 1.5ms, p99 20.0ms");
    }

    #[test]
    fn the_tier_in_redis() {
        let check = |(covered, open_breakers, waiting): (bool, u64, u64), expected: &str| {
            let tier = json!({ "open_breakers": open_breakers, "reads": { "hit": 1, "miss": 4 }, "queued": 2 });
            assert_eq!(redis(&tier, &json!({ "covered": covered, "waiting": waiting })), expected);
        };
        check((true, 0, 0), "cache.redis answers, 1 hit of 5 reads, 2 to be written\n");
        let full = json!({ "of": "responses", "reason": "EVALSHA at h:6379: the server answered: OOM" });
        let tier = json!({ "open_breakers": 0, "write_problem": full, "reads": { "hit": 0 }, "queued": 0 });
        assert_eq!(
            redis(&tier, &json!({ "covered": true, "waiting": 0 })),
            "cache.redis answers and does not write, 0 hits of 0 reads, 0 to be written\n\
             cache.redis refuses responses: EVALSHA at h:6379: the server answered: OOM\n"
        );
        check((true, 2, 0), "cache.redis answers (2 breakers not closed yet), 1 hit of 5 reads, 2 to be written\n");
        check(
            (false, 0, 0),
            "cache.redis cannot be followed, 1 hit of 5 reads, 2 to be written\n\
             what other gateways purge is not known: stored answers are validated before their use\n",
        );
        check(
            (false, 1, 1),
            "cache.redis does not answer, 1 hit of 5 reads, 2 to be written\n\
             what other gateways purge is not known: stored answers are validated before their use\n\
             not told to other gateways yet: 1 purge\n",
        );
    }

    #[test]
    fn limits_that_gateways_share() {
        let check = |open_breakers: u64, expected: &str| {
            let rates = json!({ "admitted": 5, "refused": 2, "timeout": 1, "error": 0, "skipped": 3 });
            let tier = json!({ "open_breakers": 0, "open_rate_breakers": open_breakers, "rates": rates, "reads": {}, "queued": 0 });
            let text = redis(&tier, &json!({ "covered": true, "waiting": 0 }));
            assert_eq!(text.lines().nth(1), Some(expected));
        };
        check(0, "shared limits counted by cache.redis: 11 requests, 2 refused, 4 counted here alone");
        check(
            1,
            "shared limits held by this gateway alone, as cache.redis does not count: 11 requests, 2 refused, 4 counted here alone",
        );
    }

    #[test]
    fn output_cannot_drive_the_terminal() {
        let line = json!({ "instance": 2, "text": "a\u{1b}[2J\r\n", "cut": true, "dropped": 3 });
        let shown = log_line("s", &line, Escapes::Visible);
        assert_eq!(shown, "s#2 | … 3 lines dropped\ns#2 | a\\x1b[2J\\r\\n … (cut)\n");
        let raw = log_line("s", &line, Escapes::Raw);
        assert_eq!(raw, "s#2 | … 3 lines dropped\ns#2 | a\u{1b}[2J\r\n … (cut)\n");
    }

    #[test]
    fn amounts() {
        assert_eq!([None, Some(1000), Some(1536), Some(3 << 30)].map(size), ["-", "1000B", "1.5KiB", "3.0GiB"]);
        let shown =
            [json!(null), json!(0.0421), json!(9.99), json!(250.4), json!(61_000)].map(|value| milliseconds(&value));
        assert_eq!(shown, ["-", "42µs", "10.0ms", "250ms", "61.0s"]);
    }
}
