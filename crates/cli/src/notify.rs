//! Notifies a service manager (`sd_notify`, systemd) by datagrams to the socket in `NOTIFY_SOCKET`. Without that
//! variable nothing is sent.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// A notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// It listens; also the end of a reload.
    Ready,
    /// It reads its configuration again, or lets a successor begin.
    Reloading,
    /// It ends.
    Stopping,
    /// Another process is the one to watch.
    Successor(u32),
}

impl Note {
    fn text(self) -> String {
        match self {
            Self::Ready => "READY=1".to_owned(),
            // Type=notify-reload wants to know that this is said after its signal.
            Self::Reloading => {
                let now = clock_gettime(ClockId::Monotonic);
                format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000)
            }
            Self::Stopping => "STOPPING=1".to_owned(),
            Self::Successor(pid) => format!("MAINPID={pid}\nREADY=1"),
        }
    }
}

/// Tells the service manager, if there is one.
pub(crate) fn tell(note: Note) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else { return };
    let told = address(socket.as_bytes())
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(note.text().as_bytes(), &address));
    if let Err(e) = told {
        tracing::warn!("the service manager could not be told ({note:?}): {e}");
    }
}

fn address(name: &[u8]) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix(b"@") {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_has_a_time() {
        let text = Note::Reloading.text();
        let time: i64 = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().parse().unwrap();
        assert!(time > 0);
        assert_eq!(Note::Successor(7).text(), "MAINPID=7\nREADY=1");
    }

    #[test]
    fn both_kinds_of_sockets() {
        assert!(address(b"/run/x").unwrap().as_pathname().is_some());
        assert!(address(b"@x").unwrap().as_pathname().is_none());
    }
}
