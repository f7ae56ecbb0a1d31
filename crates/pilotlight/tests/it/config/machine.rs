//! What `load` says about the machine: files, programs, folders, ports. Each in a folder of its own.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use pilotlight_cli::config::{Code, Ports, Severity, load};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn program(folder: &Path, name: &str, text: &str, mode: u32) {
    let file = folder.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
}

fn service(folder: &Path, lines: &str) {
    let text = format!("[services.a]\n{lines}\n[[routes]]\npath = \"/\"\nservice = \"a\"\n");
    fs::write(folder.join("pilotlight.toml"), text).unwrap();
}

/// The report for a file, with the folder's name taken out.
fn report(folder: &Path, ports: Ports) -> String {
    let text = match load(&folder.join("pilotlight.toml"), ports) {
        Ok(loaded) => loaded.warnings.to_string(),
        Err(report) => report.to_string(),
    };
    text.replace(&format!("{}", folder.display()), "HERE")
}

#[track_caller]
fn check(folder: &Path, lines: &str, expected: &[&str]) {
    service(folder, lines);
    let report = report(folder, Ports::Skip);
    if expected.is_empty() {
        assert_eq!(report, "");
    }
    for part in expected {
        assert!(report.contains(part), "{part:?} is not in:\n{report}");
    }
}

#[test]
fn programs_that_are_there() {
    let here = folder();
    program(here.path(), "app", "#!/bin/sh\n", 0o755);
    program(here.path(), "sub/app", "no script", 0o755);
    check(here.path(), "command = [\"./app\"]", &[]);
    check(here.path(), "command = [\"sub/app\"]", &[]);
    check(here.path(), "command = [\"./app\"]\ndir = \"sub\"", &[]);
    check(here.path(), "command = [\"sh\", \"-c\", \"missing.sh\"]", &[]);
    check(here.path(), &format!("command = [\"{}/app\"]", here.path().display()), &[]);
}

#[test]
fn programs_that_are_missing() {
    let here = folder();
    program(here.path(), "users-app", "", 0o755);
    program(here.path(), "plain", "", 0o644);
    check(
        here.path(),
        "command = [\"./usrs-app\", \"x\"]",
        &["HERE/pilotlight.toml:2:12: error: the program HERE/usrs-app does not exist", "did you mean HERE/users-app?"],
    );
    check(here.path(), "command = [\"./target/release/users\"]", &["is it built? cargo build --release"]);
    check(
        here.path(),
        "command = \"no-such-program-here\"",
        &[":2:11: error: the program `no-such-program-here` is in no folder of PATH"],
    );
    check(here.path(), "command = [\"users-app\"]", &["in no folder of PATH", "write \"./users-app\""]);
    check(here.path(), "command = [\"/\"]", &["/ is a folder"]);
    check(
        here.path(),
        "command = [\"sh\"]\nenv = { PATH = \"/nowhere\" }",
        &["the program `sh` is in no folder of PATH"],
    );
    check(here.path(), "command = [\"users-app\"]\nenv = { PATH = \".\" }", &[]);
    // The superuser may execute only what somebody may.
    check(
        here.path(),
        "command = [\"./plain\"]",
        &["HERE/plain may not be executed by this user", "chmod +x HERE/plain"],
    );
    check(here.path(), "command = [\"plain\"]\nenv = { PATH = \".\" }", &["may not be executed by this user"]);
}

#[test]
fn scripts_and_their_interpreters() {
    let here = folder();
    program(here.path(), "app.py", "", 0o644);
    program(here.path(), "bad", "#!/no/such/python3\n", 0o755);
    program(here.path(), "windows", "#!/bin/sh\r\necho\r\n", 0o755);
    program(here.path(), "bin/python3.11", "#!/bin/sh\n", 0o755);
    program(here.path(), "bin/node", "#!/bin/sh\n", 0o755);
    check(here.path(), "command = [\"bin/python3.11\", \"-u\", \"app.py\"]", &[]);
    check(here.path(), "command = [\"bin/python3.11\", \"-m\", \"app.server\", \"x.py\"]", &[]);
    check(
        here.path(),
        "command = [\"bin/python3.11\", \"-u\", \"apps.py\"]",
        &[":2:36: error: the script HERE/apps.py does not exist", "did you mean HERE/app.py?"],
    );
    check(here.path(), "command = \"bin/node server.js\"", &[":2:11: error: the script HERE/server.js does not exist"]);
    check(
        here.path(),
        "command = [\"./bad\"]",
        &["the `#!` line of HERE/bad names `/no/such/python3`, which does not exist"],
    );
    check(here.path(), "command = [\"./windows\"]", &["has Windows line ends"]);
}

