//! What is wrong with a header block.

/// Why bytes are no header block. The connection is of no further use: both sides' tables differ from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// It ends within a field.
    #[error("a header block ends within a field")]
    Truncated,
    /// Larger than any length or index.
    #[error("an integer of a header block is too large")]
    Integer,
    /// Neither of the static table nor of the dynamic one (§2.3.3).
    #[error("a header block names an entry that no table has")]
    Index,
    /// Not what the code of Appendix B has.
    #[error("a string is not Huffman-coded as it says")]
    Huffman,
    /// Larger than announced, or not at the beginning of a block (§4.2, §6.3).
    #[error("a header block changes the size of the table where it may not, or beyond the limit")]
    TableSize,
    /// More than four times [`crate::Limits::header_list`].
    #[error("a header block unpacks to more than the limit")]
    Bomb,
}
