//! `--bigkeys`, `--memkeys`, `--hotkeys`: the keys that take most of something, over all shards. Nothing but the lists
//! that are shown is kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use pilotlight_redis::{Client, Command, Commands, Config, ErrorKind, Route, ServerError};
use pilotlight_resp::Value;

use super::arguments::CliArgs;
use super::format::{Format, json, table};
use super::output::Output;
use super::scan;
use super::session::Session;
use super::task::Question;
use crate::load::fault::Faults;
use crate::words;

/// Keys of one page, unless `--count` says otherwise.
const PAGE: u64 = 1000;
/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// Keys whose sizes are asked for in one pipeline.
const MAX_BATCH: usize = 1000;

/// Keys by type.
#[derive(Debug, Default)]
struct Findings {
    /// Keys that were measured.
    keys: u64,
    key_bytes: u64,
    /// By type; for hot keys there is one.
    kinds: BTreeMap<String, Kind>,
    /// Keys that the server refused to measure, by its error.
    unmeasured: Faults,
}

/// How a look at all keys ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Whole,
    /// The server refused to measure some of the keys.
    Unmeasured,
    /// By Ctrl-C.
    Interrupted,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Whole => Self::SUCCESS,
            Ended::Unmeasured | Ended::Interrupted => Self::FAILURE,
        }
    }
}

#[derive(Debug, Default)]
struct Kind {
    keys: u64,
    total: u64,
    /// The largest first.
    top: Vec<(u64, Bytes)>,
}

/// Looks at all keys. Ctrl-C ends it with the findings so far.
pub(super) async fn run(
    session: &Session,
    question: Question,
    arguments: &CliArgs,
    output: &mut Output,
) -> anyhow::Result<Ended> {
    let client = &untouching(session).await?;
    if question == Question::Hot {
        check_policy(client).await?;
    }
    // Only for the progress: the user may lack the right to ask.
    let total = client.run::<u64>(Command::raw("DBSIZE")).await.ok();
    let mut findings = Findings::default();
    let looked = tokio::select! {
        looked = look(client, question, arguments, output, total, &mut findings) => Some(looked),
        _ = tokio::signal::ctrl_c() => None,
    };
    output.end_of_progress();
    let is_whole = looked.is_some();
    if let Some(looked) = looked {
        looked?;
    }
    output.bytes(findings.text(question, is_whole, output.format()).as_bytes())?;
    Ok(match () {
        () if !is_whole => Ended::Interrupted,
        () if findings.unmeasured.total() > 0 => Ended::Unmeasured,
        () => Ended::Whole,
    })
}

/// A client whose commands do not count as uses of the keys (`CLIENT NO-TOUCH`), where the server knows that (Redis
/// 7.2) and the user may say it.
async fn untouching(session: &Session) -> anyhow::Result<Client> {
    let client = Client::new(Config { no_touch: true, ..session.config().clone() })?;
    match client.run::<Value>(Command::raw("PING")).await {
        Err(error) if matches!(error.kind(), ErrorKind::Rejected(_)) => Ok(session.client().clone()),
        _ => Ok(client),
    }
}

