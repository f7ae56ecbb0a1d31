#![no_main]

#[path = "../checks/http1.rs"]
mod http1;

libfuzzer_sys::fuzz_target!(|data: &[u8]| http1::check(data));
