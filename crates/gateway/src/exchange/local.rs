//! What the gateway answers by itself because it is the one that is asked: `OPTIONS *` (RFC 9112 §3.2.4).

use http::header::ALLOW;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};

use crate::body::ResponseBody;
use crate::problem::Failure;
use crate::target::{authority, is_of_gateway};

/// Methods that the gateway treats in a way of their own; it passes on any other as well.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE");

/// The answer to a request that is for the gateway itself; `None` for any other.
pub(super) fn answer<B>(request: &Request<B>) -> Option<Result<Response<ResponseBody>, Failure>> {
    let (method, uri): (&Method, &Uri) = (request.method(), request.uri());
    is_of_gateway(method, uri).then(|| authority(request).map(|_| options()))
}

fn options() -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, METHODS);
    response
}
