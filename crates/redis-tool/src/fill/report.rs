//! What was done, and what is there.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::check::Checked;
use super::task::Fill;
use super::work::Sum;
use crate::load::text::{bytes, grouped, rate};

const SCHEMA: &str = "pilotlight.redis.fill";
const SCHEMA_VERSION: u32 = 1;

/// What was done, and what is there.
pub(crate) struct Filled {
    pub(crate) sum: Sum,
    pub(crate) elapsed: Duration,
    pub(crate) keys_before: u64,
    pub(crate) checked: Checked,
}

impl Filled {
    pub(crate) fn is_complete(&self, count: u64) -> bool {
        let is_verified = self.checked.missing == 0 && self.checked.problem.is_none();
        self.sum.written + self.sum.present == count && self.sum.failed == 0 && is_verified
    }
}

/// For people.
pub(crate) fn write(fill: &Fill<'_>, filled: &Filled, out: &mut impl Write) -> anyhow::Result<()> {
    let Filled { sum, elapsed, keys_before, checked } = filled;
    let written_bytes = sum.written * fill.item_bytes;
    writeln!(
        out,
        "wrote {} of {} keys, {} in {:.1} s: {} keys/s, {}/s",
        grouped(sum.written),
        grouped(fill.count),
        bytes(written_bytes),
        elapsed.as_secs_f64(),
        grouped(rate(sum.written, *elapsed) as u64),
        bytes(rate(written_bytes, *elapsed) as u64),
    )?;
    if fill.args.resume {
        writeln!(out, "{} keys were there already", grouped(sum.present))?;
    }
    if sum.failed > 0 || sum.faults.total() > 0 {
        writeln!(out, "{} keys failed:\n{}", grouped(sum.failed), sum.faults)?;
    }
    if let Some(keys_after) = checked.keys_after {
        let added = keys_after.saturating_sub(*keys_before);
        writeln!(out, "the server has {} keys, {} more than before", grouped(keys_after), grouped(added))?;
    }
    if let [_, _, ..] = checked.keys_by_node.as_slice() {
        for (node, keys) in &checked.keys_by_node {
            writeln!(out, "  {node}: {}", grouped(*keys))?;
        }
    }
    match checked.missing {
        _ if checked.may_have_expired => writeln!(out, "not verified: the first keys may have expired already")?,
        0 if checked.problem.is_some() => {
            writeln!(out, "not verified: {}", checked.problem.as_deref().unwrap_or_default())?;
        }
        0 => {
            writeln!(out, "verified: by {}, {} values were read back", verified_by(checked), grouped(checked.sampled))?;
        }
        missing => {
            writeln!(
                out,
                "MISSING: {} keys that were acknowledged are not there, or not as they were sent",
                grouped(missing)
            )?;
            writeln!(out, "  (evicted by maxmemory-policy, deleted by somebody, or lost in a failover)")?;
        }
    }
    if sum.was_interrupted {
        writeln!(out, "interrupted: the same command with --resume goes on")?;
    } else if sum.was_given_up {
        let timeout = fill.args.timeout.as_secs_f64();
        writeln!(
            out,
            "given up: a server has not answered for {timeout} s (--timeout): mend the cause, then --resume goes on"
        )?;
    } else if sum.tried < fill.count {
        let limit = fill.args.max_errors;
        writeln!(
            out,
            "ended after {} errors (--max-errors {limit}): mend the cause, then --resume goes on",
            grouped(sum.failed)
        )?;
    }
    out.flush()?;
    Ok(())
}

fn verified_by(checked: &Checked) -> &'static str {
    if checked.was_complete { "the length of every key" } else { "the number of keys" }
}

/// For programs.
pub(crate) fn write_json(fill: &Fill<'_>, filled: &Filled, out: &mut impl Write) -> anyhow::Result<()> {
    let Filled { sum, elapsed, keys_before, checked } = filled;
    let args = fill.args;
    let nodes: Vec<_> = checked.keys_by_node.iter().map(|(node, keys)| json!({ "node": node, "keys": keys })).collect();
    let all = json!({
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "server": fill.config.to_string(),
        "settings": {
            "keys": fill.count,
            "key_size_bytes": args.key_size,
            "value_size_bytes": args.value_size,
            "type": args.kind.to_string(),
            "elements": args.elements,
            "key_prefix": args.key_prefix,
            "ttl_seconds": args.ttl,
            "seed": args.seed,
            "pipeline": args.pipeline,
            "connections": args.connections,
            "threads": fill.crew.threads,
        },
        "written": sum.written,
        "present": sum.present,
        "failed": sum.failed,
        "errors_by_kind": sum.faults.json(),
        "interrupted": sum.was_interrupted,
        "given_up": sum.was_given_up,
        "seconds": elapsed.as_secs_f64(),
        "bytes": sum.written * fill.item_bytes,
        "bytes_per_second": rate(sum.written * fill.item_bytes, *elapsed),
        "keys_before": keys_before,
        "keys_after": checked.keys_after,
        "keys_by_node": nodes,
        "sampled": checked.sampled,
        "every_key_checked": checked.was_complete,
        "missing": checked.missing,
        "unknown": checked.unknown,
        "verified_by": checked.by(),
        "not_verified": checked.problem,
        "complete": filled.is_complete(fill.count),
        "peak_memory_bytes": peak_memory(),
    });
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)?;
    Ok(())
}

/// Of this process, where the system tells (Linux).
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    kilobytes.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
