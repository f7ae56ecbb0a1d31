//! A deadline says why it was reached, where that is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::error::TimeoutReport;
use pilotlight_redis::{Client, Commands, Config, Error, ErrorKind};
use pilotlight_testkit::{Handshake, Script, ScriptedServer};

const TIMEOUT: Duration = Duration::from_millis(120);

fn client(server: &ScriptedServer, timeout: Duration) -> Client {
    let config = Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()));
    Client::new(Config { command_timeout: Some(timeout), ..config }).unwrap()
}

#[track_caller]
fn report(error: &Error) -> &TimeoutReport {
    let ErrorKind::Timeout(report) = error.kind() else { panic!("{error}") };
    report
}

/// The server refuses the first attempt, and is silent at the second.
#[tokio::test]
async fn a_deadline_of_a_later_attempt_tells_of_the_one_before() {
    let asked = Arc::new(AtomicUsize::new(0));
    let respond = move |words: Vec<Bytes>| match &words[0][..] {
        b"GET" if asked.fetch_add(1, Ordering::Relaxed) == 0 => b"-LOADING it does\r\n".to_vec(),
        b"GET" => Vec::new(),
        _ => b"+OK\r\n".to_vec(),
    };
    let server = ScriptedServer::respond(respond).await.unwrap();
    let error = client(&server, TIMEOUT).get("k").await.unwrap_err();
    assert!(report(&error).problem.as_ref().unwrap().contains("LOADING"), "{error}");
    assert_eq!(report(&error).timeout, TIMEOUT, "of the whole");
    assert!(report(&error).age >= TIMEOUT, "{error}");
}

/// The last look comes when no time is left.
#[tokio::test]
async fn a_deadline_of_a_lease_tells_what_the_server_said() {
    let server = ScriptedServer::builder().handshake(Handshake::manual());
    let server = server.respond(|_| b"-LOADING it does\r\n".to_vec()).await.unwrap();
    for timeout in [10, 60, 75, 110] {
        let timeout = Duration::from_millis(timeout);
        let error = client(&server, timeout).dedicated().await.unwrap_err();
        assert!(error.to_string().contains("LOADING"), "{error}");
        if let ErrorKind::Timeout(report) = error.kind() {
            assert_eq!(report.timeout, timeout, "{error}");
        }
    }
}

/// Each connection is closed as soon as it is used.
#[tokio::test]
async fn a_subscription_that_is_not_confirmed_in_time_tells_why() {
    let script = Script::new().expect(["SUBSCRIBE", "a"]).close().repeat_last();
    let server = ScriptedServer::play(script).await.unwrap();
    let error = client(&server, Duration::from_millis(500)).subscribe("a").await.unwrap_err();
    assert!(error.to_string().contains("the server closed the connection"), "{error}");
}
