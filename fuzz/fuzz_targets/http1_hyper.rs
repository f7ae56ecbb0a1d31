#![no_main]

#[path = "../checks/http1_hyper.rs"]
mod http1_hyper;

libfuzzer_sys::fuzz_target!(|data: &[u8]| http1_hyper::check(data));
