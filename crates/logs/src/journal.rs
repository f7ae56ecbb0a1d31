//! The native protocol of the systemd journal: https://systemd.io/JOURNAL_NATIVE_PROTOCOL/
//!
//! ```text
//!  NAME=value\n                                   a value without line ends
//!  NAME\n  length (u64, little endian)  value \n  any other value
//! ```

use crate::destination::Facility;
use crate::record::Record;

/// Bytes of a name; the journal ignores fields with longer ones.
const MAX_NAME: usize = 64;

/// Encodes one entry.
pub(crate) fn encode(out: &mut Vec<u8>, facility: Facility, record: &Record<'_>) {
    field(out, "MESSAGE", record.message);
    field(out, "PRIORITY", &[b'0' + record.severity.number()]);
    field(out, "SYSLOG_IDENTIFIER", record.identifier.as_bytes());
    field(out, "SYSLOG_FACILITY", facility.number().to_string().as_bytes());
    for one in record.fields {
        let name = record.names.journal(one.name);
        field(out, &name[..name.len().min(MAX_NAME)], &one.value);
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::record::{Field, Names, Severity};

    fn entry(message: &[u8], names: Names, fields: &[Field<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        let record = Record {
            at_ms: 0,
            severity: Severity::Warning,
            identifier: "pilotlight",
            process: 1,
            message,
            fields,
            names,
        };
        encode(&mut out, Facility::Daemon, &record);
        out
    }

    fn of<'a>(name: &'a str, value: &'a [u8]) -> Field<'a> {
        Field { name, value: Cow::Borrowed(value) }
    }

    /// The rules of the protocol, read again.
    fn decode(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| matches!(byte, b'=' | b'\n')).unwrap();
            let name = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let (value, rest) = if bytes[end] == b'=' {
                let value = &bytes[end + 1..];
                let length = value.iter().position(|byte| *byte == b'\n').unwrap();
                value.split_at(length)
            } else {
                let (length, value) = bytes[end + 1..].split_first_chunk::<8>().unwrap();
                value.split_at(u64::from_le_bytes(*length) as usize)
            };
            fields.push((name, value.to_vec()));
            bytes = rest.strip_prefix(b"\n").unwrap();
        }
        fields
    }

    #[test]
    fn an_entry() {
        let fields = [of("service", b"users"), of("trace_id", b"ab"), of("max.age", b"1"), of("output", b"a\nb")];
        let expected = b"MESSAGE=ready\nPRIORITY=4\nSYSLOG_IDENTIFIER=pilotlight\nSYSLOG_FACILITY=3\n\
            PILOTLIGHT_SERVICE=users\nTRACE_ID=ab\nPILOTLIGHT_MAX_AGE=1\nPILOTLIGHT_OUTPUT\n\x03\0\0\0\0\0\0\0a\nb\n";
        assert_eq!(entry(b"ready", Names::Own, &fields), expected);
    }

    #[test]
    fn fields_of_requests() {
        let fields = [of("status", b"200"), of("service", b"users"), of("request_id", b"7")];
        let names: Vec<String> =
            decode(&entry(b"", Names::Http, &fields)).into_iter().skip(4).map(|(name, _)| name).collect();
        assert_eq!(names, ["HTTP_STATUS", "PILOTLIGHT_SERVICE", "REQUEST_ID"]);
    }

    proptest! {
        #[test]
        fn no_value_makes_another_field(
            message in prop::collection::vec(any::<u8>(), 0..60),
            value in "(\n|=|MESSAGE=a|PRIORITY=0|[a-z]){0,12}",
            name in "[a-zA-Z._0-9é]{1,80}",
        ) {
            let fields = [of(&name, value.as_bytes())];
            let read = decode(&entry(&message, Names::Own, &fields));
            prop_assert_eq!(read.len(), 5);
            prop_assert_eq!(&read[0], &("MESSAGE".to_owned(), message));
            prop_assert_eq!(&read[4].1, value.as_bytes());
            prop_assert!(read[4].0.len() <= MAX_NAME);
            prop_assert!(read[4].0.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'));
        }
    }
}
