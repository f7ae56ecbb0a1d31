//! Where figures stand in a document.

use std::ops::Range;

use anyhow::{Context as _, bail, ensure};

const BEGIN: &str = "<!-- figures:";
const END: &str = "<!-- /figures -->";
const CLOSE: &str = "-->";

/// A place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// What it is to have.
    pub(super) selector: String,
    /// Of its beginning, from 1.
    pub(super) line: usize,
    /// What is between its ends.
    pub(super) inside: Range<usize>,
    within_a_line: bool,
}

impl Block {
    /// What is between the ends, with the lines around it.
    pub(super) fn framed(&self, content: &str) -> anyhow::Result<String> {
        if !self.within_a_line {
            return Ok(format!("\n{}\n", content.trim_end()));
        }
        let content = content.trim();
        ensure!(!content.contains('\n'), "{} is more than a line: give its ends lines of their own", self.selector);
        Ok(content.to_owned())
    }
}

/// All places, in order. What is shown as code is none.
///
/// # Errors
/// A place does not end.
pub(super) fn find(text: &str) -> anyhow::Result<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut offset, mut fenced) = (0, false);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let begin = offset;
        offset += line.len();
        if blocks.last().is_some_and(|block| begin < block.inside.end) {
            continue;
        }
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let mut from = 0;
        while let Some(at) = line[from..].find(BEGIN).map(|at| from + at) {
            if line[..at].ends_with('`') {
                from = at + BEGIN.len();
                continue;
            }
            let block = block(text, begin + at, number + 1).with_context(|| format!("line {}", number + 1))?;
            from = block.inside.end.saturating_sub(begin).min(line.len());
            blocks.push(block);
        }
    }
    Ok(blocks)
}

fn block(text: &str, at: usize, line: usize) -> anyhow::Result<Block> {
    let after = at + BEGIN.len();
    let one_line = text[after..].lines().next().unwrap_or_default();
    let close = one_line.find(CLOSE).with_context(|| format!("`{BEGIN}` has no `{CLOSE}` in its line"))?;
    let selector = one_line[..close].trim().to_owned();
    let begin = after + close + CLOSE.len();
    let end = begin + text[begin..].find(END).with_context(|| format!("{selector} has no `{END}`"))?;
    if text[begin..end].contains(BEGIN) {
        bail!("{selector} has no `{END}` before the next place");
    }
    Ok(Block { selector, line, within_a_line: !text[begin..end].contains('\n'), inside: begin..end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, usize, &str)]) {
        let blocks = find(text).expect("places");
        let found: Vec<_> = blocks.iter().map(|b| (b.selector.as_str(), b.line, &text[b.inside.clone()])).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn places_are_lines_or_within_a_line() {
        check("a\n<!-- figures: x/y -->\nold\n<!-- /figures -->\nb", &[("x/y", 2, "\nold\n")]);
        check(
            "takes <!-- figures: a -->1<!-- /figures --> and <!-- figures: b --><!-- /figures -->.",
            &[("a", 1, "1"), ("b", 1, "")],
        );
        check(
            "<!-- figures: a -->\n<!-- /figures -->\n<!-- figures: b -->\n<!-- /figures -->\n",
            &[("a", 1, "\n"), ("b", 3, "\n")],
        );
    }

    #[test]
    fn code_is_no_place() {
        check(
            "```\n<!-- figures: a -->\n```\n`<!-- figures: b -->` and <!-- figures: c -->1<!-- /figures -->",
            &[("c", 4, "1")],
        );
    }

    #[test]
    fn a_place_without_an_end_is_named() {
        for (text, expected) in [
            ("\n<!-- figures: a -->\n", "line 2: a has no"),
            ("<!-- figures: a", "has no `-->`"),
            ("<!-- figures: a -->\n<!-- figures: b -->\n<!-- /figures -->", "a has no `<!-- /figures -->` before"),
        ] {
            let error = format!("{:#}", find(text).expect_err("a mistake"));
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn lines_do_not_fit_within_a_line() {
        let blocks = find("<!-- figures: a -->1<!-- /figures -->").expect("a place");
        assert_eq!(blocks[0].framed(" 2\n").expect("a line"), "2");
        assert!(blocks[0].framed("2\n3").is_err());
        let blocks = find("<!-- figures: a -->\n<!-- /figures -->").expect("a place");
        assert_eq!(blocks[0].framed("2\n3\n").expect("lines"), "\n2\n3\n");
    }
}
