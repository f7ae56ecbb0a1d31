//! Syslog in both of its forms.
//!
//! A server takes what comes over the network for RFC 5424 or RFC 3164, by the version behind the priority. What comes
//! over the machine's own socket it takes for what the C library's `syslog` writes, `<PRI>TIME TAG[PID]: TEXT`:
//! journald knows nothing else there, and neither does rsyslog unless it is told to. The time may be left out, and is
//! here: the server notes when it took the message, and the C library's time has no zone.
//!
//! Every message is one line: characters that end lines or drive terminals are escaped.

use std::borrow::Cow;
use std::io::Write;

use pilotlight_printable::printable;

use crate::destination::{Facility, SyslogFormat};
use crate::record::Record;
use crate::time::rfc3339;

/// Bytes of a message; what is longer is cut and marked. Servers take 8 KiB unless they are told otherwise.
pub(crate) const MAX_MESSAGE: usize = 8 * 1024;
/// Bytes of APP-NAME (RFC 5424 §6).
const MAX_APP_NAME: usize = 48;
/// Bytes of HOSTNAME.
const MAX_HOST: usize = 255;
/// Bytes of PARAM-NAME.
const MAX_PARAM_NAME: usize = 32;
/// Bytes of one value of the structured data, so that the message has room beside it.
const MAX_PARAM_VALUE: usize = 1024;
/// Bytes of all the structured data.
const MAX_DATA: usize = 6 * 1024;
/// SD-ID: a name with a private enterprise number (§7.2.2). Pilotlight has none; this one is reserved for such (RFC
/// 5612).
const SD_ID: &str = "pilotlight@32473";
/// The mark of what was cut.
const CUT: &str = "…";

/// How syslog messages of one log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Syslog<'a> {
    pub(crate) format: SyslogFormat,
    pub(crate) facility: Facility,
    pub(crate) host: &'a str,
}

impl Syslog<'_> {
    /// Encodes one message.
    pub(crate) fn encode(self, out: &mut Vec<u8>, record: &Record<'_>) {
        let begin = out.len();
        let priority = self.facility.number() * 8 + record.severity.number();
        match self.format {
            SyslogFormat::Rfc3164 => {
                let app = name(record.identifier, MAX_APP_NAME);
                // A Vec takes everything.
                let _ = write!(out, "<{priority}>{app}[{}]: ", record.process);
                text(out, begin, record.message);
            }
            SyslogFormat::Rfc5424 => {
                let _ = write!(out, "<{priority}>1 ");
                rfc3339(out, record.at_ms);
                let (host, app) = (name(self.host, MAX_HOST), name(record.identifier, MAX_APP_NAME));
                let _ = write!(out, " {host} {app} {} - ", record.process);
                data(out, record);
                out.push(b' ');
                text(out, begin, record.message);
            }
        }
    }
}

/// A name of the header: visible ASCII, never empty.
fn name(text: &str, max: usize) -> Cow<'_, str> {
    if !text.is_empty() && text.len() <= max && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Cow::Borrowed(text);
    }
    let kept: String = text.chars().filter(char::is_ascii_graphic).take(max).collect();
    if kept.is_empty() { Cow::Borrowed("-") } else { Cow::Owned(kept) }
}

/// RFC 5424 §6.3.
fn data(out: &mut Vec<u8>, record: &Record<'_>) {
    if record.fields.is_empty() {
        return out.push(b'-');
    }
    let begin = out.len();
    out.push(b'[');
    out.extend_from_slice(SD_ID.as_bytes());
    for field in record.fields {
        let before = out.len();
        out.push(b' ');
        // §6.3.3: of visible ASCII all but these.
        let is_good = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'=' | b']' | b'"');
        out.extend(field.name.bytes().filter(is_good).take(MAX_PARAM_NAME));
        out.extend_from_slice(b"=\"");
        let value = String::from_utf8_lossy(&field.value);
        let (value, cut) = shortened(&value, MAX_PARAM_VALUE);
        for character in printable(value).chars() {
            // §6.3.3: these three must be escaped.
            if matches!(character, '"' | '\\' | ']') {
                out.push(b'\\');
            }
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        out.extend_from_slice(if cut { CUT.as_bytes() } else { b"" });
        out.push(b'"');
        if out.len() - begin > MAX_DATA {
            out.truncate(before);
            break;
        }
    }
    out.push(b']');
}

