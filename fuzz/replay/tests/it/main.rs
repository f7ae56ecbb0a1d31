//! Replays the corpus of each fuzz target (`fuzz/corpus`) through the checks that the fuzzer uses, so an input that a
//! fuzzer has found once is tested in every run. Modules named after a crate also mutate the corpus or generate inputs.
//!
//! One program for all targets: fourteen would be linked otherwise.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot read its corpus has failed")]

mod checks;
mod corpus;

mod cgi;
mod http1;
mod http2;
mod json_fields;
mod jwt;
mod lambda;
mod proxy_protocol;
mod releases;
mod stdio;

#[test]
fn cache_control() {
    corpus::replay("cache_control", checks::cache_control::check);
}

#[test]
fn cache_key() {
    corpus::replay("cache_key", checks::cache_key::check);
}

#[test]
fn cache_record() {
    corpus::replay("cache_record", checks::cache_record::check);
}

#[test]
fn config() {
    corpus::replay("config", checks::config::check);
}

#[test]
fn frames() {
    corpus::replay("frames", checks::frames::check);
}

#[test]
fn resp_decode() {
    corpus::replay("resp_decode", checks::resp_decode::check);
}
