//! Nanoseconds per decoded frame: `cargo run --release -p pilotlight-resp --example decode_rate [frames [kind]]`.
//!
//! Frames come in reads of 64 KiB at most, as from a socket; each is dropped at once, as by a caller that is done with
//! it.

use std::hint::black_box;
use std::time::Instant;

use bytes::BytesMut;
use pilotlight_resp::{Decoder, Limits, encode};

const READ: usize = 64 << 10;
const ROUNDS: usize = 5;

fn main() {
    let total = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(2_000_000);
    measure("bulk of 64 B", total, |out| encode::bulk(out, &[b'x'; 64]));
    measure("bulk of 1 KiB", total, |out| encode::bulk(out, &[b'x'; 1024]));
    measure("array of 100 bulks of 16 B", total / 50, |out| {
        encode::array_header(out, 100);
        (0..100).for_each(|_| encode::bulk(out, &[b'x'; 16]));
    });
    measure(":int", total, |out| out.extend_from_slice(b":1234\r\n"));
    measure("+OK", total, |out| out.extend_from_slice(b"+OK\r\n"));
    measure("null", total, |out| out.extend_from_slice(b"_\r\n"));
}

/// Prints the median of the rounds.
fn measure(name: &str, frames: usize, encode: impl Fn(&mut Vec<u8>)) {
    if std::env::args().nth(2).is_some_and(|kind| !name.contains(&kind)) {
        return;
    }
    let mut one = Vec::new();
    encode(&mut one);
    let per_read = (READ / one.len()).max(1);
    let read = one.repeat(per_read);
    let mut rounds = [0.0; ROUNDS];
    for round in &mut rounds {
        *round = nanoseconds(&read, frames / per_read + 1) / per_read as f64;
    }
    rounds.sort_by(f64::total_cmp);
    println!("{name:28} {:8.1} ns/frame ({:.1}–{:.1})", rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]);
}

/// Nanoseconds per read, without what copying the bytes into the buffer takes.
fn nanoseconds(read: &[u8], reads: usize) -> f64 {
    let mut decoder = Decoder::new(Limits::default());
    let mut input = BytesMut::with_capacity(read.len());
    let mut decoding = std::time::Duration::ZERO;
    for _ in 0..reads {
        input.reserve(read.len());
        input.extend_from_slice(read);
        let start = Instant::now();
        while let Ok(Some(frame)) = decoder.decode(&mut input) {
            black_box(&frame);
        }
        decoding += start.elapsed();
        assert!(input.is_empty() && decoder.is_idle(), "the frames do not decode");
    }
    decoding.as_nanos() as f64 / reads as f64
}
