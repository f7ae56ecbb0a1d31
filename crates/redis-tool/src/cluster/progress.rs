//! How far long work has come: on a terminal, and only there.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two drawings while nothing happens.
const TICK: Duration = Duration::from_millis(100);

/// For work that is counted.
pub(super) fn bar(slots: usize) -> ProgressBar {
    styled(Some(slots as u64), "{bar:30} {pos}/{len} slots, {eta} left  {msg}")
}

/// For work that is waited for.
pub(super) fn spinner(message: impl Into<String>) -> ProgressBar {
    let spinner = styled(None, "{spinner} {elapsed} {msg}");
    spinner.set_message(message.into());
    spinner.enable_steady_tick(TICK);
    spinner
}

fn styled(length: Option<u64>, template: &str) -> ProgressBar {
    // Where the standard error is no terminal, nothing is drawn.
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
