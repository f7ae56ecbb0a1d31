//! The end of a client's connection: closed with bytes unread it would be reset, and the client might never see its
//! last response (RFC 9112 §9.6).

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client may go on sending after the last response.
const MAX_LINGER: Duration = Duration::from_secs(10);
/// How long nothing may come in that time.
const MAX_LINGER_SILENCE: Duration = Duration::from_secs(2);

/// Ends our direction and reads what still comes.
///
/// # Cancel safety
/// Dropping it closes the connection.
pub(crate) async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let closing = async {
        stream.shutdown().await?;
        let mut sink = [0; 4096];
        while timeout(MAX_LINGER_SILENCE, stream.read(&mut sink)).await?? > 0 {}
        std::io::Result::Ok(())
    };
    // Whatever goes wrong here, the connection is closed next.
    let _ = timeout(MAX_LINGER, closing).await;
}