#[test]
fn folders() {
    let here = folder();
    fs::write(here.path().join("file"), "").unwrap();
    check(
        here.path(),
        "command = [\"sh\"]\ndir = \"gone\"",
        &[":3:7: error: the folder HERE/gone does not exist", "mkdir -p HERE/gone"],
    );
    check(here.path(), "command = [\"sh\"]\ndir = \"file\"", &["the folder HERE/file is not a folder"]);
    // A program inside the missing folder is not reported a second time.
    check(here.path(), "command = [\"./app\"]\ndir = \"gone\"", &["pilotlight.toml: 1 error\n"]);
    check(here.path(), "command = [\"sh\"]\ndir = \".\"", &[]);
}

#[test]
fn releases_that_are_there_or_not() {
    let here = folder();
    let lines = "command = [\"./app\"]\nreleases = \"srv\"";
    // Its program comes with a release.
    check(
        here.path(),
        lines,
        &["warning: there is no release in HERE/srv yet", "`pilotlight deploy FOLDER --service a`"],
    );
    fs::create_dir_all(here.path().join("srv/releases/1")).unwrap();
    std::os::unix::fs::symlink("releases/2", here.path().join("srv/current")).unwrap();
    check(here.path(), lines, &["warning: the link HERE/srv/current leads to no release"]);
    fs::rename(here.path().join("srv/releases/1"), here.path().join("srv/releases/2")).unwrap();
    check(here.path(), lines, &[]);
    check(here.path(), "command = [\"missing-program\"]\nreleases = \"srv\"", &["is in no folder of PATH"]);
    fs::remove_file(here.path().join("srv/current")).unwrap();
    fs::create_dir(here.path().join("srv/current")).unwrap();
    check(here.path(), lines, &["error: HERE/srv/current is not a link to a release"]);
    fs::write(here.path().join("file"), "").unwrap();
    check(here.path(), "command = [\"./app\"]\nreleases = \"file\"", &["error: HERE/file is not a folder"]);
}

#[test]
fn time_zones_of_schedules() {
    let here = folder();
    program(here.path(), "app", "#!/bin/sh\n", 0o755);
    let lines = |zone: &str| {
        let schedule = "[[schedules]]\ncron = \"@daily\"\nservice = \"a\"\npath = \"/\"";
        format!("command = [\"./app\"]\n{schedule}\ntimezone = \"{zone}\"")
    };
    check(here.path(), &lines("UTC"), &[]);
    check(here.path(), &lines("Europe/Berlin"), &[]);
    check(
        here.path(),
        &lines("Europe/Nowhere"),
        &["error: this machine does not know the time zone Europe/Nowhere", "tzdata"],
    );
}

