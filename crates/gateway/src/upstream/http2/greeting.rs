//! The SETTINGS of a service that speaks HTTP/2, for those who have to know them before they send anything.

use h2::{Ping, PingPong};
use tokio::sync::{Notify, watch};

/// Whether the SETTINGS of a service have come, which say whether it takes extended CONNECT.
pub(super) struct Greeting {
    is_wanted: Notify,
    has_come: watch::Receiver<bool>,
}

impl Greeting {
    /// A greeting, and who tells that it has come.
    pub(super) fn new() -> (Self, watch::Sender<bool>) {
        let (sender, has_come) = watch::channel(false);
        (Self { is_wanted: Notify::new(), has_come }, sender)
    }

    /// Waits until they have come, or the connection has ended.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub(super) async fn come(&self) {
        self.is_wanted.notify_one();
        let mut has_come = self.has_come.clone();
        let _ended = has_come.wait_for(|has_come| *has_come).await;
    }

    /// Asks by a ping, once somebody wants to know: a service's first frame is SETTINGS (RFC 9113 §3.4), so its answer
    /// is behind them.
    pub(super) async fn ask(&self, mut ping: PingPong, told: &watch::Sender<bool>) {
        self.is_wanted.notified().await;
        if ping.ping(Ping::opaque()).await.is_ok() {
            told.send_replace(true);
        }
    }
}
