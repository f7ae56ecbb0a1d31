//! Pieces of TOML, in an order that does not change.

use std::fmt::Write as _;

/// A section: keys with values as they stand in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Vec<(&'static str, String)>);

impl Table {
    pub(super) fn set(&mut self, key: &'static str, value: String) {
        self.0.push((key, value));
    }

    /// Adds all of another one.
    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// The same with another text, where the key is there.
    pub(super) fn replaced(&self, key: &str, value: &str) -> Self {
        let replaced =
            |(name, old): &(&'static str, String)| (*name, if *name == key { quoted(value) } else { old.clone() });
        Self(self.0.iter().map(replaced).collect())
    }

    pub(super) fn text(&self, heading: &str) -> String {
        let mut text = format!("\n{heading}\n");
        for (key, value) in &self.0 {
            let _ = writeln!(text, "{key} = {value}"); // a String takes everything
        }
        text
    }
}

/// A basic string.
pub(super) fn quoted(text: &str) -> String {
    // What JSON escapes, TOML reads; DEL has to be escaped as well.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

/// `["a", "b"]`
pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[{}]", all.join(", "))
}

/// `{ "a" = "b" }`, of values that are TOML already.
pub(super) fn inline(pairs: impl IntoIterator<Item = (String, String)>) -> String {
    let all: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_is_read_back(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
            let document = format!("a = {}\nb = {}\n", quoted(&text), list([text.as_str(), "x"]));
            let read: toml::Table = toml::from_str(&document).unwrap();
            prop_assert_eq!(read["a"].as_str(), Some(text.as_str()));
            prop_assert_eq!(read["b"][0].as_str(), Some(text.as_str()));
        }
    }
}
