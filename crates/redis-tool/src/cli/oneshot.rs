//! Commands without a prompt: from the arguments, a script, or the standard input.

use std::io::{self, BufRead, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use pilotlight_resp::Value;

use super::arguments::CliArgs;
use super::command_rules::{confirmations, is_endless, refusal, repetition};
use super::everywhere;
use super::format::Format;
use super::output::{Ended, Output, value_of};
use super::session::{Failure, Session, Transaction, login};
use crate::connection::UsageError;
use crate::refusal::Refusal;
use crate::words::{split, split_bytes};

/// The command of the arguments.
pub(super) async fn command(
    session: &mut Session,
    arguments: &CliArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let mut words = arguments.words();
    if arguments.input.quoted_input {
        words = words.iter().map(|word| unquoted(word)).collect::<Result<_, _>>()?;
    }
    if arguments.input.stdin_last {
        words.push(stdin()?);
    } else if let Some(tag) = &arguments.input.stdin_tag {
        let word = words.iter_mut().find(|word| *word == tag.as_bytes());
        *word.ok_or_else(|| UsageError(format!("-X {tag}: no argument is {tag:?}")))? = stdin()?;
    }
    repeated(session, &words, arguments, output).await
}

/// A script, its keys and its arguments.
pub(super) async fn eval(
    session: &mut Session,
    file: &Path,
    arguments: &CliArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let script = std::fs::read(file).map_err(|error| UsageError(format!("--eval {}: {error}", file.display())))?;
    let rest = arguments.words();
    let comma = rest.iter().position(|word| word == b",");
    let (keys, values) = match comma {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (&rest[..], &[][..]),
    };
    let mut words = vec![b"EVAL".to_vec(), script, keys.len().to_string().into_bytes()];
    words.extend(keys.iter().chain(values).cloned());
    repeated(session, &words, arguments, output).await
}

/// Commands from the standard input, a line each. They go on after an error, unless `-e`; exit code 1 if any was not
/// answered.
pub(super) async fn lines(session: &mut Session, output: &mut Output) -> anyhow::Result<ExitCode> {
    match connect(session).await {
        // The first line may log in.
        Err(Failure::Refused { refusal: Refusal::PasswordMissing, .. }) => {}
        done => done?,
    }
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    let mut code = ExitCode::SUCCESS;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).context("the standard input")? == 0 {
            return Ok(code);
        }
        let Ok(words) = split_bytes(&line) else {
            output.line("Invalid argument(s)")?;
            continue;
        };
        let (times, words) = repetition(&words);
        match words {
            [] => continue,
            [word] if word.eq_ignore_ascii_case(b"quit") || word.eq_ignore_ascii_case(b"exit") => {
                return Ok(code);
            }
            _ => {}
        }
        for _ in 0..times {
            match issue(session, words, output).await {
                Ok(Ended::No) => {}
                Ok(Ended::ByError) => return Ok(ExitCode::FAILURE),
                Err(error) if error.is::<Failure>() => {
                    code = ExitCode::FAILURE;
                    eprintln!("Error: {error}");
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Connects, and warns on the standard error.
pub(super) async fn connect(session: &mut Session) -> Result<(), Failure> {
    let done = session.connect().await;
    session.warnings.drain(..).for_each(|warning| eprintln!("{warning}"));
    done
}

/// Runs one command and prints its reply.
pub(super) async fn issue(session: &mut Session, words: &[Vec<u8>], output: &mut Output) -> anyhow::Result<Ended> {
    if let Some(why) = refusal(words) {
        return Err(Failure::Client(format!("{}: {why}", String::from_utf8_lossy(&words[0]))).into());
    }
    let everywhere = everywhere::parse(words)?;
    if !session.has_contact() && login(words).is_none() {
        connect(session).await?;
    }
    if let Some(everywhere) = everywhere {
        return everywhere::run(session, &everywhere, output).await;
    }
    if is_endless(words) && session.transaction() == Transaction::None {
        let mut wire = session.listen(words, None).await?;
        if output.format() == Format::Human {
            output.line("Reading messages... (press Ctrl-C to quit)")?;
        }
        loop {
            let frame = wire.frame().await.map_err(|error| Failure::Lost(error.to_string()))?;
            let value = value_of(frame);
            let is_refused = matches!(value, Value::Error(_));
            if output.reply(&value, &[])? {
                return Ok(Ended::ByError);
            }
            if is_refused {
                session.put_back(wire);
                return Ok(Ended::No);
            }
        }
    }
    let reply = session.run(words).await;
    let is_confirmed = confirmations(words) > 0;
    for push in std::mem::take(&mut session.pushes) {
        // Programs read replies; the end of subscriptions is one, several times over.
        if output.shows_pushes() || is_confirmed {
            output.push(&push)?;
        }
    }
    let ended = if output.reply(&reply?, words)? { Ended::ByError } else { Ended::No };
    session.warnings.drain(..).for_each(|warning| eprintln!("{warning}"));
    Ok(ended)
}

async fn repeated(
    session: &mut Session,
    words: &[Vec<u8>],
    arguments: &CliArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let pause = arguments.input.interval.unwrap_or(Duration::ZERO);
    let mut left = arguments.input.repeat;
    while left != 0 {
        if issue(session, words, output).await? == Ended::ByError {
            return Ok(ExitCode::FAILURE);
        }
        left = left.saturating_sub(1).max(-1);
        if left != 0 && !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// An argument that is quoted, or not.
fn unquoted(word: &[u8]) -> Result<Vec<u8>, UsageError> {
    let shown = String::from_utf8_lossy(word);
    let mut words = split(word).map_err(|error| UsageError(format!("--quoted-input: {shown}: {error}")))?;
    match (words.pop(), words.is_empty()) {
        (Some(only), true) => Ok(only.bytes),
        (None, _) => Ok(Vec::new()),
        _ => Err(UsageError(format!("--quoted-input: {shown}: put quotes around an argument with blanks"))),
    }
}

fn stdin() -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).context("the standard input")?;
    Ok(bytes)
}
