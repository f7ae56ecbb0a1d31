//! What becomes of a stored report: its page, its Markdown, its pictures, and the figures in documents.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod figures;
mod fixture;
mod structure;
