//! Replays the corpus of the fuzz target `frames` (fuzz/corpus/frames): what a fuzzer has found once is tested for
//! ever.

use std::path::Path;

#[path = "../../../fuzz/checks/frames.rs"]
mod frames;

#[test]
fn corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frames");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display()); // shown when the check fails
        frames::check(&std::fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "no corpus in {}", folder.display());
}
