//! What the gateway starts this program as, besides itself.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::config::commands::Outcome;
use crate::run;
use pilotlight_printable::printable_lines;

/// The guardian, or the adapter of a stdio service; no option of these is anybody else's business. To be called before
/// anything else: the guardian must be small, and its own process may not have a thread yet.
pub(crate) fn started() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    if first == run::GUARDIAN {
        return Some(guardian(arguments.next().map(PathBuf::from)));
    }
    let served = (first == pilotlight_stdio::COMMAND).then(|| pilotlight_stdio::run(arguments))?;
    Some(exit_code(served.map(|()| run::Ended::Stopped).map_err(Into::into)))
}

fn guardian(runtime_dir: Option<PathBuf>) -> ExitCode {
    let code = pilotlight_supervisor::guardian::main();
    if let Some(dir) = runtime_dir {
        // Gone already if the gateway ended in an orderly way.
        let _ = std::fs::remove_dir_all(dir);
    }
    code
}

/// How a gateway, or what it has started, has ended.
pub(crate) fn exit_code(ended: anyhow::Result<run::Ended>) -> ExitCode {
    match ended {
        Ok(run::Ended::Stopped) => ExitCode::SUCCESS,
        Ok(run::Ended::RunsAlready) => Outcome::Failed.into(),
        Ok(run::Ended::Misconfigured) => Outcome::Misconfigured.into(),
        Err(e) => {
            // Nobody may be left to be told.
            let _ = writeln!(io::stderr(), "pilotlight: {}", printable_lines(&format!("{e:#}")));
            Outcome::Failed.into()
        }
    }
}
