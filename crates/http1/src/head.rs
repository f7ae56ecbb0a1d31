//! Heads as they are read: views of the bytes and of the table with their fields.

use crate::fields::Fields;
use crate::framing::{BodyLength, Persistence};
use crate::target::Target;
use crate::version::Version;

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'b> {
    /// A token; methods differ by case (RFC 9110 §9.1).
    pub method: &'b str,
    /// What it is for.
    pub target: Target<'b>,
    /// The target as it was written.
    pub target_text: &'b str,
    /// The client's version.
    pub version: Version,
    /// That of the target if it has one, else `Host`; empty if an HTTP/1.0 request has none.
    pub authority: &'b str,
    /// All fields.
    pub fields: Fields<'b>,
    /// How its body ends.
    pub body: BodyLength,
    /// The one number that `Content-Length` says, however often.
    pub content_length: Option<u64>,
    /// Whether the client wants to go on with this connection.
    pub persistence: Persistence,
    /// The client waits for 100 before it sends the body.
    pub expects_continue: bool,
    /// The protocols that the client would switch to.
    pub upgrade: Option<&'b [u8]>,
    /// Bytes of the head, with those of an empty line before it.
    pub length: usize,
}

/// The head of a response.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'b> {
    /// From 100 to 599.
    pub status: u16,
    /// The service's version.
    pub version: Version,
    /// All fields.
    pub fields: Fields<'b>,
    /// How its body ends.
    pub body: BodyLength,
    /// The one number that `Content-Length` says, however often; of HEAD and 304, that of the body that is not sent.
    /// `None` where it means nothing: with a status below 200, 204, or a transfer coding.
    pub content_length: Option<u64>,
    /// Whether the connection may be used again.
    pub persistence: Persistence,
    /// The protocol that it switches to, of a 101.
    pub upgrade: Option<&'b [u8]>,
    /// Bytes of the head.
    pub length: usize,
}
