#![no_main]

#[path = "../checks/resp_decode.rs"]
mod resp_decode;

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp_decode::check(data));
