//! Every limit of this crate, with what happens beyond it.

use std::time::Duration;

/// From the connection to the head of the answer; beyond it the call fails.
pub const CALL_TIME: Duration = Duration::from_secs(30);
/// The same of a start, a creation and a removal, for which an engine works on its disk.
pub const WORK_TIME: Duration = Duration::from_secs(60);
/// What a stop may take beyond the time that the container has for it.
pub const STOP_MARGIN: Duration = Duration::from_secs(15);
/// How long a pull may say nothing; beyond it it counts as failed.
pub const PULL_SILENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer that is read as a whole; more is an error of the call.
pub const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// Bytes of one event, or of one line of a pull's progress; more ends the stream with an error.
pub const MAX_LINE: usize = 1024 * 1024;
/// Bytes of an engine's message in an error; the rest is cut.
pub const MAX_MESSAGE: usize = 2048;
