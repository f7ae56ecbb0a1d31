//! The stores under comparison, each behind the same two calls. The value of a key is its weight.

use foyer_memory::{Cache as Foyer, CacheBuilder, EvictionConfig, LfuConfig, S3FifoConfig, SieveConfig};
use moka::policy::EvictionPolicy;
use quick_cache::sync::{Cache as Quick, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// What the memory tier takes a response to weigh (`AVERAGE_RESOURCE_BYTES` of crates/cache/src/tier/memory.rs).
const AVERAGE_BYTES: u64 = 2048;

/// All of them; the first is what the memory tier is made of.
pub const NAMES: [&str; 8] = [
    "quick_cache",
    "quick_cache-8-shards",
    "quick_cache-guess",
    "moka-tinylfu",
    "foyer-w-tinylfu",
    "foyer-s3-fifo",
    "foyer-sieve",
    "lru",
];

pub trait Policy {
    fn get(&mut self, key: u64) -> bool;
    fn insert(&mut self, key: u64, weight: u32);
}

pub fn by_name(name: &str, capacity: u64) -> Box<dyn Policy> {
    match name {
        "quick_cache" => quick(capacity, 1, capacity / AVERAGE_BYTES),
        "quick_cache-8-shards" => quick(capacity, 8, capacity / AVERAGE_BYTES),
        "quick_cache-guess" => quick(capacity, 1, capacity / AVERAGE_BYTES / 4),
        "moka-tinylfu" => moka(capacity, EvictionPolicy::tiny_lfu()),
        "foyer-w-tinylfu" => foyer(
            capacity,
            LfuConfig { window_capacity_ratio: 0.01, protected_capacity_ratio: 0.79, ..Default::default() },
        ),
        "foyer-s3-fifo" => foyer(capacity, S3FifoConfig::default()),
        "foyer-sieve" => foyer(capacity, SieveConfig {}),
        _ => moka(capacity, EvictionPolicy::lru()),
    }
}

#[derive(Clone)]
struct OwnWeight;

impl Weighter<u64, u32> for OwnWeight {
    fn weight(&self, _: &u64, weight: &u32) -> u64 {
        u64::from(*weight)
    }
}

type QuickStore = Quick<u64, u32, OwnWeight, DefaultHashBuilder, DefaultLifecycle<u64, u32>>;

fn quick(capacity: u64, shards: usize, expected: u64) -> Box<dyn Policy> {
    let options = OptionsBuilder::new()
        .shards(shards)
        .weight_capacity(capacity)
        .estimated_items_capacity(expected.max(1) as usize)
        .build()
        .expect("all options are given");
    Box::new(QuickStore::with_options(options, OwnWeight, DefaultHashBuilder::default(), DefaultLifecycle::default()))
}

impl Policy for QuickStore {
    fn get(&mut self, key: u64) -> bool {
        Quick::get(self, &key).is_some()
    }

    fn insert(&mut self, key: u64, weight: u32) {
        Quick::insert(self, key, weight);
    }
}

type MokaStore = moka::sync::Cache<u64, u32>;

fn moka(capacity: u64, policy: EvictionPolicy) -> Box<dyn Policy> {
    let weigher = |_: &u64, weight: &u32| *weight;
    Box::new(MokaStore::builder().max_capacity(capacity).weigher(weigher).eviction_policy(policy).build())
}

impl Policy for MokaStore {
    fn get(&mut self, key: u64) -> bool {
        moka::sync::Cache::get(self, &key).is_some()
    }

    fn insert(&mut self, key: u64, weight: u32) {
        moka::sync::Cache::insert(self, key, weight);
        // Otherwise admission lags behind by as many requests as its log holds.
        self.run_pending_tasks();
    }
}

fn foyer(capacity: u64, policy: impl Into<EvictionConfig>) -> Box<dyn Policy> {
    let builder = CacheBuilder::new(capacity as usize).with_shards(1).with_eviction_config(policy);
    let store: Foyer<u64, u32> = builder.with_weighter(|_: &u64, weight: &u32| *weight as usize).build();
    Box::new(store)
}

impl Policy for Foyer<u64, u32> {
    fn get(&mut self, key: u64) -> bool {
        Foyer::get(self, &key).is_some()
    }

    fn insert(&mut self, key: u64, weight: u32) {
        drop(Foyer::insert(self, key, weight));
    }
}
