//! `~/.config/pilotlight/redis.toml`: servers by name, and how the prompt looks.
//!
//! ```toml
//! prompt = "{server}{db}{tx}> "       # of all profiles
//! pager = "less -FRX"                 # for replies longer than the terminal is high
//! profile = "local"                   # used without --profile
//!
//! [profiles.local]
//! url = "redis://127.0.0.1:6379"
//!
//! [profiles.live]
//! url = "rediss+cluster://redis.example.org"
//! username = "app"
//! token_command = "cloud-token redis"
//! prompt = "LIVE {server}{tx}> "
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::arguments::CliArgs;
use crate::connection::UsageError;

/// Where it is, in the folder of configurations.
const NAME: &str = "pilotlight/redis.toml";

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    profile: Option<String>,
    prompt: Option<String>,
    pager: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
    #[serde(skip)]
    path: PathBuf,
}

/// One server and how it is shown.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    url: Option<String>,
    username: Option<String>,
    token_command: Option<String>,
    /// The prompt: `{server}`, `{db}` (`[2]`, nothing for 0) and `{tx}` (`(TX)` in a transaction) are replaced.
    pub(super) prompt: Option<String>,
    /// A command that shows long replies.
    pub(super) pager: Option<String>,
}

impl File {
    /// The user's file; nothing if there is none.
    pub(super) fn load() -> Result<Self, UsageError> {
        match folder("XDG_CONFIG_HOME", ".config") {
            Some(folder) => Self::read(&folder.join(NAME)),
            None => Ok(Self::default()),
        }
    }

    fn read(path: &Path) -> Result<Self, UsageError> {
        let wrong = |why: String| UsageError(format!("{}: {why}", path.display()));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(wrong(error.to_string())),
        };
        // The message alone: the excerpt of the file might show a password.
        let mut file: Self = toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            wrong(format!("line {line}: {}", error.message()))
        })?;
        file.path = path.to_owned();
        Ok(file)
    }

    /// The profile that the arguments name, or the file's usual one. What the command line says wins.
    pub(super) fn apply(&self, arguments: &mut CliArgs) -> Result<Profile, UsageError> {
        let connection = &arguments.connection;
        let is_free = connection.url.is_none()
            && connection.host.is_none()
            && connection.socket.is_none()
            && connection.port.is_none();
        let named = arguments.input.profile.as_ref().or(self.profile.as_ref().filter(|_| is_free));
        let mut profile = match named {
            None => Profile::default(),
            Some(name) => self.profiles.get(name).cloned().ok_or_else(|| self.unknown(name))?,
        };
        if is_free {
            let connection = &mut arguments.connection;
            connection.url.clone_from(&profile.url);
            connection.username = connection.username.take().or_else(|| profile.username.clone());
            // A password that is given is meant.
            if connection.token_command.is_none() && connection.password.is_none() && !connection.askpass {
                connection.token_command.clone_from(&profile.token_command);
            }
        }
        profile.prompt = profile.prompt.or_else(|| self.prompt.clone());
        profile.pager = profile.pager.or_else(|| self.pager.clone());
        Ok(profile)
    }

    fn unknown(&self, name: &str) -> UsageError {
        let known: Vec<_> = self.profiles.keys().map(String::as_str).collect();
        let known =
            if known.is_empty() { "there is none".to_owned() } else { format!("there are: {}", known.join(", ")) };
        let path = if self.path.as_os_str().is_empty() { Path::new(NAME) } else { &self.path };
        UsageError(format!("no profile {name:?} in {}: {known}", path.display()))
    }
}

/// A folder of the user's: by the variable, or below the home folder.
pub(super) fn folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(variable).filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(below_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_shows_its_line_and_no_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redis.toml");
        assert!(File::read(&path).unwrap().profiles.is_empty());
        std::fs::write(&path, "prompt = \"a\"\n\n[profiles.x]\nurl = \"redis://:secret@h\"\nurl2 = 1\n").unwrap();
        let error = File::read(&path).unwrap_err().to_string();
        assert!(error.contains("line 5") || error.contains("line 4"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        std::fs::write(&path, "pager = \"less\"\n[profiles.x]\nurl = \"redis://h\"\n").unwrap();
        let file = File::read(&path).unwrap();
        assert_eq!(file.profiles["x"].url.as_deref(), Some("redis://h"));
        assert!(file.unknown("y").to_string().ends_with("there are: x"));
    }
}
