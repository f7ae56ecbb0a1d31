#![no_main]

#[path = "../checks/lambda.rs"]
mod lambda;

libfuzzer_sys::fuzz_target!(|data: &[u8]| lambda::check(data));
