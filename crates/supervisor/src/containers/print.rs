//! What a container prints, on its way to where the supervisor reads lines.

use super::pause::Pause;
use super::shared::{Shared, short};
use crate::limits::ENGINE_PAUSE;
use pilotlight_containers::{Container, Since, Stream};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::Sender;

/// Copies what it prints to where the supervisor reads lines; again when the engine comes back.
pub(super) async fn print(shared: Arc<Shared>, container: Container, since: Since, outputs: [Sender; 2]) {
    let [mut out, mut err] = outputs;
    let (mut since, mut pause) = (since, Pause::new(&ENGINE_PAUSE));
    loop {
        match shared.engine.logs(&container, since).await {
            Ok(mut logs) => {
                let broken = loop {
                    match logs.next().await {
                        Ok(Some((stream, bytes))) => {
                            let to = if stream == Stream::Stdout { &mut out } else { &mut err };
                            if to.write_all(&bytes).await.is_err() {
                                return; // nobody reads
                            }
                        }
                        Ok(None) => break false,
                        Err(_) => break true,
                    }
                };
                if !broken {
                    return;
                }
            }
            Err(error) if error.is_passing() => {}
            Err(error) => {
                return tracing::warn!(%error, container = %short(&container.id), "what a container prints cannot be read");
            }
        }
        since = now(); // lines of this second may come twice, or not at all
        pause.wait().await;
    }
}

/// From this moment on.
pub(super) fn now() -> Since {
    Since::Seconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}
