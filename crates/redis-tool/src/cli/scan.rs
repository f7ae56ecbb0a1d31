//! `--scan`: all keys, of a whole cluster too.

use std::process::ExitCode;

use super::arguments::CliArgs;
use super::format::Format;
use super::output::Output;
use super::session::Session;
use crate::connection::UsageError;
use crate::words::{self, split};

/// Does it. Ctrl-C ends it, and it is said how far it was.
pub(super) async fn run(session: &Session, arguments: &CliArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let mut keys = 0;
    tokio::select! {
        scanned = scan(session, arguments, output, &mut keys) => scanned.map(|()| ExitCode::SUCCESS),
        _ = tokio::signal::ctrl_c() => {
            eprintln!("ended early: {keys} keys were shown");
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn scan(session: &Session, arguments: &CliArgs, output: &mut Output, shown: &mut u64) -> anyhow::Result<()> {
    let mut scan = session.client().scan();
    if let Some(pattern) = pattern(arguments)? {
        scan = scan.pattern(pattern);
    }
    if let Some(kind) = &arguments.looks.kind {
        scan = scan.type_(kind.clone().into_bytes());
    }
    if let Some(count) = arguments.looks.count {
        scan = scan.count(count);
    }
    while let Some(keys) = scan.next().await {
        let mut text = Vec::new();
        for key in keys? {
            *shown += 1;
            match output.format() {
                Format::Human | Format::Csv | Format::QuotedJson => {
                    text.extend_from_slice(words::quoted(&key).as_bytes());
                    text.push(b'\n');
                }
                Format::Json => text.extend(output.style().reply(&pilotlight_resp::Value::Bulk(key), &[])),
                Format::Raw | Format::Table => {
                    text.extend_from_slice(&key);
                    text.push(b'\n');
                }
            }
        }
        output.bytes(&text)?;
        if let (false, Some(pause)) = (text.is_empty(), arguments.input.interval) {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}

/// The pattern of the arguments.
pub(super) fn pattern(arguments: &CliArgs) -> Result<Option<Vec<u8>>, UsageError> {
    let looks = &arguments.looks;
    let Some(quoted) = &looks.quoted_pattern else {
        return Ok(looks.pattern.clone().map(String::into_bytes));
    };
    let mut words = split(quoted.as_bytes()).map_err(|error| UsageError(format!("--quoted-pattern: {error}")))?;
    match (words.pop(), words.is_empty()) {
        (Some(only), true) => Ok(Some(only.bytes)),
        _ => Err(UsageError("--quoted-pattern: one pattern is wanted, in quotes if it has blanks".to_owned())),
    }
}
