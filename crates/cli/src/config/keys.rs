//! Whether it is known where private keys are kept, if the file needs such a folder.

use std::ffi::OsString;
use std::path::PathBuf;

use pilotlight_authority::{FolderError, data_folder};
use pilotlight_gateway::{RouteSpec, StorageSettings};

use super::diagnostic::{Code, Diagnostic, Severity, Span};
use super::model::{Acme, Config};

/// Name of the folder of ACME in the user's data.
const ACME_FOLDER: &str = "acme";
/// What to do where the environment names no folder.
const REMEDY: &str = "set HOME or XDG_DATA_HOME to an absolute path (in a unit of systemd: StateDirectory=pilotlight and \
                      Environment=XDG_DATA_HOME=/var/lib)";

impl Acme {
    /// Folder of certificates and accounts; `None` if they are in Redis.
    ///
    /// # Errors
    /// The file names none, and the environment does not say where this user's data is.
    pub(crate) fn folder(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<PathBuf>, FolderError> {
        match &self.settings.storage {
            StorageSettings::Redis { .. } => Ok(None),
            StorageSettings::Folder(folder) if folder.as_os_str().is_empty() => {
                data_folder(variable).map(|data| Some(data.join(ACME_FOLDER)))
            }
            StorageSettings::Folder(folder) => Ok(Some(folder.clone())),
        }
    }
}

/// Whether the local authority signs for some host of a file.
pub(crate) fn signs_locally(config: &Config) -> bool {
    config.listen.iter().any(|listener| listener.local_host.is_some())
        || config.routes.iter().any(RouteSpec::is_signed_locally)
}

/// Reports keys that would have no place.
pub(super) fn check(config: &Config, variable: impl Fn(&str) -> Option<OsString>, found: &mut Vec<Diagnostic>) {
    if let Some(acme) = &config.acme
        && let Err(error) = acme.folder(&variable)
    {
        let help = format!("{REMEDY}, or name a `folder` in `acme`");
        found.push(unknown("certificates by ACME", &error, Some(acme.at.clone()), help));
    }
    if signs_locally(config)
        && let Err(error) = data_folder(variable)
    {
        let at =
            config.listen.iter().find(|listener| listener.local_host.is_some()).map(|listener| listener.at.clone());
        found.push(unknown("the local authority", &error, at, REMEDY.to_owned()));
    }
}

fn unknown(what: &str, error: &FolderError, at: Option<Span>, help: String) -> Diagnostic {
    let message = format!("the private keys of {what} have no folder: {error}");
    let mut diagnostic = Diagnostic::whole_file(Severity::Error, Code::Missing, message).help(help);
    diagnostic.span = at.filter(|at| !at.is_empty());
    diagnostic
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;
    use super::*;

    #[track_caller]
    fn check_with(text: &str, home: Option<&str>, expected: &[&str]) {
        let config = parse(text, Path::new("/x/pilotlight.toml")).unwrap_or_else(|e| panic!("{e}")).config;
        let mut found = Vec::new();
        check(&config, |name| home.filter(|_| name == "HOME").map(OsString::from), &mut found);
        let messages: Vec<&str> = found.iter().map(|found| found.message.as_str()).collect();
        assert_eq!(messages.len(), expected.len(), "{messages:?}");
        for (message, expected) in messages.iter().zip(expected) {
            assert!(message.contains(expected) && message.contains("neither HOME nor XDG_DATA_HOME"), "{message}");
        }
    }

    #[test]
    fn keys_without_a_home_are_refused() {
        let route = "[[routes]]\nhost = \"app.example.org\"\npath = \"/\"\nfiles = \"www\"\n";
        let local = format!("listen = \"https://app.localhost:8443\"\n{route}");
        let acme = format!("listen = [\"0.0.0.0:80\", \"0.0.0.0:443\"]\n[tls]\nacme = true\n{route}");
        let named = acme.replace("acme = true", "acme = { folder = \"keys\" }");
        for home in [None, Some(""), Some("home"), Some("./home")] {
            check_with(&local, home, &["the local authority"]);
            check_with(&acme, home, &["certificates by ACME"]);
            check_with(&named, home, &[]);
            check_with(&format!("listen = \"127.0.0.1:8080\"\n{route}"), home, &[]);
        }
        check_with(&local, Some("/home/ada"), &[]);
        check_with(&acme, Some("/home/ada"), &[]);
    }
}
