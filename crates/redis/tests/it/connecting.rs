//! Why there is no connection: each cause is a kind of its own, and the error behind it is the source.

use std::error::Error as _;
use std::io::{self, Write};
use std::net::TcpListener;
use std::time::Duration;

use pilotlight_redis::config::{Pem, TlsConfig, TlsRoots, WhenDown};
use pilotlight_redis::{AuthError, Client, Commands, Config, ConnectErrorKind, Error, ErrorKind, Ran, ServerError};
use pilotlight_testkit::{Certificates, ClientAuth, Server};

/// The error of a first command, at once.
async fn failure(config: Config) -> Error {
    let config = Config { when_down: WhenDown::FailFast, ..config };
    let error = Client::new(config).unwrap().get("k").await.unwrap_err();
    assert_eq!(error.ran(), Ran::NotSent);
    error
}

async fn failure_at(url: &str) -> Error {
    failure(Config::from_url(url).unwrap()).await
}

#[track_caller]
fn kind(error: &Error) -> &ConnectErrorKind {
    error.connect_error().unwrap_or_else(|| panic!("{error}")).kind()
}

/// The first error of this type among the causes.
fn source<T: std::error::Error + 'static>(error: &Error) -> Option<&T> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[tokio::test]
async fn no_such_host() {
    let error = failure_at("redis://host.invalid").await;
    assert!(matches!(kind(&error), ConnectErrorKind::Resolve(_)), "{error}");
    assert!(source::<io::Error>(&error).is_some(), "{error}");
}

#[tokio::test]
async fn nobody_listens() {
    let error = failure_at("redis://127.0.0.1:1").await;
    assert!(matches!(kind(&error), ConnectErrorKind::Dial { tried: 1, .. }), "{error}");
    assert_eq!(source::<io::Error>(&error).unwrap().kind(), io::ErrorKind::ConnectionRefused);
}

/// Also where the client goes on trying until the deadline, in a cluster, and with several servers.
#[tokio::test]
async fn the_cause_outlives_a_deadline() {
    for url in [
        "redis://127.0.0.1:1?command_timeout=300ms",
        "redis+cluster://127.0.0.1:1?command_timeout=300ms",
        "redis://127.0.0.1:1,127.0.0.1:2?command_timeout=300ms",
    ] {
        let error = Client::connect(url).await.unwrap_err();
        assert!(matches!(kind(&error), ConnectErrorKind::Dial { .. }), "{url}: {error}");
        assert_eq!(source::<io::Error>(&error).unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted() {
    let server = Server::builder().tls(ClientAuth::None).start().unwrap();
    let stranger = Certificates::generate().unwrap();
    let roots = TlsRoots::Only(Pem::File(stranger.ca_path()));
    let config = Config::from_url(&server.url()).unwrap().with_tls(TlsConfig { roots, ..TlsConfig::default() });
    let error = failure(config).await;
    assert!(matches!(kind(&error), ConnectErrorKind::Tls(_)), "{error}");
    let found = source::<rustls::Error>(&error).unwrap();
    assert!(matches!(found, rustls::Error::InvalidCertificate(_)), "{found:?}");
}

#[tokio::test]
async fn a_password() {
    let server = Server::builder().requirepass("s3cret").start().unwrap();
    let url = |user: &str| format!("redis://{user}127.0.0.1:{}", server.port());
    let error = failure_at(&url(":wrong@")).await;
    assert!(matches!(error.kind(), ErrorKind::Rejected(_)), "{error}");
    assert!(matches!(kind(&error), ConnectErrorKind::Auth(AuthError::Rejected { .. })), "{error}");
    assert_eq!(source::<ServerError>(&error).unwrap().code(), "WRONGPASS");
    let error = failure_at(&url("")).await;
    assert!(matches!(kind(&error), ConnectErrorKind::Auth(AuthError::Missing)), "{error}");
}

#[tokio::test]
async fn a_database_that_is_none() {
    let server = Server::start().unwrap();
    let error = failure_at(&format!("{}?db=9999", server.url())).await;
    assert!(matches!(kind(&error), ConnectErrorKind::Refused { command: "SELECT", .. }), "{error}");
    assert!(source::<ServerError>(&error).unwrap().message().contains("DB index"));
}

#[tokio::test]
async fn something_else_than_redis() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = io::copy(&mut stream, &mut io::sink());
    });
    let error = failure_at(&url).await;
    assert!(matches!(kind(&error), ConnectErrorKind::NotRedis(_) | ConnectErrorKind::Protocol(_)), "{error}");
    server.join().unwrap();
}
