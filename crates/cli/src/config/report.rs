//! All findings of one file, as data.

use super::diagnostic::{Diagnostic, Severity};

/// Most findings that a report keeps; the rest is counted. A file with more is not a file for Pilotlight.
pub(super) const MAX_KEPT: usize = 1000;

/// All findings of one file, in the order of the file, with the text that they point into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub(super) file: String,
    pub(super) text: String,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    /// The syntax hid a part of the file from the later steps.
    pub(super) partial: bool,
}

impl Report {
    pub(super) fn new(file: String, text: String, mut diagnostics: Vec<Diagnostic>) -> Self {
        diagnostics.sort_by_key(|found| {
            let start = found.span.as_ref().map(|span| span.start);
            (start.is_none(), start, found.severity)
        });
        let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error).count();
        let warnings = diagnostics.len() - errors;
        diagnostics.truncate(MAX_KEPT);
        Report { file, text, diagnostics, errors, warnings, partial: false }
    }

    /// The file's name as it was given.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The text that was read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first 1,000 findings, in the order of the file; those without a place come last.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// How many findings are errors, whether kept or not.
    #[must_use]
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// How many findings are warnings, whether kept or not.
    #[must_use]
    pub fn warning_count(&self) -> usize {
        self.warnings
    }
}
