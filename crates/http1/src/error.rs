//! Every rule that a message may break: what is said, which status answers it, where it stands.

/// Why bytes are not a message that is taken. Each is one rule; after it the connection is of no further use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Neither a method, a target and a version with one space between them.
    #[error("the request line is not `METHOD target HTTP/1.1`")]
    RequestLine,
    /// A method is a token.
    #[error("the method has a byte that no method has")]
    Method,
    /// White space, control bytes, `#` and the like.
    #[error("the request target has a byte that no target has")]
    TargetByte,
    /// None of the four forms of RFC 9112 §3.2.
    #[error("the request target is neither a path, an absolute URI, `*` for OPTIONS, nor an authority for CONNECT")]
    TargetForm,
    /// The name `HTTP/` and two digits with a dot.
    #[error("the version is not `HTTP/1.x`")]
    Version,
    /// HTTP/2 and others.
    #[error("this major version of HTTP is not spoken here")]
    MajorVersion,
    /// Neither a version, three digits and a reason.
    #[error("the status line is not `HTTP/1.1 200 OK`")]
    StatusLine,
    /// A status is between 100 and 599.
    #[error("the status is not a number from 100 to 599")]
    Status,
    /// A line that ends with LF alone: readers disagree whether it ends there.
    #[error("a line ends with LF alone, not with CRLF")]
    BareLf,
    /// A CR that no LF follows.
    #[error("a CR stands alone")]
    BareCr,
    /// NUL and other control bytes in a field's value.
    #[error("a field's value has a control byte")]
    ValueByte,
    /// A name is a token.
    #[error("a field's name is empty or has a byte that no name has")]
    FieldName,
    /// `Name : value`: one reader drops the field, another takes it.
    #[error("there is white space between a field's name and its colon")]
    SpaceBeforeColon,
    /// A line without a colon.
    #[error("a field has no colon")]
    NoColon,
    /// A line that begins with white space (`obs-fold`).
    #[error("a field is continued on a line that begins with white space")]
    Folded,
    /// The start line and the fields are larger than [`crate::Limits::max_head`].
    #[error("the head is larger than the limit")]
    HeadTooLarge,
    /// More fields than [`crate::Limits::max_fields`].
    #[error("the head has more fields than the limit")]
    TooManyFields,
    /// HTTP/1.1 needs exactly one `Host`.
    #[error("the request has no Host")]
    NoHost,
    /// Two readers may take two different ones.
    #[error("the request has several Host fields")]
    SeveralHosts,
    /// Not `host`, `host:port` or `[address]:port`.
    #[error("Host or the authority of the target is not a host with an optional port")]
    Host,
    /// Not one number of digits only.
    #[error("Content-Length is not a number")]
    Length,
    /// Repeated with different values.
    #[error("Content-Length has several different values")]
    LengthsDiffer,
    /// The classic of smuggling.
    #[error("there are both Content-Length and Transfer-Encoding")]
    LengthAndCoding,
    /// `chunked` is the one coding, once and last.
    #[error("Transfer-Encoding is something else than `chunked`")]
    Coding,
    /// RFC 9112 §6.1: a sender applies it once. Readers that take the second for data disagree on where a body ends.
    #[error("`chunked` is there several times in Transfer-Encoding: a proxy on the way may have added it again")]
    CodingTwice,
    /// A coding on top of `chunked`: the body has no end that is known.
    #[error("`chunked` is not the last coding of Transfer-Encoding")]
    CodingNotLast,
    /// HTTP/1.0 has no `Transfer-Encoding`: who sends it does not mean what a reader takes it for.
    #[error("an HTTP/1.0 message has Transfer-Encoding")]
    CodingInHttp10,
    /// `Expect` knows one expectation.
    #[error("Expect is something else than `100-continue`")]
    Expectation,
    /// No hexadecimal digit where a chunk begins.
    #[error("a chunk's size is not a hexadecimal number")]
    ChunkSize,
    /// More than 2^63 bytes.
    #[error("a chunk's size is too large for any body")]
    ChunkSizeTooLarge,
    /// What follows the size is no extension.
    #[error("a chunk's size is followed by something that is no extension")]
    ChunkExtension,
    /// Longer than [`crate::Limits::max_chunk_line`], or all extensions than [`crate::Limits::max_chunk_extensions`].
    #[error("the extensions of chunks are larger than the limit")]
    ChunkExtensionsTooLarge,
    /// A chunk's data goes on where its end should be.
    #[error("a chunk is longer than its size says")]
    ChunkEnd,
    /// Larger than [`crate::Limits::max_trailers`].
    #[error("the trailer section is larger than the limit")]
    TrailersTooLarge,
    /// The peer closed the connection within a head.
    #[error("the connection was closed within a head")]
    CutHead,
    /// The peer closed the connection before the body's end.
    #[error("the connection was closed before the end of the body")]
    CutBody,
    /// A service switches to another protocol unasked.
    #[error("it switched to another protocol without being asked to")]
    UnaskedSwitch,
}

