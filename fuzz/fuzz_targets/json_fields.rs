#![no_main]

#[path = "../checks/json_fields.rs"]
mod json_fields;

libfuzzer_sys::fuzz_target!(|data: &[u8]| json_fields::check(data));
