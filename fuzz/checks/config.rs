//! Text of a configuration file: whatever it is, nothing panics, and what is refused is refused with a place in the
//! file.

use std::path::Path;

use pilotlight_cli::config::{Severity, parse};

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text, Path::new("/fuzz/pilotlight.toml")) {
        Ok(loaded) => {
            assert!(!loaded.config.listen.is_empty(), "a valid configuration that listens nowhere");
            for route in &loaded.config.routes {
                assert!(loaded.config.service_of(route).is_some(), "a route to a service that is not there");
            }
        }
        Err(report) => {
            let errors = report.diagnostics().iter().filter(|finding| finding.severity == Severity::Error);
            assert!(errors.count() > 0, "refused without an error");
            for finding in report.diagnostics() {
                assert!(!finding.message.is_empty(), "a finding without a reason");
                if let Some(span) = &finding.span {
                    assert!(span.start <= span.end && span.end <= text.len(), "{span:?} is outside of the file");
                }
            }
        }
    }
}