/// The text, as long as the message that begins at `begin` has room for it.
fn text(out: &mut Vec<u8>, begin: usize, message: &[u8]) {
    let room = MAX_MESSAGE.saturating_sub(out.len() - begin + CUT.len());
    let message = String::from_utf8_lossy(message);
    let message = printable(&message);
    let (kept, cut) = shortened(&message, room);
    out.extend_from_slice(kept.as_bytes());
    out.extend_from_slice(if cut { CUT.as_bytes() } else { b"" });
}

fn shortened(text: &str, max: usize) -> (&str, bool) {
    if text.len() <= max {
        return (text, false);
    }
    let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    (&text[..end], true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{Field, Names, Severity};

    fn message(format: SyslogFormat, text: &[u8], fields: &[(&str, &[u8])]) -> String {
        let fields: Vec<Field<'_>> =
            fields.iter().map(|(name, value)| Field { name, value: Cow::Borrowed(value) }).collect();
        let record = Record {
            at_ms: 951_782_400_007,
            severity: Severity::Error,
            identifier: "users",
            process: 7,
            message: text,
            fields: &fields,
            names: Names::Own,
        };
        let mut out = Vec::new();
        Syslog { format, facility: Facility::Local3, host: "h 1" }.encode(&mut out, &record);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_forms() {
        let fields: [(&str, &[u8]); 3] = [("service", b"users"), ("a=]\" b", b"x\"y\\z]"), ("empty", b"")];
        assert_eq!(message(SyslogFormat::Rfc3164, b"no good\nat all", &fields), "<155>users[7]: no good\\nat all");
        assert_eq!(
            message(SyslogFormat::Rfc5424, "größer".as_bytes(), &fields),
            "<155>1 2000-02-29T00:00:00.007Z h1 users 7 - \
             [pilotlight@32473 service=\"users\" ab=\"x\\\"y\\\\z\\]\" empty=\"\"] größer"
        );
        assert_eq!(message(SyslogFormat::Rfc5424, b"", &[]), "<155>1 2000-02-29T00:00:00.007Z h1 users 7 - - ");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        for format in [SyslogFormat::Rfc3164, SyslogFormat::Rfc5424] {
            let whole = message(format, "ü".repeat(9000).as_bytes(), &[("a", &[b'x'; 5000])]);
            assert!((MAX_MESSAGE - 4..=MAX_MESSAGE).contains(&whole.len()), "{}", whole.len());
            assert!(whole.ends_with("ü…"));
        }
        let many: Vec<(&str, &[u8])> = (0..50).map(|_| ("a", &[b'"'; 900][..])).collect();
        let whole = message(SyslogFormat::Rfc5424, b"text", &many);
        assert!(whole.ends_with("\"] text") && whole.len() <= MAX_MESSAGE);
    }

    proptest! {
        #[test]
        fn one_line_whose_data_comes_back(value in prop::collection::vec(any::<u8>(), 0..200), text in any::<Vec<u8>>()) {
            let whole = message(SyslogFormat::Rfc5424, &text, &[("v", &value)]);
            prop_assert!(!whole.chars().any(|c| c != '\t' && pilotlight_printable::is_hidden(c)), "{whole:?}");
            let begin = whole.find("v=\"").unwrap() + 3;
            let mut read = String::new();
            let mut characters = whole[begin..].chars();
            loop {
                match characters.next().unwrap() {
                    '"' => break,
                    '\\' => read.push(characters.next().unwrap()),
                    ']' => prop_assert!(false, "a bracket that is not escaped: {whole:?}"),
                    other => read.push(other),
                }
            }
            prop_assert_eq!(characters.next(), Some(']'));
            let lossy = String::from_utf8_lossy(&value);
            let printed = printable(&lossy);
            prop_assert_eq!(read, &*printed);
        }
    }
}
