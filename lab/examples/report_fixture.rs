//! Prints a report that has everything a report may have, for tests that look at its page.

#![expect(clippy::expect_used, reason = "a tool of tests fails by panicking")]

use std::io::Write as _;

#[path = "../tests/report/fixture.rs"]
mod fixture;

fn main() -> std::io::Result<()> {
    let json = serde_json::to_string_pretty(&fixture::report())?;
    writeln!(std::io::stdout(), "{json}")
}
