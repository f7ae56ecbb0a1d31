//! `pilotlight import` on files written after the documentation of the servers (`tests/import`): how many options are
//! mapped, and that every result passes `check`. After a deliberate change, `UPDATE_EXPECTED=1` writes the results that
//! stand beside them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pilotlight_cli::config::parse;
use pilotlight_cli::import::{Imported, counts, finished};
use pilotlight_import::{Became, Kind, import};
use proptest::prelude::*;

/// Wanted of all options of all files: mapped or not needed, in per cent.
const WANTED: usize = 80;

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import").join(kind)
}

fn read(kind: Kind, text: &str) -> Option<Imported> {
    let imported = finished(&import(kind, text).ok()?, "the example");
    if let Err(report) = parse(&imported.toml, Path::new("pilotlight.toml")) {
        panic!("{report}\n{}\n{text}", imported.toml);
    }
    for noted in &imported.options {
        let (Became::Mapped(text) | Became::NotMapped(text)) = &noted.became else { continue };
        assert!(!text.is_empty(), "{noted:?}");
    }
    Some(imported)
}

#[test]
fn most_options_of_the_examples_are_mapped_and_each_result_passes_check() {
    let mut sum = [0; 3];
    let mut files = 0;
    let mut expected = String::new();
    for (name, kind) in Kind::NAMES.iter().filter(|(_, kind)| *kind != Kind::Gunicorn) {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path).unwrap();
            let imported = read(*kind, &text).unwrap();
            let of_file = counts(&imported.options);
            sum = [0, 1, 2].map(|n| sum[n] + of_file[n]);
            files += 1;
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            expected.push_str(&format!("===== {name}/{file}: {of_file:?}\n{}", imported.toml));
        }
    }
    let [mapped, not_needed, not_mapped] = sum;
    let all = mapped + not_needed + not_mapped;
    let share = (mapped + not_needed) * 1000 / all;
    println!(
        "{files} files, {all} options: {mapped} mapped, {not_needed} not needed, {not_mapped} not mapped: {share} per mille"
    );
    let results = folder("results.txt");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&results, &expected).unwrap();
    }
    assert!(expected == fs::read_to_string(&results).unwrap(), "the results differ; look at {}", results.display());
    assert!(files >= 46);
    assert!(share >= WANTED * 10, "{share}");
    assert!(mapped * 2 >= all, "most are to be mapped, not only unneeded");
}

#[test]
fn gunicorn_files_and_command_lines() {
    let file = "import multiprocessing\nbind = [\n  '0.0.0.0:8000',\n  \"unix:/run/a.sock\",\n]\nworkers = 3\ntimeout = 30 # s\n\
                wsgi_app = 'shop.wsgi:app'\npreload_app = True\nraw_env = ['A=1']\ndef post_fork(server, worker):\n    x = 1\n\
                max_requests_jitter = 50\nkeyfile = compute()\n";
    let imported = read(Kind::Gunicorn, file).unwrap();
    for line in [
        "listen = [\"0.0.0.0:8000\", \"unix:/run/a.sock\"]",
        "command = [\"python3\", \"-m\", \"pilotlight.wsgi\", \"shop.wsgi:app\"]",
        "max_instances = 3",
        "max_request_time = \"30s\"",
        "preload = [\"shop.wsgi\"]",
        "env = { \"A\" = \"1\" }",
    ] {
        assert!(imported.toml.contains(&format!("\n{line}\n")), "{line} is not in\n{}", imported.toml);
    }
    let missing: Vec<(usize, &str)> = imported
        .options
        .iter()
        .filter(|noted| matches!(noted.became, Became::NotMapped(_)))
        .map(|noted| (noted.line, noted.option.as_str()))
        .collect();
    assert_eq!(missing, [(11, "post_fork"), (14, "keyfile")]);
    let line = read(Kind::Gunicorn, "gunicorn -w 4 --threads=2 -b :9000 --preload app:app\n").unwrap();
    assert!(line.toml.contains("\"app:app\", \"--threads\", \"2\"]"), "{}", line.toml);
    assert!(
        line.toml.contains("listen = [\"0.0.0.0:9000\"]") && line.toml.contains("concurrency = 2"),
        "{}",
        line.toml
    );
}

#[test]
fn what_check_would_refuse_is_commented_out_and_named() {
    let text = "[uwsgi]\nmodule = a\nenv = LISTEN_FDS=1\nuid = a b\nchdir = x\nhttp = nowhere:99999\n";
    let imported = read(Kind::Uwsgi, text).unwrap();
    assert!(
        imported.toml.contains("\n# user = \"a b\"\n") && imported.toml.contains("\ndir = \"x\"\n"),
        "{}",
        imported.toml
    );
    let refused: Vec<&str> =
        imported.options.iter().filter(|noted| noted.line == 0).map(|noted| noted.option.as_str()).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
}

