//! What the gateway answers by itself on a route that leads to no service.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, LOCATION};
use http::{Method, Response, StatusCode};
use pilotlight_content_coding::CompressOptions;
use pilotlight_files::{Body, FilesOptions, Reader, Request, RequestFields};

use super::changes::Seen;
use crate::body::ResponseBody;
use crate::file_body::FileBody;
use crate::head::Head;
use crate::options::RouteTo;
use crate::path::{self, normalized};
use crate::problem::Failure;
use crate::redirect::{Redirect, below};
use crate::routes::Route;
use crate::target::Hop;
use crate::template::Facts;
use crate::worker::Worker;

/// The response to a request on a route without a service.
pub(super) fn answer(worker: &Worker, route: &Route, head: &Head, hop: Hop) -> Result<Response<ResponseBody>, Failure> {
    match &route.to {
        RouteTo::Redirect(redirect) => send_elsewhere(redirect, route, head, hop),
        RouteTo::Files(options) => files(worker, options, route, head),
        RouteTo::Respond(status) => Err(Failure::Responds(*status)),
        RouteTo::Service(_) => Err(Failure::Bug),
    }
}

fn send_elsewhere(
    redirect: &Redirect,
    route: &Route,
    head: &Head,
    hop: Hop,
) -> Result<Response<ResponseBody>, Failure> {
    let path = normalized(head.path());
    let below = below(&route.path, &path);
    let facts = Facts { below, ..Seen { head, hop, client: "", request_id: "" }.facts() };
    let location = redirect.location(&facts).ok_or(Failure::NoHost)?;
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = redirect.status();
    // Both are visible characters, or those of a name that another proxy has let through.
    response.headers_mut().insert(LOCATION, HeaderValue::try_from(location).map_err(|_| Failure::BadTarget)?);
    Ok(response)
}

impl RequestFields for Head {
    fn each(&self, name: &HeaderName, value: &mut dyn FnMut(&[u8])) {
        self.all(name, value);
    }
}

fn files(
    worker: &Worker,
    options: &Arc<FilesOptions>,
    route: &Route,
    head: &Head,
) -> Result<Response<ResponseBody>, Failure> {
    let path = head.path();
    // A path with dot segments has been routed without them; as a path of files it leads nowhere.
    let below = path::below(path, &route.path);
    let not_found = || Failure::Files(pilotlight_files::FileError::NotFound { path: path.to_owned() });
    let below = below.ok_or_else(not_found)?;
    of_files(worker, options, Wanted { method: &head.method, below, compress: route.compress.as_deref() }, head)
}

/// What is wanted of a folder.
pub(super) struct Wanted<'a> {
    pub(super) method: &'a Method,
    /// The path below it, with its escapes.
    pub(super) below: &'a str,
    pub(super) compress: Option<&'a CompressOptions>,
}

/// A file of a folder, or whatever else answers for it.
pub(super) fn of_files(
    worker: &Worker,
    options: &Arc<FilesOptions>,
    Wanted { method, below, compress }: Wanted<'_>,
    head: &Head,
) -> Result<Response<ResponseBody>, Failure> {
    let path = head.path();
    let (now, at) = (SystemTime::now(), Instant::now());
    let query = head.query();
    let request = Request { method, below, path, query, fields: head, compress, now, at };
    let answer = worker.files.borrow_mut().answer(options, &request).map_err(Failure::Files)?;
    let body = match answer.body {
        Body::Here(bytes) => ResponseBody::full(bytes),
        Body::Segments(segments) => {
            ResponseBody::Files(Box::new(FileBody::new(Reader::new(segments), &worker.disk_reads)))
        }
    };
    let length = body.length().filter(|_| head.method == Method::HEAD && answer.status == StatusCode::OK);
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.fields;
    // Of a file without bytes as well.
    response.headers_mut().extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
    Ok(response)
}
