//! The prompt, as a person uses it.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use pilotlight_testkit::Server;

use super::terminal::Terminal;
use super::{Tool, at, with};

/// Ctrl-C, Ctrl-D, Ctrl-R.
const INTERRUPT: &str = "\u{3}";
const END: &str = "\u{4}";
const SEARCH: &str = "\u{12}";

struct Scene {
    tool: Tool,
    server: Server,
}

impl Scene {
    fn new() -> Self {
        Self { tool: Tool::new(), server: Server::builder().debug_commands().start().unwrap() }
    }

    fn start(&self, args: &[&str]) -> Terminal {
        let mut terminal = Terminal::start(&self.tool, &with(&at(&self.server), args));
        terminal.wait_for(&self.prompt(""));
        terminal
    }

    fn prompt(&self, state: &str) -> String {
        format!("127.0.0.1:{}{state}> ", self.server.port())
    }

    fn history(&self) -> String {
        std::fs::read_to_string(self.tool.home.path().join(".local/share/pilotlight/redis-history")).unwrap_or_default()
    }
}

#[test]
fn replies_and_states_are_shown() {
    let scene = Scene::new();
    let mut terminal = scene.start(&[]);
    terminal.enter("SET a \"b c\"");
    terminal.wait_for("OK\r\n");
    terminal.enter("get a");
    terminal.wait_for("\"b c\"\r\n");
    terminal.enter("select 2");
    terminal.wait_for(&scene.prompt("[2]"));
    terminal.enter("multi");
    terminal.wait_for(&scene.prompt("[2](TX)"));
    terminal.enter("3 incr n");
    terminal.wait_for("QUEUED\r\nQUEUED\r\nQUEUED\r\n");
    terminal.enter("exec");
    terminal.wait_for("3) (integer) 3\r\n");
    terminal.wait_for(&scene.prompt("[2]"));
    terminal.enter("get \"open");
    terminal.wait_for("Invalid argument(s)");
    terminal.enter("nonsense");
    terminal.wait_for("(error) ERR unknown command");
    terminal.enter("help get");
    terminal.wait_for("group: string");
    terminal.enter(":format json");
    terminal.enter("mget a n");
    terminal.wait_for("[null,\"3\"]\r\n");
    terminal.enter("exit");
    assert_eq!(terminal.wait_for_end(), Some(0));
}

#[test]
fn the_history_has_no_secrets() {
    let scene = Scene::new();
    let mut terminal = scene.start(&[]);
    let lines = [
        ("set first 1", "OK\r\n"),
        ("auth nonsense", "(error)"),
        ("config set requirepass \"\"", "OK\r\n"),
        ("acl setuser ada on >word", "OK\r\n"),
        (" get hidden", "(nil)"),
    ];
    for (line, reply) in lines {
        terminal.enter(line);
        terminal.wait_for(reply);
    }
    terminal.wait_for(&scene.prompt(""));
    terminal.type_(END);
    assert_eq!(terminal.wait_for_end(), Some(0));
    let history = scene.history();
    assert!(history.contains("set first 1"), "{history}");
    for secret in ["auth", "requirepass", "ada", "hidden"] {
        assert!(!history.contains(secret), "{history}");
    }
    let file = scene.tool.home.path().join(".local/share/pilotlight/redis-history");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);

    let mut terminal = scene.start(&[]);
    terminal.type_(SEARCH);
    terminal.wait_for("reverse-i-search");
    terminal.type_("firs");
    terminal.wait_for("set first 1");
    terminal.type_("\r");
    terminal.wait_for("OK\r\n");
}

#[test]
fn tab_completes_and_hints_tell_what_follows() {
    let scene = Scene::new();
    scene.server.command(&["SET", "user:1", "Ada"]).unwrap();
    scene.server.command(&["SET", "with blank", "x"]).unwrap();
    let mut terminal = scene.start(&[]);
    terminal.type_("get ");
    terminal.wait_for("key");
    terminal.type_("use\t");
    terminal.wait_for("user:1");
    terminal.type_("\r");
    terminal.wait_for("\"Ada\"\r\n");
    terminal.type_("get with\t");
    terminal.wait_for("\"with blank\"");
    terminal.type_("\r");
    terminal.wait_for("\"x\"\r\n");
    terminal.type_("client getn\t\r");
    terminal.wait_for("\"pilotlight\"");
    terminal.type_("incrbyf\t");
    terminal.wait_for("float");
}

