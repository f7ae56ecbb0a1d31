//! Long bodies that pass through: what they take of memory, and of CPU time in small chunks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::running::{Running, body, own_service, route, service};
use super::{Lab, PYTHON, ROUNDS, SECOND, group, software, variant};
use crate::experiment::model::Metric;
use crate::experiment::{Group, Question, Sample};
use crate::processes::usage;
use crate::service::bodies::{ENDLESS, counted};
use crate::{cores, interrupt};

const BLOCK_BYTES: usize = 1 << 20;
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(30);
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Nothing may move for so long.
const STALL_LIMIT: Duration = Duration::from_secs(30);
const NO_LIMITS: &str = "[limits]\nbody_size = \"none\"\nresponse_timeout = \"1h\"\n\n";
const MEGABYTE: u64 = 1_000_000;
/// Bytes of a chunk, and of a transfer: in small ones each byte costs more.
const SIZES: [(usize, u64); 2] = [(1, 10 * MEGABYTE), (1000, 50 * MEGABYTE)];
/// Transfers are repeated until they have cost so much.
const LEAST_CPU: Duration = Duration::from_millis(250);
const CHUNKS_BLOCK_BYTES: usize = 100_000;
/// Larger than what the gateway holds of a request, so that it gets a connection of its own over the pipe.
const LARGE_REQUEST: usize = 40_000;

/// Which way the body goes.
#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

const WAYS: [(Way, &str); 2] = [(Way::Up, "upload"), (Way::Down, "download")];

pub(super) fn memory(lab: &Rc<Lab>) -> Group {
    let metrics =
        [Metric::GrowthBytes, Metric::RssBytes, Metric::RssAfterBytes, Metric::BytesPerSecond, Metric::NsPerByte];
    let bytes = lab.of.upload_gb * 1000 * MEGABYTE;
    let usual = SECOND * u32::try_from(lab.of.upload_gb).unwrap_or(u32::MAX).min(30);
    let variants = WAYS.iter().flat_map(|(way, name)| {
        [("pipe", "pipe-bodies"), ("HTTP", "http-bodies")].map(|(kind, service)| {
            let (id, title) = (format!("{name}-{}", kind.to_lowercase()), format!("{name}, {kind}"));
            variant(lab, &id, &title, usual, move |lab, _| grows(lab, service, *way, bytes))
        })
    });
    Group {
        variants: variants.collect(),
        amount: lab.counted(super::FEW_ROUNDS),
        ..group(
            "memory",
            "Memory while a large body passes through",
            format!(
                "memory of the gateway and its helper before, at its peak and afterwards; an upload of {} GB, a download of as much or {} s",
                lab.of.upload_gb,
                DOWNLOAD_LIMIT.as_secs()
            ),
            &metrics,
        )
    }
}

fn grows(lab: &Lab, service: &str, way: Way, bytes: u64) -> anyhow::Result<Sample> {
    let gateway = lab.start(&format!("{NO_LIMITS}{}", own_service(&lab.service, &[service], "")))?;
    gateway.ask().context("before the transfer")?;
    let own = gateway.own_pids();
    let (before, begin) = (usage::memory(&own).rss_bytes, Instant::now());
    let groups = [("gateway", own.clone())];
    let ((moved, peak), used) = usage::during(&groups, || {
        cores::on(lab.load_core(), || {
            with_peak(&own, || match way {
                Way::Up => upload(&gateway, bytes),
                Way::Down => download(&gateway, bytes),
            })
        })?
    })?;
    let (moved, seconds) = (moved as f64, begin.elapsed().as_secs_f64());
    let values = vec![
        (Metric::GrowthBytes, peak.saturating_sub(before) as f64),
        (Metric::RssBytes, before as f64),
        (Metric::RssAfterBytes, usage::memory(&own).rss_bytes as f64),
        (Metric::BytesPerSecond, moved / seconds),
        (Metric::NsPerByte, used[0].as_secs_f64() * 1e9 / moved),
    ];
    Ok(Sample { values, ..Sample::default() })
}

