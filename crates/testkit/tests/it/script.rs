//! Scripted servers, as a client by hand sees them.

use pilotlight_testkit::{Answer, Handshake, Script, ScriptError, ScriptedServer, Signal};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(5);

async fn dial(server: &ScriptedServer) -> TcpStream {
    TcpStream::connect(server.addr().unwrap()).await.unwrap()
}

/// Sends, and reads exactly as many bytes as are expected.
async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), sent: &str, expected: &str) {
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut reply = vec![0; expected.len()];
    timeout(LIMIT, stream.read_exact(&mut reply)).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(reply).unwrap(), expected, "after {sent:?}");
}

async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut rest = String::new();
    timeout(LIMIT, stream.read_to_string(&mut rest)).await.unwrap()?;
    Ok(rest)
}

fn get_and_end() -> Script {
    Script::new().expect(["GET", "k"]).send_each_byte("$1\r\nv\r\n").expect_any().send("$5\r\nhe").close()
}

async fn play_get_and_end(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    exchange(stream, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "%7\r\n$6\r\nserver\r\n").await;
    let mut rest_of_hello = Vec::new();
    while !rest_of_hello.ends_with(b"modules\r\n*0\r\n") {
        rest_of_hello.push(timeout(LIMIT, stream.read_u8()).await.unwrap().unwrap());
    }
    for part in ["*2\r\n$3\r", "\nget\r\n$1\r\n"] {
        stream.write_all(part.as_bytes()).await.unwrap();
    }
    exchange(stream, "k\r\n", "$1\r\nv\r\n").await;
    exchange(stream, "*1\r\n$3\r\nFOO\r\n", "$5\r\nhe").await;
    assert_eq!(read_to_end(stream).await.unwrap(), "");
}

#[tokio::test]
async fn a_script_on_tcp() {
    let server = ScriptedServer::play(get_and_end()).await.unwrap();
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    play_get_and_end(&mut dial(&server).await).await;
    server.finish().await.unwrap();
    let names: Vec<_> = server.commands().into_iter().map(|command| command.words[0].clone()).collect();
    assert_eq!(names, ["HELLO", "get", "FOO"]);
}