#[test]
fn what_destroys_is_asked_about() {
    let scene = Scene::new();
    scene.server.command(&["SET", "a", "1"]).unwrap();
    let mut terminal = scene.start(&[]);
    terminal.enter("flushall");
    terminal.wait_for("deletes all keys of all databases. Do it? [y/N] ");
    terminal.enter("");
    terminal.wait_for("(not sent)");
    assert_eq!(scene.server.command(&["DBSIZE"]).unwrap().integer(), Some(1));
    terminal.enter("FLUSHALL");
    terminal.wait_for("[y/N] ");
    terminal.enter("y");
    terminal.wait_for("OK\r\n");
    assert_eq!(scene.server.command(&["DBSIZE"]).unwrap().integer(), Some(0));
    assert!(!scene.history().contains("\ny\n"));
    // Without a person nobody is asked.
    assert_eq!(scene.tool.text(&with(&at(&scene.server), &["flushall"])), "OK\n");
}

#[test]
fn messages_are_shown_until_ctrl_c() {
    let scene = Scene::new();
    let mut terminal = scene.start(&[]);
    terminal.enter("subscribe news");
    terminal.wait_for("1) \"subscribe\"\r\n2) \"news\"\r\n3) (integer) 1\r\n");
    scene.server.command(&["PUBLISH", "news", "hello"]).unwrap();
    terminal.wait_for("1) \"message\"\r\n2) \"news\"\r\n3) \"hello\"\r\n");
    terminal.type_(INTERRUPT);
    terminal.wait_for("(2 replies and messages)");
    terminal.wait_for(&scene.prompt(""));
    terminal.enter("monitor");
    terminal.wait_for("OK\r\n");
    scene.server.command(&["SET", "watched", "1"]).unwrap();
    terminal.wait_for("\"SET\" \"watched\" \"1\"");
    terminal.type_(INTERRUPT);
    terminal.wait_for("replies and messages)");
    terminal.enter("blpop nothing 0");
    until_blocked(&scene.server);
    terminal.type_(INTERRUPT);
    terminal.wait_for("given up");
    terminal.enter("ping");
    terminal.wait_for("PONG\r\n");
}

/// Waits until a client is blocked.
fn until_blocked(server: &Server) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.info("blocked_clients").unwrap() != "1" {
        assert!(Instant::now() < deadline, "nobody is blocked");
        std::thread::yield_now();
    }
}

#[test]
fn a_lost_connection_is_made_anew() {
    let scene = Scene::new();
    let mut terminal = scene.start(&[]);
    terminal.enter("select 3");
    terminal.wait_for(&scene.prompt("[3]"));
    scene.server.client_kill_all().unwrap();
    terminal.wait_for("the server has closed the connection");
    terminal.enter("set a 1");
    terminal.wait_for("OK\r\n");
    terminal.wait_for(&scene.prompt("[3]"));
    scene.server.kill().unwrap();
    terminal.wait_for("the server has closed the connection");
    terminal.enter("get a");
    terminal.wait_for("could not connect");
    terminal.wait_for("not connected> ");
    scene.server.restart().unwrap();
    terminal.enter("ping");
    terminal.wait_for("PONG\r\n");
}

#[test]
fn pushes_are_shown_while_nothing_is_typed() {
    let scene = Scene::new();
    scene.server.command(&["SET", "k", "1"]).unwrap();
    let mut terminal = scene.start(&["-3"]);
    terminal.enter("client tracking on");
    terminal.wait_for("OK\r\n");
    terminal.enter("get k");
    terminal.wait_for("\"1\"\r\n");
    scene.server.command(&["SET", "k", "2"]).unwrap();
    terminal.wait_for("-> invalidate: 'k'");
}

#[test]
fn the_prompt_is_there_before_the_server() {
    let scene = Scene::new();
    scene.server.stop().unwrap();
    let mut terminal = scene.start(&[]);
    scene.server.cont().unwrap();
    terminal.enter("ping");
    terminal.wait_for("PONG\r\n");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let scene = Scene::new();
    let mut terminal = Terminal::start_with(&scene.tool, &with(&at(&scene.server), &[]), &[]);
    terminal.enter("get nothing");
    terminal.wait_for("\u{1b}[1;36mget\u{1b}[0m");
    terminal.wait_for("\u{1b}[2m(nil)\u{1b}[0m");
    // One command prints what redis-cli prints, byte for byte.
    let mut terminal = Terminal::start_with(&scene.tool, &with(&at(&scene.server), &["GET", "nothing"]), &[]);
    assert_eq!(terminal.wait_for("(nil)\r\n"), "(nil)\r\n");
}