async fn look(
    client: &Client,
    question: Question,
    arguments: &CliArgs,
    output: &Output,
    total: Option<u64>,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let top = arguments.looks.top.max(1);
    let mut scan = client.scan().count(arguments.looks.count.unwrap_or(PAGE));
    if let Some(pattern) = scan::pattern(arguments)? {
        scan = scan.pattern(pattern);
    }
    let mut shown = Instant::now();
    while let Some(keys) = scan.next().await {
        for keys in keys?.chunks(MAX_BATCH) {
            measure(client, question, arguments, keys, top, findings).await?;
        }
        if shown.elapsed() >= PROGRESS_EVERY {
            shown = Instant::now();
            output.progress(&progress(findings.keys + findings.unmeasured.total(), total));
        }
        if let Some(pause) = arguments.input.interval {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}

/// Asks for what is wanted of these keys. Those that have gone meanwhile do not count.
async fn measure(
    client: &Client,
    question: Question,
    arguments: &CliArgs,
    keys: &[Bytes],
    top: usize,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let kinds = match question {
        Question::Hot => vec![Value::Simple("key".into()); keys.len()],
        Question::Big | Question::Memory => {
            ask(client, keys.iter().map(|key| Command::raw("TYPE").arg(key.clone()))).await?
        }
    };
    let mut measured = Vec::with_capacity(keys.len());
    for (key, kind) in keys.iter().zip(&kinds) {
        match kind {
            Value::Error(why) => findings.unmeasured.add_server(&ServerError::parse(why), 1),
            kind => measured.push((key, text(kind))),
        }
    }
    let sizes = measured.iter().map(|(key, kind)| match question {
        Question::Hot => Command::raw("OBJECT FREQ").arg(Bytes::clone(key)),
        Question::Memory => {
            let command = Command::raw("MEMORY USAGE").arg(Bytes::clone(key));
            match arguments.looks.memkeys_samples.or(arguments.looks.keystats_samples) {
                Some(samples) => command.arg("SAMPLES").arg(samples),
                None => command,
            }
        }
        Question::Big => size_command(kind).arg(Bytes::clone(key)),
    });
    let sizes = ask(client, sizes).await?;
    for ((key, kind), size) in measured.into_iter().zip(sizes) {
        let size = match size {
            Value::Integer(size) => u64::try_from(size).unwrap_or_default(),
            Value::Error(why) => {
                let why = ServerError::parse(&why);
                if question == Question::Big && why.code() == "WRONGTYPE" && !TYPES.contains(&kind.as_str()) {
                    // Of a module's type, which has no command for its size.
                    0
                } else {
                    if kind != "none" {
                        findings.unmeasured.add_server(&why, 1);
                    }
                    continue;
                }
            }
            _ => continue,
        };
        if kind != "none" {
            findings.add(kind, key, size, top);
        }
    }
    Ok(())
}

/// Types that have a command for their size.
const TYPES: [&str; 6] = ["string", "list", "set", "hash", "zset", "stream"];

/// The command for the number of elements, or bytes, of a type.
fn size_command<'c>(kind: &str) -> Command<'c> {
    Command::raw(match kind {
        "list" => "LLEN",
        "set" => "SCARD",
        "hash" => "HLEN",
        "zset" => "ZCARD",
        "stream" => "XLEN",
        // Of any other type the server answers with an error.
        _ => "STRLEN",
    })
}

fn unit(question: Question, kind: &str) -> &'static str {
    match (question, kind) {
        (Question::Memory, _) => "bytes",
        (Question::Hot, _) => "accesses (logarithmic)",
        (Question::Big, "list") => "items",
        (Question::Big, "set" | "zset") => "members",
        (Question::Big, "hash") => "fields",
        (Question::Big, "stream") => "entries",
        (Question::Big, _) => "bytes",
    }
}

/// Replies in the order of the commands; errors of servers are replies.
async fn ask<'c>(client: &'c Client, commands: impl Iterator<Item = Command<'c>>) -> anyhow::Result<Vec<Value>> {
    let mut pipeline = client.pipeline();
    for command in commands {
        pipeline.queue::<Value>(command);
    }
    let replies = pipeline.run().await?.into_values();
    let reply = |reply: Result<Value, pilotlight_redis::Error>| match reply {
        Ok(value) => Ok(value),
        Err(error) => match error.server() {
            Some(server) => Ok(Value::Error(Bytes::copy_from_slice(server.text().as_bytes()))),
            None => Err(error.into()),
        },
    };
    replies.map(reply).collect()
}

async fn check_policy(client: &Client) -> anyhow::Result<()> {
    let command = Command::raw("INFO").arg("memory");
    for answer in client.on_all(Route::AllPrimaries, command).await? {
        let info = text(&answer.reply?);
        let policy = info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")).unwrap_or_default();
        if !policy.contains("lfu") {
            bail!(
                "{}: accesses are not counted with maxmemory-policy {policy}: set allkeys-lfu or volatile-lfu, and wait until there is something to see",
                answer.node
            );
        }
    }
    Ok(())
}

fn progress(keys: u64, total: Option<u64>) -> String {
    match total {
        Some(total) => {
            let percent = keys as f64 * 100.0 / total.max(1) as f64;
            format!("{keys} of {total} keys ({:.0} %)", percent.min(100.0))
        }
        None => format!("{keys} keys"),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Simple(text) | Value::Bulk(text) | Value::Verbatim { text, .. } => {
            String::from_utf8_lossy(text).into_owned()
        }
        _ => String::new(),
    }
}

