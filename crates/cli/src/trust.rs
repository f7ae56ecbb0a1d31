//! `pilotlight trust` and `untrust`: the local authority in the stores of this machine.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use pilotlight_authority::{
    Action, Authority, Direction, Kind, Machine, Outcome as Done, Plan, Step, Wanted, carry_out, data_folder,
};
use pilotlight_printable::printable;

use crate::config::commands::Outcome;

/// The folder of the local authority, in the user's data.
pub(crate) const FOLDER: &str = "authority";

/// For the help of the command.
pub const EXAMPLES: &str = "Examples:
  pilotlight trust --dry-run           what would be done
  pilotlight trust --only nss          Firefox and Chromium of this user
  sudo pilotlight trust --only system --folder ~/.local/share/pilotlight/authority
  pilotlight trust --bundle roots.pem  for containers: SSL_CERT_FILE=roots.pem, CURL_CA_BUNDLE=roots.pem";

/// Which stores are to trust the local authority.
#[derive(Debug, Args)]
pub struct TrustArguments {
    /// Say what would be done, and do nothing but make the authority
    #[arg(long)]
    dry_run: bool,
    /// Only stores of this kind; may be repeated [default: all that are found]
    #[arg(long = "only", value_name = "KIND")]
    kinds: Vec<Store>,
    /// The folder of the authority [default: authority in this user's data, ~/.local/share/pilotlight]
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
    /// Write a file with the system's roots and this one, and leave the system's store alone
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// A keystore of Java, made if it is not there [default: cacerts of the Java that is found, as root]
    #[arg(long, value_name = "FILE")]
    java_keystore: Option<PathBuf>,
}

/// A kind of store.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Store {
    /// The system's: curl, Python, Go, most programs
    System,
    /// Firefox, and Chromium on Linux
    Nss,
    /// Java
    Java,
}

impl Store {
    fn kind(self) -> Kind {
        match self {
            Self::System => Kind::System,
            Self::Nss => Kind::Nss,
            Self::Java => Kind::Java,
        }
    }
}

/// Where the local authority of this user is.
///
/// # Errors
/// The environment names no home.
pub(crate) fn default_folder() -> Result<PathBuf, pilotlight_authority::FolderError> {
    data_folder(|name| std::env::var_os(name)).map(|data| data.join(FOLDER))
}

/// Does it, and says what was done.
///
/// # Errors
/// Only if the output cannot be written.
pub fn run(
    arguments: TrustArguments,
    direction: Direction,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Outcome> {
    let TrustArguments { dry_run, kinds, folder, bundle, java_keystore } = arguments;
    let folder = match folder.map_or_else(default_folder, Ok) {
        Ok(folder) => folder,
        Err(e) => return refused(&e.to_string(), err),
    };
    let authority = match direction {
        Direction::Trust => Authority::open(&folder, SystemTime::now()).map(Some),
        Direction::Untrust => Authority::read(&folder),
    };
    let authority = match authority {
        Ok(Some(authority)) => authority,
        Ok(None) => {
            writeln!(out, "there is no local authority in {}", shown(&folder))?;
            return Ok(Outcome::Done);
        }
        Err(e) => return refused(&e.to_string(), err),
    };
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()) else {
        return refused("HOME is no absolute path, so the stores of this user cannot be found", err);
    };
    let machine = Machine::look(&home, &std::env::var_os("PATH").unwrap_or_default());
    let kinds = if kinds.is_empty() { Store::value_variants().to_vec() } else { kinds };
    let root = authority.certificate_file();
    let wanted = Wanted {
        direction,
        kinds: kinds.into_iter().map(Store::kind).collect(),
        root: &root,
        certificate: authority.certificate(),
        id: authority.id(),
        bundle: bundle.as_deref(),
        keystore: java_keystore.as_deref(),
    };
    writeln!(out, "local authority {} in {}", authority.id(), shown(&folder))?;
    follow(&Plan::of(&wanted, &machine), dry_run, out, err)
}

fn follow(plan: &Plan, is_dry: bool, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Outcome> {
    let mut failed: Vec<String> = Vec::new();
    for step in &plan.steps {
        // What follows a step that failed in a store would fail as well.
        if failed.contains(&step.store) {
            continue;
        }
        if !is_dry && let Done::Failed(why) = carry_out(step) {
            writeln!(err, "error: {}: {}", printable(&step.store), printable(&why))?;
            failed.push(step.store.clone());
            continue;
        }
        if is_dry || !matches!(step.action, Action::RunIfThere(_) | Action::Folder(_)) {
            let (store, line) = (printable(&step.store).into_owned(), line(step));
            writeln!(out, "{}{store}: {line}", if is_dry { "would do: " } else { "" })?;
        }
    }
    for refused in &plan.refused {
        writeln!(err, "error: {}", printable(refused))?;
    }
    for note in &plan.notes {
        writeln!(out, "note: {}", printable(note))?;
    }
    let is_done = failed.is_empty() && plan.refused.is_empty();
    Ok(if is_done { Outcome::Done } else { Outcome::Failed })
}

fn line(step: &Step) -> String {
    let line = match &step.action {
        Action::Run(words) | Action::RunIfThere(words) => {
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        }
        Action::Write { path, .. } => format!("write {}", path.display()),
        Action::Bundle { path, of, .. } => format!("write {} with the roots of {}", path.display(), of.display()),
        Action::Remove(path) => format!("remove {}", path.display()),
        Action::Folder(path) => format!("make the folder {}", path.display()),
    };
    printable(&line).into_owned()
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn refused(why: &str, err: &mut dyn Write) -> io::Result<Outcome> {
    writeln!(err, "error: {}", printable(why))?;
    Ok(Outcome::Failed)
}
