//! Replays the corpus of the fuzz target `config` (fuzz/corpus/config): what a fuzzer has found once is tested for
//! ever.

#[path = "../../../fuzz/checks/config.rs"]
mod config;
#[path = "../../../fuzz/replay.rs"]
#[expect(dead_code, reason = "the corpus is not mutated here")]
mod replay;

#[test]
fn corpus() {
    replay::replay("config", config::check);
}
