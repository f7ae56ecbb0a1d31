//! Hit ratio of an eviction policy on a recorded sequence of requests.
//!
//! `evict TRACE PERCENT POLICY`: a request that finds its key is a hit; any other stores it. The capacity is a share of
//! what all objects of the trace weigh together. Prints one line of JSON: requests, hits, and the capacity in bytes.
mod policies;
mod trace;

use std::path::Path;
use std::process::ExitCode;

use policies::{NAMES, Policy};
use trace::Request;

/// Two objects of the usual weight fit in any cache.
const MIN_CAPACITY: u64 = 2 * trace::OBJECT_BYTES as u64;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, percent, policy] = &arguments[..] else { return usage() };
    let (Ok(percent), true) = (percent.parse::<u64>(), NAMES.contains(&policy.as_str())) else { return usage() };
    let requests = match trace::read(Path::new(file)) {
        Ok(requests) => requests,
        Err(why) => {
            eprintln!("evict: {file}: {why}");
            return ExitCode::FAILURE;
        }
    };
    let capacity = (trace::weight(&requests) * percent / 100).max(MIN_CAPACITY);
    let hits = play(&requests, capacity, policies::by_name(policy, capacity).as_mut());
    println!(r#"{{"requests":{},"hits":{hits},"capacity":{capacity}}}"#, requests.len());
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: evict TRACE PERCENT POLICY\npolicies: {}", NAMES.join(", "));
    ExitCode::from(2)
}

fn play(requests: &[Request], capacity: u64, policy: &mut dyn Policy) -> usize {
    let mut hits = 0;
    for request in requests {
        if policy.get(request.key) {
            hits += 1;
        // As the memory tier: what would fill more than half of the cache is not stored.
        } else if u64::from(request.weight) <= capacity / 2 {
            policy.insert(request.key, request.weight);
        }
    }
    hits
}
