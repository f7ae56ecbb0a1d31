//! What a purge costs with many responses stored:
//! `cargo run --release -p pilotlight-cache --example purge [RESPONSES]`.

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pilotlight_cache::{
    Address, Cache, CacheOptions, Decision, Key, Lookup, Mode, Purge, RouteRules, Scope, Timestamp, Timing, Turn,
};

const NOW: Timestamp = Timestamp(1_000_000_000_000);
const ROUNDS: usize = 101;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let options = CacheOptions { max_bytes: 16 << 30, ..CacheOptions::default() };
    // As in front of a shared tier, where a purge writes most.
    let cache = Cache::shared(options, |key| key.target.len() as u64)?;
    let targets: Vec<String> = (0..count).map(|number| format!("/products/{number}")).collect();
    let filling = Instant::now();
    for target in &targets {
        store(&cache, target)?;
    }
    let usage = cache.usage();
    println!(
        "{} responses with the tag, {} MiB by weight, filled in {:?}",
        usage.resources,
        usage.bytes >> 20,
        filling.elapsed()
    );
    let address = |target: &str| Address { scheme: "http".into(), authority: "h".into(), target: target.into() };
    let scopes = [
        ("tag", Scope::Tag("all".into())),
        ("prefix", Scope::Prefix(address("/products/"))),
        ("url", Scope::Url(address("/products/1"))),
        ("everything", Scope::Everything),
    ];
    println!(
        "{:<12} {:>10} {:>10} {:>10}   first lookup of each response afterwards",
        "purge of", "min", "median", "max"
    );
    for (name, scope) in scopes {
        let purge = Purge { scope, mode: Mode::Soft };
        let mut times: Vec<Duration> =
            (0..ROUNDS).map(|_| timed(|| cache.purge(std::slice::from_ref(&purge), NOW))).collect();
        times.sort();
        let looking = timed(|| targets.iter().filter(|target| is_hit(&cache, target)).count());
        let each = looking / u32::try_from(count)?;
        println!("{name:<12} {:>10.1?} {:>10.1?} {:>10.1?}   {each:?}", times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
    }
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    std::hint::black_box(work());
    begun.elapsed()
}

fn key(target: &str) -> Key<'_> {
    Key { scheme: "http", authority: "h", target, extra: "" }
}

fn is_hit(cache: &Cache, target: &str) -> bool {
    matches!(cache.lookup(&key(target), &Method::GET, &HeaderMap::new(), NOW), Lookup::Hit(_))
}

fn store(cache: &Cache, target: &str) -> Result<(), Box<dyn std::error::Error>> {
    let request = HeaderMap::new();
    let Turn::Leader(fill) = cache.begin(&key(target), &Method::GET, &request, NOW) else { return Ok(()) };
    let mut headers = HeaderMap::new();
    headers.insert("cache-control", HeaderValue::from_static("max-age=600"));
    headers.insert("cache-tag", HeaderValue::from_static("all, products, shop"));
    let timing = Timing { sent: NOW, received: NOW };
    if let Decision::Store(mut recorder) =
        fill.response(&request, StatusCode::OK, &headers, timing, RouteRules::default())
    {
        recorder.push(b"a body")?;
        recorder.finish(NOW)?;
    }
    Ok(())
}
