use std::sync::Arc;

use pilotlight_resp::Protocol;
use pilotlight_testkit::Server;

use super::*;
use crate::config::{AddressMap, CredentialError, Lease, RefreshingCredentials, SentinelConfig};
use crate::net::dial::tests::BlackHole;
use crate::proto::handshake::{Role, ServerInfo, ServerMode};

#[tokio::test]
async fn plain() {
    let server = Server::start().unwrap();
    let url = format!("{}/5?client_name=api-1", server.url());
    let mut connection = open(&url).await.unwrap();
    assert!(matches!(connection.transport, Transport::Tcp(_)));
    assert_eq!(connection.server.protocol, Protocol::Resp3);
    assert_eq!((connection.server.mode, connection.server.role), (Some(ServerMode::Standalone), Some(Role::Primary)));
    assert_eq!(client_info(&mut connection, "name").await, "api-1");
    assert_eq!(client_info(&mut connection, "db").await, "5");
    assert_eq!(client_info(&mut connection, "resp").await, "3");
    assert_eq!(client_info(&mut connection, "id").await, connection.server.id.unwrap().to_string());
    if server.info("redis_version").unwrap().as_str() >= "7.2" {
        assert_eq!(client_info(&mut connection, "lib-name").await, "pilotlight-redis");
    }
}

#[tokio::test]
async fn resp2() {
    let server = Server::start().unwrap();
    let mut connection = open(&format!("{}/5?client_name=api-1&protocol=resp2", server.url())).await.unwrap();
    assert_eq!(connection.server, ServerInfo::new(Protocol::Resp2));
    assert_eq!(client_info(&mut connection, "name").await, "api-1");
    assert_eq!(client_info(&mut connection, "db").await, "5");
    assert_eq!(client_info(&mut connection, "resp").await, "2");
}

#[tokio::test]
async fn unix_socket() {
    let server = Server::start().unwrap();
    let mut connection = open(&format!("unix://{}?db=2", server.unix_path().display())).await.unwrap();
    assert!(matches!(connection.transport, Transport::Unix(_)));
    assert_eq!(client_info(&mut connection, "db").await, "2");
    let missing = Config::from_url("unix:///nowhere/redis.sock").unwrap();
    assert!(matches!(failure(&missing).await, ConnectErrorKind::Dial { tried: 1, .. }));
}

#[tokio::test]
async fn ipv6_loopback() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let server = Server::builder().config("bind 127.0.0.1 ::1").start().unwrap();
    let connection = open(&format!("redis://[::1]:{}", server.port())).await.unwrap();
    let Transport::Tcp(stream) = &connection.transport else { panic!("{connection:?}") };
    assert!(stream.peer_addr().unwrap().is_ipv6());
}

#[tokio::test]
async fn a_name_with_several_addresses_reaches_whichever_listens() {
    // The server listens on IPv4 only, and `localhost` may be ::1 first.
    let server = Server::builder().config("bind 127.0.0.1").start().unwrap();
    open(&format!("redis://localhost:{}", server.port())).await.unwrap();
}

#[tokio::test]
async fn a_name_without_addresses() {
    let config = Config::from_url("redis://nowhere.invalid").unwrap();
    assert!(matches!(failure(&config).await, ConnectErrorKind::Resolve(_)));
}

#[tokio::test]
async fn nobody_listens() {
    let server = Server::start().unwrap();
    let config = Config::from_url(&server.url()).unwrap();
    server.kill().unwrap();
    let error = open_with(&config).await.unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("{}: ", server.addr())) && error.to_string().contains("refused"),
        "{error}"
    );
    assert!(!error.is_permanent());
}

