//! What becomes of a connection that was accepted.

use super::faults::{Direction, Ending};
use super::link::Link;
use super::pump::{Flow, Stop, pump};
use socket2::SockRef;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SWALLOW_BYTES: usize = 16 << 10;

/// Reads what the client sends and answers nothing.
pub(super) async fn swallow(link: &Link, mut client: TcpStream) {
    let mut sink = vec![0; SWALLOW_BYTES];
    tokio::select! {
        () = async { while let Ok(1..) = client.read(&mut sink).await {} } => {}
        ending = link.ending() => cut(link, ending, &mut [&mut client]).await,
    }
    drop(client);
    link.give_up();
}

/// Passes bytes both ways until the connection ends.
pub(super) async fn forward(link: &Link, mut client: TcpStream, mut server: TcpStream) {
    // What drips has to leave byte by byte.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let stop = {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        let up = pump(from_client, to_server, Flow::new(link, Direction::ToServer));
        let down = pump(from_server, to_client, Flow::new(link, Direction::ToClient));
        tokio::select! {
            both = async { tokio::try_join!(up, down) } => both.err(),
            ending = link.ending() => Some(Stop::Cut(ending)),
        }
    };
    match stop {
        Some(Stop::Cut(ending)) => cut(link, ending, &mut [&mut client, &mut server]).await,
        // An RST on one side is one on the other side, too.
        Some(Stop::Broken) => end(Ending::Reset, &mut [&mut client, &mut server]).await,
        None => {}
    }
    drop((client, server));
    link.give_up();
}

async fn cut(link: &Link, ending: Ending, streams: &mut [&mut TcpStream]) {
    link.mark_cut();
    end(ending, streams).await;
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
