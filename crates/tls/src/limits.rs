//! What is read of files.

/// Most bytes of a file.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Most certificates in a file: the certificate, its intermediates, and some that nobody needs.
pub const MAX_CHAIN: usize = 16;

/// Most authorities in a file of those that clients' certificates may be of.
pub(crate) const MAX_AUTHORITIES: usize = 1024;
