//! The ports on which the processes of an instance listen, as Linux tells: for services that do not listen where they
//! were told to.

use crate::memory;
use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Descriptors that are looked at; sockets behind that many are not found.
const MAX_LOOKED_AT: usize = 20_000;

/// Where the process and those below it listen by TCP, the lowest port first. Empty if the system does not say.
pub(crate) fn of_tree(pid: i32) -> Vec<SocketAddr> {
    let processes = memory::tree(pid);
    let descriptors = processes.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten());
    let links = descriptors.flatten().take(MAX_LOOKED_AT).filter_map(|one| fs::read_link(one.path()).ok());
    let sockets: HashSet<String> = links.filter_map(|link| inode(link.to_str()?).map(str::to_owned)).collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    // Of its own network, if it has one.
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let mut found: Vec<SocketAddr> =
        tables.iter().flat_map(|table| table.lines()).filter_map(|line| listening(line, &sockets)).collect();
    found.sort_by_key(|address| (address.port(), address.is_ipv6()));
    found.dedup_by_key(|address| address.port());
    found
}

/// Where this machine connects to it: a program that listens on all addresses is on the loopback one as well.
pub(crate) fn reached_at(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

fn inode(link: &str) -> Option<&str> {
    link.strip_prefix("socket:[")?.strip_suffix(']')
}

/// Of a line of `/proc/net/tcp` (proc_net(5)), if it listens and is one of the sockets.
fn listening(line: &str, sockets: &HashSet<String>) -> Option<SocketAddr> {
    const LISTEN: &str = "0A";
    let mut words = line.split_ascii_whitespace().skip(1);
    let (address, port) = words.next()?.split_once(':')?;
    (words.nth(1)? == LISTEN && sockets.contains(words.nth(5)?)).then_some(())?;
    // Words of 32 bits, as this machine orders their bytes.
    let word = |at: usize| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match address.len() {
        8 => word(0)?.into(),
        _ => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            bytes.into()
        }
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_line_of_the_kernels_table() {
        let sockets = HashSet::from(["4242".to_owned()]);
        let line = |local: &str, state: &str, inode: &str| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0"
            )
        };
        let check = |local: &str, state: &str, inode: &str, expected: Option<&str>| {
            let found = listening(&line(local, state, inode), &sockets);
            assert_eq!(found, expected.map(|text| text.parse().unwrap()), "{local}");
        };
        check("0100007F:1F90", "0A", "4242", Some("127.0.0.1:8080"));
        check("0100007F:1F90", "01", "4242", None);
        check("0100007F:1F90", "0A", "4243", None);
        check("00000000000000000000000001000000:0BB8", "0A", "4242", Some("[::1]:3000"));
        check("x", "0A", "4242", None);
    }

    #[test]
    fn this_process_is_found() {
        let one = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = one.local_addr().unwrap();
        let found = of_tree(std::process::id() as i32);
        assert!(found.contains(&address), "{found:?}");
        assert_eq!(reached_at("0.0.0.0:80".parse().unwrap()), "127.0.0.1:80".parse().unwrap());
        assert_eq!(reached_at("[::]:80".parse().unwrap()), "[::1]:80".parse().unwrap());
    }
}
