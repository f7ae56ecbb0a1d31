//! What a peer may make the decoder hold.

/// What one frame may be. A number on the wire is compared with its limit while it is 64 bits wide, before it sizes
/// anything.
///
/// A reply that exceeds a limit is read over to its end, without being kept, and is a
/// [`Value::Skipped`](crate::Value::Skipped). A push that exceeds one ends the stream, as does a reply whose end cannot
/// be found by counting (streamed types), or of which more than 4 GiB are to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one string: bulk, blob error, verbatim with its format, streamed string in all. Default: 512 MiB, the
    /// servers' own limit.
    pub max_bulk_bytes: usize,
    /// Bytes of one line (simple string, error, double, big number), without type byte and CR LF. Default: 64 KiB.
    pub max_line_bytes: usize,
    /// Aggregates within each other; attributes count as one around the value that they describe, streamed strings as
    /// one. Replies that are [passed through](crate::Decoder::pass_through) are not built, and may be 65,536 deep.
    /// Default: 128.
    pub max_depth: usize,
    /// Elements of all aggregates of a frame together; a pair of a map or of attributes counts as two. Default: 16 Mi.
    pub max_elements: usize,
    /// Bytes of the whole frame as written, with the pushes inside it. Default: 1 GiB.
    pub max_frame_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bulk_bytes: 512 << 20,
            max_line_bytes: 64 << 10,
            max_depth: 128,
            max_elements: 16 << 20,
            max_frame_bytes: 1 << 30,
        }
    }
}

/// Maximum length of the rest of a reply that exceeds a limit, in bytes, for the rest to be read over. After more, the
/// stream ends: those who wait behind the reply are served sooner on another connection.
pub(crate) const MAX_SKIPPED_BYTES: u64 = 4 << 30;

/// What happens to attributes (`|`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attributes {
    /// They are read and dropped.
    #[default]
    Discard,
    /// The value that they describe is a [`Value::Attributed`](crate::Value::Attributed).
    Keep,
}
