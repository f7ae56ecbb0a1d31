//! The file for what the cluster does not say, and the whole text that the gateway reads.

use std::fs;
use std::path::{Path, PathBuf};

use pilotlight_cli::config::sections::Sectioned;

use crate::translate::Translation;

/// The text of the base file, and where it is.
#[derive(Clone, Debug, Default)]
pub struct Base {
    text: String,
    file: PathBuf,
}

/// Why there is no such file, or why nothing can be added to it.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// It cannot be read.
    #[error("{file}: {cause}")]
    Read {
        /// The file.
        file: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// It says what the cluster says.
    #[error("{0}: `listen` cannot be in it: Gateways and Ingresses say where to listen")]
    Listen(String),
    /// Sections cannot follow.
    #[error(
        "{0}: sections cannot be added to it: write its routes as [[routes]], its services as [services.NAME] and certificates as [[tls.certificates]]"
    )]
    Closed(String),
}

/// Sections as a translation has them.
const SAMPLE: &str = "\n[[tls.certificates]]\nkey = \"k\"\n[services.a_b_c]\nurl = []\n[[routes]]\npath = \"/\"\n";

impl Base {
    /// Reads the file; without one there is nothing in it.
    ///
    /// # Errors
    /// It cannot be read, or nothing can be added to it. What else is wrong in it is said when the gateway starts.
    pub fn read(file: Option<&Path>) -> Result<Self, BaseError> {
        let Some(file) = file else { return Ok(Self { text: String::new(), file: "kubernetes.toml".into() }) };
        let shown = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|cause| BaseError::Read { file: shown.clone(), cause })?;
        Self::of(text, file, shown)
    }

    fn of(text: String, file: &Path, shown: String) -> Result<Self, BaseError> {
        if let Ok(table) = toml::from_str::<toml::Table>(&text) {
            if table.contains_key("listen") {
                return Err(BaseError::Listen(shown));
            }
            if toml::from_str::<toml::Table>(&format!("{text}{SAMPLE}")).is_err() {
                return Err(BaseError::Closed(shown));
            }
        }
        Ok(Self { text, file: file.to_owned() })
    }

    /// Its name in reports.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The whole text. `idle` is the path of a socket that is listened on while there is nothing else to listen on.
    #[must_use]
    pub fn with(&self, translation: &Translation, idle: &Path) -> Sectioned {
        let listen = match &translation.listen[..] {
            [] => vec![format!("unix:{}", idle.display())],
            listen => listen.to_vec(),
        };
        let listen: Vec<String> =
            listen.iter().map(|address| serde_json::Value::from(address.as_str()).to_string()).collect();
        // On the first line, so that lines of the file are one further.
        let head = format!("listen = [{}]\n{}\n", listen.join(", "), self.text);
        let starts = translation.sections.iter().map(|start| head.len() + start).collect();
        Sectioned { text: (head + &translation.text).into(), starts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &str) -> Result<Base, BaseError> {
        Base::of(text.to_owned(), Path::new("base.toml"), "base.toml".to_owned())
    }

    #[test]
    fn what_can_be_added_to() {
        let base = read("workers = 2\n[limits]\nconnections = 100").unwrap();
        let text = "\n[services.a]\nurl = []\n".to_owned();
        let translation = Translation { text, sections: vec![0], ..Translation::default() };
        let sectioned = base.with(&translation, Path::new("/run/idle.sock"));
        assert_eq!(sectioned.text.get(sectioned.starts[0]..), Some(&*translation.text));
        let table: toml::Table = toml::from_str(&sectioned.text).unwrap();
        assert_eq!(table["listen"][0].as_str(), Some("unix:/run/idle.sock"));
        assert_eq!((table["workers"].as_integer(), table["limits"]["connections"].as_integer()), (Some(2), Some(100)));
        assert!(table["services"]["a"].is_table());
    }

    #[test]
    fn what_cannot() {
        assert!(matches!(read("listen = \"127.0.0.1:1\""), Err(BaseError::Listen(_))));
        assert!(matches!(read("services = {}"), Err(BaseError::Closed(_))));
        assert!(matches!(read("routes = []"), Err(BaseError::Closed(_))));
        assert!(matches!(read("[tls]\ncertificates = []"), Err(BaseError::Closed(_))));
        assert!(
            read("[tls]\nmin_version = \"1.3\"\n[services.x]\nurl = \"http://a\"\n[[routes]]\npath = \"/x\"").is_ok()
        );
        // Said by whoever reads the whole.
        assert!(read("this is no TOML").is_ok());
    }
}
