//! The fault proxy in front of a real server.

use pilotlight_testkit::{Accepting, DirectionFaults, Ending, FaultProxy, Faults, Server};
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(5);
/// Long enough for an answer that should not come.
const SILENCE: Duration = Duration::from_millis(50);

struct Bed {
    proxy: FaultProxy,
    server: Server,
}

impl Bed {
    async fn start() -> Self {
        let server = Server::start().unwrap();
        let proxy = FaultProxy::to(server.addr()).await.unwrap();
        Self { proxy, server }
    }

    async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.proxy.addr()).await.unwrap()
    }

    async fn dial_and_ping(&self) -> TcpStream {
        let mut stream = self.dial().await;
        ping(&mut stream).await.unwrap();
        stream
    }
}

async fn ping(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"PING\r\n").await?;
    let mut reply = [0; 7];
    timeout(LIMIT, stream.read_exact(&mut reply)).await.unwrap()?;
    assert_eq!(&reply, b"+PONG\r\n");
    Ok(())
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    stream.write_all(b"PING\r\n").await.unwrap();
    timeout(SILENCE, stream.read_u8()).await.is_err()
}

async fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, io::Result<()>) {
    let mut read = Vec::new();
    loop {
        match timeout(LIMIT, stream.read_buf(&mut read)).await.unwrap() {
            Ok(0) => return (read, Ok(())),
            Ok(_) => {}
            Err(error) => return (read, Err(error)),
        }
    }
}

#[tokio::test]
async fn forwards_and_counts() {
    let bed = Bed::start().await;
    let stream = bed.dial_and_ping().await;
    let stats = bed.proxy.stats();
    assert_eq!((stats.accepted, stats.open, stats.cut), (1, 1, 0));
    assert_eq!((stats.bytes_to_server, stats.bytes_to_client), (6, 7));
    let connection = &bed.proxy.connections()[0];
    assert_eq!(connection.client_addr(), stream.local_addr().unwrap());
    drop(stream);
    timeout(LIMIT, connection.ended()).await.unwrap();
    assert_eq!(bed.proxy.stats().open, 0);
}