/// The peak of memory of all these processes while something is done: by looking again and again, or the sum of their
/// own peaks.
fn with_peak<T>(pids: &[u32], work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, u64)> {
    usage::reset_peak(pids)?;
    std::thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        let watch = scope.spawn(move || {
            let mut peak = 0;
            while ended.recv_timeout(SAMPLE_EVERY) == Err(RecvTimeoutError::Timeout) {
                peak = peak.max(usage::memory(pids).rss_bytes);
            }
            peak
        });
        let done = work();
        drop(end);
        let seen = watch.join().unwrap_or(0);
        Ok((done?, seen.max(usage::status_bytes(pids, "VmHWM"))))
    })
}

/// Sends so many bytes, which the service has to count.
fn upload(gateway: &Running, bytes: u64) -> anyhow::Result<u64> {
    let mut socket = gateway.dial()?;
    socket.set_write_timeout(Some(STALL_LIMIT))?;
    let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {bytes}\r\n\r\n");
    socket.write_all(head.as_bytes())?;
    let (block, mut left) = (vec![0; BLOCK_BYTES], bytes);
    while left > 0 {
        let now = left.min(BLOCK_BYTES as u64);
        socket.write_all(&block[..now as usize]).context("the upload broke")?;
        left -= now;
        interrupt::check()?;
    }
    let said = body(Vec::new(), socket)?;
    ensure!(said == counted(bytes), "the service did not count {bytes} bytes: {said}");
    Ok(bytes)
}

