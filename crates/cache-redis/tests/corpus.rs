//! Replays the corpus of the fuzz target `cache_record` (fuzz/corpus/cache_record): what a fuzzer has found once is
//! tested for ever.

use std::path::Path;

#[path = "../../../fuzz/checks/cache_record.rs"]
mod cache_record;

#[test]
fn corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/cache_record");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display()); // shown when the check fails
        cache_record::check(&std::fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "no corpus in {}", folder.display());
}
