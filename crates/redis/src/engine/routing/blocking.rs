//! Commands that wait in the server: how long, by their own arguments.

use std::time::Duration;

use crate::command::{Arg, Blocking, Command};
use crate::engine::options::CallOptions;

/// Least time that a server gets to answer after the command's own time-out: its timers are coarse.
const MIN_GRACE: Duration = Duration::from_millis(500);

/// How long a command waits in the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    For(Duration),
    Forever,
}

/// How long a command will wait in the server; `None` if it does not. A time-out that cannot be read is the server's to
/// refuse.
pub(crate) fn wait_of(command: &Command<'_>) -> Option<Wait> {
    let arguments = command.arguments();
    let at = |index: i8| match usize::try_from(index) {
        Ok(index) => arguments.get(index),
        Err(_) => arguments.len().checked_sub(index.unsigned_abs().into()).and_then(|index| arguments.get(index)),
    };
    let seconds = match command.spec().blocking {
        Blocking::No => return None,
        Blocking::Seconds(index) => at(index).and_then(number),
        Blocking::Milliseconds(index) => at(index).and_then(number).map(|number| number / 1000.0),
        Blocking::MillisecondsAfter(word) => {
            // Behind it come keys, which may be called as they like.
            let before = command.key_positions().next().unwrap_or(arguments.len());
            let is = |arg: &Arg<'_>, word: &str| arg.to_bytes().eq_ignore_ascii_case(word.as_bytes());
            // `GROUP name consumer`, which may be called so, too.
            let first = if arguments.first().is_some_and(|arg| is(arg, "GROUP")) { 3.min(before) } else { 0 };
            let position = first + arguments[first..before].iter().position(|arg| is(arg, word))?;
            arguments.get(position + 1).and_then(number).map(|number| number / 1000.0)
        }
    };
    let wait = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default();
    Some(match seconds {
        Some(0.0) => Wait::Forever,
        _ => Wait::For(wait),
    })
}

impl Wait {
    /// The command's deadline: its own time-out and then what any command is given, unless the caller chose another.
    pub(crate) fn bound(self, mut options: CallOptions, command_timeout: Option<Duration>) -> CallOptions {
        if !options.is_chosen {
            options.timeout = match self {
                Self::For(wait) => command_timeout.map(|grace| wait.saturating_add(grace.max(MIN_GRACE))),
                Self::Forever => None,
            };
        }
        options
    }
}

fn number(arg: &Arg<'_>) -> Option<f64> {
    std::str::from_utf8(&arg.to_bytes()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &Command<'_>, expected: Option<Wait>) {
        assert_eq!(wait_of(command), expected, "{command:?}");
    }

    fn blpop<'a>(timeout: impl Into<Arg<'a>>) -> Command<'a> {
        Command::raw("BLPOP").arg("a").arg("b").arg(timeout)
    }

    #[test]
    fn the_time_out_is_where_the_description_says() {
        check(&blpop(2), Some(Wait::For(Duration::from_secs(2))));
        check(&blpop("0.25"), Some(Wait::For(Duration::from_millis(250))));
        check(&blpop(0.5), Some(Wait::For(Duration::from_millis(500))));
        check(&Command::raw("BLMPOP").arg(3).arg(1).arg("k").arg("LEFT"), Some(Wait::For(Duration::from_secs(3))));
        check(&Command::raw("GET").arg("k"), None);
    }

    #[test]
    fn nothing_is_for_ever() {
        check(&blpop(0), Some(Wait::Forever));
        check(&blpop("0.0"), Some(Wait::Forever));
    }

    #[test]
    fn what_cannot_be_read_does_not_wait() {
        check(&blpop("soon"), Some(Wait::For(Duration::ZERO)));
        check(&blpop(-1), Some(Wait::For(Duration::ZERO)));
        check(&blpop("nan"), Some(Wait::For(Duration::ZERO)));
        check(&blpop("1e300"), Some(Wait::For(Duration::ZERO)));
        check(&Command::raw("BLPOP"), Some(Wait::For(Duration::ZERO)));
    }

    #[test]
    fn a_stream_is_waited_for_only_on_request() {
        let read = || Command::raw("XREAD");
        check(&read().arg("STREAMS").arg("s").arg("0"), None);
        check(
            &read().arg("block").arg(70).arg("STREAMS").arg("s").arg("$"),
            Some(Wait::For(Duration::from_millis(70))),
        );
        check(&read().arg("BLOCK").arg(0).arg("STREAMS").arg("s").arg("$"), Some(Wait::Forever));
        check(&read().arg("COUNT").arg(1).arg("STREAMS").arg("BLOCK").arg("0"), None);
        let group = Command::raw("XREADGROUP").arg("GROUP").arg("block").arg("1");
        check(&group.arg("STREAMS").arg("s").arg(">"), None);
    }

    #[test]
    fn the_deadline_is_both_times_together() {
        let options = CallOptions { timeout: Some(Duration::from_secs(5)), is_retryable: false, is_chosen: false };
        let bound = |wait: Wait, options, grace| wait.bound(options, grace).timeout;
        let second = Duration::from_secs(1);
        assert_eq!(bound(Wait::For(second), options, Some(second)), Some(2 * second));
        assert_eq!(bound(Wait::For(second), options, Some(Duration::ZERO)), Some(second + MIN_GRACE));
        assert_eq!(bound(Wait::For(second), options, None), None);
        assert_eq!(bound(Wait::Forever, options, Some(second)), None);
        let chosen = CallOptions { is_chosen: true, ..options };
        assert_eq!(bound(Wait::Forever, chosen, Some(second)), options.timeout);
    }
}