#[tokio::test]
async fn large_replies_pass_whole() {
    let bed = Bed::start().await;
    let mut stream = bed.dial_and_ping().await;
    let value = vec![b'x'; 3 << 20];
    stream.write_all(format!("*2\r\n$4\r\nECHO\r\n${}\r\n", value.len()).as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut reply = vec![0; 10 + value.len() + 2];
    let write = async {
        writer.write_all(&value).await.unwrap();
        writer.write_all(b"\r\n").await.unwrap();
    };
    let (_, read) = tokio::join!(write, timeout(LIMIT, reader.read_exact(&mut reply)));
    read.unwrap().unwrap();
    assert!(reply[10..].starts_with(&value));
}

#[tokio::test]
async fn delays_each_direction_without_holding_up_what_follows() {
    let bed = Bed::start().await;
    let mut stream = bed.dial_and_ping().await;
    let delay = Duration::from_millis(60);
    bed.proxy.set(|faults| (faults.to_server.delay, faults.to_client.delay) = (delay, delay));
    let begin = Instant::now();
    ping(&mut stream).await.unwrap();
    assert!(begin.elapsed() >= 2 * delay);

    let begin = Instant::now();
    for _ in 0..10 {
        stream.write_all(b"PING\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut replies = [0; 70];
    timeout(LIMIT, stream.read_exact(&mut replies)).await.unwrap().unwrap();
    assert!(begin.elapsed() < 10 * delay, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn drips_byte_by_byte() {
    let bed = Bed::start().await;
    let mut stream = bed.dial_and_ping().await;
    bed.proxy.connections()[0].set(|faults| faults.to_client.drip = Some(Duration::from_millis(10)));
    stream.write_all(b"PING\r\n").await.unwrap();
    let mut reads = 0;
    let mut reply = Vec::new();
    while reply.len() < 7 {
        timeout(LIMIT, stream.read_buf(&mut reply)).await.unwrap().unwrap();
        reads += 1;
    }
    assert_eq!(reply, b"+PONG\r\n");
    assert!(reads > 3, "{reads} reads");
}

#[tokio::test]
async fn cuts_in_the_middle_of_a_reply() {
    let bed = Bed::start().await;
    for ending in [Ending::Close, Ending::Reset] {
        let mut stream = bed.dial_and_ping().await;
        bed.proxy.connections().last().unwrap().set(|faults| faults.to_client.cut_after = Some((10, ending)));
        stream.write_all(b"PING\r\nPING\r\n").await.unwrap();
        let (read, end) = read_to_end(&mut stream).await;
        assert_eq!(read, b"+PONG\r\n+PO");
        assert_eq!(end.is_err(), ending == Ending::Reset);
    }
    assert_eq!(bed.proxy.stats().cut, 2);
}

#[tokio::test]
async fn cuts_in_the_middle_of_a_command() {
    let bed = Bed::start().await;
    let mut stream = bed.dial_and_ping().await;
    bed.proxy.set(|faults| faults.to_server.cut_after = Some((9, Ending::Close)));
    stream.write_all(b"INCR n\r\nINCR n\r\n").await.unwrap();
    let _ = read_to_end(&mut stream).await;
    assert_eq!(bed.server.command(&["GET", "n"]).unwrap().text(), "1");
    // Connections to come are cut after as many bytes.
    let mut next = bed.dial().await;
    next.write_all(b"INCR n\r\nINCR n\r\n").await.unwrap();
    let _ = read_to_end(&mut next).await;
    timeout(LIMIT, bed.proxy.connections()[1].ended()).await.unwrap();
    // The server may answer us before it reads from a connection that it has just accepted.
    let number = || bed.server.command(&["GET", "n"]).unwrap().text().into_owned();
    let begin = Instant::now();
    while number() == "1" && begin.elapsed() < LIMIT {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(number(), "2");
}

#[tokio::test]
async fn pauses_and_goes_on() {
    let bed = Bed::start().await;
    let mut stream = bed.dial_and_ping().await;
    bed.proxy.set(|faults| faults.to_client.is_paused = true);
    assert!(is_silent(&mut stream).await);
    bed.proxy.set(|faults| *faults = Faults::default());
    let mut reply = [0; 7];
    timeout(LIMIT, stream.read_exact(&mut reply)).await.unwrap().unwrap();

    let hold = DirectionFaults { is_paused: true, ..DirectionFaults::default() };
    bed.proxy.set(|faults| faults.to_server = hold.clone());
    let commands = || bed.server.info("total_commands_processed").unwrap().parse::<u64>().unwrap();
    let before = commands();
    assert!(is_silent(&mut stream).await);
    assert_eq!(commands(), before + 1, "only our own question");
}

#[tokio::test]
async fn ends_all_connections_and_propagates_ends() {
    let bed = Bed::start().await;
    let (mut first, mut second) = (bed.dial_and_ping().await, bed.dial_and_ping().await);
    bed.proxy.connections()[0].end(Ending::Close);
    assert!(read_to_end(&mut first).await.1.is_ok());
    ping(&mut second).await.unwrap();
    bed.proxy.end_all(Ending::Reset);
    assert!(read_to_end(&mut second).await.1.is_err());

    let mut third = bed.dial_and_ping().await;
    bed.server.kill().unwrap();
    assert_eq!(read_to_end(&mut third).await.0, b"");
    assert_eq!(read_to_end(&mut bed.dial().await).await.0, b"");
    assert_eq!(bed.proxy.stats().unreachable, 1);
}

#[tokio::test]
async fn swallows_and_refuses_new_connections_only() {
    let bed = Bed::start().await;
    let mut old = bed.dial_and_ping().await;
    bed.proxy.set_accepting(Accepting::Swallow).await.unwrap();
    let mut swallowed = bed.dial().await;
    assert!(is_silent(&mut swallowed).await);

    bed.proxy.set_accepting(Accepting::Refuse).await.unwrap();
    let refused = TcpStream::connect(bed.proxy.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    ping(&mut old).await.unwrap();

    bed.proxy.set_accepting(Accepting::Forward).await.unwrap();
    bed.dial_and_ping().await;
    assert!(is_silent(&mut swallowed).await);
    bed.proxy.connections()[1].end(Ending::Close);
    assert_eq!(read_to_end(&mut swallowed).await.0, b"");
}
