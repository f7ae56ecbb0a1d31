//! The limits of a cache.

use std::ops::RangeInclusive;

use crate::purge::TagFields;

/// The smallest useful cache.
const MIN_BYTES: u64 = 64 * 1024;

/// Limits of a [`Cache`](crate::Cache).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheOptions {
    /// Memory of all stored responses, keys and fields included, and of answers that are being recorded, which take up
    /// to a quarter of it; 64 MiB by default, at least 64 KiB.
    pub max_bytes: u64,
    /// The longest body that is stored, 1 MiB by default, at most half of `max_bytes`.
    pub max_object_bytes: u64,
    /// What becomes of fields with tags on the way to clients; removed by default.
    pub tag_fields: TagFields,
}

impl CacheOptions {
    /// Values of `max_bytes` in a configuration.
    pub const MAX_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;
    /// Values of `max_object_bytes` in a configuration, a route's as well.
    pub const MAX_OBJECT_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 30;

    /// Whether they can be kept.
    pub(crate) fn checked(self) -> Result<Self, OptionsError> {
        let Self { max_bytes, max_object_bytes, .. } = self;
        if max_bytes < MIN_BYTES {
            return Err(OptionsError::TooSmall { max_bytes });
        }
        if max_object_bytes > max_bytes / 2 {
            return Err(OptionsError::ObjectTooLarge { max_object_bytes, max_bytes });
        }
        Ok(self)
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_object_bytes: 1 << 20, tag_fields: TagFields::default() }
    }
}

/// Limits that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// `max_bytes` is below the minimum.
    #[error(
        "a cache of {max_bytes} bytes is too small to be of use; give it at least {MIN_BYTES} bytes, or switch it off"
    )]
    TooSmall {
        /// The value given.
        max_bytes: u64,
    },
    /// An object may fill more than half of the cache.
    #[error(
        "the largest object ({max_object_bytes} bytes) must be at most half of the cache ({max_bytes} bytes); \
         lower the one or raise the other"
    )]
    ObjectTooLarge {
        /// The value given.
        max_object_bytes: u64,
        /// The value given.
        max_bytes: u64,
    },
    /// The store refused its options, which is a bug of ours.
    #[error("the store refused its options")]
    Store,
}
