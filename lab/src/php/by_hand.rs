//! A FastCGI program started by hand, and one request to it: what PHP alone takes, without a web server.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::site::Site;
use super::{Once, Script};
use crate::processes::{Direct, usage};

const BEGIN: u8 = 1;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
/// A responder that closes the connection.
const RESPONDER: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
/// The end of every answer.
const END_BYTES: usize = 16;
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Starts the program with its socket in this folder, asks it for a script of the site, and ends it.
pub(super) fn once(command: &[String], script: Script, site: &Site, dir: &Path) -> anyhow::Result<Once> {
    let path = dir.join("php.sock");
    let listener = UnixListener::bind(&path).context("cannot listen")?;
    // Where php-fpm finds its socket; other programs find theirs as their standard input.
    let sockets = format!("{}=3", path.display());
    let variables = [
        ("FPM_SOCKETS", sockets.as_ref()),
        ("PILOTLIGHT_LISTEN", path.as_os_str()),
        ("PHP_FCGI_MAX_REQUESTS", "0".as_ref()),
        site.reaper.mark(),
    ];
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let php = Direct::new(&command, &variables, File::create(dir.join("output"))?)?.fastcgi(listener.into())?;
    let request = request(script, &site.files());
    let begin = Instant::now();
    let php = php.start()?;
    let mut socket = UnixStream::connect(&path)?;
    socket.set_read_timeout(Some(ANSWER_LIMIT))?;
    socket.write_all(&request)?;
    let mut answer = vec![0; 65536];
    let read = socket.read(&mut answer).context("no answer")?;
    let first_byte = begin.elapsed();
    answer.truncate(read);
    socket.read_to_end(&mut answer).context("no whole answer")?;
    let text = String::from_utf8_lossy(&answer[..answer.len().min(500)]);
    ensure!(answer.len() > END_BYTES && !text.contains("Status: "), "no page: {text:?}");
    let pids: Vec<u32> = usage::tree(php.pid()).into_iter().map(|process| process.pid).collect();
    std::fs::remove_file(&path)?;
    Ok(Once { first_byte, cpu: usage::cpu_time(&pids) })
}

fn request(script: Script, root: &Path) -> Vec<u8> {
    let (root, name) = (root.display().to_string(), format!("/{}", script.file));
    let file = format!("{root}{name}");
    let variables = [
        ("SCRIPT_FILENAME", file.as_str()),
        ("SCRIPT_NAME", &name),
        ("DOCUMENT_ROOT", &root),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", script.target),
        ("QUERY_STRING", ""),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("HTTP_HOST", "localhost"),
        ("SERVER_NAME", "localhost"),
        ("SERVER_PORT", "80"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REDIRECT_STATUS", "200"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
    ];
    let variables: Vec<u8> = variables.into_iter().flat_map(|(name, value)| pair(name, value)).collect();
    [record(BEGIN, &RESPONDER), record(PARAMS, &variables), record(PARAMS, &[]), record(STDIN, &[])].concat()
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0][..], content].concat()
}

/// Lengths of four bytes, which even short texts may have.
fn pair(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| (text.len() as u32 | 1 << 31).to_be_bytes();
    [&length(name)[..], &length(value), name.as_bytes(), value.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_pairs() {
        assert_eq!(record(PARAMS, &[7; 258])[..9], [1, 4, 0, 1, 1, 2, 0, 0, 7]);
        assert_eq!(pair("A", "bc"), [&[0x80, 0, 0, 1, 0x80, 0, 0, 2][..], b"Abc"].concat());
    }
}
