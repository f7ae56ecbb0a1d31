//! W3C Trace Context: `traceparent` and `tracestate` (Recommendation, Level 1; the random flag is Level 2's).

use std::fmt;

/// Bytes of a `traceparent` of version 00.
pub const TRACEPARENT_BYTES: usize = 55;
/// Most members of a `tracestate` (§3.3.1.1).
pub const MAX_STATE_MEMBERS: usize = 32;
/// Most bytes of a `tracestate` that is passed on. §3.3.1.5 asks for at least 512.
pub const MAX_STATE_BYTES: usize = 1024;

/// A trace: 16 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub(crate) [u8; 16]);

/// A span of a trace: 8 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub(crate) [u8; 8]);

impl TraceId {
    /// A trace by its bytes; `None` if all of them are zero.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// 32 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> [u8; 32] {
        let mut text = [0; 32];
        put_hex(&mut text, &self.0);
        text
    }
}

impl SpanId {
    /// A span by its bytes; `None` if all of them are zero.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The flags of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// The caller may have recorded trace data (§3.2.2.5.1).
    pub const SAMPLED: Self = Self(1);
    /// The trace id is random in its last seven bytes (Level 2, §3.2.2.5.2).
    pub const RANDOM: Self = Self(2);

    /// Whether the sampled flag is set.
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.0 & Self::SAMPLED.0 != 0
    }

    /// These, with the sampled flag set.
    #[must_use]
    pub const fn sampled(self) -> Self {
        Self(self.0 | Self::SAMPLED.0)
    }

    /// As OTLP has them, in the low byte.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// Where a request is in its trace: the span that sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: TraceId,
    /// The span that is the parent of whatever the receiver does.
    pub span_id: SpanId,
    /// Whether the sender records it.
    pub flags: Flags,
}

impl TraceContext {
    /// Parses the value of a `traceparent` (§3.2.2); `None` if it is malformed, which begins a new trace (§4.3).
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let fixed = value.get(..TRACEPARENT_BYTES)?;
        if fixed[2] != b'-' || fixed[35] != b'-' || fixed[52] != b'-' {
            return None;
        }
        let [version] = hex::<1>(&fixed[..2])?;
        let is_whole = match version {
            // §3.2.2.1: ff is forbidden.
            0xff => false,
            0 => value.len() == TRACEPARENT_BYTES,
            // §4.3: of a higher version, what version 00 has is read; it ends there, or a dash follows.
            _ => value.get(TRACEPARENT_BYTES).is_none_or(|byte| *byte == b'-'),
        };
        if !is_whole {
            return None;
        }
        let trace_id = hex::<16>(&fixed[3..35]).filter(|id| *id != [0; 16])?;
        let span_id = hex::<8>(&fixed[36..52]).filter(|id| *id != [0; 8])?;
        let [flags] = hex::<1>(&fixed[53..55])?;
        // §3.2.2.5.2: flags that are not known are not passed on; of a higher version only the first is known.
        let known = if version == 0 { Flags::SAMPLED.0 | Flags::RANDOM.0 } else { Flags::SAMPLED.0 };
        Some(Self { trace_id: TraceId(trace_id), span_id: SpanId(span_id), flags: Flags(flags & known) })
    }

    /// The value of `traceparent`, of version 00.
    #[must_use]
    pub fn to_traceparent(&self) -> [u8; TRACEPARENT_BYTES] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        put_hex(&mut text[3..35], &self.trace_id.0);
        put_hex(&mut text[36..52], &self.span_id.0);
        text[54] += self.flags.0; // of two bits
        text
    }
}

/// Why a `tracestate` is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStateError {
    /// It has more than [`MAX_STATE_MEMBERS`] members, or is longer than [`MAX_STATE_BYTES`].
    TooLong,
    /// A member is no `key=value` of §3.3.1.3.
    Member,
    /// A key is there twice.
    Duplicate,
}

/// Checks the values of all `tracestate` fields of a message (§3.3), and gives them as one list; `None` if it is empty.
///
/// # Errors
/// The list is malformed. It is dropped as a whole then (§4.3); the `traceparent` stays.
pub fn check_tracestate<'a>(values: impl Iterator<Item = &'a [u8]>) -> Result<Option<String>, TraceStateError> {
    let mut keys: Vec<&[u8]> = Vec::new();
    let mut joined = String::new();
    for member in values.flat_map(|value| value.split(|byte| *byte == b',')) {
        let member = member.trim_ascii();
        if member.is_empty() {
            continue; // §3.3.1.2: empty members are allowed
        }
        let at = member.iter().position(|byte| *byte == b'=').ok_or(TraceStateError::Member)?;
        let (key, value) = (&member[..at], &member[at + 1..]);
        if !is_key(key) || !is_value(value) {
            return Err(TraceStateError::Member);
        }
        if keys.contains(&key) {
            return Err(TraceStateError::Duplicate);
        }
        if keys.len() == MAX_STATE_MEMBERS || joined.len() + member.len() + 1 > MAX_STATE_BYTES {
            return Err(TraceStateError::TooLong);
        }
        keys.push(key);
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(std::str::from_utf8(member).map_err(|_| TraceStateError::Member)?);
    }
    Ok(Some(joined).filter(|joined| !joined.is_empty()))
}

