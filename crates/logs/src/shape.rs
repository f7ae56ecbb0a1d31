//! How records become messages, and messages wait in one buffer: each behind its length.

use std::sync::Arc;

use crate::destination::{Destination, Facility, SyslogFormat};
use crate::journal;
use crate::record::Record;
use crate::syslog::Syslog;

/// How the messages of a log look. A log that is written in lines has none.
#[derive(Clone, Debug)]
pub struct Shape(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Journal(Facility),
    Syslog { format: SyslogFormat, facility: Facility, host: Arc<str> },
}

impl Shape {
    /// The shape that a destination takes; `None` for files and streams, which take lines.
    #[must_use]
    pub fn of(destination: &Destination, facility: Facility, format: Option<SyslogFormat>) -> Option<Self> {
        match destination {
            Destination::Stderr | Destination::Stdout | Destination::File(_) => None,
            Destination::Journal(_) => Some(Self(Kind::Journal(facility))),
            Destination::Syslog(peer) => {
                let host = rustix::system::uname().nodename().to_string_lossy().into();
                let format = format.unwrap_or(peer.usual_format());
                Some(Self(Kind::Syslog { format, facility, host }))
            }
        }
    }

    /// Appends a message with its length.
    pub fn encode(&self, out: &mut Vec<u8>, record: &Record<'_>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        match &self.0 {
            Kind::Journal(facility) => journal::encode(out, *facility, record),
            Kind::Syslog { format, facility, host } => {
                Syslog { format: *format, facility: *facility, host }.encode(out, record);
            }
        }
        let length = (out.len() - begin - 4) as u32; // values are cut long before
        out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// The messages of a buffer.
pub(crate) fn split(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (message, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        Some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Names, Severity};

    #[test]
    fn messages_are_told_apart() {
        let shape = Shape::of(&Destination::Journal("/".into()), Facility::User, None).unwrap();
        let mut out = Vec::new();
        for message in ["a", "", "\0\0\0\n"] {
            let record = Record {
                at_ms: 0,
                severity: Severity::Info,
                identifier: "x",
                process: 0,
                message: message.as_bytes(),
                fields: &[],
                names: Names::Own,
            };
            shape.encode(&mut out, &record);
        }
        let messages: Vec<&[u8]> = split(&out).collect();
        assert_eq!(messages.len(), 3);
        assert_eq!(messages[1], b"MESSAGE=\nPRIORITY=6\nSYSLOG_IDENTIFIER=x\nSYSLOG_FACILITY=1\n");
        assert!(Shape::of(&Destination::Stderr, Facility::User, None).is_none());
    }
}
