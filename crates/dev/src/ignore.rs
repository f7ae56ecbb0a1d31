//! Which files of a project count when they change. Pure.

use std::path::Path;

use crate::pattern::{Pattern, name_matches};

/// Most lines of `.gitignore` that count.
const MAX_PATTERNS: usize = 4096;

/// Folders that no source is in: of tools, of what is installed, of what is built. Those whose names begin with a dot
/// need not be named.
const FOLDERS: [&str; 14] = [
    "__pycache__",
    "__pypackages__",
    "bower_components",
    "build",
    "coverage",
    "dist",
    "env",
    "htmlcov",
    "node_modules",
    "out",
    "site-packages",
    "target",
    "vendor",
    "venv",
];

/// Files that editors write beside the one that is saved, that interpreters write, and that services write for
/// themselves: restarting a service because it has written a line into its log would never end.
const FILES: [&str; 28] = [
    "#*#",
    "*___jb_*___",
    "*.bak",
    "*.crswap",
    "*.db",
    "*.db-journal",
    "*.db-shm",
    "*.db-wal",
    "*.lock",
    "*.log",
    "*.log.*",
    "*.orig",
    "*.pid",
    "*.pyc",
    "*.pyo",
    "*.rdb",
    "*.sock",
    "*.sqlite",
    "*.sqlite*-*",
    "*.sqlite3",
    "*.sw?",
    "*.swpx",
    "*.tmp",
    "*~",
    ".#*",
    ".DS_Store",
    ".goutputstream-*",
    "4913",
];

/// What is left out.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    patterns: Vec<Pattern>,
    /// What the developer says, as it stands in a line of `.gitignore`; it counts before everything else.
    own: Vec<Pattern>,
}

impl Ignore {
    /// From the text of the project's `.gitignore`, and what the developer leaves out himself.
    #[must_use]
    pub fn new(gitignore: &str, own: &[String]) -> Self {
        Self {
            patterns: gitignore.lines().filter_map(Pattern::parse).take(MAX_PATTERNS).collect(),
            own: own.iter().filter_map(|line| Pattern::parse(line)).collect(),
        }
    }

    /// Whether changes of a file do not count, by its path from the project's folder. Those of `.env` files do, though
    /// no repository has them.
    #[must_use]
    pub fn ignores_file(&self, path: &Path) -> bool {
        let Some(parts) = parts(path) else { return false };
        let Some((name, folders)) = parts.split_last() else { return true };
        if (1..=folders.len()).any(|depth| self.ignores(&parts[..depth], Kind::Folder)) {
            return true;
        }
        self.ignores(&parts, Kind::File(name))
    }

    /// Whether a folder and everything below it is left out.
    #[must_use]
    pub fn ignores_folder(&self, path: &Path) -> bool {
        let Some(parts) = parts(path) else { return false };
        (1..=parts.len()).any(|depth| self.ignores(&parts[..depth], Kind::Folder))
    }

    fn ignores(&self, parts: &[&str], kind: Kind<'_>) -> bool {
        let is_folder = matches!(kind, Kind::Folder);
        if let Some(own) = self.own.iter().rev().find(|pattern| pattern.matches(parts, is_folder)) {
            return !own.negated;
        }
        let always = match kind {
            Kind::Folder => parts
                .last()
                .is_some_and(|name| name.starts_with('.') || FOLDERS.contains(name) || name.ends_with(".egg-info")),
            Kind::File(name) if name == ".env" || name.starts_with(".env.") => return false,
            Kind::File(name) => FILES.iter().any(|pattern| name_matches(pattern.as_bytes(), name.as_bytes())),
        };
        always
            || self
                .patterns
                .iter()
                .rev()
                .find(|pattern| pattern.matches(parts, is_folder))
                .is_some_and(|it| !it.negated)
    }
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    Folder,
    File(&'a str),
}

/// `None` for a path that is no text: no pattern is for it.
fn parts(path: &Path) -> Option<Vec<&str>> {
    path.components().map(|part| part.as_os_str().to_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ignore: &Ignore, ignored: &[&str], counted: &[&str]) {
        for path in ignored {
            assert!(ignore.ignores_file(Path::new(path)), "{path} counts");
        }
        for path in counted {
            assert!(!ignore.ignores_file(Path::new(path)), "{path} is ignored");
        }
    }

    #[test]
    fn tools_and_services_write_what_does_not_count() {
        let ignored = [
            ".git/index",
            "node_modules/x/index.js",
            "a/__pycache__/b.pyc",
            ".venv/lib/x.py",
            "target/debug/app",
            "app.py~",
            ".app.py.swp",
            "4913",
            ".#app.py",
            "#app.py#",
            "app.db",
            "app.db-wal",
            "logs/app.log",
            "x.sqlite3-journal",
        ];
        let counted =
            ["app.py", "src/main.rs", "templates/index.html", ".env", ".env.local", "Procfile", "a.sqlite.py"];
        check(&Ignore::default(), &ignored, &counted);
    }

    #[test]
    fn gitignore_counts_and_the_developer_before_it() {
        let ignore = Ignore::new("*.html\n!keep.html\n/uploads/\n.env\n", &["!build".to_owned(), "static/".to_owned()]);
        check(
            &ignore,
            &["a.html", "uploads/x.py", "static/x.py"],
            &["keep.html", "a/uploads/x.py", ".env", "build/x.py"],
        );
        assert!(ignore.ignores_folder(Path::new("uploads/deep")) && !ignore.ignores_folder(Path::new("src")));
    }
}
