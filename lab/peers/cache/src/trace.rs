//! The traces as Caffeine's simulator has them, unpacked: `target/traces/NAME`.

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

/// What an object weighs in traces without sizes: what the memory tier takes a response to weigh.
pub const OBJECT_BYTES: u32 = 2048;

pub struct Request {
    pub key: u64,
    pub weight: u32,
}

/// The requests of a trace, whose format its name tells.
pub fn read(file: &Path) -> io::Result<Vec<Request>> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let data = fs::read(file)?;
    let requests: Vec<Request> = match name {
        // Java's: big-endian.
        "web07" | "web12" | "orm-busy" | "w106" => data.chunks_exact(4).map(integer).collect(),
        "scarab-recs" => data.chunks_exact(8).map(integer).collect(),
        "request" => lines(&data).filter_map(sized).collect(),
        "multi3" | "loop" => lines(&data).filter_map(|line| Some(of(line.trim().parse().ok()?))).collect(),
        _ => return Err(io::Error::other("no trace that is known")),
    };
    if requests.is_empty() { Err(io::Error::other("has no requests")) } else { Ok(requests) }
}

/// What all objects weigh together.
pub fn weight(requests: &[Request]) -> u64 {
    let objects: HashMap<u64, u32> = requests.iter().map(|request| (request.key, request.weight)).collect();
    objects.values().map(|weight| u64::from(*weight)).sum()
}

fn of(key: u64) -> Request {
    Request { key, weight: OBJECT_BYTES }
}

fn integer(bytes: &[u8]) -> Request {
    of(bytes.iter().fold(0, |key, byte| key << 8 | u64::from(*byte)))
}

fn lines(data: &[u8]) -> impl Iterator<Item = &str> {
    data.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

/// `TIME KEY BYTES`.
fn sized(line: &str) -> Option<Request> {
    let mut words = line.split_whitespace().skip(1);
    let (key, weight) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (weight > 0).then_some(Request { key, weight })
}
