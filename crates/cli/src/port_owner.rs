//! Which process listens at an address, where `/proc` shows it to this user.

use std::fs;
use std::path::Path;

use pilotlight_gateway::ListenAddr;

/// Most processes and descriptors that are looked at.
const MAX_LOOKED_AT: usize = 200_000;

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u64,
    pub(crate) name: String,
}

/// Process that listens at an address; `None` where that is not shown.
pub(crate) fn owner(address: &ListenAddr) -> Option<Owner> {
    let (ListenAddr::Tcp(address) | ListenAddr::Tls(address)) = address else { return None };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inodes: Vec<&str> = tables.iter().flat_map(|table| listening(table, address.port())).collect();
    if inodes.is_empty() {
        return None;
    }
    let sockets: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbered = processes.filter_map(|one| Some((one.file_name().to_str()?.parse::<u64>().ok()?, one.path())));
    let mut looked_at = 0;
    for (pid, folder) in numbered {
        for descriptor in fs::read_dir(folder.join("fd")).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > MAX_LOOKED_AT {
                return None;
            }
            let is_it = |link: &Path| link.to_str().is_some_and(|link| sockets.iter().any(|socket| socket == link));
            if fs::read_link(descriptor.path()).is_ok_and(|link| is_it(&link)) {
                let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
                return Some(Owner { pid, name: name.trim().to_owned() });
            }
        }
    }
    None
}

/// The inodes of listening sockets at a port, in a table of the kernel.
fn listening(table: &str, port: u16) -> Vec<&str> {
    const LISTEN: &str = "0A";
    let of_line = |line: &'_ str| -> Option<(u16, bool)> {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next()?.rsplit(':').next()?;
        let state = words.nth(1)?;
        Some((u16::from_str_radix(local, 16).ok()?, state == LISTEN))
    };
    let lines = table.lines().skip(1).filter(|line| of_line(line) == Some((port, true)));
    lines.filter_map(|line| line.split_whitespace().nth(9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_has_the_inodes_of_a_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0\n\
            1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 4243 1 0\n\
            2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1 0\n";
        assert_eq!(listening(table, 8080), ["4242"]);
        assert_eq!(listening(table, 80), ["17"]);
        assert!(listening(table, 81).is_empty() && listening("", 80).is_empty());
    }
}
