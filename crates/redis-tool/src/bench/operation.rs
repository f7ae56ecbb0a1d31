//! What is measured: an operation of ours, or a command of the user's.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::template::Template;

/// What is done.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Get,
    Set,
    Mixed,
    Command(Arc<Template>),
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "get" => Ok(Self::Get),
            "set" => Ok(Self::Set),
            "mixed" => Ok(Self::Mixed),
            _ => Err("get, set or mixed; other commands go after --".to_owned()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => f.write_str("GET"),
            Self::Set => f.write_str("SET"),
            Self::Mixed => f.write_str("mixed"),
            Self::Command(template) => f.write_str(template.name()),
        }
    }
}
