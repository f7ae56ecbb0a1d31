//! How far the work is: on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often it is drawn, and asked for.
pub(crate) const EVERY: Duration = Duration::from_millis(200);

/// A bar with rate and time left, for work whose amount is known.
pub(crate) fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// A line for work that lasts for a known time.
pub(crate) fn line() -> ProgressBar {
    let line = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        line.set_style(style);
    }
    line
}
