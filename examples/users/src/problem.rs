//! Errors for the client: RFC 9457, `application/problem+json`. Every status but success is chosen here.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use crate::store::StoreError;

/// One mistake, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// The field of the body, the query parameter, or the header field.
    pub(crate) field: Option<&'static str>,
    pub(crate) detail: String,
    /// With 405: what would do.
    pub(crate) allow: Option<&'static str>,
    /// With 503: when to try again, in seconds.
    pub(crate) retry_after_s: Option<u32>,
}

impl Problem {
    fn new(status: StatusCode, field: Option<&'static str>, detail: impl Into<String>) -> Self {
        Self { status, field, detail: detail.into(), allow: None, retry_after_s: None }
    }

    pub(crate) fn bad_request(field: Option<&'static str>, detail: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, field, detail)
    }

    pub(crate) fn not_found(detail: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, None, detail)
    }

    pub(crate) fn method(allow: &'static str) -> Self {
        let detail = format!("this resource takes {allow}");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, None, detail) }
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, None, format!("the body may have at most {limit} bytes"))
    }

    pub(crate) fn media_type() -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Some("content-type"), "the body must be application/json")
    }

    pub(crate) fn unprocessable(field: Option<&'static str>, detail: String) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, field, detail)
    }

    /// Too much waits; nothing of this request was begun.
    pub(crate) fn overloaded(detail: String, retry_after_s: u32) -> Self {
        Self { retry_after_s: Some(retry_after_s), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, None, detail) }
    }

    /// What the store could not do. None of it is the client's mistake but a taken email.
    pub(crate) fn of_store(error: &StoreError, retry_after_s: u32) -> Self {
        match error {
            StoreError::EmailTaken => Self::new(StatusCode::CONFLICT, Some("email"), error.to_string()),
            StoreError::Busy { .. } | StoreError::Locked => Self::overloaded(error.to_string(), retry_after_s),
            StoreError::ReadOnly => Self::new(StatusCode::SERVICE_UNAVAILABLE, None, error.to_string()),
            StoreError::Full => Self::new(StatusCode::INSUFFICIENT_STORAGE, None, error.to_string()),
            StoreError::Gone | StoreError::Failed(_) => {
                let detail = "the database failed; the service's log says more";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, None, detail)
            }
        }
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
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
