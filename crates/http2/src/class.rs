//! What a name and a value are, found out once for all requests that name them by a table.

/// What a field is by its name (RFC 9113 §8.2, §8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameClass {
    Method,
    Scheme,
    Authority,
    Path,
    /// RFC 8441 §4
    Protocol,
    /// A pseudo-field that no request has.
    OtherPseudo,
    /// §8.2.2: fields of a connection.
    OfConnection,
    Te,
    ContentLength,
    Cookie,
    Other,
    /// Empty, or with a byte that no name has: upper-case letters among them (§8.2.1).
    Invalid,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueClass {
    Plain,
    /// White space at its beginning or end (§8.2.1).
    Padded,
    /// A control byte.
    Invalid,
}

impl NameClass {
    /// By the index in the static table.
    #[inline]
    pub(crate) fn of_static(index: usize) -> Self {
        match index {
            1 => Self::Authority,
            2 | 3 => Self::Method,
            4 | 5 => Self::Path,
            6 | 7 => Self::Scheme,
            8..=14 => Self::OtherPseudo,
            28 => Self::ContentLength,
            32 => Self::Cookie,
            57 => Self::OfConnection, // transfer-encoding
            _ => Self::Other,
        }
    }

    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":protocol" => Self::Protocol,
            [b':', ..] => Self::OtherPseudo,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                Self::OfConnection
            }
            b"te" => Self::Te,
            b"content-length" => Self::ContentLength,
            b"cookie" => Self::Cookie,
            [] => Self::Invalid,
            _ if name.iter().all(|byte| is_name_byte(*byte)) => Self::Other,
            _ => Self::Invalid,
        }
    }
}

impl ValueClass {
    pub(crate) fn of(value: &[u8]) -> Self {
        let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        match () {
            () if !value.iter().all(|byte| is_value_byte(*byte)) => Self::Invalid,
            () if is_space(value.first()) || is_space(value.last()) => Self::Padded,
            () => Self::Plain,
        }
    }
}

/// RFC 9110 §5.6.2, without upper-case letters.
fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

/// RFC 9110 §5.5: neither NUL, CR and LF nor another control byte but the tab.
fn is_value_byte(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7F || byte == b'\t'
}

/// RFC 9110 §9.1: a method is a token.
pub(crate) fn is_method(method: &[u8]) -> bool {
    !method.is_empty() && method.iter().all(|byte| is_name_byte(byte.to_ascii_lowercase()))
}

/// RFC 3986 §3.1.
pub(crate) fn is_scheme(scheme: &[u8]) -> bool {
    let is_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    scheme.first().is_some_and(u8::is_ascii_alphabetic) && scheme.iter().all(is_byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::static_table::STATIC_TABLE;

    #[test]
    fn the_static_table_has_its_classes() {
        for (place, (name, _)) in STATIC_TABLE.iter().enumerate() {
            assert_eq!(NameClass::of_static(place + 1), NameClass::of(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_and_values() {
        for name in ["", "X", "a b", "a:", "\u{e9}", "a\0", "a/b", "(", "a\u{7f}"] {
            assert_eq!(NameClass::of(name.as_bytes()), NameClass::Invalid, "{name:?}");
        }
        assert_eq!(NameClass::of(b"x_a-1.~!#$%&'*+^`|"), NameClass::Other);
        assert_eq!(NameClass::of(b":x"), NameClass::OtherPseudo);
        for (value, class) in [
            (&b""[..], ValueClass::Plain),
            (b"a\tb \xff", ValueClass::Plain),
            (b" a", ValueClass::Padded),
            (b"a\t", ValueClass::Padded),
            (b"a\r\nb", ValueClass::Invalid),
            (b"\0", ValueClass::Invalid),
            (b"a\x7f", ValueClass::Invalid),
        ] {
            assert_eq!(ValueClass::of(value), class, "{value:?}");
        }
        assert!(is_method(b"GET") && is_method(b"M-SEARCH") && !is_method(b"") && !is_method(b"G T"));
        assert!(is_scheme(b"https") && !is_scheme(b"") && !is_scheme(b"1a") && !is_scheme(b"a/"));
    }
}
