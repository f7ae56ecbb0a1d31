//! `--pipe`: commands of the standard input as fast as they are taken, errors and replies counted.
//!
//! Outside of a cluster the bytes go to the server as they are, and a last `ECHO` tells that all replies are there.
//! Where the user may not `ECHO`, a last command that no server knows does: the error names it. In a cluster the bytes
//! are read as commands, each of which goes to the node of its key.

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use pilotlight_redis::{Command, Route};
use pilotlight_resp::{Decoder, Frame, Limits, Value, encode};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::session::{Failure, Session};
use crate::advice;
use crate::spec::command;
use crate::wire::Wire;
use crate::words::split_bytes;

/// Bytes of the standard input that are read at once.
const MAX_READ_BYTES: usize = 256 << 10;
/// Such pieces that wait to be sent.
const MAX_PIECES: usize = 4;
/// Commands of one pipeline, in a cluster.
const MAX_BATCH: usize = 1000;
/// Bytes of arguments of one pipeline, in a cluster, after which no further command is added.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// Errors that are shown; further ones are counted only.
const MAX_SHOWN_ERRORS: u64 = 100;

/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug)]
struct Counts {
    replies: u64,
    errors: u64,
    /// When progress was last shown; `None`: nobody would see it.
    shown: Option<Instant>,
}