/// §3.3.1.3.1, as Level 2 has it: 1 to 256 of lower-case letters, digits, `_-*/@`, a letter or a digit first.
fn is_key(key: &[u8]) -> bool {
    let may_follow = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let begins = key.first().is_some_and(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    begins && key.len() <= 256 && key.iter().all(may_follow)
}

/// §3.3.1.3.2: 1 to 256 visible characters and spaces, without `,` and `=`, not ending in a space.
fn is_value(value: &[u8]) -> bool {
    let is_allowed = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    (1..=256).contains(&value.len()) && value.iter().all(is_allowed) && value.last() != Some(&b' ')
}

/// Lower-case hexadecimal digits (§3.2.2 allows no others).
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Writes the digits of whole groups of four bytes, each group at once.
#[inline]
fn put_hex(text: &mut [u8], bytes: &[u8]) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let (groups, _) = bytes.as_chunks::<4>();
    let (digits, _) = text.as_chunks_mut::<8>();
    for (digits, group) in digits.iter_mut().zip(groups) {
        // One of the eight halves of bytes in each byte.
        let mut halves = u64::from(u32::from_be_bytes(*group));
        halves = (halves << 16 | halves) & (0xffff * 0x1_0000_0001);
        halves = (halves << 8 | halves) & (0xff * 0x1_0001_0001_0001);
        halves = (halves << 4 | halves) & (0xf * EACH);
        let are_letters = (halves + 6 * EACH) >> 4 & EACH;
        let letters_behind = u64::from(b'a' - b'9' - 1);
        *digits = (halves + u64::from(b'0') * EACH + are_letters * letters_behind).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[track_caller]
    fn check(value: &str, expected: Option<u8>) {
        assert_eq!(TraceContext::parse(value.as_bytes()).map(|context| context.flags.bits()), expected, "{value}");
    }

    #[test]
    fn the_example_of_the_recommendation() {
        let context = TraceContext::parse(PARENT.as_bytes()).unwrap();
        assert_eq!(context.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span_id.to_string(), "00f067aa0ba902b7");
        assert!(context.flags.is_sampled());
        assert_eq!(context.to_traceparent(), PARENT.as_bytes());
    }

    #[test]
    fn versions_and_flags() {
        check(&PARENT.replace("-01", "-00"), Some(0));
        check(&PARENT.replace("-01", "-03"), Some(3));
        check(&PARENT.replace("-01", "-ff"), Some(3));
        check(&format!("{PARENT}-"), None);
        check(&format!("{PARENT}0"), None);
        check(&PARENT.replacen("00", "ff", 1), None);
        check(&PARENT.replacen("00", "cc", 1), Some(1));
        check(&PARENT.replacen("00", "cc", 1).replace("-01", "-ff"), Some(1));
        check(&format!("{}-what-comes-later", PARENT.replacen("00", "cc", 1)), Some(1));
        check(&format!("{}.what-comes-later", PARENT.replacen("00", "cc", 1)), None);
    }

    #[test]
    fn what_is_malformed() {
        for value in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-.1",
        ] {
            check(value, None);
        }
    }

    #[track_caller]
    fn state(values: &[&str], expected: Result<Option<&str>, TraceStateError>) {
        let checked = check_tracestate(values.iter().map(|value| value.as_bytes()));
        assert_eq!(checked, expected.map(|text| text.map(str::to_owned)), "{values:?}");
    }

    #[test]
    fn lists_of_vendors() {
        state(&[], Ok(None));
        state(&["", " , "], Ok(None));
        state(&["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"], Ok(Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")));
        state(&["a=1", "b=2 , 3tenant@system=x y"], Ok(Some("a=1,b=2,3tenant@system=x y")));
        state(&["a=1,a=2"], Err(TraceStateError::Duplicate));
        for bad in ["a", "=1", "A=1", "a=", "a=b=c", "a=\u{7f}", "a b=1", "_a=1"] {
            state(&[bad], Err(TraceStateError::Member));
        }
        let many: Vec<String> = (0..33).map(|at| format!("k{at}=v")).collect();
        state(&[&many.join(",")], Err(TraceStateError::TooLong));
        assert!(check_tracestate(std::iter::once(many[..32].join(",").as_bytes())).is_ok());
        let long: Vec<String> = (0..5).map(|at| format!("k{at}={}", "v".repeat(250))).collect();
        state(&[&long.join(",")], Err(TraceStateError::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(trace_id: [u8; 16], span_id: [u8; 8], flags in 0_u8..4) {
            let context = TraceContext { trace_id: TraceId(trace_id), span_id: SpanId(span_id), flags: Flags(flags) };
            let read = TraceContext::parse(&context.to_traceparent());
            prop_assert_eq!(read, (trace_id != [0; 16] && span_id != [0; 8]).then_some(context));
        }

        #[test]
        fn whatever_is_read_is_well_formed(value in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(context) = TraceContext::parse(&value) {
                prop_assert_eq!(&context.to_traceparent()[2..52], &value[2..52]);
            }
        }

        #[test]
        fn one_wrong_byte_is_never_read_as_another_id(at in 0_usize..55, byte: u8) {
            let mut value = PARENT.as_bytes().to_vec();
            value[at] = byte;
            if let Some(context) = TraceContext::parse(&value) {
                prop_assert_eq!(&context.to_traceparent()[3..52], &value[3..52]);
            }
        }

        #[test]
        fn states_that_are_passed_on_are_stable(values in prop::collection::vec("[ a-c0-1=,@A]{0,12}", 0..4)) {
            if let Ok(Some(joined)) = check_tracestate(values.iter().map(|value| value.as_bytes())) {
                let again = check_tracestate(std::iter::once(joined.as_bytes()));
                prop_assert_eq!(again, Ok(Some(joined.clone())));
            }
        }
    }
}
