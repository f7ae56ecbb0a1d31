//! What the two sides of an exchange speak, as metrics name it.

use pilotlight_cgi::Protocol;

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientProtocol {
    /// HTTP/1.0 and 1.1.
    Http1,
    Http2,
}

impl ClientProtocol {
    pub(crate) const ALL: [Self; 2] = [Self::Http1, Self::Http2];

    /// As ALPN has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
        }
    }
}

/// How a service is reached, as its configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceProtocol {
    Pipe,
    Http,
    H2c,
    FastCgi,
    Scgi,
    Uwsgi,
    Lambda,
    /// The pipe, to the adapter of a program that speaks lines.
    Stdio,
}

impl ServiceProtocol {
    /// Those by which connections can be switched to other protocols.
    pub(crate) const SWITCHING: [Self; 3] = [Self::Pipe, Self::Http, Self::H2c];

    /// That of a program that is told of requests in variables.
    pub(crate) fn of_cgi(protocol: Protocol) -> Self {
        match protocol {
            Protocol::FastCgi => Self::FastCgi,
            Protocol::Scgi => Self::Scgi,
            Protocol::Uwsgi => Self::Uwsgi,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pipe => "pipe",
            Self::Http => "http",
            Self::H2c => "h2c",
            Self::FastCgi => Protocol::FastCgi.name(),
            Self::Scgi => Protocol::Scgi.name(),
            Self::Uwsgi => Protocol::Uwsgi.name(),
            Self::Lambda => "lambda",
            Self::Stdio => "stdio",
        }
    }
}

/// What a server of a service with TLS speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spoken {
    /// It was not connected to.
    Unknown,
    Http1,
    Http2,
}
