//! A file of any kind.

use crate::model::{Draft, ImportError, Kind, MAX_BYTES, MAX_LINES};
use crate::{caddy, gunicorn, nginx, procfile, unit, uwsgi};

/// Reads a file.
///
/// # Errors
/// It is too large, or not in the format of its kind at all.
pub fn import(kind: Kind, text: &str) -> Result<Draft, ImportError> {
    let wrong = |line, message: String| Err(ImportError { line, message });
    if text.len() > MAX_BYTES {
        return wrong(1, format!("the file has more than {MAX_BYTES} bytes"));
    }
    if text.lines().count() > MAX_LINES {
        return wrong(MAX_LINES, format!("the file has more than {MAX_LINES} lines"));
    }
    match kind {
        Kind::Procfile => Ok(procfile::read(text)),
        Kind::Uwsgi => Ok(uwsgi::read(text)),
        Kind::Unit => unit::read(text),
        Kind::Gunicorn => Ok(gunicorn::read(text)),
        Kind::Nginx => nginx::read(text),
        Kind::Caddy => caddy::read(text),
    }
}
