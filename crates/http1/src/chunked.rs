//! Chunked bodies (RFC 9112 §7.1), strictly: every line ends with CRLF, every size has a digit, every chunk ends where
//! it says.
//!
//! ```text
//!           size > 0          all data         CRLF
//!   Size ────────────▶ Data ───────────▶ End ────────▶ Size
//!     │ size = 0
//!     ▼
//!   Trailers ──▶ (the body is over)
//! ```

use crate::bytes_class::{is_token_byte, is_value};
use crate::error::Malformed;
use crate::limits::Limits;

/// Where a chunked body has been read to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunked {
    Size,
    Data(u64),
    End,
    Trailers,
}

/// What was read at the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkStep {
    /// As many bytes of framing; go on behind them.
    Framing(usize),
    /// As many bytes of data.
    Data(usize),
    /// The trailer section begins here.
    Trailers,
    /// More input is needed.
    Incomplete,
}

impl Chunked {
    /// One step. `extensions` counts the bytes of extensions of the whole body.
    pub(crate) fn step(&mut self, input: &[u8], extensions: &mut u64, limits: &Limits) -> Result<ChunkStep, Malformed> {
        match self {
            Self::Size => {
                let Some((size, length, extension)) = size_line(input, limits)? else {
                    return Ok(ChunkStep::Incomplete);
                };
                *extensions += extension as u64;
                if *extensions > limits.max_chunk_extensions {
                    return Err(Malformed::ChunkExtensionsTooLarge);
                }
                *self = if size == 0 { Self::Trailers } else { Self::Data(size) };
                Ok(ChunkStep::Framing(length))
            }
            Self::Data(_) if input.is_empty() => Ok(ChunkStep::Incomplete),
            Self::Data(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= length as u64;
                if *left == 0 {
                    *self = Self::End;
                }
                Ok(ChunkStep::Data(length))
            }
            Self::End => match input {
                [b'\r', b'\n', ..] => {
                    *self = Self::Size;
                    Ok(ChunkStep::Framing(2))
                }
                [] | [b'\r'] => Ok(ChunkStep::Incomplete),
                _ => Err(Malformed::ChunkEnd),
            },
            Self::Trailers => Ok(ChunkStep::Trailers),
        }
    }
}

/// `size [extensions] CRLF`: the size, the line's length, and how much of that is extensions.
fn size_line(input: &[u8], limits: &Limits) -> Result<Option<(u64, usize, usize)>, Malformed> {
    let window = &input[..input.len().min(limits.max_chunk_line + 2)];
    let digits = window.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    // 15 digits are beyond any body, and fit whatever they are.
    if digits > 15 {
        return Err(Malformed::ChunkSizeTooLarge);
    }
    if digits == 0 && !window.is_empty() {
        return Err(Malformed::ChunkSize);
    }
    // Almost every line ends here; with one byte in each chunk, that is most of the work.
    if let [b'\r', b'\n', ..] = &window[digits..] {
        return Ok(Some((number(&window[..digits]), digits + 2, 0)));
    }
    // Judged before the end of the line is looked for: else the rule would depend on how much of it has come.
    if !matches!(&window[digits..], [] | [b'\r'] | [b'\n' | b';' | b' ' | b'\t', ..]) {
        return Err(Malformed::ChunkSize);
    }
    let Some(end) = memchr::memchr(b'\n', window) else {
        let is_too_long = window.len() > limits.max_chunk_line + 1;
        return if is_too_long { Err(Malformed::ChunkExtensionsTooLarge) } else { Ok(None) };
    };
    if window[end - 1] != b'\r' {
        return Err(Malformed::BareLf);
    }
    let extensions = &window[digits..end - 1];
    if !are_extensions(extensions) {
        return Err(Malformed::ChunkExtension);
    }
    Ok(Some((number(&window[..digits]), end + 1, extensions.len())))
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |sum, digit| sum << 4 | u64::from(hexadecimal(*digit)))
}

fn hexadecimal(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// RFC 9112 §7.1.1: `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
fn are_extensions(mut rest: &[u8]) -> bool {
    loop {
        rest = without_space(rest);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = rest.strip_prefix(b";") else { return false };
        rest = without_space(after);
        let name = rest.iter().take_while(|byte| is_token_byte(**byte)).count();
        if name == 0 {
            return false;
        }
        rest = without_space(&rest[name..]);
        if let Some(value) = rest.strip_prefix(b"=") {
            let value = without_space(value);
            let Some(length) = token_or_quoted(value) else { return false };
            rest = &value[length..];
        }
    }
}

/// Without the spaces and tabs at the front (`BWS`).
fn without_space(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..]
}

/// Length of the token or the quoted string (RFC 9110 §5.6.4) at the front.
fn token_or_quoted(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'"') {
        return Some(bytes.iter().take_while(|byte| is_token_byte(**byte)).count()).filter(|length| *length > 0);
    }
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return Some(at + 1).filter(|_| is_value(&bytes[..at])),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<Option<(u64, usize)>, Malformed>) {
        let found =
            size_line(line.as_bytes(), &Limits::REQUEST).map(|found| found.map(|(size, length, _)| (size, length)));
        assert_eq!(found, expected, "{line:?}");
    }

    #[test]
    fn size_lines() {
        check("a\r\n", Ok(Some((10, 3))));
        check("00fF\r\nrest", Ok(Some((255, 6))));
        check("5;a=b;c=\"d;\\\"e\" ; f\r\n", Ok(Some((5, 21))));
        check("5 \r\n", Ok(Some((5, 4))));
        check("", Ok(None));
        check("5", Ok(None));
        check("5\r", Ok(None));
        check("5;x", Ok(None));
        check("\r\n", Err(Malformed::ChunkSize));
        check(";x\r\n", Err(Malformed::ChunkSize));
        check("-1\r\n", Err(Malformed::ChunkSize));
        check("+1\r\n", Err(Malformed::ChunkSize));
        check("0x1\r\n", Err(Malformed::ChunkSize));
        check("5\n", Err(Malformed::BareLf));
        check("5;x\n", Err(Malformed::BareLf));
        check("5x\n", Err(Malformed::ChunkSize));
        check("5\rx\n", Err(Malformed::ChunkSize));
        check("5;\r\n", Err(Malformed::ChunkExtension));
        check("5;a=\r\n", Err(Malformed::ChunkExtension));
        check("5;a=\"b\r\n", Err(Malformed::ChunkExtension));
        check("5;a\rb\r\n", Err(Malformed::ChunkExtension));
        check("5 a\r\n", Err(Malformed::ChunkExtension));
        check("5 \r\r\n", Err(Malformed::ChunkExtension));
        check("5\r\r\n", Err(Malformed::ChunkSize));
        check("fffffffffffffff\r\n", Ok(Some((0xfff_ffff_ffff_ffff, 17))));
        check("ffffffffffffffff\r\n", Err(Malformed::ChunkSizeTooLarge));
        check("10000000000000001\r\n", Err(Malformed::ChunkSizeTooLarge));
        check(&format!("5;{}", "a".repeat(1100)), Err(Malformed::ChunkExtensionsTooLarge));
    }
}
