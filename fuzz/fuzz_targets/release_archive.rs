#![no_main]

#[path = "../checks/release_archive.rs"]
mod release_archive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| release_archive::check(data));
