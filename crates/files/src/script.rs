//! From the path of a request to a script below a folder, a file beside it, or neither.
//!
//! ```text
//! /blog/index.php/2024/x    the first name with the suffix that is a file: blog/index.php, and /2024/x behind it
//! /style.css                a file that is no script
//! /blog/                    its index: a script, or a file
//! /whatever                 the front controller, if there is one
//! ```
//!
//! What is run exists, is a regular file, lies below the folder and has the suffix: `upload.jpg/x.php` runs nothing, as
//! nothing is below a file. A path is split before its escapes are decoded, so that no `%2F` moves the place, and what
//! has a control character in it (`%0a`) is no script's name and no path info (CVE-2019-11043 and its kin).
//!
//! Invariant: what has a script's suffix anywhere in its name, in any case of letters, is never sent as it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use percent_encoding::percent_decode_str;
use rustix::io::Errno;

use crate::answer::FileError;
use crate::beneath::Opened;
use crate::cache::{FileCache, Folder};
use crate::options::{FilesOptions, NotAPattern, checked, glob};
use crate::target::{FilePath, Kind, NoPath};

/// A folder with scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptOptions {
    /// The folder, and how its other files are served.
    pub files: Arc<FilesOptions>,
    /// What the name of a script ends with; not empty. Default `.php`.
    pub suffix: String,
    /// The files that answer for a folder, the first that is there. Default `index.php`, `index.html`.
    pub index: Vec<String>,
    /// The script below the folder that gets what is no file.
    pub fallback: Option<String>,
    /// The scripts that may be run, by their paths below the folder; `None`: all of them.
    pub allowed: Option<Vec<ScriptPattern>>,
}

impl ScriptOptions {
    /// Most patterns of `allowed`, and most names of `index`.
    pub const MAX_NAMES: usize = 64;

    /// A folder with default settings.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            files: Arc::new(FilesOptions { index: None, ..FilesOptions::new(root) }),
            suffix: ".php".to_owned(),
            index: vec!["index.php".to_owned(), "index.html".to_owned()],
            fallback: None,
            allowed: None,
        }
    }

    fn is_script(&self, name: &str) -> bool {
        name.len() > self.suffix.len() && name.ends_with(&self.suffix)
    }

    /// Whether a name has the suffix in it: `a.php~`, `a.PHP`, `a.php.bak`, `a.php5` are sources.
    fn is_like_a_script(&self, name: &str) -> bool {
        name.to_ascii_lowercase().contains(&self.suffix.to_ascii_lowercase())
    }

    fn may_run(&self, names: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|pattern| pattern.matches(names)))
    }
}

/// Scripts below a folder. `*` stands for any characters of one name: it does not reach into folders, where uploads may
/// be. What ends in a slash is a folder with all that is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptPattern(String);

impl ScriptPattern {
    /// It is compared with the whole path below the folder.
    ///
    /// # Errors
    /// It can match nothing.
    pub fn new(pattern: &str) -> Result<Self, NotAPattern> {
        checked(pattern).map(|()| Self(pattern.to_owned()))
    }

    fn matches(&self, names: &str) -> bool {
        if self.0.ends_with('/') {
            return names.starts_with(&self.0);
        }
        let (own, theirs) = (self.0.split('/'), names.split('/'));
        own.clone().count() == theirs.clone().count() && own.zip(theirs).all(|(own, name)| glob(own, name))
    }
}

/// A script, and what it is told of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The folder, without symbolic links.
    pub root: Arc<std::path::Path>,
    /// Its path below the folder, without a slash in front.
    pub names: String,
    /// What follows it in the path of the request, decoded: from a slash on, or empty.
    pub path_info: String,
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// Something to run.
    Script(Script),
    /// A file at this path below the folder, with its escapes, that is sent.
    File(String),
    /// A folder, whose path needs a slash behind it.
    Folder,
}

impl FileCache {
    /// What `below` leads to: what follows the route's path, with its escapes.
    ///
    /// # Errors
    /// Nothing is there.
    pub fn place(&mut self, options: &ScriptOptions, below: &str, at: Instant) -> Result<Place, FileError> {
        let mut look = Look { folder: self.folder(&options.files), options, at };
        let found = match look.script(below) {
            Err(Errno::NOENT) => look.other(below),
            found => found,
        };
        let found = match found {
            Err(Errno::NOENT) => look.fallback(),
            found => found,
        };
        found.map_err(|cause| FileError::of(below, cause))
    }
}

