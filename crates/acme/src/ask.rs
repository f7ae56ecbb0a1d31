//! `on_demand.ask`: a server that says whether a name that no route names may have a certificate.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use pilotlight_http_client::{Bounds, HttpClient, Roots};

use crate::agenda::Permission;
use crate::name::Name;

/// A client waits for the answer, of which only the status counts.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(5), max_answer_bytes: 64 << 10 };

/// The address that is asked. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Ask {
    address: String,
    http: HttpClient,
}

impl Ask {
    /// # Errors
    /// The address is `https://`, and this system has no trusted roots.
    pub(crate) fn new(address: &str) -> io::Result<Self> {
        let roots = if address.starts_with("https://") { Roots::System } else { Roots::None };
        Ok(Self { address: address.to_owned(), http: HttpClient::new(roots, BOUNDS)? })
    }

    /// Whether a name may have a certificate: 200 says yes, an error of the server (5xx) nothing, any other answer no.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub(crate) async fn ask(&self, name: &Name) -> Permission {
        let unknown = |why: String| {
            Permission::Unknown(format!("on_demand.ask did not say whether the name may have a certificate: {why}"))
        };
        // What is in a name needs no escape (RFC 3986 §2.3).
        let separator = if self.address.contains('?') { '&' } else { '?' };
        let target = format!("{}{separator}domain={name}", self.address);
        let request = match Request::get(&target).body(Empty::<Bytes>::new()) {
            Ok(request) => request,
            Err(e) => return unknown(e.to_string()),
        };
        match self.http.send(request).await {
            Ok(answer) if answer.status() == StatusCode::OK => Permission::Given,
            Ok(answer) if answer.status().is_server_error() => unknown(format!("it answered {}", answer.status())),
            Ok(_) => Permission::Refused,
            Err(e) => unknown(e.to_string()),
        }
    }
}
