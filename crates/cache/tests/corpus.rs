//! Replays the corpora of fuzz targets (fuzz/corpus): what a fuzzer has found once is tested for ever.

#[path = "../../../fuzz/checks/cache_control.rs"]
mod cache_control;
#[path = "../../../fuzz/checks/cache_key.rs"]
mod cache_key;
#[path = "../../../fuzz/replay.rs"]
#[expect(dead_code, reason = "the corpus is not mutated here")]
mod replay;

#[test]
fn cache_control_corpus() {
    replay::replay("cache_control", cache_control::check);
}

#[test]
fn cache_key_corpus() {
    replay::replay("cache_key", cache_key::check);
}
