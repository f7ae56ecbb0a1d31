use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Site {
    folder: tempfile::TempDir,
    options: ScriptOptions,
}

fn site() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("public");
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    fs::create_dir_all(root.join("static")).unwrap();
    fs::create_dir_all(root.join("folder.php")).unwrap();
    for name in [
        "index.php",
        "info.php",
        "x.jpg.php",
        "sub/index.php",
        "sub/deep/a.php",
        "file.jpg",
        "evil.php.jpg",
        "loud.PHP",
        "old.php~",
        "old.php5",
        "style.css",
        "static/index.html",
        ".hidden.php",
        ".env",
        "folder.php/inner.php",
    ] {
        fs::write(root.join(name), name).unwrap();
    }
    fs::write(folder.path().join("secret.php"), "outside").unwrap();
    symlink("../secret.php", root.join("link.php")).unwrap();
    symlink(folder.path().join("secret.php"), root.join("absolute.php")).unwrap();
    symlink("info.php", root.join("inside.php")).unwrap();
    Site { options: ScriptOptions::new(root), folder }
}

fn place(options: &ScriptOptions, path: &str) -> String {
    match FileCache::default().place(options, path, Instant::now()) {
        Ok(Place::Script(script)) => format!("run {} [{}]", script.names, script.path_info),
        Ok(Place::File(path)) => format!("send {path}"),
        Ok(Place::Folder) => "slash".to_owned(),
        Err(FileError::NotFound { .. }) => "-".to_owned(),
        Err(FileError::Forbidden { .. }) => "forbidden".to_owned(),
        Err(e) => panic!("{path}: {e}"),
    }
}

#[track_caller]
fn check(options: &ScriptOptions, path: &str, expected: &str) {
    assert_eq!(place(options, path), expected, "{path}");
}

#[test]
fn scripts_files_and_folders() {
    let Site { options, folder: _kept } = site();
    check(&options, "/info.php", "run info.php []");
    check(&options, "/info.php/a/b", "run info.php [/a/b]");
    check(&options, "/info.php/", "run info.php [/]");
    check(&options, "/sub/deep/a.php/x.php", "run sub/deep/a.php [/x.php]");
    check(&options, "/x.jpg.php", "run x.jpg.php []");
    check(&options, "/inf%6f.php", "run info.php []");
    check(&options, "/", "run index.php []");
    check(&options, "", "run index.php []");
    check(&options, "/sub/", "run sub/index.php []");
    check(&options, "/sub", "slash");
    check(&options, "/static/", "send /static/index.html");
    check(&options, "/style.css", "send /style.css");
    check(&options, "/file.jpg", "send /file.jpg");
    check(&options, "/empty/", "-");
    check(&options, "/nothing", "-");
    check(&options, "/nothing.php", "-");
}

/// An upload is not run, whatever is written behind its name.
#[test]
fn what_is_below_a_file_is_not_run() {
    let Site { options, folder: _kept } = site();
    for path in ["/file.jpg/x.php", "/file.jpg/.php", "/file.jpg%2Fx.php", "/file.jpg%00.php", "/file.jpg/index.php/x"]
    {
        check(&options, path, "-");
    }
    check(&options, "/evil.php.jpg", "-"); // neither run nor shown
    check(&options, "/evil.php.jpg/x.php", "-");
}

#[test]
fn no_source_is_sent() {
    let Site { options, folder: _kept } = site();
    for path in ["/loud.PHP", "/old.php~", "/old.php5", "/.hidden.php", "/.env", "/info.php%20", "/info.php."] {
        check(&options, path, "-");
    }
    let html = ScriptOptions { suffix: ".py".to_owned(), ..options };
    check(&html, "/style.css", "send /style.css");
}

