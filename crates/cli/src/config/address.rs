//! Addresses to listen on, and addresses of services that somebody else starts. Pure: no name is looked up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use pilotlight_gateway::{CgiProtocol, ExternalAddr, ListenAddr, ServerProtocol, Versions};
use pilotlight_supervisor::limits::MAX_SOCKET_PATH;

use super::model::joined;
use super::pattern::host_name;
use super::shown::shown;
use super::value::Rejected;

/// Reads an address to listen on: `IP:PORT`, `[IPv6]:PORT`, `localhost:PORT` or `unix:PATH`.
pub(super) fn listener(text: &str, folder: &Path) -> Result<ListenAddr, Rejected> {
    if let Some(path) = text.strip_prefix("unix:") {
        return socket_path(path, folder).map(ListenAddr::Unix);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(ListenAddr::Tcp(address));
    }
    Err(match text.rsplit_once(':') {
        Some(("localhost", port)) => return Ok(ListenAddr::Tcp((Ipv4Addr::LOCALHOST, parse_port(port)?).into())),
        Some(("" | "*", port)) => Rejected::help(
            format!("{} does not say on which address", shown(text)),
            format!(
                "write \"127.0.0.1:{port}\" for this machine only, or \"0.0.0.0:{port}\" for everybody who can reach it"
            ),
        ),
        _ if text.contains("://") => Rejected::help(
            format!("{} is a URL, not an address", shown(text)),
            "write the IP address and the port alone, for example \"127.0.0.1:8080\"",
        ),
        _ if text.parse::<u16>().is_ok() => Rejected::help(
            format!("{} is a port without an address", shown(text)),
            format!("write \"127.0.0.1:{text}\""),
        ),
        _ if text.parse::<IpAddr>().is_ok() => {
            let address = if text.contains(':') { format!("[{text}]") } else { text.to_owned() };
            Rejected::help(format!("{} has no port", shown(text)), format!("write \"{address}:8080\""))
        }
        Some((host, port)) if is_ip(host) => parse_port(port).err().unwrap_or_else(|| malformed(text)),
        Some((host, _)) if host_name(host).is_ok() && host.contains(|c: char| c.is_ascii_alphabetic()) => {
            Rejected::help(
                format!("{} has a host name; only an IP address of this machine can be listened on", shown(text)),
                "write \"127.0.0.1:8080\", \"[::1]:8080\" or \"unix:pilotlight.sock\"",
            )
        }
        _ if text.starts_with('/') || text.starts_with("./") => {
            Rejected::help(format!("{} is a path", shown(text)), format!("for a Unix socket write \"unix:{text}\""))
        }
        _ => malformed(text),
    })
}

/// What an address says of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Nothing,
    Http,
    Https,
}

/// Reads an address for clients: as [`listener`] does, or with `http://` or `https://` in front, whose ports may be
/// left out.
pub(super) fn client_listener(text: &str, folder: &Path) -> Result<(ListenAddr, Said), Rejected> {
    for (scheme, port, said) in [("http://", 80, Said::Http), ("https://", 443, Said::Https)] {
        let Some(rest) = strip_scheme(text, scheme) else { continue };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let whole = if has_port { rest.to_owned() } else { format!("{rest}:{port}") };
        // RFC 6761 §6.3: every name below it is this machine.
        let whole = match whole.rsplit_once(':') {
            Some((host, port)) if host.ends_with(".localhost") => format!("localhost:{port}"),
            _ => whole,
        };
        return match listener(&whole, folder)? {
            ListenAddr::Unix(_) => Err(malformed(text)),
            address => Ok((address, said)),
        };
    }
    listener(text, folder).map(|address| (address, Said::Nothing))
}

/// The name of an address for TLS that the local authority signs for: `localhost`, or one below it.
pub(super) fn local_host(text: &str) -> Option<String> {
    let rest = strip_scheme(text, "https://")?.trim_end_matches('/');
    let host = rest.split(':').next().unwrap_or(rest).to_ascii_lowercase();
    (host == "localhost" || host.ends_with(".localhost")).then_some(host)
}