#[test]
fn another_server_a_pager_and_a_line_that_is_taken_back() {
    let scene = Scene::new();
    let other = Server::start().unwrap();
    let folder = scene.tool.home.path().join(".config/pilotlight");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("redis.toml"), "pager = \"sed s/^/paged:/\"\n").unwrap();
    let mut terminal = scene.start(&[]);
    terminal.type_("get no");
    terminal.type_(INTERRUPT);
    terminal.wait_for("\r\n");
    terminal.wait_for(&scene.prompt(""));
    terminal.enter("50 rpush l a");
    terminal.wait_for("(integer) 50\r\n");
    terminal.enter("lrange l 0 -1");
    terminal.wait_for("paged:50) \"a\"\r\n");
    terminal.enter("lrange l 0 1");
    terminal.wait_for("\n1) \"a\"\r\n2) \"a\"\r\n");
    terminal.enter(&format!("connect 127.0.0.1 {}", other.port()));
    terminal.wait_for(&format!("127.0.0.1:{}> ", other.port()));
    terminal.enter("exists l");
    terminal.wait_for("(integer) 0\r\n");
    terminal.enter("connect nonsense://x");
    terminal.wait_for("connect: ");
    terminal.enter("quit");
    assert_eq!(terminal.wait_for_end(), Some(0));
}

#[test]
fn a_poor_terminal_will_do() {
    let scene = Scene::new();
    let mut terminal =
        Terminal::start_with(&scene.tool, &with(&at(&scene.server), &[]), &[("TERM", "dumb"), ("NO_COLOR", "1")]);
    terminal.wait_for(&scene.prompt(""));
    terminal.enter("echo there");
    terminal.wait_for("\"there\"\r\n");
}

#[test]
fn replies_may_go_to_a_file() {
    let scene = Scene::new();
    let file = scene.tool.home.path().join("out");
    let script =
        format!("exec {} cli -p {} > {}", env!("CARGO_BIN_EXE_pilotlight-redis"), scene.server.port(), file.display());
    let mut terminal = Terminal::run(&scene.tool, "sh", &["-c", &script], &[("NO_COLOR", "1")]);
    terminal.enter("echo there");
    terminal.enter("exit");
    assert_eq!(terminal.wait_for_end(), Some(0));
    assert!(std::fs::read_to_string(file).unwrap().contains("there\n"));
}

#[test]
fn the_prompt_follows_a_failover() {
    let (tool, sentinels) = (Tool::new(), pilotlight_testkit::Sentinels::start(1).unwrap());
    let ports: Vec<_> = sentinels.sentinels().iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
    let mut terminal = Terminal::start(&tool, &["-h", &ports.join(","), "--sentinel", sentinels.name()]);
    terminal.enter("set before 1");
    terminal.wait_for("OK\r\n");
    let port = sentinels.failover().unwrap().port().to_string();
    // The Sentinels agree; their messages may still be on their way.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        terminal.enter("config get port");
        terminal.wait_for("2) \"");
        if terminal.wait_for("\"").trim_end_matches('"') == port {
            break;
        }
        assert!(Instant::now() < deadline, "the prompt stays with the old primary");
    }
    terminal.enter("set after 1");
    terminal.wait_for("OK\r\n");
    terminal.wait_for(&format!("127.0.0.1:{port}> "));
}

#[test]
fn a_cluster_looks_like_one_server() {
    let (tool, cluster) = (Tool::new(), pilotlight_testkit::Cluster::start(3, 0).unwrap());
    let port = cluster.nodes()[0].port().to_string();
    let mut terminal = Terminal::start(&tool, &["-c", "-p", &port]);
    terminal.enter("mset a 1 b 2 c 3");
    terminal.wait_for("OK\r\n");
    terminal.enter("mget c b a");
    terminal.wait_for("1) \"3\"\r\n2) \"2\"\r\n3) \"1\"\r\n");
    terminal.enter("multi");
    terminal.wait_for("(TX)> ");
    terminal.enter("incr b");
    terminal.wait_for("QUEUED\r\n");
    terminal.enter("get a");
    terminal.wait_for("(error) MOVED");
    terminal.enter("exec");
    terminal.wait_for("(error) EXECABORT");
    terminal.enter("on all ping");
    let mut ports: Vec<_> = cluster.nodes().iter().map(|node| node.port().to_string()).collect();
    ports.sort();
    for port in ports {
        terminal.wait_for(&format!("{port}:\r\nPONG\r\n"));
    }
    terminal.enter("scan 0");
    terminal.wait_for("ON NODE host:port SCAN");
    terminal.enter("sinterstore x a b");
    terminal.wait_for("CROSSSLOT");
    terminal.enter("ssubscribe news");
    terminal.wait_for("1) \"ssubscribe\"");
    let (owner, _) = cluster.node_for_key("news").unwrap();
    owner.server().command(&["SPUBLISH", "news", "hello"]).unwrap();
    terminal.wait_for("\"hello\"");
    terminal.type_(INTERRUPT);
    terminal.wait_for("replies and messages)");
    terminal.enter("blpop list{t} 0");
    terminal.wait_for("\r\n");
    until_blocked(cluster.node_for_key("{t}").unwrap().0.server());
    cluster.node_for_key("{t}").unwrap().0.server().command(&["RPUSH", "list{t}", "x"]).unwrap();
    terminal.wait_for("2) \"x\"\r\n");
}
