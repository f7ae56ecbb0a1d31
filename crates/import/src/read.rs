//! A file of any kind.

use crate::model::{Draft, ImportError, Kind, MAX_BYTES, MAX_LINES};
use crate::origin::Origin;
use crate::{caddy, gunicorn, nginx, procfile, unit, uwsgi};

/// Reads a file of which nothing but the text is known.
///
/// # Errors
/// It is too large, or not in the format of its kind at all.
pub fn import(kind: Kind, text: &str) -> Result<Draft, ImportError> {
    import_from(kind, text, Origin::default())
}

/// Reads a file whose variables may stand for its path and the environment.
///
/// # Errors
/// It is too large, or not in the format of its kind at all.
pub fn import_from(kind: Kind, text: &str, origin: Origin<'_>) -> Result<Draft, ImportError> {
    // A byte order mark, as editors of Windows write it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let wrong = |line, message: String| Err(ImportError { line, message });
    if text.len() > MAX_BYTES {
        return wrong(1, format!("the file has more than {MAX_BYTES} bytes"));
    }
    if text.lines().count() > MAX_LINES {
        return wrong(MAX_LINES, format!("the file has more than {MAX_LINES} lines"));
    }
    match kind {
        Kind::Procfile => Ok(procfile::read(text)),
        Kind::Uwsgi => Ok(uwsgi::read(text, origin)),
        Kind::Unit => unit::read(text),
        Kind::Gunicorn => Ok(gunicorn::read(text)),
        Kind::Nginx => nginx::read(text, origin),
        Kind::Caddy => caddy::read(text, origin),
    }
}
