//! HTTP services: sockets that exist before the service does.

use crate::harness::{Bed, PORT, TCP, UNIX, run, sh};
use pilotlight_supervisor::{Address, Endpoint, Instance, OtherPort, Phase, ServiceSpec};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// Serves descriptor 3, blocking, and says what it was started with.
const SERVER: &str = r#"
import os, socket
server = socket.socket(fileno=3)
assert os.get_blocking(3)
same = os.environ["LISTEN_PID"] == str(os.getpid())
text = f"{os.environ['LISTEN_FDS']} {os.environ['LISTEN_FDNAMES']} {same} {'PILOTLIGHT_STEP' in os.environ} {os.read(0, 1)} {os.getpgid(0) == os.getpid()}"
while True:
    connection, _ = server.accept()
    connection.recv(1000)
    connection.sendall(text.encode())
    connection.close()
"#;

/// Binds `PORT` only after a while.
const PORT_SERVER: &str = r#"
import os, socket, time
time.sleep(0.1)
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
while True:
    connection, _ = server.accept()
    if connection.recv(1000):
        connection.sendall(b"port")
    connection.close()
"#;

fn python(program: &str, transport: pilotlight_supervisor::Transport) -> ServiceSpec {
    ServiceSpec::new("h", crate::harness::args(&["/usr/bin/python3", "-I", "-S", "-c", program]), transport)
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

async fn connect(instance: &Instance) -> Box<dyn Stream> {
    match instance.endpoint() {
        Endpoint::Http(Address::Unix(path)) => Box::new(UnixStream::connect(path).await.unwrap()),
        Endpoint::Http(Address::Tcp(address)) => Box::new(TcpStream::connect(address).await.unwrap()),
        Endpoint::Pipe | Endpoint::RuntimeApi(_) => panic!("not an HTTP instance"),
    }
}

async fn ask(instance: &Instance) -> String {
    let mut stream = connect(instance).await;
    stream.write_all(b"?").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    instance.mark_answered();
    answer
}

#[test]
fn the_socket_is_descriptor_3_and_the_first_request_waits_in_it() {
    for transport in [UNIX, TCP] {
        run(async {
            let bed = Bed::new(1, vec![python(SERVER, transport)]);
            let service = bed.service(0);
            let lease = service.ready(0).await.unwrap();
            assert_eq!(ask(lease.instance()).await, "1 http True False b'' True");
            assert_eq!(ask(lease.instance()).await, "1 http True False b'' True");
            drop(lease);
            bed.supervisor.stop(service.id());
            let next = loop {
                let lease = service.ready(0).await.unwrap();
                if lease.instance().number() == 2 {
                    break lease;
                }
                drop(lease);
                tokio::task::yield_now().await;
            };
            assert_eq!(ask(next.instance()).await, "1 http True False b'' True");
        });
    }
}

#[test]
fn a_service_that_only_knows_port_is_ready_when_it_listens() {
    run(async {
        let bed = Bed::new(1, vec![python(PORT_SERVER, PORT)]);
        let lease = bed.service(0).ready(0).await.unwrap();
        assert_eq!(ask(lease.instance()).await, "port");
    });
}

/// Binds an address of its own choice.
fn elsewhere(address: &str) -> String {
    let server = PORT_SERVER.replace(r#"("127.0.0.1", int(os.environ["PORT"]))"#, address);
    server
        .replace(
            "create_server(",
            "create_server(family=socket.AF_INET6 if ':' in FAMILY else socket.AF_INET, address=",
        )
        .replace("FAMILY", &format!("{address:?}"))
}

#[test]
fn a_service_that_listens_on_the_other_loopback_address_is_found() {
    run(async {
        let program = elsewhere(r#"("::1", int(os.environ["PORT"]))"#);
        let bed = Bed::new(1, vec![python(&program, PORT)]);
        let lease = bed.service(0).ready(0).await.unwrap();
        assert_eq!(ask(lease.instance()).await, "port");
    });
}

#[test]
fn a_service_that_listens_on_another_port_is_told_so() {
    run(async {
        let mut spec = python(&elsewhere(r#"("127.0.0.1", 0)"#), PORT);
        spec.start_timeout = Duration::from_millis(2500);
        let error = Bed::new(1, vec![spec]).service(0).ready(0).await.unwrap_err().to_string();
        assert!(error.contains("it listens on 127.0.0.1:"), "{error}");
    });
}

#[test]
fn a_service_that_listens_on_another_port_is_spoken_to_there_if_that_is_wished() {
    run(async {
        let mut spec = python(&elsewhere(r#"("0.0.0.0", 0)"#), PORT);
        spec.other_port = OtherPort::Taken;
        let bed = Bed::new(1, vec![spec]);
        let lease = bed.service(0).ready(0).await.unwrap();
        assert_eq!(ask(lease.instance()).await, "port");
    });
}

#[test]
fn a_port_that_nobody_binds_fails_the_start() {
    run(async {
        let mut spec = sh("h", "exec sleep 1000", PORT);
        spec.start_timeout = Duration::from_millis(200);
        let error = Bed::new(1, vec![spec]).service(0).ready(0).await.unwrap_err();
        assert_eq!(error.phase, Phase::Connect);
        assert!(error.to_string().contains("nothing listens on the port in its variable PORT"), "{error}");
    });
}

#[test]
fn a_service_that_never_accepts_is_found_out() {
    run(async {
        let mut spec = sh("h", "exec sleep 1000", UNIX);
        spec.start_timeout = Duration::from_millis(300);
        spec.max_failures = 1;
        let bed = Bed::new(1, vec![spec]);
        let lease = bed.service(0).ready(0).await.unwrap();
        let _waiting = connect(lease.instance()).await;
        let error = lease.instance().ended().await.start_error.unwrap();
        assert_eq!(error.phase, Phase::Connect);
        assert!(
            error.to_string().contains("never accepted a connection on the socket it was given as descriptor 3"),
            "{error}"
        );
        assert_eq!(bed.service(0).ready(0).await.unwrap_err().phase, Phase::Backoff);
    });
}

#[test]
fn a_service_that_nobody_asked_anything_is_not_found_guilty() {
    run(async {
        let mut spec = sh("h", "exec sleep 1000", UNIX);
        spec.start_timeout = Duration::from_millis(800);
        spec.idle_timeout = None;
        let bed = Bed::new(1, vec![spec]);
        let lease = bed.service(0).ready(0).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_millis(1200), lease.instance().ended()).await;
        assert!(ended.is_err(), "it ended: {ended:?}");
    });
}
