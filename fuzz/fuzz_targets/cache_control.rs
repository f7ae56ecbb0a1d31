#![no_main]

#[path = "../checks/cache_control.rs"]
mod cache_control;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cache_control::check(data));
