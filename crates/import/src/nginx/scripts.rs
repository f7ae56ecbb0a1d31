//! What a location says of scripts: which file its program would run, and what that is told.

use crate::directive::Directive;
use crate::program::Program;
use crate::rules::Rules;

use super::level::{Done, Level};

/// Variables that the gateway tells every program, and which nginx has in `fastcgi_params`.
const TOLD: [&str; 22] = [
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "UWSGI_SCHEME",
];

/// The scripts of a server, or of a location with its own.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    /// Its name, if nobody else has it.
    pub(super) wanted: String,
    /// Its site has no fallback yet.
    pub(super) program: Program,
    /// What the location of the scripts says itself.
    pub(super) rules: Rules,
    /// The folder in front of the paths of requests, as plain locations have to have it as well.
    pub(super) root: String,
    /// Its location.
    pub(super) line: usize,
    pub(super) is_used: bool,
}

/// Which file a location would run.
pub(super) enum Script {
    /// A file of this folder, by the path of the request.
    Folder(String),
    /// This file, whatever the path.
    One(String),
    /// None is named: the program itself.
    Program,
    /// It cannot be told.
    Odd,
}

impl Level {
    /// `fastcgi_param NAME VALUE`, and the same for other protocols.
    pub(super) fn param(&mut self, directive: &Directive) -> Done {
        let (name, value) = (directive.arg(0), directive.arg(1));
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match name {
            "SCRIPT_FILENAME" => {
                self.script = Some(value.to_owned());
                Done::Mapped("cgi.root".to_owned())
            }
            "HTTP_PROXY" if value.is_empty() => Done::NotNeeded("the field `Proxy` never becomes a variable"),
            "GATEWAY_INTERFACE" | "REDIRECT_STATUS" => Done::NotNeeded("the gateway tells it"),
            _ if TOLD.contains(&name) && value.contains('$') => Done::NotNeeded("the gateway tells it"),
            _ if !is_name => Done::NotMapped("it is no name of a variable".to_owned()),
            _ if value.contains('$') => Done::NotMapped("a variable of `cgi.params` has a fixed value".to_owned()),
            _ => {
                self.params.retain(|(other, _)| other != name);
                self.params.push((name.to_owned(), value.to_owned()));
                Done::Mapped(format!("cgi.params.{name}"))
            }
        }
    }

    /// Which file `SCRIPT_FILENAME` names.
    pub(super) fn script(&self) -> Script {
        let Some(value) = self.script.as_deref() else { return Script::Program };
        let root = |value: &str| match value.strip_prefix("$document_root").or(value.strip_prefix("$realpath_root")) {
            Some(rest) => self.root.as_ref().map(|root| format!("{root}{rest}")),
            None => Some(value.to_owned()),
        };
        let folder = match value {
            "$request_filename" => self.root.clone(),
            _ => value.strip_suffix("$fastcgi_script_name").and_then(root),
        };
        if let Some(folder) = folder.filter(|folder| !folder.contains('$')) {
            return Script::Folder(folder.trim_end_matches('/').to_owned());
        }
        match root(value).filter(|file| file.starts_with('/') && !file.contains('$')) {
            Some(file) => Script::One(file),
            None => Script::Odd,
        }
    }
}
