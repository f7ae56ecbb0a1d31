#![no_main]

#[path = "../checks/cache_key.rs"]
mod cache_key;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cache_key::check(data));
