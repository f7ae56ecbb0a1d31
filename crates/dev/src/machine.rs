//! What is installed on this machine, as far as a guess depends on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long an interpreter may take to say what it can import.
const ASK_TIME: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a guess asks of the machine.
pub trait Machine {
    /// Which of these Python modules the interpreter can import when it runs in the folder.
    fn python_modules(&self, python: &Path, folder: &Path, modules: &[&str]) -> Vec<String>;
    /// The folder of the virtual environment that is active.
    fn virtual_env(&self) -> Option<PathBuf>;
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct Installed;

impl Machine for Installed {
    fn python_modules(&self, python: &Path, folder: &Path, modules: &[&str]) -> Vec<String> {
        const SCRIPT: &str =
            "import importlib.util as u, sys\nfor m in sys.argv[1:]:\n if u.find_spec(m) is not None: print(m)";
        let mut ask = Command::new(python);
        ask.arg("-c").arg(SCRIPT).args(modules).current_dir(folder);
        ask.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = ask.spawn() else { return Vec::new() };
        let until = Instant::now() + ASK_TIME;
        while let Ok(None) = child.try_wait() {
            if Instant::now() >= until {
                // It has ended otherwise, which is as good.
                let _ = child.kill();
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let Ok(output) = child.wait_with_output() else { return Vec::new() };
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    fn virtual_env(&self) -> Option<PathBuf> {
        std::env::var_os("VIRTUAL_ENV").map(PathBuf::from).filter(|path| path.is_absolute())
    }
}
