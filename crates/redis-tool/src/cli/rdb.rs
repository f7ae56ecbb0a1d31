//! `--rdb`, `--functions-rdb`: the snapshot that a server makes for a replica, into a file.
//!
//! ```text
//!  REPLCONF capa eof, rdb-only 1   ▶   SYNC ▶   ◀ LF …  ◀ $LENGTH CR LF, so many bytes
//!  (rdb-filter-only functions)                          ◀ $EOF:MARK CR LF, bytes, MARK
//! ```
//! The file has its name only when it is whole: until then it is `NAME.part`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Buf, BytesMut};
use indicatif::HumanBytes;
use pilotlight_redis::Route;
use pilotlight_redis::raw::NodeStream;
use pilotlight_resp::encode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::oneshot;
use super::session::Session;
use super::task::SnapshotContent;
use crate::connection::UsageError;
use crate::load::progress;

/// Longest silence of a server; while it makes its snapshot it sends an empty line each second.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
/// Longest line before the snapshot.
const MAX_LINE: usize = 4096;
/// Length of the mark at the end of a snapshot whose length the server does not know.
const MARK_LEN: usize = 40;
/// How snapshots begin: of Redis, of Valkey 9.
const MAGIC: [&[u8]; 2] = [b"REDIS", b"VALKEY"];
/// The output, instead of a file.
const STANDARD_OUTPUT: &str = "-";

/// Does it.
pub(super) async fn run(session: &mut Session, content: SnapshotContent, path: &Path) -> anyhow::Result<ExitCode> {
    if session.is_cluster() {
        let why = "a snapshot is that of one node: name it by -h and -p, without -c; `pilotlight redis cluster status` lists them";
        bail!(UsageError(why.to_owned()));
    }
    oneshot::connect(session).await?;
    let stream = session.client().stream(Route::Any).await?;
    let node = stream.node().clone();
    let mut source = Source { stream, read: BytesMut::new() };
    let mut target = Target::open(path)?;
    let bytes = tokio::select! {
        bytes = source.copy(content, &mut target) => bytes.with_context(|| format!("the snapshot of {node}"))?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted: nothing was written to {}", path.display()),
    };
    target.finish()?;
    eprintln!("{bytes} bytes of {node} written to {}", path.display());
    Ok(ExitCode::SUCCESS)
}

struct Source {
    stream: NodeStream,
    read: BytesMut,
}

impl Source {
    async fn copy(&mut self, content: SnapshotContent, target: &mut Target) -> anyhow::Result<u64> {
        // A server that knows neither sends what it sends to replicas, and goes on with the commands of others, which
        // nobody reads.
        self.ask(&["REPLCONF", "capa", "eof"]).await?;
        self.ask(&["REPLCONF", "rdb-only", "1"]).await?;
        if content == SnapshotContent::Functions {
            let answer = self.ask(&["REPLCONF", "rdb-filter-only", "functions"]).await?;
            if answer.first() == Some(&b'-') {
                bail!("it has no snapshots of functions alone (Redis 7.0): {}", String::from_utf8_lossy(&answer[1..]));
            }
        }
        self.send(&["SYNC"]).await?;
        let head = self.line().await?;
        let mut rest = Rest::of(&head)?;
        let line = progress::line();
        let mut count = 0;
        let mut begin = Vec::new();
        while !rest.is_over() {
            let piece = rest.take(&mut self.read);
            if piece.is_empty() {
                if !rest.is_over() {
                    self.fill().await?;
                }
                continue;
            }
            if begin.len() < MAGIC[1].len() {
                begin.extend(piece.iter().take(MAGIC[1].len()));
            }
            target.write(&piece)?;
            count += piece.len() as u64;
            line.set_message(format!("{} written", HumanBytes(count)));
        }
        line.finish_and_clear();
        if !MAGIC.iter().any(|magic| begin.starts_with(magic)) {
            bail!("what it sent is no snapshot: it begins with {:?}", String::from_utf8_lossy(&begin));
        }
        Ok(count)
    }

    /// A command and the line that answers it.
    async fn ask(&mut self, words: &[&str]) -> anyhow::Result<Vec<u8>> {
        self.send(words).await?;
        self.line().await
    }

    async fn send(&mut self, words: &[&str]) -> anyhow::Result<()> {
        let mut out = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        encode::command(&mut out, &words);
        self.stream.write_all(&out).await?;
        Ok(self.stream.flush().await?)
    }

    /// The next line that is not empty, without its end.
    async fn line(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end + 1);
                let line = line.trim_ascii();
                if line.is_empty() {
                    continue;
                }
                return Ok(line.to_vec());
            }
            if self.read.len() > MAX_LINE {
                bail!("a line of more than {MAX_LINE} bytes");
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        self.read.reserve(READ_BYTES);
        let read = tokio::time::timeout(MAX_SILENCE, self.stream.read_buf(&mut self.read)).await;
        match read.with_context(|| format!("nothing came for {MAX_SILENCE:?}"))?? {
            0 => bail!("it closed the connection before the end"),
            _ => Ok(()),
        }
    }
}

