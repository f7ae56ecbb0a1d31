use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[track_caller]
fn check_order(resolved: &[&str], expected: &[&str]) {
    let sorted = interleaved(resolved.iter().map(|text| address(text)));
    assert_eq!(sorted, expected.iter().map(|text| address(text)).collect::<Vec<_>>());
}

#[test]
fn families_alternate_from_the_one_that_the_resolver_prefers() {
    check_order(&[], &[]);
    check_order(&["1.1.1.1:1"], &["1.1.1.1:1"]);
    check_order(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"], &["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]);
    check_order(&["1.1.1.1:1", "2.2.2.2:1", "[::1]:1", "[::2]:1"], &["1.1.1.1:1", "[::1]:1", "2.2.2.2:1", "[::2]:1"]);
}

#[tokio::test]
async fn literals_are_not_looked_up() {
    assert_eq!(resolve("127.0.0.1", 7).await.unwrap(), [address("127.0.0.1:7")]);
    assert_eq!(resolve("::1", 7).await.unwrap(), [address("[::1]:7")]);
}

#[tokio::test]
async fn a_refusing_address_is_followed_by_the_next_at_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = refusing_address();
    let started = tokio::time::Instant::now();
    let options = SocketOptions::from(&Config::default());
    let stream = race(&[refusing, refusing, listener.local_addr().unwrap()], options).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    assert!(started.elapsed() < ATTEMPT_DELAY * 2, "two delays were waited for");
}

#[tokio::test]
async fn a_silent_address_is_overtaken_after_the_delay() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hole = BlackHole::new();
    let started = tokio::time::Instant::now();
    let options = SocketOptions::from(&Config::default());
    let stream = race(&[hole.address(), listener.local_addr().unwrap()], options).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    assert!((ATTEMPT_DELAY..ATTEMPT_DELAY * 6).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_last_error_is_told_when_all_addresses_refuse() {
    let refusing = refusing_address();
    let error = race(&[refusing, refusing], SocketOptions::from(&Config::default())).await.unwrap_err();
    let ConnectErrorKind::Dial { tried: 2, source } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn options_of_the_socket() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connected =
        async |config: &Config| SocketOptions::from(config).connect(listener.local_addr().unwrap()).await.unwrap();
    let stream = connected(&Config::default()).await;
    let socket = SockRef::from(&stream);
    assert!(stream.nodelay().unwrap());
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(15));
    assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(5));
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(30)));

    let config = Config { keepalive: None, tcp_user_timeout: None, no_delay: false, ..Config::default() };
    let stream = connected(&config).await;
    let socket = SockRef::from(&stream);
    assert!(!stream.nodelay().unwrap());
    assert!(!socket.keepalive().unwrap());
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), None);
}

/// An address on which nothing listens any more.
fn refusing_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A listener whose queue is full: the kernel drops what knocks, as if the address led nowhere.
pub(crate) struct BlackHole {
    listener: socket2::Socket,
    _queued: Vec<socket2::Socket>,
}

impl BlackHole {
    pub(crate) fn new() -> Self {
        let socket = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let listener = socket();
        listener.bind(&address("127.0.0.1:0").into()).unwrap();
        listener.listen(0).unwrap();
        let place = listener.local_addr().unwrap();
        let knock = |_| {
            let socket = socket();
            socket.set_nonblocking(true).unwrap();
            // In progress, or refused: the queue fills either way.
            socket.connect(&place).ok();
            socket
        };
        Self { listener, _queued: (0..4).map(knock).collect() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap().as_socket().unwrap()
    }
}
