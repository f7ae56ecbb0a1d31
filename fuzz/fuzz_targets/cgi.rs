#![no_main]

#[path = "../checks/cgi.rs"]
mod cgi;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cgi::check(data));
