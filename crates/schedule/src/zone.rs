//! What the clock of a place shows.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use tz::TimeZone;

/// Bytes of a zone's name.
pub const MAX_ZONE_NAME: usize = 64;
/// Bytes of a zone's file.
const MAX_FILE: u64 = 1 << 20;
/// Where systems keep the database of the IANA.
const FOLDERS: [&str; 3] = ["/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];

/// A time zone of the IANA's database.
#[derive(Clone, Debug)]
pub struct Zone {
    name: String,
    /// `None`: UTC.
    rules: Option<TimeZone>,
}

/// Why a time zone is not there.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// A name that none has.
    #[error("{0:?} is not the name of a time zone")]
    Name(String),
    /// This machine does not have it.
    #[error("this machine does not know the time zone {name} ({})", .folders.join(", "))]
    Unknown {
        /// Its name.
        name: String,
        /// Where it was looked for.
        folders: Vec<&'static str>,
    },
    /// Its file cannot be read.
    #[error("{}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// Its file is none of a time zone (RFC 9636).
    #[error("{} is not the file of a time zone", .0.display())]
    Format(PathBuf),
}

impl Zone {
    /// Universal time.
    #[must_use]
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: None }
    }

    /// Whether this can be the name of a zone, such as `Europe/Berlin`.
    ///
    /// # Errors
    /// It cannot.
    pub fn check_name(name: &str) -> Result<(), ZoneError> {
        let is_good = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'+' | b'.'))
        };
        match name.len() <= MAX_ZONE_NAME && name.split('/').all(is_good) {
            true => Ok(()),
            false => Err(ZoneError::Name(name.to_owned())),
        }
    }

    /// The zone of this name, from this machine's database. UTC needs none.
    ///
    /// # Errors
    /// The name is none, the machine does not have it, or its file is broken.
    pub fn load(name: &str) -> Result<Self, ZoneError> {
        Self::check_name(name)?;
        if matches!(name, "UTC" | "Etc/UTC" | "GMT" | "Z") {
            return Ok(Self { name: name.to_owned(), rules: None });
        }
        for folder in FOLDERS {
            let path = Path::new(folder).join(name);
            match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(ZoneError::Read { path, cause }),
                Ok(file) => {
                    let mut bytes = Vec::new();
                    match file.take(MAX_FILE).read_to_end(&mut bytes) {
                        Ok(_) => return Self::read(name, &bytes).ok_or(ZoneError::Format(path)),
                        // A region, such as `Europe`.
                        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
                        Err(cause) => return Err(ZoneError::Read { path, cause }),
                    }
                }
            }
        }
        Err(ZoneError::Unknown { name: name.to_owned(), folders: FOLDERS.to_vec() })
    }

    /// Of the bytes of its file (RFC 9636).
    fn read(name: &str, bytes: &[u8]) -> Option<Self> {
        let rules = TimeZone::from_tz_data(bytes).ok()?;
        Some(Self { name: name.to_owned(), rules: Some(rules) })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// By how many seconds its clock is ahead of UTC at this second since 1970. UTC, where its rules do not reach.
    #[must_use]
    pub fn offset(&self, second: i64) -> i64 {
        let rules = self.rules.as_ref();
        rules.and_then(|rules| rules.find_local_time_type(second).ok()).map_or(0, |found| found.ut_offset().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince"] {
            assert!(Zone::check_name(good).is_ok(), "{good}");
        }
        for bad in
            ["", "/etc/passwd", "../x", "Europe/../../etc/passwd", "Europe/", "a b", "Europe/.x", &"x".repeat(65)]
        {
            assert!(Zone::check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_there() {
        assert!(matches!(Zone::load("Europe/Nowhere"), Err(ZoneError::Unknown { .. })));
        assert!(matches!(Zone::load("Europe"), Err(ZoneError::Unknown { .. })));
        assert!(matches!(Zone::load("../../etc/passwd"), Err(ZoneError::Name(_))));
        assert!(Zone::read("x", b"TZif, not").is_none());
        assert!(Zone::read("x", b"").is_none());
    }

    #[test]
    fn offsets() {
        assert_eq!(Zone::utc().offset(0), 0);
        let berlin = Zone::load("Europe/Berlin").unwrap();
        assert_eq!(berlin.offset(1_795_479_300), 3600);
        assert_eq!(berlin.offset(1_782_000_000), 7200);
        // Beyond the table of the file its rule counts.
        assert_eq!((berlin.offset(4_102_444_800), berlin.offset(4_118_000_000)), (3600, 7200));
        assert_eq!(berlin.offset(i64::MAX), 0);
    }
}