#[test]
fn no_route_is_open_that_was_not() {
    const CLOSED: &str = "deny = { \"networks\" = [\"0.0.0.0/0\", \"::/0\"] }";
    let nginx = |inside: &str| {
        let text = format!(
            "server {{ listen 80; server_name a.example;\n location / {{ proxy_pass http://127.0.0.1:1; }}\n \
             location /admin {{ {inside} }} }}"
        );
        read(Kind::Nginx, &text).unwrap().toml
    };
    for inside in [
        "auth_request /ask; proxy_pass http://127.0.0.1:1;",
        "satisfy any; allow 10.0.0.1; deny all; proxy_pass http://127.0.0.1:1;",
        "allow 10.0.0.5; deny 10.0.0.0/8; proxy_pass http://127.0.0.1:1;",
        "auth_basic x; proxy_pass http://127.0.0.1:1;",
        "deny all;",
        "return 403;",
        "deny all; proxy_pass https://127.0.0.1:1;",
        "allow 10.0.0.1; deny all; uwsgi_pass app;",
    ] {
        let toml = nginx(inside);
        let (_, route) = toml.split_once("path = \"/admin\"").unwrap_or_else(|| panic!("{inside}\n{toml}"));
        assert!(route.contains(CLOSED), "{inside}\n{toml}");
    }
    let caddy =
        |inside: &str| read(Kind::Caddy, &format!("http://a.example {{\n{inside}\nreverse_proxy :1\n}}\n")).unwrap();
    for inside in ["@a method POST\nbasic_auth @a {\n}", "forward_auth https://a.example", "respond /admin 403"] {
        assert!(caddy(inside).toml.contains(CLOSED), "{inside}\n{}", caddy(inside).toml);
    }
    // A rule of the site counts for the handlers of each host.
    let text = "@one host one.example\nbasic_auth {\n ada S3CRET\n}\nhandle @one {\nreverse_proxy :2\n}";
    let toml = caddy(text).toml;
    assert_eq!(toml.matches("allow = { \"basic\" = \"users.htpasswd\" }").count(), 2, "{toml}");
    assert!(!toml.contains("S3CRET"), "{toml}");
    // The sources of programs are no files.
    let site = nginx("root /srv; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }");
    assert!(!site.contains("files =") && site.contains("cgi = {"), "{site}");
    let site = caddy("root * /srv\nphp_fastcgi :9\nfile_server").toml;
    assert!(!site.contains("files ="), "{site}");
}

#[test]
fn no_script_runs_that_did_not() {
    let cgi = |server: &str| {
        let text = format!("server {{ listen 80; root /srv; index index.php;\n{server} }}");
        read(Kind::Nginx, &text).unwrap().toml
    };
    const PASS: &str = "location ~ \\.php$ { include fastcgi.conf; fastcgi_pass unix:/run/php.sock; }";
    let all = cgi(PASS);
    assert!(all.contains("\ncgi = { \"root\" = \"/srv\", \"index\" = [\"index.php\"] }\n"), "{all}");
    for (before, after) in [
        ("location ~ /uploads/.*\\.php$ { deny all; }", ""),
        ("location ~* \\.php5$ { fastcgi_pass 127.0.0.1:1; }", ""),
        ("", "location ~ ^/other\\.php$ { fastcgi_pass 127.0.0.1:1; }"),
    ] {
        let toml = cgi(&format!("{before}\n{PASS}\n{after}"));
        assert!(toml.contains("\"run\" = [\"index.php\"]"), "{before}{after}\n{toml}");
    }
    let uploads = cgi(&format!("location ^~ /uploads {{ }}\n{PASS}"));
    let (services, routes) = uploads.split_once("[[routes]]").unwrap();
    assert!(services.contains("\"run\" = []") && routes.contains("path = \"/uploads\""), "{uploads}");
    let restricted = cgi("location ~ \\.php$ { allow 10.0.0.1; deny all; fastcgi_pass unix:/run/php.sock; }");
    assert!(restricted.contains("deny = { \"networks\" = [\"0.0.0.0/0\", \"::/0\"] }"), "{restricted}");
    for odd in ["fastcgi_pass $php;", "fastcgi_param SCRIPT_FILENAME $odd; fastcgi_pass unix:/run/php.sock;"] {
        let toml = cgi(&format!("location ~ \\.php$ {{ {odd} }}"));
        assert!(!toml.contains("cgi =") && !toml.contains("files ="), "{odd}\n{toml}");
    }
    let elsewhere = cgi(&format!("location /a {{ root /other; }}\n{PASS}"));
    assert!(!elsewhere.contains("/other"), "{elsewhere}");
}