/// What is still to come of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rest {
    Bytes(u64),
    Until { mark: Vec<u8>, is_over: bool },
}

impl Rest {
    /// From the line before it.
    fn of(line: &[u8]) -> anyhow::Result<Self> {
        if let Some(mark) = line.strip_prefix(b"$EOF:").filter(|mark| mark.len() == MARK_LEN) {
            return Ok(Self::Until { mark: mark.to_vec(), is_over: false });
        }
        let length = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        match (length, line.strip_prefix(b"-")) {
            (Some(length), _) => Ok(Self::Bytes(length)),
            (_, Some(error)) => bail!("{}", String::from_utf8_lossy(error)),
            _ => bail!("an answer that is no snapshot: {:?}", String::from_utf8_lossy(line)),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Bytes(0) | Self::Until { is_over: true, .. })
    }

    /// What of the bytes that were read belongs to the snapshot for certain; empty if more has to be read.
    fn take(&mut self, read: &mut BytesMut) -> BytesMut {
        match self {
            Self::Bytes(left) => {
                let piece = read.split_to(usize::try_from(*left).unwrap_or(usize::MAX).min(read.len()));
                *left -= piece.len() as u64;
                piece
            }
            Self::Until { mark, is_over } => {
                // The mark is random, so nothing before it is like it; and with it the server has said all.
                if let Some(at) = memchr::memmem::find(read, mark) {
                    let piece = read.split_to(at);
                    read.advance(mark.len());
                    *is_over = true;
                    return piece;
                }
                read.split_to(read.len().saturating_sub(MARK_LEN - 1))
            }
        }
    }
}

/// Where it goes.
enum Target {
    Output(io::Stdout),
    File { file: File, path: PathBuf, part: Part },
}

/// A file that is not whole, removed when this is dropped.
struct Part(Option<PathBuf>);

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path); // what went wrong has been said
        }
    }
}

impl Target {
    fn open(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == STANDARD_OUTPUT {
            return Ok(Self::Output(io::stdout()));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        // All the data of a server: not for everybody's eyes.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
        let file = file.with_context(|| format!("writing {}", part.display()))?;
        Ok(Self::File { file, path: path.to_owned(), part: Part(Some(part)) })
    }

    fn write(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Output(out) => Ok(out.write_all(piece)?),
            Self::File { file, path, .. } => {
                file.write_all(piece).with_context(|| format!("writing {}", path.display()))
            }
        }
    }

    /// It is whole.
    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Output(mut out) => Ok(out.flush()?),
            Self::File { file, path, mut part } => {
                let failed = || format!("writing {}", path.display());
                file.sync_all().with_context(failed)?;
                if let Some(part) = part.0.as_ref() {
                    fs::rename(part, &path).with_context(failed)?;
                }
                part.0 = None;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is taken, whatever the pieces that come.
    #[track_caller]
    fn check(line: &str, sent: &[u8], expected: &[u8], left: &[u8]) {
        for size in 1..=sent.len() {
            let mut rest = Rest::of(line.as_bytes()).unwrap();
            let (mut read, mut taken) = (BytesMut::new(), Vec::new());
            for piece in sent.chunks(size) {
                read.extend_from_slice(piece);
                while !rest.is_over() {
                    let piece = rest.take(&mut read);
                    taken.extend_from_slice(&piece);
                    if piece.is_empty() {
                        break;
                    }
                }
            }
            assert!(rest.is_over(), "{size}");
            assert_eq!((taken.as_slice(), &read[..]), (expected, left), "{size}");
        }
    }

    #[test]
    fn by_length_and_by_mark() {
        let mark = "0123456789abcdef0123456789abcdef01234567";
        check("$9", b"REDIS0011*1\r\n", b"REDIS0011", b"*1\r\n");
        check(&format!("$EOF:{mark}"), format!("REDIS0011{mark}*1").as_bytes(), b"REDIS0011", b"*1");
        check(&format!("$EOF:{mark}"), format!("{}{mark}", &mark[..39]).as_bytes(), &mark.as_bytes()[..39], b"");
    }

    #[test]
    fn what_is_no_snapshot() {
        let refused = |line: &str| Rest::of(line.as_bytes()).unwrap_err().to_string();
        assert_eq!(refused("-NOPERM no"), "NOPERM no");
        assert!(refused("+OK").contains("no snapshot"));
        assert!(refused("$-1").contains("no snapshot"));
        assert!(refused("$EOF:short").contains("no snapshot"));
    }
}
