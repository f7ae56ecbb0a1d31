use std::sync::Arc;

use pilotlight_resp::Protocol;
use pilotlight_testkit::{Certificates, ClientAuth, Server};

use super::*;
use crate::config::{AddressMap, Pem, TlsIdentity, TlsRoots, TlsServerName};

fn config(server: &Server) -> Config {
    let roots = TlsRoots::Only(Pem::File(server.certificates().unwrap().ca_path()));
    Config::from_url(&server.url()).unwrap().with_tls(TlsConfig { roots, ..TlsConfig::default() })
}

/// The same with another setting of TLS.
fn with(config: &Config, change: impl FnOnce(&mut TlsConfig)) -> Config {
    let mut config = config.clone();
    change(config.tls.as_mut().unwrap());
    config
}

#[track_caller]
fn is_certificate_error(kind: &ConnectErrorKind) {
    let ConnectErrorKind::Tls(error) = kind else { panic!("{kind:?}") };
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn both_versions() {
    for version in ["TLSv1.2", "TLSv1.3"] {
        let server =
            Server::builder().tls(ClientAuth::None).config(format!("tls-protocols {version}")).start().unwrap();
        let mut connection = open_with(&config(&server)).await.unwrap();
        let Transport::Tls(stream) = &connection.transport else { panic!("{connection:?}") };
        let spoken = format!("{:?}", stream.get_ref().1.protocol_version().unwrap());
        assert_eq!(spoken.replace('_', "."), version);
        assert_eq!(connection.server.protocol, Protocol::Resp3);
        // More than the sixteen KiB of a record, both ways.
        let value = "x".repeat(1 << 20);
        assert_eq!(ask(&mut connection, &["ECHO", &value]).await, Value::Bulk(value.into()));
    }
}

#[tokio::test]
async fn by_url() {
    let server = Server::builder().tls(ClientAuth::Required).start().unwrap();
    let certificates = server.certificates().unwrap();
    let files = [certificates.ca_path(), certificates.client_path(), certificates.client_key_path()];
    let [ca, certificate, key] = files.each_ref().map(|path| path.display());
    open(&format!("{}?tls_ca={ca}&tls_cert={certificate}&tls_key={key}", server.url())).await.unwrap();
    open(&format!("{}?insecure=true&tls_cert={certificate}&tls_key={key}", server.url())).await.unwrap();
}

#[tokio::test]
async fn client_certificates() {
    let server = Server::builder().tls(ClientAuth::Required).start().unwrap();
    let certificates = server.certificates().unwrap();
    let identity = |of: &Certificates| TlsIdentity {
        certificates: of.client_pem().as_bytes().to_vec().into(),
        key: of.client_key_pem().as_bytes().to_vec().into(),
    };
    open_with(&with(&config(&server), |tls| tls.identity = Some(identity(certificates)))).await.unwrap();

    let kind = failure(&config(&server)).await;
    assert!(matches!(kind, ConnectErrorKind::Io(_) | ConnectErrorKind::Tls(_)), "{kind:?}");
    let stranger = Certificates::generate().unwrap();
    let kind = failure(&with(&config(&server), |tls| tls.identity = Some(identity(&stranger)))).await;
    assert!(matches!(kind, ConnectErrorKind::Io(_) | ConnectErrorKind::Tls(_)), "{kind:?}");
}

#[tokio::test]
async fn authorities_that_did_not_sign() {
    let server = Server::builder().tls(ClientAuth::None).start().unwrap();
    let stranger = Certificates::generate().unwrap();
    let roots = TlsRoots::Only(stranger.ca_pem().as_bytes().to_vec().into());
    let distrusting = with(&config(&server), |tls| tls.roots = roots);
    is_certificate_error(&failure(&distrusting).await);
    open_with(&with(&distrusting, |tls| tls.danger_accept_invalid_certs = true)).await.unwrap();
}

#[tokio::test]
async fn names_of_certificates() {
    let certificates = Arc::new(Certificates::generate_for(&["redis.internal"]).unwrap());
    let server = Server::builder().tls_with(certificates, ClientAuth::None).start().unwrap();
    let named = |server_name| with(&config(&server), |tls| tls.server_name = server_name);
    let address = config(&server).servers[0].clone();
    let right: Arc<str> = "redis.internal".into();

    is_certificate_error(&failure(&named(TlsServerName::NodeHost)).await);
    open_with(&named(TlsServerName::Fixed(Arc::clone(&right)))).await.unwrap();
    is_certificate_error(&failure(&named(TlsServerName::Fixed("redis.external".into()))).await);
    let table = [(address.clone(), Arc::clone(&right))].into_iter().collect();
    open_with(&named(TlsServerName::Map(Arc::new(table)))).await.unwrap();
    is_certificate_error(&failure(&named(TlsServerName::Map(Arc::default()))).await);
    let name = Arc::clone(&right);
    open_with(&named(TlsServerName::Function(Arc::new(move |_| Some(Arc::clone(&name)))))).await.unwrap();
    is_certificate_error(&failure(&named(TlsServerName::Function(Arc::new(|_| None)))).await);

    // A cluster that announces addresses, and one certificate for the name of the seed.
    let seed = NodeAddress::tcp("redis.internal", 6379);
    let cluster = Config { servers: vec![seed], ..named(TlsServerName::SeedHost) };
    connect(&cluster, &address, Purpose::Data).await.unwrap();

    // The table is asked for the announced address, not for the one that is dialled.
    let announced = NodeAddress::tcp("10.255.255.1", 7000);
    let names = [(announced.clone(), right)].into_iter().collect();
    let map = [(announced.clone(), address)].into_iter().collect();
    let mapped = Config { address_map: AddressMap::Table(Arc::new(map)), ..named(TlsServerName::Map(Arc::new(names))) };
    connect(&mapped, &announced, Purpose::Data).await.unwrap();
}

#[tokio::test]
async fn over_a_unix_socket_a_name_is_needed() {
    let server = Server::builder().tls(ClientAuth::None).start().unwrap();
    let config = Config { servers: vec![NodeAddress::unix(server.unix_path())], ..config(&server) };
    let kind = failure(&config).await;
    assert_eq!(
        kind.to_string(),
        "cannot use the TLS configuration: a Unix socket has no host name: configure the server's name"
    );
}

#[tokio::test]
async fn unusable_files() {
    let server = Server::builder().tls(ClientAuth::None).start().unwrap();
    let ca = Pem::File(server.certificates().unwrap().ca_path());
    let reason = async |change: &dyn Fn(&mut TlsConfig)| failure(&with(&config(&server), change)).await.to_string();
    let identity = |certificates: Pem, key: Pem| Some(TlsIdentity { certificates, key });

    let text = reason(&|tls| tls.roots = TlsRoots::Only(Pem::File("/nowhere/ca.pem".into()))).await;
    assert!(text.starts_with("cannot use the TLS configuration: /nowhere/ca.pem: No such file"), "{text}");
    let text = reason(&|tls| tls.roots = TlsRoots::Only(Pem::from(b"s3cret".to_vec()))).await;
    assert_eq!(text, "cannot use the TLS configuration: the configured text holds no certificate in PEM");
    let text = reason(&|tls| tls.identity = identity(ca.clone(), Pem::from(b"s3cret".to_vec()))).await;
    assert_eq!(text, "cannot use the TLS configuration: the configured text holds no private key in PEM");
    let text = reason(&|tls| tls.server_name = TlsServerName::Fixed("not a name".into())).await;
    assert_eq!(text, "cannot use the TLS configuration: \"not a name\" is no name that a certificate can have");
}

#[tokio::test]
async fn tls_on_one_side_only() {
    let server = Server::builder().tls(ClientAuth::None).start().unwrap();
    let kind = failure(&Config::from_url(&format!("redis://{}", server.addr())).unwrap()).await;
    assert!(matches!(kind, ConnectErrorKind::NotRedis(_) | ConnectErrorKind::Closed { silent: true }), "{kind:?}");
    // Redis waits for the end of what it takes for a command.
    let plain = Server::start().unwrap();
    let servers = vec![plain.addr().to_string().parse().unwrap()];
    let hasty = Config { servers, connect_timeout: Duration::from_millis(300), ..config(&server) };
    let kind = failure(&hasty).await;
    assert!(matches!(kind, ConnectErrorKind::Timeout { stage: ConnectStage::Tls, .. }), "{kind:?}");
}
