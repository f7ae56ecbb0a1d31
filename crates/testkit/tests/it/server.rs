//! One server.

use crate::started_within;
use pilotlight_testkit::{Certificates, ClientAuth, Error, Reply, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(5);

/// A client's connection, for what is visible to clients.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.addr()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self(BufReader::new(stream))
    }

    fn say(&mut self, line: &str) -> String {
        let mut reply = String::new();
        // Of a server that was killed: nothing, or a reset.
        let _ = self.0.get_ref().write_all(format!("{line}\r\n").as_bytes());
        let _ = self.0.read_line(&mut reply);
        reply.trim_end().to_owned()
    }
}

#[test]
fn answers_within_a_second_on_tcp_and_unix() {
    let server = started_within("server", Duration::from_secs(1), Server::start);
    assert_eq!(Client::connect(&server).say("PING"), "+PONG");
    let mut unix = UnixStream::connect(server.unix_path()).unwrap();
    unix.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    unix.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
}

#[test]
fn listens_on_loopback_only_and_persists_nothing() {
    let server = Server::start().unwrap();
    let bind = server.command(&["CONFIG", "GET", "bind"]).unwrap();
    assert_eq!(bind.array()[1].text(), "127.0.0.1");
    let save = server.command(&["CONFIG", "GET", "save"]).unwrap();
    assert_eq!(save.array()[1].text(), "");
}

#[test]
fn admin_commands_return_every_kind_of_reply() {
    let server = Server::start().unwrap();
    assert_eq!(server.command(&["SET", "k", "v"]).unwrap().text(), "OK");
    assert_eq!(server.command(&["GET", "k"]).unwrap(), Reply::Text(b"v".to_vec()));
    assert_eq!(server.command(&["GET", "none"]).unwrap(), Reply::Null);
    assert_eq!(server.command(&["INCR", "n"]).unwrap().integer(), Some(1));
    assert_eq!(server.command(&["MGET", "k", "none"]).unwrap().array().len(), 2);
    let refused = server.command(&["INCR", "k"]).unwrap_err();
    assert!(matches!(refused, Error::Refused { ref message, .. } if message.contains("not an integer")), "{refused}");
    assert_eq!(server.command(&["PING"]).unwrap().text(), "PONG");
    let big = vec![b'x'; 1 << 20];
    assert_eq!(server.command(&[b"ECHO".as_slice(), &big]).unwrap(), Reply::Text(big));
}

#[test]
fn configuration_and_info_change_at_run_time() {
    let server = Server::builder().config("maxclients 77").start().unwrap();
    assert_eq!(server.info("maxclients").unwrap(), "77");
    server.config_set("maxclients", "78").unwrap();
    assert_eq!(server.info("maxclients").unwrap(), "78");
    assert!(server.info("nothing_like_it").is_err());
}

#[test]
fn kill_restart_keeps_the_port_and_loses_the_data() {
    let server = Server::start().unwrap();
    let (port, pid) = (server.port(), server.pid());
    server.command(&["SET", "k", "v"]).unwrap();
    let mut client = Client::connect(&server);
    server.kill().unwrap();
    assert_eq!(client.say("PING"), "", "the connection is over");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(matches!(server.command(&["PING"]), Err(Error::Down)));
    server.kill().unwrap();
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.command(&["GET", "k"]).unwrap(), Reply::Null);
}

#[test]
fn a_stopped_server_is_silent_until_it_continues() {
    let server = Server::start().unwrap();
    let mut client = Client::connect(&server);
    assert_eq!(client.say("PING"), "+PONG");
    server.stop().unwrap();
    client.0.get_ref().set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    client.0.get_ref().write_all(b"PING\r\n").unwrap();
    assert!(client.0.fill_buf().is_err());
    server.cont().unwrap();
    client.0.get_ref().set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(client.0.fill_buf().unwrap(), b"+PONG\r\n");
}

#[test]
fn a_stopped_server_dies_with_its_owner() {
    let server = Server::start().unwrap();
    let (pid, dir) = (server.pid().unwrap(), server.dir().to_owned());
    server.stop().unwrap();
    drop(server);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert!(!dir.exists());
}

#[test]
fn client_kill_spares_the_admin_connection() {
    let server = Server::start().unwrap();
    let (mut normal, mut subscriber) = (Client::connect(&server), Client::connect(&server));
    normal.say("PING");
    subscriber.say("SUBSCRIBE c");
    let admin = server.command(&["CLIENT", "ID"]).unwrap();
    assert_eq!(server.client_kill_all().unwrap(), 2);
    assert_eq!(normal.say("PING"), "");
    assert_eq!(server.command(&["CLIENT", "ID"]).unwrap(), admin);
}

