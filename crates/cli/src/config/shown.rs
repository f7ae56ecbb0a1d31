//! Texts of the file as they are shown: in one line, and so that they drive no terminal.

/// A value from the file between backticks: control characters escaped, cut when long.
pub(super) fn shown(value: &str) -> String {
    const MAX_CHARS: usize = 60;
    let cut = value.chars().count() > MAX_CHARS;
    let text: String = value.chars().take(MAX_CHARS).collect();
    format!("`{}{}`", printable(&text), if cut { "…" } else { "" })
}

/// `1 thing`, `2 things`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// As it can be shown in one line. Tabs are escaped as well: what is quoted here stands between backticks.
pub(super) fn printable(text: &str) -> String {
    pilotlight_printable::printable(text).replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_drive_the_terminal() {
        assert_eq!(shown("a\x1b[2Jb\u{202e}"), "`a\\x1b[2Jb\\u{202e}`");
        assert_eq!(shown(&"x".repeat(61)), format!("`{}…`", "x".repeat(60)));
    }
}