#[tokio::test]
async fn a_black_hole_is_left_at_the_connect_timeout() {
    let hole = BlackHole::new();
    let config = Config::from_url(&format!("redis://{}?connect_timeout=300ms", hole.address())).unwrap();
    let started = Instant::now();
    let ConnectErrorKind::Timeout { stage: ConnectStage::Dial, limit } = failure(&config).await else { panic!() };
    assert_eq!(limit, Duration::from_millis(300));
    assert!((300..1000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_paused_server_is_left_at_the_connect_timeout() {
    let server = Server::start().unwrap();
    let config = Config::from_url(&format!("{}?connect_timeout=300ms", server.url())).unwrap();
    server.stop().unwrap();
    let started = Instant::now();
    let kind = failure(&config).await;
    assert!(matches!(kind, ConnectErrorKind::Timeout { stage: ConnectStage::Handshake, .. }), "{kind:?}");
    assert!(started.elapsed().as_millis() < 1000, "{:?}", started.elapsed());
    server.cont().unwrap();
    open(&server.url()).await.unwrap();
}

#[tokio::test]
async fn passwords() {
    let server = Server::builder().requirepass("s3cret").user("alice on >s3cret ~* &* +@all").start().unwrap();
    let at = server.addr();
    for protocol in ["resp2", "resp3", "auto"] {
        let url = |login: &str| format!("redis://{login}{at}?protocol={protocol}");
        let mut connection = open(&url(":s3cret@")).await.unwrap();
        assert_eq!(client_info(&mut connection, "user").await, "default");
        let mut connection = open(&url("alice:s3cret@")).await.unwrap();
        assert_eq!(client_info(&mut connection, "user").await, "alice");

        let kind = failure(&Config::from_url(&url("")).unwrap()).await;
        assert!(matches!(kind, ConnectErrorKind::Auth(AuthError::Missing)), "{kind:?}");
        let error = open(&url("alice:wr0ng@")).await.unwrap_err();
        assert!(error.is_permanent());
        assert_eq!(
            error.to_string(),
            format!(
                "{at}: the server rejects the credentials of user \"alice\": \
                 WRONGPASS invalid username-password pair or user is disabled."
            )
        );
    }
}

#[tokio::test]
async fn users_with_few_rights() {
    let server = Server::builder()
        .user("nothing on >s3cret ~* &* -@all +get")
        .user("bare on >s3cret ~* &* +@all -hello -client -info -cluster -ping")
        .start()
        .unwrap();
    for user in ["nothing", "bare"] {
        let url = format!("redis://{user}:s3cret@{}?client_name=api", server.addr());
        let mut connection = open(&url).await.unwrap();
        assert_eq!(connection.server.protocol, Protocol::Resp3, "HELLO and AUTH need no right");
        assert_eq!(ask(&mut connection, &["GET", "a"]).await, Value::Null);
        // SELECT was asked for, and is refused to the one.
        let selected = open(&format!("redis://{user}:s3cret@{}/1", server.addr())).await;
        assert_eq!(selected.is_ok(), user == "bare", "{selected:?}");
    }
}

#[tokio::test]
async fn renamed_hello_means_resp2() {
    let server = Server::builder().config("rename-command HELLO \"\"").requirepass("s3cret").start().unwrap();
    let connection = open(&format!("{}/1", server.url())).await.unwrap();
    assert_eq!(connection.server.protocol, Protocol::Resp2);
    let kind = failure(&Config::from_url(&format!("{}?protocol=resp3", server.url())).unwrap()).await;
    assert!(matches!(kind, ConnectErrorKind::Refused { command: "HELLO", .. }), "{kind:?}");
}

#[tokio::test]
async fn refusals() {
    let server = Server::builder().config("databases 4").config("maxclients 2").start().unwrap();
    let at = server.addr();
    let error = open(&format!("redis://{at}/4")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{at}: SELECT is refused: ERR DB index is out of range"));
    assert!(error.is_permanent());

    // The testkit may hold one of the two.
    let mut held = Vec::new();
    let error = loop {
        match open(&format!("redis://{at}")).await {
            Ok(connection) => held.push(connection),
            Err(error) => break error,
        }
    };
    assert!(held.len() <= 2);
    assert_eq!(error.to_string(), format!("{at}: the connection is refused: ERR max number of clients reached"));
    assert!(!error.is_permanent());
}

#[tokio::test]
async fn the_callers_commands_end_the_handshake() {
    let server = Server::start().unwrap();
    let config = Config::from_url(&server.url()).unwrap();
    let tracking = Command::raw("CLIENT TRACKING").arg("ON").arg("BCAST");
    let with = |extra: Vec<Command<'static>>| {
        let config = &config;
        async move { connect_with(config, &config.servers[0], Purpose::Management, &extra).await }
    };
    let mut connection = with(vec![tracking.clone()]).await.unwrap();
    assert!(client_info(&mut connection, "flags").await.contains('B'));
    let error = with(vec![tracking, Command::raw("NO.SUCH.COMMAND")]).await.unwrap_err();
    assert!(matches!(error.kind(), ConnectErrorKind::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn replicas_of_a_cluster_are_asked_to_read() {
    let server = Server::builder().config("cluster-enabled yes").start().unwrap();
    let cluster = Config::from_url(&format!("redis+cluster://{}", server.addr())).unwrap();
    let replica = |config: Config| async move { connect(&config, &config.servers[0], Purpose::Replica).await };
    let mut connection = replica(cluster).await.unwrap();
    assert_eq!(connection.server.mode, Some(ServerMode::Cluster));
    assert!(client_info(&mut connection, "flags").await.contains('r'));

    let server = Server::start().unwrap();
    // A standalone server has no READONLY, and needs none.
    replica(Config::from_url(&server.url()).unwrap()).await.unwrap();
    let error = replica(Config::from_url(&format!("redis+cluster://{}", server.addr())).unwrap()).await.unwrap_err();
    assert!(matches!(error.kind(), ConnectErrorKind::Refused { command: "READONLY", .. }), "{error:?}");
}

#[tokio::test]
async fn announced_addresses_are_mapped() {
    let server = Server::start().unwrap();
    let announced = NodeAddress::tcp("10.255.255.1", 7000);
    let dialled: NodeAddress = server.addr().to_string().parse().unwrap();
    let table = [(announced.clone(), dialled.clone())].into_iter().collect();
    let function = {
        let (announced, dialled) = (announced.clone(), dialled.clone());
        move |address: &NodeAddress| (*address == announced).then(|| dialled.clone())
    };
    for map in [AddressMap::Table(Arc::new(table)), AddressMap::Function(Arc::new(function))] {
        let config = Config { address_map: map, ..Config::default() };
        connect(&config, &announced, Purpose::Data).await.unwrap();
        connect(&config, &dialled, Purpose::Data).await.unwrap();
    }
}

#[tokio::test]
async fn sentinels_have_credentials_of_their_own() {
    let server = Server::builder().user("guard on >s3cret ~* &* +@all").requirepass("other").start().unwrap();
    let mut sentinel = SentinelConfig::new("main");
    sentinel.credentials = Some(Arc::new(Credentials::new("guard", "s3cret")));
    let config = Config { topology: Topology::Sentinel(sentinel), ..Config::from_url(&server.url()).unwrap() };
    let mut connection = connect(&config, &config.servers[0], Purpose::Sentinel).await.unwrap();
    assert_eq!(client_info(&mut connection, "user").await, "guard");
    let mut connection = connect(&config, &config.servers[0], Purpose::Data).await.unwrap();
    assert_eq!(client_info(&mut connection, "user").await, "default");
}

#[tokio::test]
async fn providers_are_asked_within_the_connect_timeout() {
    let server = Server::builder().user("alice on >s3cret ~* &* +@all").start().unwrap();
    let config = Config::from_url(&server.url()).unwrap();
    let lease = || Lease { credentials: Credentials::new("alice", "s3cret"), valid_for: Duration::from_secs(60) };
    let provided = config.clone().with_credentials(RefreshingCredentials::new(move || async move { Ok(lease()) }));
    let mut connection = open_with(&provided).await.unwrap();
    assert_eq!(client_info(&mut connection, "user").await, "alice");

    let failing =
        config.clone().with_credentials(RefreshingCredentials::new(|| async { Err(CredentialError::new("no token")) }));
    assert_eq!(failure(&failing).await.to_string(), "no credentials: no token");
    let config = Config { connect_timeout: Duration::from_millis(200), ..config };
    let hanging = config.with_credentials(RefreshingCredentials::new(std::future::pending));
    let kind = failure(&hanging).await;
    assert!(matches!(kind, ConnectErrorKind::Timeout { stage: ConnectStage::Credentials, .. }), "{kind:?}");
}
