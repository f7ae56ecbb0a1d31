//! Replays the corpus of the fuzz target `resp_decode` (fuzz/corpus/resp_decode): what a fuzzer has found once is
//! tested for ever.

use std::path::Path;

#[path = "../../../fuzz/checks/resp_decode.rs"]
mod resp_decode;

#[test]
fn corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/resp_decode");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display()); // shown when the check fails
        resp_decode::check(&std::fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "no corpus in {}", folder.display());
}