/// What the response to a malformed request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Status of the response; the connection is closed after it.
    pub status: u16,
    /// The section that the rule comes from.
    pub section: &'static str,
}

impl Malformed {
    /// Every rule, in the order of the enumeration.
    pub const ALL: [Self; 37] = [
        Self::RequestLine,
        Self::Method,
        Self::TargetByte,
        Self::TargetForm,
        Self::Version,
        Self::MajorVersion,
        Self::StatusLine,
        Self::Status,
        Self::BareLf,
        Self::BareCr,
        Self::ValueByte,
        Self::FieldName,
        Self::SpaceBeforeColon,
        Self::NoColon,
        Self::Folded,
        Self::HeadTooLarge,
        Self::TooManyFields,
        Self::NoHost,
        Self::SeveralHosts,
        Self::Host,
        Self::Length,
        Self::LengthsDiffer,
        Self::LengthAndCoding,
        Self::Coding,
        Self::CodingTwice,
        Self::CodingNotLast,
        Self::CodingInHttp10,
        Self::Expectation,
        Self::ChunkSize,
        Self::ChunkSizeTooLarge,
        Self::ChunkExtension,
        Self::ChunkExtensionsTooLarge,
        Self::ChunkEnd,
        Self::TrailersTooLarge,
        Self::CutHead,
        Self::CutBody,
        Self::UnaskedSwitch,
    ];

    /// The status that answers a *request* that breaks this rule, and where the rule stands. A *response* that breaks
    /// one is a bad gateway (502), whichever it is.
    pub fn refusal(self) -> Refusal {
        let (status, section) = match self {
            Self::RequestLine | Self::TargetByte => (400, "RFC 9112 §3"),
            Self::Method => (400, "RFC 9110 §9.1"),
            Self::TargetForm => (400, "RFC 9112 §3.2"),
            Self::Version => (400, "RFC 9112 §2.3"),
            Self::MajorVersion => (505, "RFC 9110 §15.6.6"),
            Self::StatusLine | Self::Status => (502, "RFC 9112 §4"),
            Self::BareLf | Self::BareCr => (400, "RFC 9112 §2.2"),
            Self::ValueByte => (400, "RFC 9110 §5.5"),
            Self::FieldName => (400, "RFC 9110 §5.1"),
            Self::SpaceBeforeColon | Self::NoColon => (400, "RFC 9112 §5.1"),
            Self::Folded => (400, "RFC 9112 §5.2"),
            Self::HeadTooLarge | Self::TooManyFields => (431, "RFC 6585 §5"),
            Self::NoHost | Self::SeveralHosts | Self::Host => (400, "RFC 9112 §3.2"),
            Self::Length => (400, "RFC 9110 §8.6"),
            Self::LengthsDiffer | Self::LengthAndCoding => (400, "RFC 9112 §6.3"),
            Self::Coding => (501, "RFC 9112 §6.1"),
            Self::CodingTwice => (400, "RFC 9112 §6.1"),
            Self::CodingNotLast => (400, "RFC 9112 §6.3"),
            Self::CodingInHttp10 => (400, "RFC 9112 §6.1"),
            Self::Expectation => (417, "RFC 9110 §10.1.1"),
            Self::ChunkSize | Self::ChunkSizeTooLarge | Self::ChunkEnd => (400, "RFC 9112 §7.1"),
            Self::ChunkExtension | Self::ChunkExtensionsTooLarge => (400, "RFC 9112 §7.1.1"),
            Self::TrailersTooLarge => (431, "RFC 9112 §7.1.2"),
            Self::CutHead | Self::CutBody => (400, "RFC 9112 §8"),
            Self::UnaskedSwitch => (502, "RFC 9110 §7.8"),
        };
        Refusal { status, section }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/http1.md` has each rule with its status and section, in this order.
    #[test]
    fn the_document_says_the_same() {
        let document = include_str!("../../../docs/http1.md");
        let rows: Vec<&str> = document.lines().filter(|line| line.contains("| RFC ")).collect();
        let rules: Vec<String> = Malformed::ALL
            .iter()
            .map(|rule| format!("| {rule} | {} | {} |", rule.refusal().status, rule.refusal().section))
            .collect();
        assert_eq!(rows, rules);
    }
}
