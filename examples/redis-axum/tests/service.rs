//! The service with a real server: made once, shared, and stopped without a loss.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use pilotlight_redis::{Client, Config};
use pilotlight_testkit::Server;
use redis_axum::{App, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// More than a busy machine takes: a report that is made without Redis is made twice.
const LIMIT: Duration = Duration::from_secs(20);

struct Service {
    address: SocketAddr,
    app: App,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

async fn start(url: &str) -> Service {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = App::new(Client::new(Config::from_url(url).unwrap()).unwrap()).lookup_timeout(LIMIT);
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve(listener, app.clone(), async { drop(stopped.await) }));
    Service { address, app, stop, task }
}

async fn redis() -> Server {
    tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap()
}

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn a_stampede_makes_one_report() {
    let redis = redis().await;
    let (one, two) = (start(&redis.url()).await, start(&redis.url()).await);
    let mut requests = JoinSet::new();
    for number in 0..100 {
        let address = if number % 2 == 0 { one.address } else { two.address };
        requests.spawn(async move { get(address, "/reports/june").await });
    }
    for response in requests.join_all().await {
        assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("report on june\n"), "{response}");
    }
    assert_eq!(one.app.made() + two.app.made(), 1);
    assert!(get(two.address, "/reports/june").await.contains("x-origin: cached"));
    assert_eq!(redis.command(&["EXISTS", "lock:{report:june}"]).unwrap().integer(), Some(0));
}

#[tokio::test]
async fn without_redis_it_answers_and_says_that_it_is_ill() {
    let redis = redis().await;
    let service = start(&redis.url()).await;
    assert!(get(service.address, "/health").await.starts_with("HTTP/1.1 200"));
    redis.kill().unwrap();
    assert!(get(service.address, "/health").await.starts_with("HTTP/1.1 503"));
    assert!(get(service.address, "/reports/june").await.contains("x-origin: made"));
}

#[tokio::test]
async fn it_stops_after_the_last_answer() {
    let redis = redis().await;
    let service = start(&redis.url()).await;
    let request = tokio::spawn(get(service.address, "/reports/may"));
    // It is at work when its lock is there.
    while redis.command(&["EXISTS", "lock:{report:may}"]).unwrap().integer() == Some(0) {
        assert!(!request.is_finished());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    service.stop.send(()).unwrap();
    assert!(request.await.unwrap().ends_with("report on may\n"));
    service.task.await.unwrap().unwrap();
    assert_eq!(redis.command(&["GET", "report:may"]).unwrap().text(), "report on may\n");
}
