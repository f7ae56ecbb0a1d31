//! Ruby: Rails, and what Rack serves.

use std::path::Path;

use super::model::{Follows, Guess, Look, Over, Process, text};
use crate::machine::Machine;

pub(super) fn look(folder: &Path, _: &dyn Machine) -> Look {
    let has = |path: &str| folder.join(path).is_file();
    if has("bin/rails") {
        let line = "bin/rails server -b 127.0.0.1 -p $PORT";
        // It loads what has changed for each request.
        let process = Process { follows: Follows::Itself, start_timeout_s: 120, ..Process::shell(line, Over::Port) };
        return Some(Ok(Guess::of("Rails application", "bin/rails", process)));
    }
    if !has("config.ru") {
        return None;
    }
    let gems = text(&folder.join("Gemfile"));
    let bundle = if gems.is_some() { "bundle exec " } else { "" };
    let line = match gems.is_some_and(|gems| gems.contains("puma")) {
        true => format!("{bundle}puma -b tcp://127.0.0.1:$PORT config.ru"),
        false => format!("{bundle}rackup -o 127.0.0.1 -p $PORT config.ru"),
    };
    let process = Process { start_timeout_s: 120, ..Process::shell(&line, Over::Port) };
    Some(Ok(Guess::of("Rack application", "config.ru", process)))
}
