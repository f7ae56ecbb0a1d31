//! One connection through the proxy: both directions, and its end.

use super::pump::{Flow, Stop, pump};
use super::{DirectionFaults, Ending, Faults};
use socket2::SockRef;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

const SWALLOW_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Link {
    client_addr: SocketAddr,
    control: watch::Sender<Control>,
    to_server: AtomicU64,
    to_client: AtomicU64,
    was_cut: AtomicBool,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    ToServer,
    ToClient,
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

    /// The server could not be reached.
    pub(super) fn give_up(&self) {
        self.control.send_modify(|control| control.is_over = true);
    }

    pub(super) async fn swallow(&self, mut client: TcpStream) {
        let mut sink = vec![0; SWALLOW_BYTES];
        tokio::select! {
            () = async { while let Ok(1..) = client.read(&mut sink).await {} } => {}
            ending = self.ending() => self.cut(ending, &mut [&mut client]).await,
        }
        drop(client);
        self.give_up();
    }

    pub(super) async fn forward(&self, mut client: TcpStream, mut server: TcpStream) {
        // What drips has to leave byte by byte.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let stop = {
            let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
            let up = pump(from_client, to_server, Flow::new(self, Direction::ToServer));
            let down = pump(from_server, to_client, Flow::new(self, Direction::ToClient));
            tokio::select! {
                both = async { tokio::try_join!(up, down) } => both.err(),
                ending = self.ending() => Some(Stop::Cut(ending)),
            }
        };
        match stop {
            Some(Stop::Cut(ending)) => self.cut(ending, &mut [&mut client, &mut server]).await,
            // An RST on one side is one on the other side, too.
            Some(Stop::Broken) => end(Ending::Reset, &mut [&mut client, &mut server]).await,
            None => {}
        }
        drop((client, server));
        self.give_up();
    }

    async fn cut(&self, ending: Ending, streams: &mut [&mut TcpStream]) {
        self.was_cut.store(true, Ordering::Relaxed);
        end(ending, streams).await;
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

    async fn ending(&self) -> Ending {
        let mut control = self.control.subscribe();
        loop {
            if let Some(ending) = control.borrow_and_update().end {
                return ending;
            }
            let _ = control.changed().await;
        }
    }
}

impl Faults {
    pub(super) fn direction(&self, direction: Direction) -> &DirectionFaults {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }

    fn direction_mut(&mut self, direction: Direction) -> &mut DirectionFaults {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}

async fn end(ending: Ending, streams: &mut [&mut TcpStream]) {
    for stream in streams {
        match ending {
            Ending::Reset => {
                let _ = SockRef::from(&**stream).set_linger(Some(Duration::ZERO));
            }
            Ending::Close => {
                let _ = stream.shutdown().await;
                // The kernel answers unread bytes at a close with RST.
                let mut unread = [0; 1024];
                while let Ok(1..) = stream.try_read(&mut unread) {}
            }
        }
    }
}