#[tokio::test]
async fn a_script_on_a_unix_socket() {
    let server = ScriptedServer::builder().unix().play(get_and_end()).await.unwrap();
    let mut stream = UnixStream::connect(server.unix_path().unwrap()).await.unwrap();
    play_get_and_end(&mut stream).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_script_in_memory() {
    let server = ScriptedServer::builder().memory().play(get_and_end()).await.unwrap();
    play_get_and_end(&mut server.dial().unwrap()).await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn chunks_in_memory_arrive_one_by_one() {
    let script = Script::new().send_chunked("abcdefgh", 3).close();
    let server = ScriptedServer::builder().memory().play(script).await.unwrap();
    let mut stream = server.dial().unwrap();
    let mut chunks = Vec::new();
    let mut chunk = [0; 16];
    while let length @ 1.. = stream.read(&mut chunk).await.unwrap() {
        chunks.push(String::from_utf8_lossy(&chunk[..length]).into_owned());
    }
    assert_eq!(chunks, ["abc", "def", "gh"]);
}

#[tokio::test]
async fn another_command_fails_the_script() {
    let server = ScriptedServer::play(Script::new().expect(["GET", "k"]).send("+OK\r\n")).await.unwrap();
    let mut stream = dial(&server).await;
    stream.write_all(b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n").await.unwrap();
    assert_eq!(read_to_end(&mut stream).await.unwrap(), "");
    let error = server.finish().await.unwrap_err();
    assert!(matches!(error, ScriptError::Unexpected { connection: 0, step: 0, .. }), "{error}");
}

#[tokio::test]
async fn a_command_that_does_not_come_fails_the_script() {
    let patience = Duration::from_millis(50);
    let server = ScriptedServer::builder().patience(patience).play(Script::new().expect_any()).await.unwrap();
    let stream = dial(&server).await;
    assert!(matches!(server.finish().await, Err(ScriptError::Unexpected { .. })));
    drop(stream);
    let unused = ScriptedServer::builder().patience(patience).play(Script::new().expect_any()).await.unwrap();
    assert!(matches!(unused.finish().await, Err(ScriptError::Unfinished { played: 0, scripted: 1, .. })));
}

#[tokio::test]
async fn an_end_inside_of_a_command_is_told() {
    let server = ScriptedServer::play(Script::new().expect_any()).await.unwrap();
    let mut stream = dial(&server).await;
    stream.write_all(b"*2\r\n$3\r\nGET").await.unwrap();
    drop(stream);
    let error = server.finish().await.unwrap_err();
    assert!(error.to_string().contains("inside of a command"), "{error}");
}

#[tokio::test]
async fn an_expected_handshake_is_the_scripts_to_answer() {
    let script = Script::new().expect_name("HELLO").send("-NOAUTH no\r\n").expect(["GET", "k"]).send("$-1\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let mut stream = dial(&server).await;
    exchange(&mut stream, "HELLO 3\r\n", "-NOAUTH no\r\n").await;
    exchange(&mut stream, "AUTH p\r\nSELECT 1\r\nGET k\r\n", "+OK\r\n+OK\r\n$-1\r\n").await;
    server.finish().await.unwrap();
    // After the last step, handshakes are answered and other commands recorded.
    exchange(&mut stream, "GET k\r\nPING\r\n", "+PONG\r\n").await;
    assert_eq!(server.commands().len(), 6);
}

#[tokio::test]
async fn handshakes_by_hand_and_of_old_servers() {
    let manual = ScriptedServer::builder().handshake(Handshake::manual());
    let server = manual.play(Script::new().expect_any().send("+MINE\r\n")).await.unwrap();
    exchange(&mut dial(&server).await, "PING\r\n", "+MINE\r\n").await;

    let old = ScriptedServer::builder().handshake(Handshake::resp2_only());
    let server = old.play(Script::new()).await.unwrap();
    let mut stream = dial(&server).await;
    exchange(&mut stream, "HELLO 3\r\n", "-ERR unknown command 'HELLO'\r\n").await;
    server.set_handshake(Handshake::default().with_cluster_slots("*0\r\n"));
    exchange(&mut stream, "CLUSTER SLOTS\r\n", "*0\r\n").await;
}

#[tokio::test]
async fn signals_order_a_script_and_its_test() {
    let (arrived, proceed, served) = (Signal::new(), Signal::new(), Signal::new());
    let script = Script::new()
        .expect_any()
        .raise(&arrived)
        .pause_until(&proceed)
        .send("+A\r\n")
        .serve_until(&served)
        .expect_name("SECOND")
        .send("+B\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let mut stream = dial(&server).await;
    stream.write_all(b"FIRST\r\nSECOND\r\nPING\r\n").await.unwrap();
    timeout(LIMIT, arrived.wait()).await.unwrap();
    assert!(timeout(Duration::from_millis(30), stream.read_u8()).await.is_err(), "it is paused");
    proceed.raise();
    exchange(&mut stream, "", "+A\r\n+PONG\r\n").await;
    served.raise();
    exchange(&mut stream, "", "+B\r\n").await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn connections_play_in_turn_and_at_the_same_time() {
    let first_is_there = Signal::new();
    let script = Script::new()
        .expect_name("A")
        .raise(&first_is_there)
        .send("+1\r\n")
        .next_connection()
        .pause_until(&first_is_there)
        .send("+2\r\n")
        .close()
        .repeat_last();
    let server = ScriptedServer::play(script).await.unwrap();
    let (mut first, mut second) = (dial(&server).await, dial(&server).await);
    assert!(server.wait_for_connections(2).await);
    exchange(&mut first, "A\r\n", "+1\r\n").await;
    assert!(server.wait_for_commands(1).await);
    assert_eq!(read_to_end(&mut second).await.unwrap(), "+2\r\n");
    server.finish().await.unwrap();
    assert_eq!(read_to_end(&mut dial(&server).await).await.unwrap(), "+2\r\n");
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn connections_beyond_the_script_are_closed() {
    let server = ScriptedServer::play(Script::new()).await.unwrap();
    let _first = dial(&server).await;
    assert_eq!(read_to_end(&mut dial(&server).await).await.unwrap(), "");
}

#[tokio::test]
async fn reset_half_close_and_close_differ() {
    let script = Script::new()
        .expect_any()
        .reset()
        .next_connection()
        .half_close()
        .expect_name("STILL")
        .next_connection()
        .expect_any()
        .send("+OK\r\n")
        .close();
    let server = ScriptedServer::play(script).await.unwrap();
    let mut reset = dial(&server).await;
    reset.write_all(b"X\r\n").await.unwrap();
    assert_eq!(read_to_end(&mut reset).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

    let mut half = dial(&server).await;
    assert_eq!(read_to_end(&mut half).await.unwrap(), "");
    half.write_all(b"STILL\r\n").await.unwrap();

    let mut closed = dial(&server).await;
    closed.write_all(b"X\r\nUNREAD\r\n").await.unwrap();
    assert_eq!(read_to_end(&mut closed).await.unwrap(), "+OK\r\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_closure_answers() {
    let server = ScriptedServer::respond(|words| match words[0].as_ref() {
        b"ECHO" => Answer::from(format!("+{}\r\n", String::from_utf8_lossy(&words[1]))),
        b"SILENT" => Answer::Send(Vec::new()),
        b"BYE" => Answer::SendAndClose(b"+BYE\r\n".to_vec()),
        _ => Answer::Reset,
    })
    .await
    .unwrap();
    let mut stream = dial(&server).await;
    exchange(&mut stream, "PING\r\nECHO a\r\nSILENT\r\nECHO b\r\n", "+PONG\r\n+a\r\n+b\r\n").await;
    exchange(&mut stream, "BYE\r\n", "+BYE\r\n").await;
    assert_eq!(read_to_end(&mut stream).await.unwrap(), "");
    let mut other = dial(&server).await;
    other.write_all(b"RESET\r\n").await.unwrap();
    assert!(read_to_end(&mut other).await.is_err());

    let plain = ScriptedServer::respond(|_| b"+OK\r\n".to_vec()).await.unwrap();
    exchange(&mut dial(&plain).await, "SET k v\r\n", "+OK\r\n").await;
}

#[tokio::test]
async fn dropping_the_server_ends_everything() {
    let server = ScriptedServer::play(Script::new()).await.unwrap();
    let addr = server.addr().unwrap();
    let mut stream = dial(&server).await;
    assert!(server.wait_for_connections(1).await);
    drop(server);
    let _ = read_to_end(&mut stream).await;
    assert!(TcpStream::connect(addr).await.is_err());
}
