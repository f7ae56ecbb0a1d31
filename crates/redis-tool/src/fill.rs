//! `pilotlight redis fill`: much data, quickly, and the certainty that it is there.
//!
//! Item `n` of a seed has the same key and the same value in each run, so a run can be checked and gone on with without
//! a record of it: what is missing is what the server does not have. Every reply is read; an item counts as written
//! when all of its commands succeeded.

mod arguments;
mod check;
mod item;
mod kind;
mod report;
mod task;
mod work;

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use pilotlight_redis::commands::{Commands, spec};
use pilotlight_redis::{Client, Command, Route};

pub use arguments::FillArgs;

use crate::connection::UsageError;
use crate::load::interrupt::Interrupt;
use crate::load::{Outcome, text, thread};
use item::Items;
use kind::Kind;
use report::Filled;
use task::Fill;
use work::{Shared, Work};

/// Deleting everything may take its time.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of one item: an item is sent in one piece.
const MAX_ITEM_BYTES: u64 = 8 << 20;

/// Fills, checks, and writes the result to `out`.
///
/// # Errors
/// The arguments make no sense ([`UsageError`]), or there is no server, or `out` takes no more.
pub fn run(args: &FillArgs, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let bytes = args.data.map(|gb| gb * 1e9).or(args.mb.map(|mb| mb * 1e6));
    if bytes.is_none() && args.count.is_none() && !args.flush {
        return Err(UsageError("how much? give --data GB, --mb MB or --count KEYS".to_owned()).into());
    }
    let elements = if args.kind == Kind::String { 1 } else { args.elements };
    let item_bytes = args.key_size + args.value_size * elements;
    if item_bytes > MAX_ITEM_BYTES {
        let why = format!("--elements × --value-size: {item_bytes} bytes of one key are more than {MAX_ITEM_BYTES}");
        return Err(UsageError(why).into());
    }
    let count = bytes.map(|bytes| (bytes / item_bytes as f64).ceil() as u64).or(args.count).unwrap_or(0);
    let items = Items::new(args, count, elements)?;
    let crew = work::Crew::new(args, item_bytes, elements);
    let mut config = args.connection.config()?;
    config.lanes = args.connections as usize;
    config.command_timeout = Some(args.timeout.max(Duration::from_millis(1)));
    let fill = Fill { args, config, items: Arc::new(items), count, item_bytes, crew };
    thread::runtime()?.block_on(fill_and_check(&fill, out))
}

async fn fill_and_check(fill: &Fill<'_>, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let client = thread::first_connect(&fill.config).await?;
    // Not before the question: there Ctrl-C means no.
    if fill.args.flush && !flush(fill, &client, out).await? {
        return Ok(Outcome::Failed);
    }
    if fill.count == 0 {
        return Ok(Outcome::Done);
    }
    let interrupt = Interrupt::listen();
    let keys_before = check::key_count(&client).await?;
    let begun = Instant::now();
    let work = if fill.args.resume { Work::Resume } else { Work::Write };
    let shared = Arc::new(Shared::new(fill.count, fill.args.max_errors, work, fill.args.timeout));
    let sum = fill.crew.run(&fill.config, &fill.items, &shared, fill.item_bytes, &interrupt).await?;
    let elapsed = begun.elapsed();
    let checked = check::check(fill, &client, &sum, keys_before, elapsed, &interrupt).await;
    client.close(Duration::from_secs(1)).await;
    let filled = Filled { sum, elapsed, keys_before, checked };
    if fill.args.json {
        report::write_json(fill, &filled, out)?;
    } else {
        report::write(fill, &filled, out)?;
    }
    Ok(if filled.is_complete(fill.count) { Outcome::Done } else { Outcome::Failed })
}

/// False: the user does not want to.
async fn flush(fill: &Fill<'_>, client: &Client, out: &mut impl Write) -> anyhow::Result<bool> {
    let keys = check::key_count(client).await?;
    if keys > 0 && !fill.args.yes && std::io::stdin().is_terminal() {
        eprint!("Delete all {} keys at {}? Type yes: ", text::grouped(keys), fill.config);
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer).context("no answer")?;
        if answer.trim() != "yes" {
            eprintln!("nothing was deleted");
            return Ok(false);
        }
    }
    client.run::<()>(Command::new(&spec::FLUSHDB)).on(Route::AllPrimaries).timeout(FLUSH_TIMEOUT).await?;
    if !fill.args.json {
        writeln!(out, "deleted {} keys", text::grouped(keys))?;
    }
    Ok(true)
}
