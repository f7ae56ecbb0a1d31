//! Texts that others wrote (services, clients, other gateways, file names), made safe to print.
//!
//! A text with a line feed forges a line of a log, one with an escape sequence rewrites the terminal, one with U+202E
//! shows its end before its beginning. [`printable`] gives each such character a visible escape; everything that is
//! printed or logged goes through it. A text that is safe already comes back as it is, without an allocation.
//!
//! Escapes are `\n`, `\r`, `\xHH` for the other ASCII control characters and for bytes that are not UTF-8, `\u{…}` for
//! the rest. A backslash stays as it is: paths, patterns and lines of JSON stay readable, and an escape that the text
//! itself spells out does no harm. So does a tab, of which stack traces are full.
//!
//! Their files may begin with a byte order mark, which is no part of the text: [`without_mark`].
//!
//! In a page of HTML a text with `<` is markup; [`html`] makes it text again.
//!
//! Invariant: no result has a hidden character but a tab (and a line feed, with [`printable_lines`]).

use std::borrow::Cow;
use std::fmt::Write as _;

/// The byte order mark of UTF-8.
const MARK: &str = "\u{feff}";

/// Returns a text without the byte order mark that editors of Windows begin files with (RFC 3629 §6). Every reader of
/// text files goes through it: in a file of variables, of users or of JSON the mark would be part of the first name.
#[must_use]
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Returns the bytes of a text without its byte order mark.
#[must_use]
pub fn bytes_without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK.as_bytes()).unwrap_or(text)
}

/// Format characters (general category Cf of Unicode 17), line and paragraph separators (Zl, Zp), and code points
/// between them that are reserved for the like. Sorted.
const FORMAT: [(u32, u32); 22] = [
    (0x00ad, 0x00ad), // soft hyphen
    (0x0600, 0x0605),
    (0x061c, 0x061c), // Arabic letter mark
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x180e, 0x180e),
    (0x200b, 0x200f), // of no width; left-to-right and right-to-left marks
    (0x2028, 0x202e), // line and paragraph separator; embeddings and overrides of the direction
    (0x2060, 0x206f), // word joiner, invisible operators, isolates of the direction
    (0xfeff, 0xfeff), // byte order mark
    (0xfff0, 0xfffb),
    (0x1_10bd, 0x1_10bd),
    (0x1_10cd, 0x1_10cd),
    (0x1_3430, 0x1_343f),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_007f), // tags
    (0xe_0080, 0xe_00ff),
    (0xe_01f0, 0xe_0fff),
    (0x10_fffe, 0x10_ffff),
];

/// Whether a character drives what shows it, instead of being shown: control characters of ASCII and C1, format
/// characters, line and paragraph separators. Among them the tab.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    let code = u32::from(character);
    let at = FORMAT.partition_point(|(_, last)| *last < code);
    matches!(code, 0x80..=0x9f) || FORMAT.get(at).is_some_and(|(first, _)| *first <= code)
}

/// The text in one line, with an escape for each hidden character.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character != '\t' && is_hidden(character))
}

/// A text of ours that has several lines, and in it what others wrote: line feeds stay. Parts that others wrote are to
/// be [`printable`] already.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| !matches!(character, '\t' | '\n') && is_hidden(character))
}

/// The bytes as text; one that is not UTF-8 becomes `\xHH`. Everything else stays as it is, hidden characters included.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}"); // a String takes everything
        }
    }
    Cow::Owned(out)
}

/// A JSON text that means the same, in which hidden characters are escapes: serializers escape those of ASCII only,
/// without DEL. Line feeds and tabs between its values stay; within strings JSON has none.
#[must_use]
pub fn json(text: String) -> String {
    let is_bare = |character| !matches!(character, '\t' | '\n' | '\r') && is_hidden(character);
    if is_shown_ascii(&text) || !text.contains(is_bare) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_bare(character) {
            json_escape(&mut out, character);
        } else {
            out.push(character);
        }
    }
    out
}

/// Whether it has printable ASCII and line feeds only. It looks at everything, many bytes at a time.
fn is_shown_ascii(text: &str) -> bool {
    text.bytes().fold(true, |is_shown, byte| is_shown & (matches!(byte, b' '..=b'~') | (byte == b'\n')))
}

/// Appends the character as an escape within a JSON string (RFC 8259 §7): beyond the basic plane as a surrogate pair.
pub fn json_escape(out: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}"); // a String takes everything
    }
}

