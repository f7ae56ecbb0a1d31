#![no_main]

#[path = "../checks/stdio_lines.rs"]
mod stdio_lines;

libfuzzer_sys::fuzz_target!(|data: &[u8]| stdio_lines::check(data));
