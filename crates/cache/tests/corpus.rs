//! Replays the corpora of fuzz targets (fuzz/corpus): what a fuzzer has found once is tested for ever.

use std::path::Path;

#[path = "../../../fuzz/checks/cache_control.rs"]
mod cache_control;
#[path = "../../../fuzz/checks/cache_key.rs"]
mod cache_key;

fn replay(name: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display()); // shown when the check fails
        check(&std::fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "no corpus in {}", folder.display());
}

#[test]
fn cache_control_corpus() {
    replay("cache_control", cache_control::check);
}

#[test]
fn cache_key_corpus() {
    replay("cache_key", cache_key::check);
}