#[test]
fn the_admin_connection_is_replaced_when_the_server_closed_it() {
    let server = Server::start().unwrap();
    assert_eq!(Client::connect(&server).say("CLIENT KILL TYPE normal"), ":1");
    assert_eq!(server.command(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn passwords_and_users() {
    let server = Server::builder().requirepass("p@ss\"word").user("alice on >secret ~a:* +get").start().unwrap();
    assert_eq!(server.url(), format!("redis://:p%40ss%22word@127.0.0.1:{}", server.port()));
    let mut client = Client::connect(&server);
    assert!(client.say("GET a:1").starts_with("-NOAUTH"));
    assert_eq!(client.say("AUTH alice secret"), "+OK");
    assert_eq!(client.say("GET a:1"), "$-1");
    assert!(client.say("SET a:1 v").starts_with("-NOPERM"));
    assert_eq!(client.say("AUTH 'p@ss\"word'"), "+OK");
}

#[test]
fn an_acl_file_may_turn_the_default_user_off() {
    let server = Server::builder().acl_file("user default off\nuser bob on >secret ~* +@all").start().unwrap();
    assert!(Client::connect(&server).say("PING").starts_with("-NOAUTH"));
    assert_eq!(Client::connect(&server).say("AUTH bob secret"), "+OK");
    assert_eq!(server.command(&["ACL", "LOAD"]).unwrap().text(), "OK");
}

#[test]
fn debug_is_refused_unless_asked_for() {
    assert!(Server::start().unwrap().command(&["DEBUG", "SLEEP", "0"]).is_err());
    assert!(Server::builder().debug_commands().start().unwrap().command(&["DEBUG", "SLEEP", "0"]).is_ok());
}

#[test]
fn a_wrong_configuration_fails_with_the_log() {
    let error = Server::builder().config("no-such-directive yes").start().unwrap_err();
    assert!(matches!(error, Error::Exited { ref log, .. } if log.contains("no-such-directive")), "{error}");
}

/// A TLS client of other people's, if one is installed.
fn tls_ping(server: &Server, ca: &Certificates, with_client_certificate: bool) -> Option<String> {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &server.port().to_string(), "--tls", "--cacert"]).arg(ca.ca_path());
    if with_client_certificate {
        command.arg("--cert").arg(ca.client_path()).arg("--key").arg(ca.client_key_path());
    }
    let output = command.arg("PING").output().ok()?;
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn tls_with_and_without_client_certificates() {
    let server = Server::builder().tls(ClientAuth::None).start().unwrap();
    let certificates = server.certificates().unwrap();
    assert_eq!(server.url(), format!("rediss://127.0.0.1:{}", server.port()));
    let Some(reply) = tls_ping(&server, certificates, false) else {
        println!("no redis-cli: TLS is not tried from a client");
        return;
    };
    assert_eq!(reply, "PONG");
    let stranger = Certificates::generate_for(&["elsewhere.example"]).unwrap();
    assert_ne!(tls_ping(&server, &stranger, false).unwrap(), "PONG");

    let strict = Server::builder().tls_with(certificates.clone(), ClientAuth::Required).start().unwrap();
    assert_ne!(tls_ping(&strict, certificates, false).unwrap(), "PONG");
    assert_eq!(tls_ping(&strict, certificates, true).unwrap(), "PONG");
    assert_eq!(strict.command(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn many_servers_start_at_the_same_time() {
    let servers: Vec<_> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..8).map(|_| scope.spawn(|| Server::start().unwrap())).collect();
        starting.into_iter().map(|server| server.join().unwrap()).collect()
    });
    for server in &servers {
        assert_eq!(server.info("tcp_port").unwrap(), server.port().to_string());
    }
}

/// Run by the next test in a process of its own.
#[test]
#[ignore = "waits to be killed"]
fn holds_a_server() {
    let server = Server::start().unwrap();
    println!("holds {} {}", server.pid().unwrap(), server.dir().display());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_server_does_not_outlive_a_killed_test_process() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "server::holds_a_server", "--nocapture"]);
    let mut owner = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let held = lines.find_map(|line| Some(line.split_once("holds ")?.1.to_owned())).unwrap();
    let (pid, dir) = held.split_once(' ').unwrap();
    // A zombie has no command line: nobody but init waits for it.
    let runs = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    assert!(runs());
    owner.kill().unwrap();
    owner.wait().unwrap();
    let begin = Instant::now();
    while runs() {
        assert!(begin.elapsed() < LIMIT, "it still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The folder goes with the reaper, unless that was quicker than this.
    let _ = std::fs::remove_dir_all(dir);
    assert!(!Path::new(dir).exists(), "{dir} is still there");
}
