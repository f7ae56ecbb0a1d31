//! Where a file comes from: its path and the environment, which some of its variables stand for.

use std::path::{Path, PathBuf};

/// Words in the names of variables whose values are not written into a file.
const SECRET: [&str; 5] = ["SECRET", "PASSWORD", "PASSWD", "TOKEN", "KEY"];
/// Longest value of a variable that is taken over.
const MAX_VALUE: usize = 4096;

/// Reads a variable of the environment.
pub type Variable<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Where a file comes from. The default knows neither its path nor any variable.
#[derive(Clone, Copy, Default)]
pub struct Origin<'a> {
    /// Its absolute path.
    pub file: Option<&'a Path>,
    /// Value of a variable of the environment.
    pub variable: Option<&'a Variable<'a>>,
}

impl Origin<'_> {
    /// The value of a variable, if it may be written into a file.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        let upper = name.to_ascii_uppercase();
        if SECRET.iter().any(|word| upper.contains(word)) {
            return None;
        }
        let value = self.variable?(name)?;
        let is_good = value.len() <= MAX_VALUE && !value.contains(char::is_control);
        is_good.then_some(value)
    }

    /// The folder of the file.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        Some(self.file?.parent()?.to_owned())
    }
}

/// What stands for the value of a variable that has none: a name that no host has.
pub(crate) fn placeholder(name: &str) -> String {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = name.chars().map(|c| if is_good(c) { c.to_ascii_lowercase() } else { '-' }).take(48).collect();
    format!("{}.invalid", name.trim_matches('-'))
}

/// What a note says of such a variable.
pub(crate) fn unset(name: &str) -> String {
    format!("the variable has no value here, or is a secret: write it in the place of {}", placeholder(name))
}
