//! The way to an authority: HTTPS, a connection for each request. Bounded in time and in bytes.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HOST, HeaderValue, RETRY_AFTER};
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a request may take, with its connection.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 1 << 20;

/// Requests to one authority. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Https {
    tls: TlsConnector,
    last_retry_after: Arc<Mutex<Option<SystemTime>>>,
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("{0} is no address of a server")]
    Address(Uri),
    #[error("no connection to {host}: {cause}")]
    Connect { host: String, cause: io::Error },
    #[error("{host}: {cause}")]
    Http { host: String, cause: hyper::Error },
    #[error("{host}: the answer cannot be read: {cause}")]
    Body { host: String, cause: Box<dyn std::error::Error + Send + Sync> },
    #[error("{host} did not answer within {} s", REQUEST_TIME.as_secs())]
    Timeout { host: String },
}

impl Https {
    /// Checks servers by the roots in a file, or by the system's.
    pub(crate) fn new(root: Option<&Path>) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        match root {
            Some(path) => {
                let certificates = CertificateDer::pem_file_iter(path).map_err(io::Error::other)?;
                for certificate in certificates {
                    roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
                }
            }
            // What cannot be read of them is left out.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        if roots.is_empty() {
            let none = match root {
                Some(path) => format!("{} has no certificate in it", path.display()),
                None => "this system has no roots of certificate authorities: install ca-certificates".to_owned(),
            };
            return Err(io::Error::new(io::ErrorKind::NotFound, none));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), last_retry_after: Arc::default() })
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
        let host = request.uri().host().unwrap_or_default().to_owned();
        let answered = timeout(REQUEST_TIME, self.exchange(request, &host)).await;
        let response = answered.map_err(|_| RequestError::Timeout { host })??;
        if response.status().is_client_error() || response.status().is_server_error() {
            let told = response.headers().get(RETRY_AFTER).and_then(|value| retry_after(value, SystemTime::now()));
            *self.last_retry_after.lock().unwrap_or_else(PoisonError::into_inner) = told;
        }
        Ok(response)
    }

    async fn exchange<B>(&self, request: Request<B>, host: &str) -> Result<Response<Bytes>, RequestError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = request.uri().clone();
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(RequestError::Address(uri)),
        };
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let failed = |cause| RequestError::Connect { host: host.to_owned(), cause };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        if !is_tls {
            return talk(stream, request, host).await;
        }
        let name = ServerName::try_from(bare.to_owned()).map_err(|_| RequestError::Address(uri))?;
        talk(self.tls.connect(name, stream).await.map_err(failed)?, request, host).await
    }
}

async fn talk<S, B>(stream: S, request: Request<B>, host: &str) -> Result<Response<Bytes>, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let failed = |cause| RequestError::Http { host: host.to_owned(), cause };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let answer = async {
        let (parts, body) = sender.send_request(relative(request)).await.map_err(failed)?.into_parts();
        let whole = Limited::new(body, MAX_ANSWER).collect().await;
        let whole = whole.map_err(|cause| RequestError::Body { host: host.to_owned(), cause })?;
        Ok(Response::from_parts(parts, whole.to_bytes()))
    };
    tokio::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // It ends when the server closes; the whole answer may have been read by then.
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(cause) => Err(failed(cause)),
        },
    }
}

/// RFC 9112 §3.2.1: the target without scheme and host, which go into `Host`.
fn relative<B>(mut request: Request<B>) -> Request<B> {
    let host = request.uri().authority().and_then(|of| HeaderValue::from_str(of.as_str()).ok());
    if let Some(host) = host {
        request.headers_mut().insert(HOST, host);
    }
    let target = request.uri().path_and_query().and_then(|target| target.as_str().parse().ok());
    if let Some(target) = target {
        *request.uri_mut() = target;
    }
    request
}

/// RFC 9110 §10.2.3: seconds or a date.
fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<SystemTime> {
    let text = value.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => now.checked_add(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok(),
    }
}

impl HttpClient for Https {
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

    #[test]
    fn targets_are_relative() {
        let request = Request::get("https://ca.example:14000/dir?x=1").body(()).unwrap();
        let request = relative(request);
        assert_eq!(request.uri(), "/dir?x=1");
        assert_eq!(request.headers()[HOST], "ca.example:14000");
    }
}
