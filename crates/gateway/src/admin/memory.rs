//! Memory of process groups, as the system counts it.

use std::collections::HashMap;

/// Bytes of each process group in memory; pages that its processes share are counted for each. Empty where there is no
/// `/proc`.
pub(super) fn of_groups() -> HashMap<i32, u64> {
    let page = rustix::param::page_size() as u64;
    let mut groups = HashMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)) {
        // A process that has ended meanwhile has no memory.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some((group, pages)) = group_and_pages(&stat) {
            *groups.entry(group).or_default() += pages * page;
        }
    }
    groups
}

/// Bytes of this process in memory, and its seconds of CPU time.
pub(super) fn own() -> Option<(u64, f64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, pages) = group_and_pages(&stat)?;
    let ticks: u64 = fields(&stat)?.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some((pages * rustix::param::page_size() as u64, ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// proc_pid_stat(5): pgrp is the 5th field, rss the 24th.
fn group_and_pages(stat: &str) -> Option<(i32, u64)> {
    let mut fields = fields(stat)?;
    let group = fields.nth(2)?.parse().ok()?;
    let pages = fields.nth(18)?.parse().ok()?;
    Some((group, pages))
}

/// From the third on: the second, the name, is in brackets and may have brackets and spaces in it.
fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc() {
        let line = "42 (a) b) S 1 40 42 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 100 1000000 321 18446744073709551615";
        assert_eq!(group_and_pages(line), Some((40, 321)));
        assert_eq!(group_and_pages("nonsense"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory() {
        assert!(own().is_some_and(|(bytes, seconds)| bytes > 100_000 && seconds >= 0.0));
        assert!(of_groups().values().sum::<u64>() > 100_000);
    }
}
