//! Replays the corpus of the fuzz target `resp_decode` (fuzz/corpus/resp_decode): what a fuzzer has found once is
//! tested for ever.

#[path = "../../../fuzz/replay.rs"]
#[expect(dead_code, reason = "the corpus is not mutated here")]
mod replay;
#[path = "../../../fuzz/checks/resp_decode.rs"]
mod resp_decode;

#[test]
fn corpus() {
    replay::replay("resp_decode", resp_decode::check);
}
