use super::*;
use crate::pack::pack;
use proptest::prelude::*;
use std::io::Write as _;
use tar::{Builder, Header};

/// An entry as an attacker writes it: `Builder` itself refuses some of these paths.
fn entry(path: &str, kind: EntryType, link: &str, data: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_mtime(1_700_000_000);
    header.set_size(data.len() as u64);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

#[track_caller]
fn check(entries: &[Vec<u8>], expected: Result<usize, &str>) {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("release");
    fs::create_dir(&folder).unwrap();
    let found = unpack(&archive(entries)[..], &folder, Limits { entries: 4, bytes: 100 });
    match (&found, expected) {
        (Ok(unpacked), Ok(entries)) => assert_eq!(unpacked.entries, entries),
        (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
        _ => panic!("{found:?}, not {expected:?}"),
    }
    let beside: Vec<_> = fs::read_dir(outer.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside, ["release"], "something was written outside");
}

fn file(path: &str) -> Vec<u8> {
    entry(path, EntryType::Regular, "", b"x")
}

fn link(path: &str, target: &str) -> Vec<u8> {
    entry(path, EntryType::Symlink, target, b"")
}

#[test]
fn nothing_leads_out() {
    check(&[file("a/b/c"), file("./d")], Ok(2));
    check(&[file("../escaped")], Err("leads out"));
    check(&[file("a/../../escaped")], Err("leads out"));
    check(&[file("/tmp/escaped")], Err("absolute"));
    check(&[link("python", "/usr/bin/python3"), link("up", "../..")], Ok(2)); // they are not followed
    check(&[link("a", "/etc"), file("a/b")], Err("through a link"));
    check(&[link("a", ".."), entry("a/b", EntryType::Directory, "", b"")], Err("through a link"));
    check(&[link("a", ".."), link("a", "b")], Err("through a link"));
    check(&[link("a", "/etc/passwd"), entry("b", EntryType::Link, "a", b"")], Err("no file"));
    check(&[link("a", "."), file("a/b")], Err("through a link"));
    check(&[link("a", "b"), file("a")], Err("through a link"));
    check(&[entry("a", EntryType::Link, "../b", b"")], Err("leads out"));
    check(&[entry("a", EntryType::Link, "/etc/passwd", b"")], Err("absolute"));
    check(&[link("a", "b"), entry("c", EntryType::Link, "a", b"")], Err("no file"));
    check(&[file("a"), entry("b", EntryType::Link, "a", b"")], Ok(2));
}

#[test]
fn only_files_folders_and_links() {
    check(&[entry("a", EntryType::Char, "", b"")], Err("is a device"));
    check(&[entry("a", EntryType::Block, "", b"")], Err("is a device"));
    check(&[entry("a", EntryType::Fifo, "", b"")], Err("is a named pipe"));
    check(&[entry("a", EntryType::new(b'S' + 1), "", b"")], Err("neither"));
    check(&[file("a"), file("a")], Err("cannot be written"));
}

#[test]
fn limits() {
    check(&[file("1"), file("2"), file("3"), file("4")], Ok(4));
    check(&[file("1"), file("2"), file("3"), file("4"), file("5")], Err("more than 4 entries"));
    let large = |path, size| entry(path, EntryType::Regular, "", &vec![7; size]);
    check(&[large("1", 99), large("2", 1)], Ok(2));
    check(&[large("1", 99), large("2", 2)], Err("more than 100 bytes"));
    check(&[], Err("empty"));
    let folder = tempfile::tempdir().unwrap();
    let cut = &archive(&[large("1", 99)])[..600];
    assert!(matches!(unpack(cut, folder.path(), Limits::default()), Err(UnpackError::Archive(_))));
    for whole in [&file("between")[..], &[file("two"), file("entries")].concat()] {
        let found = unpack(whole, folder.path(), Limits::default());
        assert!(matches!(found, Err(UnpackError::Archive(_))), "cut off between two entries: {found:?}");
    }
    assert!(matches!(
        unpack(&b"PK\x03\x04"[..], folder.path(), Limits::default()),
        Err(UnpackError::Kind("a zip file"))
    ));
    assert!(matches!(unpack(&b""[..], folder.path(), Limits::default()), Err(UnpackError::Empty)));
}

#[test]
fn permissions_are_kept_but_for_those_that_make_somebody_else() {
    let folder = tempfile::tempdir().unwrap();
    unpack(&archive(&[file("run")])[..], folder.path(), Limits::default()).unwrap();
    let found = fs::metadata(folder.path().join("run")).unwrap();
    assert_eq!(found.permissions().mode() & 0o7777, 0o755);
    assert_eq!(found.modified().unwrap(), UNIX_EPOCH + Duration::from_secs(1_700_000_000));
}

#[test]
fn compressed_archives() {
    let bytes = archive(&[file("a")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    for packed in [gzip.finish().unwrap(), zstd::encode_all(&bytes[..], 1).unwrap()] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(unpack(&packed[..], folder.path(), Limits::default()).unwrap().bytes, 1);
    }
}

#[test]
fn what_could_not_be_packed_to_its_end_is_not_unpacked() {
    let from = tempfile::tempdir().unwrap();
    fs::write(from.path().join("a"), vec![7; 300_000]).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.path().join("b")).unwrap();
    let mut sent = Vec::new();
    let packed = crate::pack::compressed(&mut sent, |out| pack(from.path(), None, out));
    assert!(packed.unwrap_err().to_string().contains("/b"), "no socket is in an archive");
    let to = tempfile::tempdir().unwrap();
    let found = unpack(&sent[..], to.path(), Limits::default());
    assert!(matches!(found, Err(UnpackError::Archive(_))), "{found:?}");
}

#[test]
fn a_folder_comes_out_as_it_went_in() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    fs::create_dir_all(from.path().join("d".repeat(120))).unwrap();
    fs::create_dir_all(from.path().join(".git")).unwrap();
    fs::create_dir_all(from.path().join("srv/releases")).unwrap();
    for path in ["app.py", ".env", ".git/config", "srv/releases/old", &long] {
        fs::write(from.path().join(path), path).unwrap();
    }
    symlink("app.py", from.path().join("main.py")).unwrap();
    let mut bytes = Vec::new();
    pack(from.path(), Some(&from.path().join("srv/releases")), &mut bytes).unwrap();
    unpack(&bytes[..], to.path(), Limits::default()).unwrap();
    for path in ["app.py", ".env", &long] {
        assert_eq!(fs::read_to_string(to.path().join(path)).unwrap(), path);
    }
    assert_eq!(fs::read_link(to.path().join("main.py")).unwrap(), Path::new("app.py"));
    assert!(!to.path().join(".git").exists() && !to.path().join("srv/releases").exists());
}

proptest! {
    #[test]
    fn whatever_is_read_nothing_is_written_outside(
        parts in proptest::collection::vec((0..3_usize, "(\\.\\./|/|a/|b/|\\./){0,4}[ab.]{1,2}", "(\\.\\./|/|a/|b/){0,4}[ab.]{1,2}"), 1..6),
        broken in proptest::option::of((0..3000_usize, any::<u8>())),
    ) {
        let kinds = [EntryType::Regular, EntryType::Symlink, EntryType::Link];
        let entries: Vec<_> = parts.iter().map(|(kind, path, target)| entry(path, kinds[*kind], target, b"")).collect();
        let mut bytes = archive(&entries);
        if let Some((at, byte)) = broken {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("1/2/3/4/5/release");
        fs::create_dir_all(&folder).unwrap();
        let _ = unpack(&bytes[..], &folder, Limits { entries: 10, bytes: 10_000 });
        let mut above = folder.as_path();
        while let Some(parent) = above.parent().filter(|_| above != outer.path()) {
            prop_assert_eq!(fs::read_dir(parent).unwrap().count().min(2), 1, "beside {}", above.display());
            above = parent;
            if above == outer.path() { break; }
        }
        let mut all = vec![folder.clone()];
        while let Some(dir) = all.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let kind = fs::symlink_metadata(&path).unwrap().file_type();
                prop_assert!(kind.is_symlink() || kind.is_file() || kind.is_dir(), "{}", path.display());
                if kind.is_dir() {
                    all.push(path);
                }
            }
        }
    }
}

#[test]
fn what_the_builder_makes_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(2);
    header.set_mode(0o600);
    header.set_cksum();
    builder.append_data(&mut header, "x".repeat(150), &b"ok"[..]).unwrap();
    let bytes = builder.into_inner().unwrap();
    assert_eq!(unpack(&bytes[..], folder.path(), Limits::default()).unwrap(), Unpacked { entries: 1, bytes: 2 });
}
