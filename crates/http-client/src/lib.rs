//! Requests that the gateway makes for itself: to certificate authorities, for sets of keys, to an auth server that
//! decides whether a request is let in. HTTP/1.1, with or without TLS, a connection for each. Redirects are not
//! followed.
//!
//! Invariant: a request is bounded in time, from the look-up of the host's name to the last byte, and its answer in
//! bytes ([`Bounds`]).

#![forbid(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// What a request may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// From its beginning to the end of the answer.
    pub time: Duration,
    /// Most bytes of the answer's body.
    pub max_answer_bytes: usize,
}

/// Requests that are bounded alike, and check servers by the same roots. Cheap to clone; TLS sessions are resumed.
#[derive(Clone)]
pub struct HttpClient {
    /// `None`: `https` is not spoken.
    tls: Option<TlsConnector>,
    bounds: Bounds,
}

/// By which authorities the certificates of servers are checked.
#[derive(Debug, Clone, Copy)]
pub enum Roots<'a> {
    /// The system's.
    System,
    /// Those in a PEM file, and no others.
    File(&'a Path),
    /// None: `https` is refused.
    None,
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// It is no URL of HTTP, or one of `https` where that is not spoken.
    #[error("{0} is no address of a server")]
    Address(Uri),
    /// There is no connection, or its certificate is not trusted.
    #[error("no connection to {host}: {cause}")]
    Connect {
        /// Of the URL.
        host: String,
        /// What the system or TLS says.
        cause: io::Error,
    },
    /// The server broke off, or spoke no HTTP.
    #[error("{host}: {cause}")]
    Http {
        /// Of the URL.
        host: String,
        /// What was wrong.
        cause: hyper::Error,
    },
    /// The body broke off, or is too large.
    #[error("{host}: the answer cannot be read: {cause}")]
    Body {
        /// Of the URL.
        host: String,
        /// What was wrong.
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// [`Bounds::time`] is over.
    #[error("{host} did not answer within {} ms", .time.as_millis())]
    Timeout {
        /// Of the URL.
        host: String,
        /// How long it may take.
        time: Duration,
    },
}

impl HttpClient {
    /// Checks servers by these roots.
    ///
    /// # Errors
    /// The file cannot be read or has no certificate, or the system has no roots.
    pub fn new(roots: Roots<'_>, bounds: Bounds) -> io::Result<Self> {
        let tls = match roots {
            Roots::None => None,
            Roots::System => Some(connector(None)?),
            Roots::File(path) => Some(connector(Some(path))?),
        };
        Ok(Self { tls, bounds })
    }

    /// Sends a request to its absolute URL, and reads the answer to the end.
    ///
    /// # Errors
    /// There is none in time.
    ///
    /// # Cancel safety
    /// Dropping it closes the connection.
    pub async fn send<B>(&self, request: Request<B>) -> Result<Response<Bytes>, RequestError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let answered = timeout(self.bounds.time, self.exchange(request, &host)).await;
        answered.map_err(|_| RequestError::Timeout { host, time: self.bounds.time })?
    }

    async fn exchange<B>(&self, request: Request<B>, host: &str) -> Result<Response<Bytes>, RequestError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = request.uri().clone();
        let tls = match (uri.scheme_str(), &self.tls) {
            (Some("https"), Some(tls)) => Some(tls),
            (Some("http"), _) => None,
            _ => return Err(RequestError::Address(uri)),
        };
        let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        let failed = |cause| RequestError::Connect { host: host.to_owned(), cause };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some(tls) = tls else { return self.talk(stream, request, host).await };
        let name = ServerName::try_from(bare.to_owned()).map_err(|_| RequestError::Address(uri))?;
        self.talk(tls.connect(name, stream).await.map_err(failed)?, request, host).await
    }

    async fn talk<S, B>(&self, stream: S, request: Request<B>, host: &str) -> Result<Response<Bytes>, RequestError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let failed = |cause| RequestError::Http { host: host.to_owned(), cause };
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(failed)?;
        let max = self.bounds.max_answer_bytes;
        let answer = async {
            let (parts, body) = sender.send_request(relative(request)).await.map_err(failed)?.into_parts();
            let whole = Limited::new(body, max).collect().await;
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
}

/// By the roots in a file, or by the system's.
fn connector(root: Option<&Path>) -> io::Result<TlsConnector> {
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
    Ok(TlsConnector::from(Arc::new(config)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_relative() {
        let request = Request::get("https://ca.example:14000/dir?x=1").body(()).unwrap();
        let request = relative(request);
        assert_eq!(request.uri(), "/dir?x=1");
        assert_eq!(request.headers()[HOST], "ca.example:14000");
    }
}
