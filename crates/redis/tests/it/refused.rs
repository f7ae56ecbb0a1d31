//! A cluster that will not give this client its map: the first command fails at once and says why.

use std::time::{Duration, Instant};

use pilotlight_redis::config::{Credentials, NodeAddress, Topology, WhenDown};
use pilotlight_redis::{Client, Commands, Config, Error, ErrorKind, Ran, Route};
use pilotlight_testkit::{Cluster, Server};

/// Far less than the time-out of a command.
const AT_ONCE: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(60);

fn config(port: u16, password: Option<&str>) -> Config {
    Config {
        servers: vec![NodeAddress::tcp("127.0.0.1", port)],
        topology: Topology::Cluster,
        credentials: password.map(|password| std::sync::Arc::new(Credentials::password(password)) as _),
        command_timeout: Some(TIMEOUT),
        ..Config::default()
    }
}

/// A command to one node, one to all, and a stream: each by a client that knows nothing yet.
async fn check(config: &Config, is_expected: impl Fn(&ErrorKind) -> bool, words: &str) {
    let since = Instant::now();
    let client = || Client::new(config.clone()).unwrap();
    let errors: [Error; 3] = [
        client().get("k").await.unwrap_err(),
        client().dbsize().await.unwrap_err(),
        client().stream(Route::Any).await.unwrap_err(),
    ];
    for error in errors {
        assert!(is_expected(error.kind()) && error.ran() == Ran::NotSent, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
}

fn is_rejected(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Rejected(_))
}

#[tokio::test]
async fn a_cluster_with_another_password_refuses_at_once() {
    let cluster = Cluster::builder().masters(3).requirepass("s3cret");
    let cluster = tokio::task::spawn_blocking(|| cluster.start().unwrap()).await.unwrap();
    let port = cluster.nodes()[0].port();
    check(&config(port, Some("wrong")), is_rejected, "rejects the credentials of user \"default\"").await;
    check(&config(port, None), is_rejected, "asks for a password").await;
    Client::new(config(port, Some("s3cret"))).unwrap().get("k").await.unwrap();
}

#[tokio::test]
async fn a_server_without_cluster_support_refuses_at_once() {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    check(&config(server.port(), None), is_rejected, "cluster support disabled").await;
}

#[tokio::test]
async fn nobody_listens_and_nobody_waits() {
    let fail_fast = Config { when_down: WhenDown::FailFast, ..config(1, None) };
    check(&fail_fast, |kind| matches!(kind, ErrorKind::Connect(_)), "refused").await;
}

/// One node answers that the password is wrong, another does not answer: that one may come, and be of another mind.
#[tokio::test]
async fn a_node_that_may_come_is_waited_for() {
    let server = Server::builder().requirepass("s3cret");
    let server = tokio::task::spawn_blocking(|| server.start().unwrap()).await.unwrap();
    let mut config = config(server.port(), Some("wrong"));
    config.servers.push(NodeAddress::tcp("127.0.0.1", 1));
    let error = Client::new(config).unwrap().get("k").timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cluster(_)), "{error}");
    assert!(error.to_string().contains("rejects the credentials"), "{error}");
}
