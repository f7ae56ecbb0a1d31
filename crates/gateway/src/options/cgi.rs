//! What a service by FastCGI, SCGI or uwsgi is told beyond the request.

use std::ops::RangeInclusive;
use std::sync::Arc;

use pilotlight_files::{FilesOptions, ScriptOptions};

/// Settings of a service that is spoken to in variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgiOptions {
    /// The folder whose scripts it runs. `None`: the program is the one script, and every path is for it.
    pub scripts: Option<ScriptOptions>,
    /// Variables on top of those that say what the request is; they win.
    pub params: Vec<(String, String)>,
    /// Folders of files that its answers may name, by the paths that `X-Accel-Redirect` has for them.
    pub sendfile: Vec<SendFolder>,
    /// FastCGI: idle connections that each worker of the gateway keeps. Each of them has a process of php-fpm for
    /// itself, so by default there are none.
    pub keep_connections: usize,
}

impl CgiOptions {
    /// Values of `keep_connections`.
    pub const KEEP_CONNECTIONS: RangeInclusive<usize> = 0..=256;
    /// Most entries of `params` and of `sendfile`.
    pub const MAX_ENTRIES: usize = 256;
}

/// A folder whose files an answer may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendFolder {
    /// What `X-Accel-Redirect` begins with: from a slash on, without one at the end.
    pub prefix: String,
    /// The folder.
    pub files: Arc<FilesOptions>,
}
