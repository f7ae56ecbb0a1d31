//! Replays the corpus of the fuzz target `frames` (fuzz/corpus/frames): what a fuzzer has found once is tested for
//! ever.

#[path = "../../../fuzz/checks/frames.rs"]
mod frames;
#[path = "../../../fuzz/replay.rs"]
#[expect(dead_code, reason = "the corpus is not mutated here")]
mod replay;

#[test]
fn corpus() {
    replay::replay("frames", frames::check);
}
