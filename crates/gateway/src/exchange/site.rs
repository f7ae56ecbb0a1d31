//! A service with a folder of scripts: which of them a request is for, what is sent from beside them, and the files
//! that an answer names.

use std::path::Path;
use std::time::Instant;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderName, LAST_MODIFIED, TRANSFER_ENCODING,
};
use http::{HeaderMap, Method, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use pilotlight_files::{FileError, Place, Script, ScriptOptions};

use super::own::{self, Wanted};
use crate::body::ResponseBody;
use crate::head::Head;
use crate::options::{CgiOptions, SendFolder};
use crate::path;
use crate::problem::Failure;
use crate::response::ResponseFields;
use crate::routes::Route;
use crate::upstream::ServiceResponse;
use crate::worker::Worker;

const X_SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
const X_ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");
/// What of a path is written with an escape.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What a request to a service with scripts is for.
pub(crate) enum Site {
    Script(Box<Script>),
    /// The gateway's own answer.
    Own(Response<ResponseBody>),
}

/// What a request of a route is for; `None`: its service has no folder of scripts.
pub(super) fn of_route(worker: &Worker, route: &Route, head: &Head) -> Option<Result<Site, Failure>> {
    let scripts = route.cgi.as_ref()?.scripts.as_ref()?;
    let rewritten = route.changes.as_ref().and_then(|changes| changes.rewrite.as_ref());
    let rewritten = rewritten.and_then(|rewrite| rewrite.target(head.path(), head.query()));
    let path = match (&rewritten, route.strip_prefix) {
        (Some(target), _) => path_of(target),
        (None, true) => path::below(head.path(), &route.path).unwrap_or(head.path()),
        (None, false) => head.path(),
    };
    Some(find(worker, scripts, route.compress.as_deref(), head, path))
}

/// What a path is for, as a service gets it.
pub(crate) fn find(
    worker: &Worker,
    scripts: &ScriptOptions,
    compress: Option<&pilotlight_content_coding::CompressOptions>,
    head: &Head,
    path: &str,
) -> Result<Site, Failure> {
    let place = worker.files.borrow_mut().place(scripts, path, Instant::now()).map_err(|e| named(e, head))?;
    let below = match &place {
        Place::Script(_) => "",
        Place::File(below) => below,
        Place::Folder => path,
    };
    if let Place::Script(script) = place {
        return Ok(Site::Script(Box::new(script)));
    }
    own::of_files(worker, &scripts.files, Wanted { method: &head.method, below, compress }, head).map(Site::Own)
}

/// Path and query as a service gets them, without the query.
pub(crate) fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// Says the path as the client knows it.
fn named(error: FileError, head: &Head) -> Failure {
    let path = head.path().to_owned();
    Failure::Files(match error {
        FileError::NotFound { .. } => FileError::NotFound { path },
        FileError::Forbidden { .. } => FileError::Forbidden { path },
        other => other,
    })
}

/// The file that an answer names in place of its body, if it names one and may.
pub(super) fn sent_file(
    worker: &Worker,
    options: &CgiOptions,
    head: &Head,
    answer: ServiceResponse,
) -> ServiceResponse {
    if options.sendfile.is_empty() {
        return answer;
    }
    let text = |name| answer.fields.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
    let found = match (text(&X_ACCEL_REDIRECT), text(&X_SENDFILE)) {
        (Some(path), _) => by_prefix(&options.sendfile, &path).ok_or(path),
        (None, Some(path)) => by_folder(&options.sendfile, &path).ok_or(path),
        (None, None) => return answer,
    };
    let file = match &found {
        Ok((folder, below)) => {
            // Whatever the method has done, the file is what it is answered with.
            let method = if head.method == Method::HEAD { &Method::HEAD } else { &Method::GET };
            own::of_files(worker, &folder.files, Wanted { method, below, compress: None }, head)
                .map_err(|e| e.log_text())
        }
        Err(path) => Err(format!("{path} is in no folder of `sendfile`")),
    };
    let ServiceResponse { fields, .. } = answer;
    let (status, map, body) = match file {
        Ok(file) => {
            let (parts, body) = file.into_parts();
            (parts.status, merged(fields, &parts.headers), body)
        }
        Err(why) => {
            tracing::warn!("a file that an answer names is not sent: {why}");
            (StatusCode::NOT_FOUND, HeaderMap::new(), ResponseBody::Empty)
        }
    };
    ServiceResponse { status, fields: ResponseFields::from(map), body, upgraded: None }
}

/// The folder of a path of `X-Accel-Redirect`, and what is below it.
fn by_prefix<'a>(folders: &'a [SendFolder], path: &str) -> Option<(&'a SendFolder, String)> {
    let path = path_of(path);
    let found = folders.iter().filter_map(|folder| Some((folder, path.strip_prefix(&*folder.prefix)?)));
    let found = found.filter(|(_, below)| below.starts_with('/')).max_by_key(|(folder, _)| folder.prefix.len());
    found.map(|(folder, below)| (folder, below.to_owned()))
}

/// The folder that a path of the file system is below, and what is below it as a path of a URL.
fn by_folder<'a>(folders: &'a [SendFolder], path: &str) -> Option<(&'a SendFolder, String)> {
    // Some write it with escapes, as a URL.
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let below = |folder: &SendFolder| {
        let real = std::fs::canonicalize(&folder.files.root).ok();
        let roots = [Some(folder.files.root.clone()), real];
        roots.into_iter().flatten().find_map(|root| {
            let below = Path::new(&*decoded).strip_prefix(root).ok()?.to_str()?;
            Some(format!("/{}", utf8_percent_encode(below, ESCAPED)))
        })
    };
    folders.iter().find_map(|folder| Some((folder, below(folder)?)))
}

/// The program's fields, and over them those of the file that say what is sent.
fn merged(mut fields: ResponseFields, file: &HeaderMap) -> HeaderMap {
    let mut map = std::mem::take(fields.map());
    for name in [&X_SENDFILE, &X_ACCEL_REDIRECT, &CONTENT_LENGTH, &TRANSFER_ENCODING, &CONTENT_ENCODING] {
        map.remove(name);
    }
    for (name, value) in file {
        let is_of_the_bytes = [CONTENT_LENGTH, CONTENT_RANGE, ACCEPT_RANGES, CONTENT_ENCODING, LAST_MODIFIED]
            .contains(name)
            || *name == http::header::ETAG;
        if is_of_the_bytes || !map.contains_key(name) {
            map.insert(name, value.clone());
        }
    }
    map
}
