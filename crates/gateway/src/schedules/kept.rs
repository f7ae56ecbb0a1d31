//! Up to when schedules were dealt with, in a file: what a process that begins has to know of what it has missed.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Bytes of the file that are read.
const MAX_FILE: u64 = 4 << 20;

/// One schedule: what its times come from, and up to when they were dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) cron: String,
    pub(super) timezone: String,
    pub(super) dealt: i64,
}

/// What is in the file. One that is not there, or is broken, has nothing.
pub(super) fn read(path: &Path) -> HashMap<String, Kept> {
    let text = match fs::metadata(path) {
        Ok(found) if found.len() <= MAX_FILE => fs::read_to_string(path).unwrap_or_default(),
        _ => return HashMap::new(),
    };
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let one = |(name, value): (&String, &Value)| {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let kept = Kept { cron: text("cron")?, timezone: text("timezone")?, dealt: value["dealt"].as_i64()? };
        Some((name.clone(), kept))
    };
    value["schedules"].as_object().into_iter().flatten().filter_map(one).collect()
}

/// Writes the file anew, in one step for whoever reads it.
pub(super) fn write(path: &Path, all: &HashMap<String, Kept>) -> io::Result<()> {
    let one = |(name, kept): (&String, &Kept)| {
        (name.clone(), json!({ "cron": kept.cron, "timezone": kept.timezone, "dealt": kept.dealt }))
    };
    let text = json!({ "schedules": all.iter().map(one).collect::<Map<_, _>>() }).to_string();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let next = path.with_extension("next");
    let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&next)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    drop(file);
    fs::rename(next, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/schedules.json");
        assert_eq!(read(&path), HashMap::new());
        let kept = |dealt| Kept { cron: "0 * * * *".to_owned(), timezone: "UTC".to_owned(), dealt };
        let all = HashMap::from([("app/a".to_owned(), kept(5)), ("b".to_owned(), kept(-1))]);
        write(&path, &all).unwrap();
        assert_eq!(read(&path), all);
        fs::write(&path, "{\"schedules\": {\"a\": 7, \"b\": {\"cron\": 1}}}").unwrap();
        assert_eq!(read(&path), HashMap::new());
        fs::write(&path, "half a fi").unwrap();
        assert_eq!(read(&path), HashMap::new());
    }
}