/// The text as HTML shows it, between tags or within an attribute in quotes. Hidden characters stay.
#[must_use]
pub fn html(text: &str) -> Cow<'_, str> {
    let is_markup = |character| matches!(character, '&' | '<' | '>' | '"' | '\'');
    if !text.contains(is_markup) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&is_bad) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for character in text[first..].chars() {
        // A String takes everything.
        let _ = match character {
            good if !is_bad(good) => out.write_char(good),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            ascii if ascii.is_ascii() => write!(out, "\\x{:02x}", u32::from(ascii)),
            other => write!(out, "\\u{{{:x}}}", u32::from(other)),
        };
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(printable(text), expected);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text() {
        assert_eq!((without_mark("\u{feff}A=1"), without_mark("A\u{feff}")), ("A=1", "A\u{feff}"));
        assert_eq!(
            (bytes_without_mark(b"\xef\xbb\xbf{}"), bytes_without_mark(b"\xef\xbb")),
            (&b"{}"[..], &b"\xef\xbb"[..])
        );
    }

    #[test]
    fn what_is_hidden_becomes_visible() {
        check("a\nb\r\n", "a\\nb\\r\\n");
        check("\x1b[31mred\x1b[0m\x07\0", "\\x1b[31mred\\x1b[0m\\x07\\x00");
        check("\x7f\u{85}\u{9b}2J", "\\x7f\\u{85}\\u{9b}2J");
        check("a\u{202e}b\u{2066}c\u{200b}\u{feff}\u{ad}", "a\\u{202e}b\\u{2066}c\\u{200b}\\u{feff}\\u{ad}");
        check("\u{2028}\u{2029}\u{e0041}", "\\u{2028}\\u{2029}\\u{e0041}");
    }

    #[test]
    fn plain_text_is_borrowed() {
        for plain in ["", "at x\t(file.py:3)", "C:\\new \\d+ {\"a\":\"b\\n\"}", "Größe 漢字 العربية עברית हिन्दी ❤️ …"]
        {
            assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain), "{plain}");
            assert!(matches!(text(plain.as_bytes()), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    #[test]
    fn lines_of_ours_stay_lines() {
        assert_eq!(printable_lines("error\n  | \x1b[2J\u{202e}"), "error\n  | \\x1b[2J\\u{202e}");
    }

    #[test]
    fn bytes_that_are_no_text() {
        assert_eq!(text(b"Gr\xf6\xdfe \xe2\x82 \xff\n"), "Gr\\xf6\\xdfe \\xe2\\x82 \\xff\n");
    }

    #[test]
    fn json_has_escapes_of_its_own() {
        let text = "{\"a\":\"\u{202e}\u{7f}\u{9b}\u{e0041}ü\"}\n";
        assert_eq!(json(text.to_owned()), "{\"a\":\"\\u202e\\u007f\\u009b\\udb40\\udc41ü\"}\n");
    }

    #[test]
    fn html_without_markup_of_others() {
        assert_eq!(
            html("<a href=\"x\" title='y'>&amp;</a>"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;"
        );
        assert!(matches!(html("Größe: 1/2"), Cow::Borrowed("Größe: 1/2")));
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(FORMAT.is_sorted_by(|(_, last), (first, _)| last < first));
        assert!(FORMAT.iter().all(|(first, last)| first <= last));
    }

    /// Any text, with many hidden characters.
    fn texts() -> impl Strategy<Value = String> {
        let code = FORMAT.to_vec();
        let hidden = prop::sample::select(code).prop_flat_map(|(first, last)| first..=last);
        let hidden = prop_oneof![0_u32..0xa0, hidden].prop_filter_map("no character", char::from_u32);
        prop::collection::vec(prop_oneof![any::<char>(), hidden], 0..40).prop_map(|all| all.into_iter().collect())
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(before in texts()) {
            let after = printable(&before);
            prop_assert!(!after.contains(|c| c != '\t' && is_hidden(c)), "{after:?}");
            prop_assert!(!after.contains(char::is_control) || after.contains('\t'));
            prop_assert_eq!(printable(&after), after.as_ref(), "it is safe already");
            let lines = printable_lines(&before);
            prop_assert_eq!(lines.matches('\n').count(), before.matches('\n').count());
            let plain: String = before.chars().filter(|c| !is_hidden(*c)).collect();
            prop_assert!(matches!(printable(&plain), Cow::Borrowed(same) if same == plain));
        }

        #[test]
        fn bytes_become_text(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let after = printable(&text(&bytes)).into_owned();
            prop_assert!(!after.contains(|c| c != '\t' && is_hidden(c)));
        }
    }
}
