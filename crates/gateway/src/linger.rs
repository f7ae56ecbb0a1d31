//! The end of a client's connection: closed with bytes unread it would be reset, and the client might never see its
//! last response (RFC 9112 §9.6).

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client may go on sending after the last response.
const MAX_LINGER: Duration = Duration::from_secs(10);
/// How long nothing may come in that time.
const MAX_LINGER_SILENCE: Duration = Duration::from_secs(2);
/// How much it may send in that time: what is on its way in the buffers of both systems, and some of an upload.
const MAX_LINGER_BYTES: usize = 64 * 1024 * 1024;
/// The same of one that has flooded the gateway: enough for what was under way when it was told.
const MAX_FLOOD_LINGER_BYTES: usize = 256 * 1024;

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It is over.
    Over,
    /// Its client sends what only costs time.
    Flood,
}

/// Ends our direction and reads what still comes.
///
/// # Cancel safety
/// Dropping it closes the connection.
pub(crate) async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin, reason: Reason) {
    let mut left = match reason {
        Reason::Over => MAX_LINGER_BYTES,
        Reason::Flood => MAX_FLOOD_LINGER_BYTES,
    };
    let closing = async {
        stream.shutdown().await?;
        let mut sink = [0; 4096];
        while left > 0 {
            let read = timeout(MAX_LINGER_SILENCE, stream.read(&mut sink)).await??;
            left = if read == 0 { 0 } else { left.saturating_sub(read) };
        }
        std::io::Result::Ok(())
    };
    // Whatever goes wrong here, the connection is closed next.
    let _ = timeout(MAX_LINGER, closing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken of a client that never stops sending.
    fn taken(reason: Reason) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (gateway, mut client) = tokio::io::duplex(64 * 1024);
            let sending = async {
                let mut sent = 0;
                while let Ok(more) = client.write(&[0; 64 * 1024]).await {
                    sent += more;
                }
                sent
            };
            tokio::join!(linger(gateway, reason), sending).1
        })
    }

    #[test]
    fn what_still_comes_is_read_up_to_a_bound() {
        let buffered = 64 * 1024;
        for (reason, most) in [(Reason::Over, MAX_LINGER_BYTES), (Reason::Flood, MAX_FLOOD_LINGER_BYTES)] {
            let taken = taken(reason);
            assert!((most..=most + buffered).contains(&taken), "{reason:?}: {taken}");
        }
    }
}
