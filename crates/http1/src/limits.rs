//! How much of a message is taken before it is refused.

/// Bounds of one message; all in bytes but for [`Limits::max_fields`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The start line and all fields, with their line ends.
    pub max_head: usize,
    /// Number of fields in a head, and in a trailer section.
    pub max_fields: usize,
    /// The line with a chunk's size and extensions, without its end.
    pub max_chunk_line: usize,
    /// Extensions of all chunks of a body together: they carry nothing that anybody uses, so only an attack has many.
    pub max_chunk_extensions: u64,
    /// A trailer section.
    pub max_trailers: usize,
}

impl Limits {
    /// For requests: 64 KiB of head, 100 fields, chunk lines of 1 KiB, 16 KiB of extensions and of trailers.
    pub const REQUEST: Self = Self {
        max_head: 64 * 1024,
        max_fields: 100,
        max_chunk_line: 1024,
        max_chunk_extensions: 16 * 1024,
        max_trailers: 16 * 1024,
    };

    /// For responses, which come from services of one's own: 128 KiB of head and 256 fields; the rest as for requests.
    pub const RESPONSE: Self = Self { max_head: 128 * 1024, max_fields: 256, ..Self::REQUEST };
}
