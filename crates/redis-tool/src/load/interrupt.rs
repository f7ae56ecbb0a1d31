//! Ctrl-C: the first ends the work in an orderly way, the second the process.

use tokio::sync::watch;
use tokio::task::JoinSet;

/// As a shell tells a process that SIGINT ended.
const EXIT_CODE: i32 = 130;

/// Listens for Ctrl-C while it exists.
pub(crate) struct Interrupt {
    asked: watch::Receiver<bool>,
    _listener: JoinSet<()>,
}

impl Interrupt {
    /// Listens, within a runtime.
    pub(crate) fn listen() -> Self {
        let (tell, asked) = watch::channel(false);
        let mut listener = JoinSet::new();
        listener.spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if tell.send_replace(true) {
                    std::process::exit(EXIT_CODE);
                }
            }
        });
        Self { asked, _listener: listener }
    }

    /// Whether the user wants it to end.
    pub(crate) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Waits until the user wants it to end; for ever, if that cannot be known.
    pub(crate) async fn asked(&self) {
        if self.asked.clone().wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