/// Takes an endless body for a while, or so many bytes; how many came.
fn download(gateway: &Running, bytes: u64) -> anyhow::Result<u64> {
    let mut socket = gateway.dial()?;
    socket.set_read_timeout(Some(STALL_LIMIT))?;
    write!(socket, "GET {ENDLESS} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let (mut room, mut received, end) = (vec![0; BLOCK_BYTES], 0, Instant::now() + DOWNLOAD_LIMIT);
    while received < bytes && Instant::now() < end {
        let read = socket.read(&mut room).context("the download broke")?;
        ensure!(read > 0, "the endless download ended after {received} bytes");
        received += read as u64;
        interrupt::check()?;
    }
    Ok(received)
}

/// What the small chunks' variants are called, and the large ones'.
pub(super) const SMALL: &str = "1-byte";
pub(super) const LARGE: &str = "1000-bytes";

/// A group for each way and kind, as each is compared in itself.
pub(super) fn chunks(lab: &Rc<Lab>) -> Vec<Group> {
    let kinds = [("HTTP", "transport = \"http\"\nsocket = \"unix\""), ("pipe", "transport = \"pipe\"")];
    let each = WAYS.iter().flat_map(|(way, name)| kinds.map(|(kind, transport)| (*way, *name, kind, transport)));
    let of = |(way, name, kind, transport): (Way, &str, &str, &'static str)| {
        let variants = SIZES.map(|(size, bytes)| {
            let id = if size == 1 { SMALL } else { LARGE };
            let title = format!("chunks of {size} B");
            let work = move |lab: &Lab, _| costs(lab, transport, way, size, bytes);
            let mut variant = variant(lab, id, &title, SECOND, work);
            variant.software.extend(software("python3"));
            variant
        });
        Group {
            variants: variants.into(),
            control: LARGE.into(),
            questions: vec![Question::ratio(
                "CPU of the gateway, chunks of 1 B / of 1 kB",
                Metric::NsPerByte,
                SMALL,
                LARGE,
            )],
            amount: lab.counted(ROUNDS),
            ..group(
                &format!("chunks-{name}-{}", kind.to_lowercase()),
                &format!("Bodies in very small chunks: {name}, {kind}"),
                format!(
                    "one connection; gateway and service on one core; at least {} s of CPU",
                    LEAST_CPU.as_secs_f64()
                ),
                &[Metric::NsPerByte, Metric::PieceBytes],
            )
        }
    };
    each.map(of).collect()
}

fn costs(lab: &Lab, transport: &str, way: Way, size: usize, bytes: u64) -> anyhow::Result<Sample> {
    let file = lab.file("lab/peers/http/services/chunks.py");
    let tables = service("service", &[PYTHON, &file], transport) + &route("/", "service", "false");
    let gateway = lab.start(&format!("{NO_LIMITS}{tables}"))?;
    let transfer = |bytes| match way {
        Way::Up => upload_chunks(&gateway, size, bytes),
        Way::Down => download_chunks(&gateway, size, bytes),
    };
    cores::on(lab.load_core(), || {
        transfer(MEGABYTE).context("before it counts")?; // the service is started, and memory is there
        let own = gateway.own_pids();
        let (before, mut used, mut moved, mut pieces) = (usage::cpu_time(&own), Duration::ZERO, 0, 0);
        while used < LEAST_CPU {
            pieces += transfer(bytes)?;
            moved += bytes;
            used = usage::cpu_time(&own).saturating_sub(before);
            interrupt::check()?;
        }
        let values = vec![
            (Metric::NsPerByte, used.as_secs_f64() * 1e9 / moved as f64),
            (Metric::PieceBytes, moved as f64 / pieces as f64),
        ];
        Ok(Sample { values, ..Sample::default() })
    })?
}

/// Sends so many bytes in chunks of this size; how many pieces the service got.
fn upload_chunks(gateway: &Running, size: usize, bytes: u64) -> anyhow::Result<u64> {
    let mut socket = gateway.dial()?;
    socket.set_write_timeout(Some(STALL_LIMIT))?;
    socket.write_all(
        b"POST /count HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    let block = format!("{size:x}\r\n{}\r\n", "x".repeat(size)).repeat(CHUNKS_BLOCK_BYTES / size);
    for _ in 0..bytes / CHUNKS_BLOCK_BYTES as u64 {
        socket.write_all(block.as_bytes())?;
    }
    socket.write_all(b"0\r\n\r\n")?;
    let said = body(Vec::new(), socket)?;
    let told: serde_json::Value = serde_json::from_str(&said).with_context(|| format!("no JSON: {said}"))?;
    ensure!(told["bytes"] == bytes, "the service did not count {bytes} bytes: {said}");
    told["pieces"].as_u64().context("the service counted no pieces")
}

/// Takes so many bytes that the service sends in pieces of this size; how many chunks came.
fn download_chunks(gateway: &Running, size: usize, bytes: u64) -> anyhow::Result<u64> {
    let mut socket = gateway.dial()?;
    write!(
        socket,
        "POST /send/{size}/{bytes} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {LARGE_REQUEST}\r\n\r\n"
    )?;
    socket.write_all(&[0; LARGE_REQUEST])?;
    let mut input = BufReader::with_capacity(BLOCK_BYTES, socket);
    let (mut line, mut chunk) = (String::new(), Vec::new());
    input.read_line(&mut line)?;
    ensure!(line.contains(" 200 "), "answered with {line:?}");
    while line != "\r\n" {
        line.clear();
        ensure!(input.read_line(&mut line)? > 0, "the answer has no end of its head");
    }
    let (mut received, mut pieces) = (0, 0);
    loop {
        line.clear();
        input.read_line(&mut line)?;
        let Ok(length) = usize::from_str_radix(line.trim_end(), 16) else { bail!("{line:?} is no chunk") };
        if length == 0 {
            ensure!(received == bytes, "{received} bytes came instead of {bytes}");
            return Ok(pieces);
        }
        chunk.resize(length + 2, 0);
        input.read_exact(&mut chunk)?;
        received += length as u64;
        pieces += 1;
    }
}