/// Does it. Exit code 1 if there was any error.
pub(super) async fn run(session: &mut Session, timeout: Duration) -> anyhow::Result<ExitCode> {
    let mut counts = Counts { replies: 0, errors: 0, shown: io::stderr().is_terminal().then(Instant::now) };
    let done = async {
        if session.is_cluster() {
            routed(session, &mut counts).await
        } else {
            straight(session, timeout, &mut counts).await
        }
    };
    let is_whole = tokio::select! {
        done = done => done.map(|()| true)?,
        _ = tokio::signal::ctrl_c() => false,
    };
    counts.end_of_progress();
    if !is_whole {
        println!("Ended early: what is not counted here may have been executed, too.");
    }
    println!("errors: {}, replies: {}", counts.errors, counts.replies);
    Ok(if counts.errors > 0 || !is_whole { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Counts {
    fn note(&mut self, reply: &Value) {
        self.replies += 1;
        self.progress();
        if let Value::Error(text) = reply {
            self.error(&String::from_utf8_lossy(text));
        }
    }

    fn progress(&mut self) {
        if let Some(shown) = self.shown.as_mut().filter(|shown| shown.elapsed() >= PROGRESS_EVERY) {
            *shown = Instant::now();
            eprint!("\r\x1b[K{} replies, {} errors", self.replies, self.errors);
        }
    }

    fn end_of_progress(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }

    fn error(&mut self, text: &str) {
        self.errors += 1;
        self.end_of_progress();
        if self.errors <= MAX_SHOWN_ERRORS {
            eprintln!("{text}");
        }
        if self.errors == MAX_SHOWN_ERRORS {
            eprintln!("(further errors are only counted)");
        }
    }
}

/// The standard input, piece by piece, read by a thread of its own.
fn pieces() -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(MAX_PIECES);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut piece = vec![0; MAX_READ_BYTES];
            let read = match input.read(&mut piece) {
                Ok(0) => return,
                Ok(length) => {
                    piece.truncate(length);
                    Ok(Bytes::from(piece))
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            if sender.blocking_send(read).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn straight(session: &Session, timeout: Duration, counts: &mut Counts) -> anyhow::Result<()> {
    let opened = Wire::open(session.client(), Route::Any, Limits::default()).await;
    let (mut reader, writer, mut frames) = opened.context("--pipe")?.split();
    let last = last_words();
    let mut sending = Box::pin(send(writer, &last));
    let mut is_sent = false;
    // Replies are counted when the next one is there: the last one may be that to our own `ECHO`.
    let (mut writer, mut is_refused, mut before) = (None, false, None);
    loop {
        if is_refused && let Some(mut writer) = writer.take() {
            ask_by_name(&mut writer, &last).await?;
            is_refused = false;
        }
        let longest_wait = if is_sent && !timeout.is_zero() { timeout } else { Duration::MAX };
        tokio::select! {
            sent = &mut sending, if !is_sent => {
                writer = Some(sent?);
                is_sent = true;
                println!("All data transferred. Waiting for the last reply...");
            }
            frame = tokio::time::timeout(longest_wait, frames.next(&mut reader)) => {
                let reply = match frame {
                    Err(_) => Err(format!("no reply for {timeout:?} after the last command")),
                    Ok(Err(error)) => Err(error.to_string()),
                    Ok(Ok(Frame::Push(_))) => continue,
                    Ok(Ok(Frame::Reply(reply))) => Ok(reply),
                };
                let end = reply.as_ref().map_or(End::No, |reply| end_by(reply, &last));
                if end != End::Named {
                    before.take().iter().for_each(|reply| counts.note(reply));
                }
                match reply {
                    _ if end != End::No => {
                        println!("Last reply received from server.");
                        return Ok(());
                    }
                    Ok(reply) => {
                        is_refused |= is_about_echo(&reply);
                        before = Some(reply);
                    }
                    Err(why) => bail!("{why}; replies: {}, errors: {}", counts.replies, counts.errors),
                }
            }
        }
    }
}

/// Whether all replies are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    No,
    /// The reply to our `ECHO`.
    Echoed,
    /// The error that names our unknown command. The reply before it is that to our `ECHO`.
    Named,
}

fn end_by(reply: &Value, last: &[u8]) -> End {
    match reply {
        Value::Bulk(text) if text == last => End::Echoed,
        Value::Error(text) if memchr::memmem::find(text, last).is_some() => End::Named,
        _ => End::No,
    }
}

/// Whether it is an error that may be the server's refusal of `ECHO`.
fn is_about_echo(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if memchr::memmem::find(&text.to_ascii_lowercase(), b"echo").is_some())
}

async fn ask_by_name(writer: &mut (impl AsyncWrite + Unpin), last: &[u8]) -> anyhow::Result<()> {
    let mut out = Vec::new();
    encode::command(&mut out, &[last]);
    writer.write_all(&out).await?;
    Ok(writer.flush().await?)
}

/// Sends the standard input and an `ECHO`, and gives the connection back.
async fn send<W: AsyncWrite + Unpin>(mut writer: W, last: &[u8]) -> anyhow::Result<W> {
    let mut pieces = pieces();
    while let Some(piece) = pieces.recv().await {
        writer.write_all(&piece.context("the standard input")?).await?;
    }
    // A last inline command may lack its line break.
    let mut out = b"\r\n".to_vec();
    encode::command(&mut out, &[b"ECHO", last]);
    writer.write_all(&out).await?;
    writer.flush().await?;
    Ok(writer)
}

/// What nobody else's reply is.
fn last_words() -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    let word = || format!("{:016x}", RandomState::new().hash_one(std::process::id()));
    format!("pilotlight-{}{}", word(), word()).into_bytes()
}

async fn routed(session: &Session, counts: &mut Counts) -> anyhow::Result<()> {
    let mut input = Commands::default();
    let (mut pieces, mut batch, mut batch_bytes) = (pieces(), Vec::new(), 0);
    while let Some(piece) = pieces.recv().await {
        input.bytes.extend_from_slice(&piece.context("the standard input")?);
        while let Some(words) = input.next()? {
            batch_bytes += words.iter().map(Vec::len).sum::<usize>();
            batch.push(words);
            if batch.len() == MAX_BATCH || batch_bytes >= MAX_BATCH_BYTES {
                send_batch(session, &mut batch, counts).await?;
                batch_bytes = 0;
            }
        }
    }
    input.bytes.extend_from_slice(b"\r\n");
    while let Some(words) = input.next()? {
        batch.push(words);
    }
    if !input.bytes.is_empty() {
        bail!("the standard input ends within a command; replies: {}, errors: {}", counts.replies, counts.errors);
    }
    send_batch(session, &mut batch, counts).await?;
    println!("All data transferred. Waiting for the last reply...\nLast reply received from server.");
    Ok(())
}

async fn send_batch(session: &Session, batch: &mut Vec<Vec<Vec<u8>>>, counts: &mut Counts) -> anyhow::Result<()> {
    let commands: Vec<Command<'_>> = batch.iter().map(|words| command(words)).collect();
    let mut pipeline = session.client().pipeline();
    let queued: Vec<_> = commands.into_iter().map(|command| pipeline.queue::<Value>(command)).collect();
    let mut replies = pipeline.run().await?;
    for queued in queued {
        match replies.take(queued) {
            Ok(reply) => counts.note(&reply),
            Err(error) => {
                counts.replies += u64::from(error.server().is_some());
                counts.error(&advice::text(&error));
            }
        }
    }
    batch.clear();
    Ok(())
}

/// Commands as they come: arrays of bulk strings, or lines.
#[derive(Default)]
struct Commands {
    bytes: BytesMut,
    decoder: Option<Decoder>,
}

impl Commands {
    fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        loop {
            match self.bytes.first() {
                None => return Ok(None),
                Some(b'*') => break,
                Some(_) if self.decoder.is_some() => break,
                Some(_) => {}
            }
            let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
            let line = self.bytes.split_to(end + 1);
            let words = split_bytes(&line).map_err(|error| Failure::Client(format!("the standard input: {error}")))?;
            if !words.is_empty() {
                return Ok(Some(words));
            }
        }
        let decoder = self.decoder.get_or_insert_with(|| Decoder::new(Limits::default()));
        let wrong = |why: String| Failure::Client(format!("the standard input is no command in RESP: {why}"));
        let Some(frame) = decoder.decode(&mut self.bytes).map_err(|error| wrong(error.to_string()))? else {
            return Ok(None);
        };
        self.decoder = None;
        let Frame::Reply(Value::Array(items)) = frame else { return Err(wrong("an array is wanted".to_owned())) };
        let word = |item: Value| match item {
            Value::Bulk(word) | Value::Simple(word) => Ok(word.to_vec()),
            other => Err(wrong(format!("a word is a {}", other.type_name()))),
        };
        items.into_iter().map(word).collect::<Result<Vec<_>, _>>().map(Some)
    }
}