/// What is at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    File,
    Folder,
}

struct Look<'a> {
    folder: &'a mut Folder,
    options: &'a ScriptOptions,
    at: Instant,
}

impl Look<'_> {
    /// The first name of the path that is a script's.
    fn script(&mut self, below: &str) -> Result<Place, Errno> {
        let mut ends = below.match_indices('/').map(|(at, _)| at).skip(1).chain([below.len()]);
        let Some(end) = ends.find(|end| {
            let name = below[..*end].rsplit('/').next().unwrap_or_default();
            // A script's name has no escape in it that hides its suffix: decoded, it would have another one.
            self.options.is_script(&percent_decode_str(name).decode_utf8_lossy())
        }) else {
            return Err(Errno::NOENT);
        };
        let Ok(FilePath { names, kind: Kind::File }) = FilePath::parse(&below[..end]) else { return Err(Errno::NOENT) };
        let path_info = path_info(&below[end..]).ok_or(Errno::NOENT)?;
        if self.is(&names)? != Is::File {
            return Err(Errno::NOENT);
        }
        self.run(&names, path_info)
    }

    fn run(&mut self, names: &str, path_info: String) -> Result<Place, Errno> {
        if !self.options.may_run(names) {
            return Err(Errno::ACCESS);
        }
        let root = self.folder.real_root(self.at)?;
        Ok(Place::Script(Script { root, names: names.to_owned(), path_info }))
    }

    /// A file that is no script, or the index of a folder.
    fn other(&mut self, below: &str) -> Result<Place, Errno> {
        let path = FilePath::parse(below).map_err(|why| match why {
            NoPath::Malformed | NoPath::Refused => Errno::NOENT,
        })?;
        match (self.is(&path.names)?, path.kind) {
            (Is::File, Kind::File) if !self.options.is_like_a_script(path.name()) => Ok(Place::File(below.to_owned())),
            (Is::File, _) => Err(Errno::NOENT),
            (Is::Folder, kind) => self.index(&path.names, below, kind),
        }
    }

    fn index(&mut self, names: &str, below: &str, kind: Kind) -> Result<Place, Errno> {
        let slash = if names.is_empty() { "" } else { "/" };
        let options = self.options;
        for index in &options.index {
            let whole = format!("{names}{slash}{index}");
            if self.is(&whole) != Ok(Is::File) {
                continue;
            }
            return match kind {
                Kind::File if !below.is_empty() => Ok(Place::Folder),
                _ if options.is_script(index) => self.run(&whole, String::new()),
                _ => Ok(Place::File(format!("{}/{index}", below.trim_end_matches('/')))),
            };
        }
        Err(Errno::NOENT)
    }

    /// The front controller.
    fn fallback(&mut self) -> Result<Place, Errno> {
        let options = self.options;
        let fallback = options.fallback.as_ref().ok_or(Errno::NOENT)?;
        match self.is(fallback)? {
            Is::File => {
                let root = self.folder.real_root(self.at)?;
                Ok(Place::Script(Script { root, names: fallback.clone(), path_info: String::new() }))
            }
            Is::Folder => Err(Errno::NOENT),
        }
    }

    fn is(&mut self, names: &str) -> Result<Is, Errno> {
        let root = self.folder.root(self.at)?;
        Ok(match root.get(names)? {
            Opened::File(..) => Is::File,
            Opened::Folder(_) => Is::Folder,
        })
    }
}

/// What follows a script in a path, decoded; `None` for what no program should get.
fn path_info(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_broken = |at: usize| !bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    if bytes.iter().enumerate().any(|(at, byte)| *byte == b'%' && is_broken(at)) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    let has_parent = decoded.split('/').any(|name| matches!(name, "." | ".."));
    (!has_parent && !decoded.contains(char::is_control)).then(|| decoded.into_owned())
}

#[cfg(test)]
#[path = "script/tests.rs"]
mod tests;
