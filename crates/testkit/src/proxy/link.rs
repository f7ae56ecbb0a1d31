//! One connection through the proxy: its faults, its counters and its end.

use super::faults::{Direction, Ending, Faults};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Link {
    client_addr: SocketAddr,
    control: watch::Sender<Control>,
    to_server: AtomicU64,
    to_client: AtomicU64,
    was_cut: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Control {
    pub(super) faults: Faults,
    end: Option<Ending>,
    is_over: bool,
}

impl Link {
    pub(super) fn new(client_addr: SocketAddr, faults: Faults) -> Self {
        let control = watch::Sender::new(Control { faults, end: None, is_over: false });
        Self { client_addr, control, to_server: 0.into(), to_client: 0.into(), was_cut: false.into() }
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Faults)) {
        self.control.send_modify(|control| change(&mut control.faults));
    }

    pub(super) fn end(&self, ending: Ending) {
        self.control.send_modify(|control| control.end = Some(ending));
    }

    pub(super) fn is_open(&self) -> bool {
        !self.control.borrow().is_over
    }

    pub(super) fn was_cut(&self) -> bool {
        self.was_cut.load(Ordering::Relaxed)
    }

    pub(super) fn client_addr(&self) -> SocketAddr {
        self.client_addr
    }

    pub(super) fn passed_to_server(&self) -> u64 {
        self.to_server.load(Ordering::Relaxed)
    }

    pub(super) fn passed_to_client(&self) -> u64 {
        self.to_client.load(Ordering::Relaxed)
    }

    pub(super) async fn ended(&self) {
        // The sender is ours, so this cannot fail.
        let _ = self.control.subscribe().wait_for(|control| control.is_over).await;
    }

    pub(super) fn mark_cut(&self) {
        self.was_cut.store(true, Ordering::Relaxed);
    }

    /// The server could not be reached, or the connection is over.
    pub(super) fn give_up(&self) {
        self.control.send_modify(|control| control.is_over = true);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Control> {
        self.control.subscribe()
    }

    /// Counts bytes that are passing.
    pub(super) fn pass(&self, direction: Direction, bytes: u64) {
        match direction {
            Direction::ToServer => self.to_server.fetch_add(bytes, Ordering::Relaxed),
            Direction::ToClient => self.to_client.fetch_add(bytes, Ordering::Relaxed),
        };
        // Nobody is notified: only the pump that passes them wants to know.
        self.control.send_if_modified(|control| {
            if let Some((left, _)) = &mut control.faults.direction_mut(direction).cut_after {
                *left = left.saturating_sub(bytes);
            }
            false
        });
    }

    /// Waits until somebody ends the connection.
    pub(super) async fn ending(&self) -> Ending {
        let mut control = self.control.subscribe();
        loop {
            if let Some(ending) = control.borrow_and_update().end {
                return ending;
            }
            let _ = control.changed().await;
        }
    }
}