/// An address to listen on as it stands in the file.
pub(super) fn written(address: &ListenAddr) -> String {
    match address {
        ListenAddr::Tcp(address) => address.to_string(),
        ListenAddr::Tls(address) => format!("https://{address}"),
        ListenAddr::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// Whether only this machine can connect to the address.
pub(super) fn is_local(address: &ListenAddr) -> bool {
    match address {
        ListenAddr::Tcp(address) | ListenAddr::Tls(address) => address.ip().is_loopback(),
        ListenAddr::Unix(_) => true,
    }
}

/// The schemes of services that somebody else starts.
const SCHEMES: [(&str, ServerProtocol); 6] = [
    ("http", ServerProtocol::Http1),
    ("https", ServerProtocol::Https(Versions::Both)),
    ("h2c", ServerProtocol::H2c),
    ("fastcgi", ServerProtocol::Cgi(CgiProtocol::FastCgi)),
    ("scgi", ServerProtocol::Cgi(CgiProtocol::Scgi)),
    ("uwsgi", ServerProtocol::Cgi(CgiProtocol::Uwsgi)),
];

/// Reads the address of a service that somebody else starts: `http://HOST[:PORT]`, the same with another scheme, or
/// `unix:PATH`.
pub(super) fn upstream(text: &str, folder: &Path) -> Result<(ExternalAddr, ServerProtocol), Rejected> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
        return socket_path(path, folder).map(|path| (ExternalAddr::Unix(path), ServerProtocol::Http1));
    }
    let of = |(scheme, protocol): (&'static str, _)| {
        let (head, rest) = text.split_once("://")?;
        head.eq_ignore_ascii_case(scheme).then_some((scheme, rest, protocol))
    };
    let Some((scheme, rest, protocol)) = SCHEMES.into_iter().find_map(of) else { return Err(unknown_scheme(text)) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if !matches!(path, "" | "/") {
        return Err(Rejected::help(
            format!("{} has more than a host and a port", shown(text)),
            format!(
                "write \"{scheme}://{authority}\"; the request's own path is sent, and `strip_prefix` in the route shortens it"
            ),
        ));
    }
    if authority.contains('@') {
        return Err(Rejected::help(
            format!("{} carries a user name", shown("http://…@…")),
            "take it away; a service's credentials do not belong here",
        ));
    }
    let by_custom = if matches!(protocol, ServerProtocol::Https(_)) { 443 } else { 80 };
    let (host, port) = host_and_port(authority, by_custom)?;
    if matches!(protocol, ServerProtocol::Cgi(_)) && authority == host.as_str() {
        return Err(Rejected::help(
            format!("{} needs a port: there is none that {scheme} has by custom", shown(text)),
            format!("write \"{scheme}://{authority}:9000\""),
        ));
    }
    if port == 0 {
        return Err(Rejected::help(
            format!("{} has port 0", shown(text)),
            "write the port that the service listens on",
        ));
    }
    Ok((ExternalAddr::Tcp(host, port), protocol))
}

/// Reads the name of SRV records that tell the servers of a service, `http+srv://_web._tcp.example.org` or the same
/// with another scheme. `None`: it is something else.
pub(super) fn srv(text: &str) -> Option<Result<(String, ServerProtocol), Rejected>> {
    const MAX_NAME: usize = 253; // RFC 1035 §2.3.4, without the root's label and the first length
    let (scheme, name) = text.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let scheme = scheme.strip_suffix("+srv")?;
    let help = format!("write \"{scheme}+srv://_web._tcp.example.org\": the records tell hosts and ports");
    let Some((_, protocol)) = SCHEMES.into_iter().find(|(known, _)| *known == scheme) else {
        return Some(Err(unknown_scheme(text)));
    };
    let labels = name.strip_suffix('.').unwrap_or(name).split('.');
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if name.len() > MAX_NAME || !labels.into_iter().all(is_label) {
        return Some(Err(Rejected::help(format!("{} is no name of SRV records", shown(name)), help)));
    }
    Some(Ok((name.to_owned(), protocol)))
}

fn host_and_port(authority: &str, by_custom: u16) -> Result<(String, u16), Rejected> {
    if let Some(rest) = authority.strip_prefix('[') {
        let Some((address, after)) = rest.split_once(']') else {
            return Err(Rejected::help(format!("{} has no `]`", shown(authority)), "write \"http://[::1]:9000\""));
        };
        let Ok(address) = address.parse::<Ipv6Addr>() else {
            return Err(Rejected::help(
                format!("{} is not an IPv6 address", shown(address)),
                "write \"http://[::1]:9000\"",
            ));
        };
        let port = match after.strip_prefix(':') {
            Some(port) => parse_port(port)?,
            None if after.is_empty() => by_custom,
            None => {
                return Err(Rejected::help(format!("{} follows the `]`", shown(after)), "write \"http://[::1]:9000\""));
            }
        };
        return Ok((address.to_string(), port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, parse_port(port)?),
        None => (authority, by_custom),
    };
    host_name(host).map(|host| (host, port))
}

pub(super) fn socket_path(path: &str, folder: &Path) -> Result<PathBuf, Rejected> {
    const EXAMPLE: &str = "write \"unix:/run/app.sock\" or \"unix:app.sock\" (beside this file)";
    if path.is_empty() || path.ends_with('/') {
        return Err(Rejected::help("`unix:` needs the path of a socket", EXAMPLE));
    }
    if let Some(name) = path.strip_prefix('@') {
        let message = "sockets of the abstract namespace (`@`) are not supported: every user may connect to them";
        return Err(Rejected::help(message, format!("write \"unix:./@{name}\" if a file is meant")));
    }
    if path.contains('\0') {
        return Err(Rejected::help("the path of the socket has a zero byte in it", EXAMPLE));
    }
    let path = joined(folder, path);
    let length = path.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        return Err(Rejected::help(
            format!(
                "the socket's path has {length} bytes; the system takes at most {MAX_SOCKET_PATH}: {}",
                path.display()
            ),
            "use a shorter path, for example below /run or /tmp",
        ));
    }
    Ok(path)
}

fn parse_port(text: &str) -> Result<u16, Rejected> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits => Ok(port),
        _ if digits => Err(Rejected::help(format!("{} is not a port", shown(text)), "a port is a number up to 65535")),
        _ => Err(Rejected::help(
            format!("{} is not a port", shown(text)),
            "write a number after the `:`, for example 8080",
        )),
    }
}

