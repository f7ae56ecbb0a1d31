//! Replays the corpus of the fuzz target `cache_record` (fuzz/corpus/cache_record): what a fuzzer has found once is
//! tested for ever.

#[path = "../../../fuzz/checks/cache_record.rs"]
mod cache_record;
#[path = "../../../fuzz/replay.rs"]
#[expect(dead_code, reason = "the corpus is not mutated here")]
mod replay;

#[test]
fn corpus() {
    replay::replay("cache_record", cache_record::check);
}
