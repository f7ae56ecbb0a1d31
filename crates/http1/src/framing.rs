//! Where a body ends, and whether the connection goes on after it (RFC 9112 §6.3, §9.3).

use crate::error::Malformed;
use crate::fields::{FieldTable, Known, members};
use crate::version::Version;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body, whatever the fields say (a response to HEAD, 204, 304), or none was announced (a request).
    Empty,
    /// As many bytes.
    Exactly(u64),
    /// Chunks, and maybe trailers.
    Chunked,
    /// Until the connection is closed; of responses only.
    UntilClose,
}

/// Whether a connection may carry another message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// It may.
    KeepAlive,
    /// This message is its last one.
    Close,
}

/// What the fields of a head say about its framing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framing<'b> {
    pub(crate) length: Option<u64>,
    pub(crate) is_chunked: bool,
    pub(crate) persistence: Persistence,
    pub(crate) host: Option<&'b [u8]>,
    /// Of the first `Upgrade`, if `Connection` names it.
    pub(crate) upgrade: Option<&'b [u8]>,
    pub(crate) expects_continue: bool,
}

/// One pass over the fields. `Connection`'s members mark the fields that they name.
pub(crate) fn read<'b>(head: &'b [u8], version: Version, table: &mut FieldTable) -> Result<Framing<'b>, Malformed> {
    let persistence = if version == Version::Http11 { Persistence::KeepAlive } else { Persistence::Close };
    let mut framing =
        Framing { length: None, is_chunked: false, persistence, host: None, upgrade: None, expects_continue: false };
    let (mut options, mut closes, mut upgrades) = (false, false, false);
    for (known, value) in table.known(head) {
        match known {
            Known::Other | Known::KeepAlive | Known::ProxyConnection | Known::Te | Known::Http2Settings => {}
            Known::Host if framing.host.is_some() => return Err(Malformed::SeveralHosts),
            Known::Host => framing.host = Some(value),
            Known::ContentLength => framing.length = Some(length(value, framing.length)?),
            Known::TransferEncoding if framing.is_chunked || !value.eq_ignore_ascii_case(b"chunked") => {
                let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
                let is_before = members(value).any(is_chunked) && !members(value).last().is_some_and(is_chunked);
                let count =
                    members(value).filter(|coding| is_chunked(coding)).count() + usize::from(framing.is_chunked);
                return Err(match is_before {
                    true => Malformed::CodingNotLast,
                    false if count > 1 => Malformed::CodingTwice,
                    false => Malformed::Coding,
                });
            }
            Known::TransferEncoding => framing.is_chunked = true,
            // RFC 9110 §10.1.1: an unknown expectation fails.
            Known::Expect if value.eq_ignore_ascii_case(b"100-continue") => framing.expects_continue = true,
            Known::Expect => return Err(Malformed::Expectation),
            Known::Upgrade => framing.upgrade = framing.upgrade.or(Some(value)),
            Known::Connection if value.eq_ignore_ascii_case(b"keep-alive") => {
                framing.persistence = Persistence::KeepAlive;
            }
            Known::Connection => {
                for option in members(value) {
                    closes |= option.eq_ignore_ascii_case(b"close");
                    upgrades |= option.eq_ignore_ascii_case(b"upgrade");
                    if option.eq_ignore_ascii_case(b"keep-alive") {
                        framing.persistence = Persistence::KeepAlive;
                    }
                }
                options = true;
            }
        }
    }
    if options {
        nominate(head, table);
    }
    if closes {
        framing.persistence = Persistence::Close; // RFC 9112 §9.3: `close` is looked for first
    }
    framing.upgrade = framing.upgrade.filter(|_| upgrades && version == Version::Http11);
    Ok(framing)
}

#[cold]
fn nominate(head: &[u8], table: &mut FieldTable) {
    let values: Vec<&[u8]> =
        table.known(head).filter(|(known, _)| *known == Known::Connection).map(|(_, value)| value).collect();
    for option in values.into_iter().flat_map(members) {
        table.nominate(head, option);
    }
}

/// RFC 9110 §8.6: digits only; a list of identical numbers counts as one.
fn length(value: &[u8], before: Option<u64>) -> Result<u64, Malformed> {
    let mut found = before;
    for part in value.split(|byte| *byte == b',') {
        let part = part.trim_ascii();
        // 19 digits always fit.
        if part.is_empty() || part.len() > 19 || !part.iter().all(u8::is_ascii_digit) {
            return Err(Malformed::Length);
        }
        let number = part.iter().fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
        if found.is_some_and(|found| found != number) {
            return Err(Malformed::LengthsDiffer);
        }
        found = Some(number);
    }
    found.ok_or(Malformed::Length)
}
