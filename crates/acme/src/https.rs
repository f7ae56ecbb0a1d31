//! The way to an authority: HTTPS, and when it asked to be left alone.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use instant_acme::{BodyWrapper, BytesResponse, Error};
use pilotlight_http_client::{Bounds, HttpClient, Roots};

pub(crate) use pilotlight_http_client::RequestError;

/// How long a request may take, with its connection; most bytes of an answer.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(30), max_answer_bytes: 1 << 20 };

/// Requests to one authority. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Https {
    client: HttpClient,
    last_retry_after: Arc<Mutex<Option<SystemTime>>>,
}

impl Https {
    /// Checks servers by the roots in a file, or by the system's.
    pub(crate) fn new(root: Option<&Path>) -> io::Result<Self> {
        let client = HttpClient::new(root.map_or(Roots::System, Roots::File), BOUNDS)?;
        Ok(Self { client, last_retry_after: Arc::default() })
    }

    /// What the last answer that was an error said about coming again, once.
    pub(crate) fn take_retry_after(&self) -> Option<SystemTime> {
        self.last_retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends a request, and reads its answer to the end.
    pub(crate) async fn send<B>(&self, request: Request<B>) -> Result<Response<Bytes>, RequestError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let response = self.client.send(request).await?;
        if response.status().is_client_error() || response.status().is_server_error() {
            let told = response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value, SystemTime::now()));
            *self.last_retry_after.lock().unwrap_or_else(PoisonError::into_inner) = told;
        }
        Ok(response)
    }
}

/// RFC 9110 §10.2.3: seconds or a date.
fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<SystemTime> {
    let text = value.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => now.checked_add(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok(),
    }
}

impl instant_acme::HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            if request.uri().scheme_str() != Some("https") {
                return Err(Error::Other(Box::new(RequestError::Address(request.uri().clone()))));
            }
            let answer = client.send(request).await.map_err(|e| Error::Other(Box::new(e)))?;
            Ok(BytesResponse::from(answer.map(Full::new)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn when_to_come_again() {
        let of = |text: &'static str| {
            let at = retry_after(&HeaderValue::from_static(text), UNIX_EPOCH)?;
            Some(at.duration_since(UNIX_EPOCH).unwrap().as_secs())
        };
        assert_eq!(of("120"), Some(120));
        assert_eq!(of("Thu, 01 Jan 1970 00:02:00 GMT"), Some(120));
        assert_eq!(of("soon"), None);
        assert_eq!(of("-1"), None);
        assert_eq!(of("18446744073709551615"), None);
    }
}