#[test]
fn a_port_in_use_is_a_warning_for_check_and_an_error_for_a_start() {
    let here = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    fs::write(here.path().join("pilotlight.toml"), format!("listen = \"{address}\"\n")).unwrap();
    let file = here.path().join("pilotlight.toml");

    let loaded = load(&file, Ports::Warn).unwrap();
    let found = &loaded.warnings.diagnostics()[0];
    assert_eq!((found.severity, found.code), (Severity::Warning, Code::Listen));
    let report = load(&file, Ports::Require).unwrap_err();
    let place = format!("pilotlight.toml:1:10: error: {address} is in use by another program");
    assert!(report.to_string().contains(&place), "{report}");
    assert!(load(&file, Ports::Skip).unwrap().warnings.diagnostics().iter().all(|found| found.code != Code::Listen));

    drop(taken);
    // Between its fork and its exec, a child of anyone here still holds the socket; and the system may lend
    // the number to another for a moment. So it is asked for until it is free.
    let until = Instant::now() + Duration::from_secs(10);
    while let Err(report) = load(&file, Ports::Require) {
        assert!(Instant::now() < until, "the port is free again: {report}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn looking_at_a_port_accepts_nobody() {
    let here = folder();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = here.path().join("pilotlight.toml");
    fs::write(&file, format!("listen = \"{address}\"\n")).unwrap();
    let done = AtomicBool::new(false);
    let accepted = thread::scope(|scope| {
        let client = scope.spawn(|| {
            // A socket may be connected with itself where nobody listens: that one was accepted by nobody.
            let is_other = |stream: TcpStream| stream.local_addr().unwrap() != address;
            let tries = std::iter::repeat_with(|| TcpStream::connect(address)).take_while(|_| !done.load(Relaxed));
            tries.filter_map(Result::ok).filter(|stream| is_other(stream.try_clone().unwrap())).count()
        });
        for _ in 0..2000 {
            drop(load(&file, Ports::Require)); // refused or not: a client may be bound to the number at this moment
        }
        done.store(true, Relaxed);
        client.join().unwrap()
    });
    assert_eq!(accepted, 0);
}

#[test]
fn addresses_that_cannot_be_had() {
    let here = folder();
    // 192.0.2.0/24 is for documentation (RFC 5737): no machine has it.
    fs::write(here.path().join("pilotlight.toml"), "listen = \"192.0.2.1:8080\"\n").unwrap();
    let text = report(here.path(), Ports::Require);
    assert!(text.contains("192.0.2.1:8080 is not an address of this machine"), "{text}");
}

#[test]
fn unix_sockets() {
    let here = folder();
    let listen = |path: &str| {
        fs::write(here.path().join("pilotlight.toml"), format!("listen = \"unix:{path}\"\n")).unwrap();
        report(here.path(), Ports::Require)
    };
    assert!(!listen("p.sock").contains("error"), "a new socket");
    assert!(listen("gone/p.sock").contains("its folder does not exist"));
    fs::write(here.path().join("file"), "").unwrap();
    assert!(listen("file").contains("is not a socket"));
    let listener = UnixListener::bind(here.path().join("p.sock")).unwrap();
    assert!(listen("p.sock").contains("is in use by another program"));
    drop(listener);
    assert!(here.path().join("p.sock").exists());
    assert!(!listen("p.sock").contains("error"), "a socket that was left behind");
}

#[test]
fn mistakes_of_the_file_and_of_the_machine_come_together() {
    let here = folder();
    service(here.path(), "command = [\"./gone\"]\nstart_timeout = 5\nidle = 3");
    let text = report(here.path(), Ports::Skip);
    for part in
        [":2:12: error: the program", ":3:17: error: `start_timeout`", ":4:1: error: unknown key `idle`", "3 errors"]
    {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn files_that_cannot_be_read() {
    let here = folder();
    let file = here.path().join("pilotlight.toml");
    assert!(report(here.path(), Ports::Skip).contains("there is no such file\n = help: `pilotlight init`"));
    fs::create_dir(&file).unwrap();
    assert!(report(here.path(), Ports::Skip).contains("this is a folder"));
    fs::remove_dir(&file).unwrap();
    fs::write(&file, b"dev = true\nlisten = \"caf\xe9\"\n").unwrap();
    assert!(report(here.path(), Ports::Skip).contains(":2:14: error: the file is not UTF-8 from here on"));
    fs::write(&file, " ".repeat(4 * 1024 * 1024 + 1)).unwrap();
    assert!(report(here.path(), Ports::Skip).contains("has more than 4194304 bytes"));
}

#[test]
fn files_of_users() {
    let here = folder();
    let hash = "$2y$05$abcdefghijklmnopqrstuuAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    fs::write(here.path().join("good"), format!("ann:{hash}\n")).unwrap();
    fs::write(here.path().join("md5"), format!("ann:{hash}\nbob:$apr1$x$y\n")).unwrap();
    let route = |file: &str| {
        format!(
            "url = \"http://127.0.0.1:9\"\n[[routes]]\npath = \"/in\"\nservice = \"a\"\nallow = {{ basic = \"{file}\" }}"
        )
    };
    check(here.path(), &route("good"), &[]);
    check(
        here.path(),
        &route("gone"),
        &["the file of users `HERE/gone` cannot be used", "htpasswd -cB HERE/gone NAME"],
    );
    check(here.path(), &route("md5"), &["cannot be used: line 2: the hash is MD5 ($apr1$)", "htpasswd -B FILE NAME"]);
}
