//! Keys of earlier versions that have no effect any more.

use super::schema::Part;

/// A key that had an effect in an earlier version.
#[derive(Clone, Copy, Debug)]
pub struct Retired {
    /// Where it was.
    pub part: Part,
    /// Its name.
    pub name: &'static str,
    /// Why it has no effect any more, as a sentence without its end.
    pub why: &'static str,
}

/// Keys that are read with a warning, so that files of an earlier version stay valid.
pub const RETIRED: &[Retired] = &[Retired {
    part: Part::CacheRedis,
    name: "busy_poll",
    why: "workers sleep while they wait for Redis (docs/adr/0027)",
}];
