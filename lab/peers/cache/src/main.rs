//! Hit ratios of eviction policies on a recorded sequence of requests.
//!
//! `evict CAPACITY_BYTES… < REQUESTS`: each line is a key and what its answer weighs in bytes. A request that finds its
//! key is a hit; any other stores it. Prints one line of JSON for each policy and capacity: the ratio of hits among all
//! requests.
mod policies;

use std::io::{self, BufRead};

use policies::{NAMES, Policy};

struct Request {
    key: u64,
    weight: u32,
}

fn main() {
    let capacities: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let requests = read();
    if capacities.is_empty() || requests.is_empty() {
        eprintln!("usage: evict CAPACITY_BYTES… < REQUESTS (lines of `KEY WEIGHT_BYTES`)");
        std::process::exit(2);
    }
    for &capacity in &capacities {
        for name in NAMES {
            let mut policy = policies::by_name(name, capacity);
            let hits = play(&requests, capacity, policy.as_mut());
            let ratio = hits as f64 / requests.len() as f64;
            println!(r#"{{"policy":"{name}","capacity":{capacity},"ratio":{ratio:.5},"requests":{}}}"#, requests.len());
        }
    }
}

fn read() -> Vec<Request> {
    let parse = |line: &str| {
        let (key, weight) = line.split_once(' ')?;
        Some(Request { key: key.parse().ok()?, weight: weight.parse().ok()? })
    };
    io::stdin().lock().lines().map_while(Result::ok).filter_map(|line| parse(&line)).collect()
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
