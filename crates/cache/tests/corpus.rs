//! Replays the corpora of fuzz targets (fuzz/corpus): what a fuzzer has found once is tested for ever.

use std::path::Path;

#[path = "../../../fuzz/checks/cache_control.rs"]
mod cache_control;
#[path = "../../../fuzz/checks/cache_key.rs"]
mod cache_key;

fn replay(name: &str, check: impl Fn(&[u8])) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        println!("{}", path.display()); // shown when the check fails
        check(&std::fs::read(&path)?);
        count += 1;
    }
    assert!(count > 0, "no corpus in {}", folder.display());
    Ok(())
}

#[test]
fn cache_control_corpus() -> std::io::Result<()> {
    replay("cache_control", cache_control::check)
}

#[test]
fn cache_key_corpus() -> std::io::Result<()> {
    replay("cache_key", cache_key::check)
}