/// CVE-2019-11043: a newline made the split fail and left an empty PATH_INFO.
#[test]
fn newlines_and_their_like_go_nowhere() {
    let Site { options, folder: _kept } = site();
    for path in [
        "/info.php/%0a",
        "/info.php/a%0Ab",
        "/info.php%0a",
        "/info.php%0a/x",
        "/%0a/info.php",
        "/info.php/%0d",
        "/info.php/%00",
    ] {
        check(&options, path, "-");
    }
}

#[test]
fn encoded_slashes_and_parents() {
    let Site { options, folder: _kept } = site();
    check(&options, "/sub%2Findex.php", "-");
    check(&options, "/info.php%2Fa", "-");
    check(&options, "/info.php/a%2Fb", "run info.php [/a/b]");
    check(&options, "/info.php//a", "run info.php [//a]");
    for path in ["/../secret.php", "/%2e%2e/secret.php", "/sub/../info.php", "/info.php/../x", "/info.php/%2e%2e%2fx"] {
        check(&options, path, "-");
    }
    for path in ["/info.php/%", "/info.php/%zz", "/info.php/%ff"] {
        check(&options, path, "-");
    }
}

#[test]
fn links_do_not_lead_out() {
    let Site { options, folder: _kept } = site();
    check(&options, "/link.php", "-");
    check(&options, "/absolute.php", "-");
    check(&options, "/folder.php", "-");
    check(&options, "/folder.php/inner.php", "-");
    // Where the kernel has openat2.
    if cfg!(target_os = "linux") && place(&options, "/inside.php") != "-" {
        check(&options, "/inside.php", "run inside.php []");
    }
}

#[test]
fn a_front_controller_gets_what_is_no_file() {
    let Site { options, folder: _kept } = site();
    let options = ScriptOptions { fallback: Some("index.php".to_owned()), ..options };
    for path in
        ["/nothing", "/nothing.php", "/a/b?c", "/empty/", "/.env", "/old.php5", "/file.jpg/x.php", "/x%0a", "/link.php"]
    {
        check(&options, path, "run index.php []");
    }
    check(&options, "/style.css", "send /style.css");
    check(&options, "/info.php/a", "run info.php [/a]");
}

#[test]
fn only_what_is_allowed_runs() {
    let Site { options, folder: _kept } = site();
    let allowed = ["index.php", "sub/"].map(|pattern| ScriptPattern::new(pattern).unwrap());
    let options = ScriptOptions { allowed: Some(allowed.to_vec()), ..options };
    check(&options, "/", "run index.php []");
    check(&options, "/sub/deep/a.php", "run sub/deep/a.php []");
    check(&options, "/info.php", "forbidden");
    check(&options, "/x.jpg.php/y", "forbidden");
}

/// `wp-*.php` is none of the uploads in wp-content.
#[test]
fn a_star_stays_within_a_name() {
    for (pattern, names, expected) in [
        ("wp-*.php", "wp-login.php", true),
        ("wp-*.php", "wp-content/uploads/x.php", false),
        ("*.php", "a/b.php", false),
        ("*/b.php", "a/b.php", true),
        ("*/b.php", "a/c/b.php", false),
        ("admin/", "admin/a/b.php", true),
        ("admin/", "administrator.php", false),
        ("admin/*", "admin/a.php", true),
        ("admin/*", "admin/a/b.php", false),
    ] {
        assert_eq!(ScriptPattern::new(pattern).unwrap().matches(names), expected, "{pattern} {names}");
    }
    assert_eq!(ScriptPattern::new("/a"), Err(NotAPattern::Slash));
}

/// What a program is told is where the folder really is: a release is not changed below a request.
#[test]
fn the_root_is_without_links() {
    let Site { options, folder } = site();
    symlink("public", folder.path().join("current")).unwrap();
    let options = ScriptOptions { files: ScriptOptions::new(folder.path().join("current")).files, ..options };
    let found = FileCache::default().place(&options, "/info.php", Instant::now()).unwrap();
    let real = fs::canonicalize(folder.path().join("public")).unwrap();
    assert!(matches!(found, Place::Script(script) if *script.root == *real));
}
