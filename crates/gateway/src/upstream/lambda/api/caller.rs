//! Who asks: the port of an instance is open to every process of the machine, but the kernel knows whose its
//! connections are.

use std::net::{IpAddr, SocketAddr};

/// The kernel's lists of connections: Java's are among those of IPv6, whatever they lead to.
const LISTS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The user of the socket that connects `from` that address `to` ours. `None`: the kernel does not say, or it has gone.
pub(super) async fn user(from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let look = move || LISTS.iter().find_map(|list| find(&std::fs::read_to_string(list).ok()?, from, to));
    tokio::task::spawn_blocking(look).await.ok().flatten()
}

/// Whether the kernel has such lists.
pub(super) fn are_known() -> bool {
    cfg!(target_os = "linux") && std::path::Path::new(LISTS[0]).exists()
}

/// `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid …` (proc_net_tcp).
fn find(list: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    list.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let ends = (address(words.next()?)?, address(words.next()?)?);
        (ends == (from, to)).then(|| words.nth(4)?.parse().ok())?
    })
}

/// `0100007F:1F90`: words of 32 bits in the order of this machine, and the port. IPv4 that is written as IPv6 is IPv4.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match host.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::from(<[u8; 16]>::try_from(words.concat()).ok()?).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn who_connects() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000   100        0 21 1 0 100 0 0 10 0\n   \
             1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 22 1 0 20 4 30 10 -1\n   \
             2: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 23 1 0 20 4 30 10 -1\n";
        let (client, server) = ("127.0.0.1:40000".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
        assert_eq!(find(list, client, server), Some(1000));
        assert_eq!(find(list, server, client), Some(0));
        assert_eq!(find(list, server, server), None);
        let mapped = "0000000000000000FFFF00000100007F:9C40";
        assert_eq!(address(mapped), Some(client));
        for wrong in ["", "0100007F", "0100007:1F90", "0100007F:x"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_of_ours_is_ours() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let client = tokio::net::TcpStream::connect(to).await.unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(user(client.local_addr().unwrap(), to).await, Some(own));
    }
}
