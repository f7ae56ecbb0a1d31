#![no_main]

#[path = "../checks/cache_record.rs"]
mod cache_record;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cache_record::check(data));