impl Findings {
    fn add(&mut self, kind: String, key: &Bytes, size: u64, top: usize) {
        self.keys += 1;
        self.key_bytes += key.len() as u64;
        let kind = self.kinds.entry(kind).or_default();
        kind.keys += 1;
        kind.total += size;
        let at = kind.top.partition_point(|(other, _)| *other >= size);
        // A scan may show a key twice.
        if at < top && !kind.top.iter().any(|(_, other)| other == key) {
            // The page that it was read in need not be kept for it.
            kind.top.insert(at, (size, Bytes::copy_from_slice(key)));
            kind.top.truncate(top);
        }
    }

    fn text(&self, question: Question, is_whole: bool, format: Format) -> String {
        match format {
            Format::Json | Format::QuotedJson => self.json(question, is_whole),
            Format::Human | Format::Raw | Format::Csv | Format::Table => self.tables(question, is_whole),
        }
    }

    fn tables(&self, question: Question, is_whole: bool) -> String {
        let mut out = String::new();
        if !is_whole {
            out.push_str("ended early: this is what was seen so far\n\n");
        }
        if self.unmeasured.total() > 0 {
            let _ = writeln!(out, "{} keys could not be measured:\n{}", self.unmeasured.total(), self.unmeasured);
        }
        let mean = self.key_bytes as f64 / self.keys.max(1) as f64;
        let _ = writeln!(out, "{} keys, their names have {mean:.1} bytes on average", self.keys);
        for (name, kind) in &self.kinds {
            let unit = unit(question, name);
            let mean = kind.total as f64 / kind.keys.max(1) as f64;
            let _ = match question {
                Question::Hot => writeln!(out, "\n{unit}"),
                _ => writeln!(out, "\n{name}: {} keys, {} {unit}, {mean:.1} on average", kind.keys, kind.total),
            };
            let rows = kind.top.iter().map(|(size, key)| vec![format!("{size:>12}"), words::quoted(key)]).collect();
            out.push_str(&table::aligned(&[], rows));
        }
        out
    }

    fn json(&self, question: Question, is_whole: bool) -> String {
        let (unmeasured, errors) = (self.unmeasured.total(), self.unmeasured.json());
        let is_complete = is_whole && unmeasured == 0;
        let mut out = format!("{{\"complete\":{is_complete},\"keys\":{},\"unmeasured\":{unmeasured},", self.keys);
        let _ = write!(out, "\"errors_by_kind\":{errors},\"types\":{{");
        for (index, (name, kind)) in self.kinds.iter().enumerate() {
            out.push_str(if index > 0 { "," } else { "" });
            json::string(&mut out, name.as_bytes(), json::Strings::Utf8);
            let unit = unit(question, name);
            let _ = write!(out, ":{{\"keys\":{},\"total\":{},\"unit\":\"{unit}\",\"top\":[", kind.keys, kind.total);
            for (index, (size, key)) in kind.top.iter().enumerate() {
                out.push_str(if index > 0 { ",{\"key\":" } else { "{\"key\":" });
                json::string(&mut out, key, json::Strings::Utf8);
                let _ = write!(out, ",\"size\":{size}}}");
            }
            out.push_str("]}");
        }
        out.push_str("}}\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_largest_are_kept() {
        let mut findings = Findings::default();
        for (key, size) in [("a", 3), ("b", 9), ("c", 1), ("d", 5), ("b", 9)] {
            findings.add("list".to_owned(), &Bytes::from(key), size, 2);
        }
        let kind = &findings.kinds["list"];
        assert_eq!(kind.top, [(9, Bytes::from("b")), (5, Bytes::from("d"))]);
        let text = findings.text(Question::Big, true, Format::Human);
        assert!(text.contains("list: 5 keys, 27 items, 5.4 on average\n           9  \"b\"\n"), "{text}");
        let json = findings.text(Question::Big, true, Format::Json);
        assert!(json.starts_with(r#"{"complete":true,"keys":5,"unmeasured":0,"errors_by_kind":[],"types":{"list":{"keys":5,"total":27,"unit":"items","top":[{"key":"b","size":9}"#));
    }
}
