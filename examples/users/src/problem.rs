//! Errors for the client: RFC 9457, `application/problem+json`. Every status but success is chosen here.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

/// One mistake, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// The field of the body, or the query parameter.
    pub(crate) field: Option<&'static str>,
    pub(crate) detail: String,
    /// With 405: what would do.
    pub(crate) allow: Option<&'static str>,
}

impl Problem {
    pub(crate) fn bad_request(field: Option<&'static str>, detail: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, field, detail, allow: None }
    }

    pub(crate) fn not_found(detail: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, field: None, detail, allow: None }
    }

    pub(crate) fn method(allow: &'static str) -> Self {
        let detail = format!("this resource takes {allow}");
        Self { status: StatusCode::METHOD_NOT_ALLOWED, field: None, detail, allow: Some(allow) }
    }

    pub(crate) fn email_taken() -> Self {
        let detail = "another user has this email".into();
        Self { status: StatusCode::CONFLICT, field: Some("email"), detail, allow: None }
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let detail = format!("the body may have at most {limit} bytes");
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, field: None, detail, allow: None }
    }

    pub(crate) fn media_type() -> Self {
        let detail = "the body must be application/json".into();
        Self { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, field: Some("content-type"), detail, allow: None }
    }

    pub(crate) fn unprocessable(field: Option<&'static str>, detail: String) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, field, detail, allow: None }
    }

    pub(crate) fn internal(detail: String) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, field: None, detail, allow: None }
    }

    pub(crate) fn into_response(self) -> Response<Bytes> {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let mut body = json!({ "title": title, "status": self.status.as_u16(), "detail": self.detail });
        if let Some(field) = self.field {
            body["field"] = field.into();
        }
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}