#[test]
fn a_route_whose_rule_check_refuses_is_closed() {
    let draft = import(Kind::Unit, "{\"listeners\":{\"*:80\":{\"pass\":\"routes\"}},\"routes\":[{\"match\":{\"source\":\"10.0.0.1-9\"},\"action\":{\"share\":\"/srv$uri\"}}]}").unwrap();
    let toml = finished(&draft, "x").toml;
    assert!(
        toml.contains("# allow = ") && toml.contains("\ndeny = { networks = [\"0.0.0.0/0\", \"::/0\"] }"),
        "{toml}"
    );
}

#[test]
fn a_file_is_known_by_its_name_or_its_text() {
    for (name, text, expected) in [
        ("Caddyfile", "", Some(Kind::Caddy)),
        ("Caddyfile.dev", "{ }", Some(Kind::Caddy)),
        ("site", "a.example {\n\treverse_proxy :1\n}", Some(Kind::Caddy)),
        ("site", "{\n\temail a@b\n}\na.example {\n\tfile_server\n}", Some(Kind::Caddy)),
        ("nginx.conf", "", Some(Kind::Nginx)),
        ("default", "# x\nserver {\n listen 80;\n}", Some(Kind::Nginx)),
        ("default", "upstream a { server b; }", Some(Kind::Nginx)),
        ("conf", "{ \"listeners\": {} }", Some(Kind::Unit)),
        ("conf", "{\n}", Some(Kind::Unit)),
        ("conf", "web: x", None),
    ] {
        assert_eq!(Kind::of(name, text), expected, "{name} {text}");
    }
}

#[test]
fn a_file_is_written_once_and_never_over_another() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("Procfile"), "web: ./app\nworker: ./work\n").unwrap();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_pilotlight")).args(arguments).current_dir(dir.path()).output().unwrap()
    };
    let first = run(&["import"]);
    let said = String::from_utf8(first.stderr).unwrap();
    assert_eq!(first.status.code(), Some(0), "{said}");
    assert!(
        said.contains("Procfile:2: not mapped: worker: ")
            && said.contains("1 options mapped, 0 not needed, 1 not mapped"),
        "{said}"
    );
    let written = fs::read_to_string(dir.path().join("pilotlight.toml")).unwrap();
    assert!(written.contains("#   line 2: worker: ") && written.contains("[services.web]"), "{written}");
    fs::write(dir.path().join("pilotlight.toml"), "mine").unwrap();
    assert_eq!(run(&["import"]).status.code(), Some(2));
    assert_eq!(fs::read_to_string(dir.path().join("pilotlight.toml")).unwrap(), "mine");
    assert_eq!(run(&["import", "--force"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(dir.path().join("pilotlight.toml")).unwrap(), written);
    let json = run(&["import", "--json", "-o", "-"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&document["kind"], &document["mapped"]), (&"procfile".into(), &1.into()));
    assert_eq!(document["options"][1]["line"], 2);
    assert_eq!(document["toml"], written);
    assert_eq!(run(&["import", "nothing.json"]).status.code(), Some(2));
}

/// Lines that mean something to one of the readers, with odd values.
fn lines() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("[uwsgi]"),
        Just("web"),
        Just(":"),
        Just("="),
        Just("module"),
        Just("mount"),
        Just("static-map"),
        Just("http"),
        Just("https"),
        Just("processes"),
        Just("env"),
        Just("/a=/b"),
        Just("a:b"),
        Just("\n"),
        Just("\n"),
        Just(" "),
        Just("$PORT"),
        Just("{"),
        Just("}"),
        Just("\"listeners\""),
        Just("\"*:80\""),
        Just("\"pass\""),
        Just("\"routes\""),
        Just("["),
        Just("]"),
        Just(","),
        Just("bind"),
        Just("workers"),
        Just("'x'"),
        Just("-1"),
        Just("99999999999"),
        Just("%(module)"),
        Just("\u{fc}\u{7f}"),
        Just(";"),
        Just(" {\n"),
        Just("\n}\n"),
        Just("server"),
        Just("a.example"),
        Just("location /a"),
        Just("proxy_pass http://127.0.0.1:1/x"),
        Just("allow 10.0.0.1/8;"),
        Just("deny all;"),
        Just("return 301 https://$host$request_uri"),
        Just("try_files $uri /i.html"),
        Just("root /srv"),
        Just("reverse_proxy /x* :1\n"),
        Just("handle_path /y/*"),
        Just("basic_auth"),
        Just("header X {host}\n"),
        Just("file_server\n"),
        Just("\""),
    ];
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn whatever_is_read_passes_check(text in prop_oneof![lines(), any::<String>()]) {
        for (_, kind) in Kind::NAMES {
            let _ = read(kind, &text);
        }
    }
}
