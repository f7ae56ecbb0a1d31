//! Keys of the gateway: without a home there is no place for them, and no route serves them.

use std::fs;

use crate::running::{Running, free_port, get, pilotlight};

#[test]
fn keys_have_no_place_without_a_home() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("listen = \"https://app.localhost:{}\"\n[[routes]]\npath = \"/\"\nfiles = \".\"\n", free_port());
    fs::write(dir.path().join("pilotlight.toml"), text).unwrap();
    for variables in [&[][..], &[("HOME", "home")], &[("HOME", ""), ("XDG_DATA_HOME", "data")]] {
        for command in ["check", "run"] {
            let output = pilotlight(dir.path(), variables).arg(command).output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert_eq!(output.status.code(), Some(2), "{command} {variables:?}: {said}");
            assert!(said.contains("neither HOME nor XDG_DATA_HOME") && said.contains("set HOME"), "{said}");
        }
    }
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["pilotlight.toml"]);
}

#[test]
fn no_route_serves_keys_passwords_and_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let (plain, tls) = (free_port(), free_port());
    let text = format!(
        "listen = [\"127.0.0.1:{plain}\", \"https://app.localhost:{tls}\"]\n\
         [[routes]]\npath = \"/\"\nfiles = \".\"\nhttps = \"allow\"\n\
         [[routes]]\npath = \"/staff\"\nfiles = \".\"\nallow = {{ basic = \"users\" }}\n\
         [services.app]\ncommand = [\"/bin/cat\"]\nenv_file = \"app.env\"\n\
         [[routes]]\npath = \"/app\"\nservice = \"app\"\n"
    );
    fs::write(folder.join("pilotlight.toml"), text).unwrap();
    fs::write(folder.join("users"), "").unwrap();
    fs::write(folder.join("app.env"), "PASSWORD=secret\n").unwrap();
    fs::write(folder.join("page.txt"), "a page").unwrap();
    std::os::unix::fs::symlink("data/pilotlight", folder.join("link")).unwrap();
    let (data, run) = (folder.join("data"), folder.join("run"));
    fs::create_dir(&run).unwrap();
    let variables = [("XDG_DATA_HOME", data.to_str().unwrap()), ("XDG_RUNTIME_DIR", run.to_str().unwrap())];
    let _running = Running::start(pilotlight(folder, &variables).arg("run"));
    assert!(data.join("pilotlight/authority/root.key").is_file());
    assert!(get(plain, "/page.txt").ends_with("a page"));
    for path in [
        "/data/pilotlight/authority/root.key",
        "/data/pilotlight/authority/",
        "/link/authority/root.key",
        "/pilotlight.toml",
        "/users",
        "/app.env",
    ] {
        let answer = get(plain, path);
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
}