fn is_ip(host: &str) -> bool {
    host.parse::<Ipv4Addr>().is_ok()
        || host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .is_some_and(|host| host.parse::<Ipv6Addr>().is_ok())
}

/// The rest after a scheme, whose case has no meaning (RFC 3986 §3.1).
fn strip_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn unknown_scheme(text: &str) -> Rejected {
    const EXAMPLE: &str = "write \"http://127.0.0.1:9000\" or \"unix:/run/app.sock\"";
    match text.split_once("://") {
        Some((scheme, _)) => {
            Rejected::help(format!("{} is not a scheme that Pilotlight knows", shown(scheme)), EXAMPLE)
        }
        None if text.starts_with('/') => {
            Rejected::help(format!("{} is a path", shown(text)), format!("for a Unix socket write \"unix:{text}\""))
        }
        None if host_and_port(text, 80).is_ok() => {
            Rejected::help(format!("{} has no scheme", shown(text)), format!("write \"http://{text}\""))
        }
        None => Rejected::help(format!("{} is not a URL", shown(text)), EXAMPLE),
    }
}

fn malformed(text: &str) -> Rejected {
    Rejected::help(
        format!("{} is not an address", shown(text)),
        "write \"127.0.0.1:8080\", \"[::1]:8080\" or \"unix:pilotlight.sock\"",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_listener(text: &str, expected: &str) {
        let got = match listener(text, Path::new("/etc/p")) {
            Ok(address) => written(&address),
            Err(wrong) => format!("! {} ({})", wrong.reason, wrong.help.unwrap_or_default()),
        };
        assert!(got.contains(expected), "{text:?}: {got}");
    }

    #[track_caller]
    fn check_upstream(text: &str, expected: &str) {
        let got = match upstream(text, Path::new("/etc/p")) {
            Ok((ExternalAddr::Tcp(host, port), ServerProtocol::Http1)) => format!("{host} {port}"),
            Ok((ExternalAddr::Tcp(host, port), ServerProtocol::Https(_))) => format!("https {host} {port}"),
            Ok((ExternalAddr::Tcp(host, port), ServerProtocol::H2c)) => format!("h2c {host} {port}"),
            Ok((ExternalAddr::Tcp(host, port), ServerProtocol::Cgi(cgi))) => format!("{} {host} {port}", cgi.name()),
            Ok((ExternalAddr::Unix(path), _)) => format!("unix {}", path.display()),
            Err(wrong) => format!("! {} ({})", wrong.reason, wrong.help.unwrap_or_default()),
        };
        assert!(got.contains(expected), "{text:?}: {got}");
    }

    #[test]
    fn listeners() {
        check_listener("127.0.0.1:8080", "127.0.0.1:8080");
        check_listener("[::1]:80", "[::1]:80");
        check_listener("localhost:0", "127.0.0.1:0");
        check_listener("unix:/run/p.sock", "unix:/run/p.sock");
        check_listener("unix:./p.sock", "unix:/etc/p/p.sock");
        check_listener(":8080", "\"0.0.0.0:8080\" for everybody");
        check_listener("8080", "write \"127.0.0.1:8080\"");
        check_listener("::1", "write \"[::1]:8080\"");
        check_listener("10.0.0.1", "write \"10.0.0.1:8080\"");
        check_listener("127.0.0.1:99999", "up to 65535");
        check_listener("127.0.0.1:http", "`http` is not a port");
        check_listener("localhost:x", "`x` is not a port");
        check_listener("localhost:+1", "`+1` is not a port");
        check_listener("example.org:80", "only an IP address");
        check_listener("http://127.0.0.1:80", "is a URL");
        check_listener("/run/p.sock", "\"unix:/run/p.sock\"");
        check_listener("unix:", "needs the path");
        check_listener("", "is not an address");
        check_listener(&format!("unix:/{}", "x".repeat(200)), "has 201 bytes");
    }

    #[test]
    fn upstreams() {
        check_upstream("http://127.0.0.1:9000", "127.0.0.1 9000");
        check_upstream("HTTP://Example.ORG/", "example.org 80");
        check_upstream("http://[::1]:9000", "::1 9000");
        check_upstream("http://[::1]", "::1 80");
        check_upstream("http://my_app:1", "my_app 1");
        check_upstream("h2c://127.0.0.1:50051", "h2c 127.0.0.1 50051");
        check_upstream("fastcgi://127.0.0.1:9000", "fastcgi 127.0.0.1 9000");
        check_upstream("SCGI://[::1]:4000", "scgi ::1 4000");
        check_upstream("uwsgi://app:3031", "uwsgi app 3031");
        check_upstream("fastcgi://127.0.0.1", "needs a port");
        check_upstream("h2c://127.0.0.1:50051/api", "write \"h2c://127.0.0.1:50051\"");
        check_upstream("unix:/run/a.sock", "unix /run/a.sock");
        check_upstream("unix:///run/a.sock", "unix /run/a.sock");
        check_upstream("unix:a.sock", "unix /etc/p/a.sock");
        check_upstream("http://127.0.0.1:9000/api", "write \"http://127.0.0.1:9000\"");
        check_upstream("http://u:secret@h", "carries a user name");
        check_upstream("http://h:0", "port 0");
        check_upstream("http://", "is empty");
        check_upstream("http://[::1", "has no `]`");
        check_upstream("http://[x]", "not an IPv6 address");
        check_upstream("http://[::1]x", "follows the `]`");
        check_upstream("https://127.0.0.1", "https 127.0.0.1 443");
        check_upstream("127.0.0.1:9000", "write \"http://127.0.0.1:9000\"");
        check_upstream("ftp://x", "`ftp` is not a scheme");
        check_upstream("/run/a.sock", "\"unix:/run/a.sock\"");
        check_upstream("http://h\u{e9}", "ASCII");
    }

    #[test]
    fn a_secret_in_a_url_is_not_repeated() {
        let wrong = upstream("http://u:secret@h", Path::new("/")).unwrap_err();
        assert!(!format!("{wrong:?}").contains("secret"));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in any::<String>(), scheme in "(http://|unix:|\\[|)") {
            let text = format!("{scheme}{text}");
            let _ = (listener(&text, Path::new("/")), upstream(&text, Path::new("/")));
        }
    }
}
