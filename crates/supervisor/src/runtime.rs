//! Where instances run: what takes the orders of the supervisor's thread, and what it tells.
//!
//! ```text
//!         start ──────────▶  Runtime:            ─▶ Started, Ready (where to connect), StartFailed
//!  owner  freeze, thaw ───▶  the guardian,       ─▶ Ended
//!         terminate, kill ▶  an engine, …        ─▶ Lost: all that ran there has ended
//!                                                ─▶ Away, Back: it takes no orders; what runs goes on
//! ```
//!
//! Every order is answered by an event, sooner or later: a start by `Started` or `StartFailed`, and whatever was
//! started by one `Ended`. Nothing here waits for a runtime, so the supervisor's thread never does. A runtime knows
//! nothing of services: queues, numbers of instances, idleness, circuits, drains and replacements are the owner's, and
//! the same for all runtimes.
//!
//! A runtime that sees for itself when an instance takes requests tells it by `Ready`. Of a process the owner sees it:
//! by its HELLO, or by its socket.

use crate::error::Exit;
use crate::instance::Endpoint;
use crate::isolation::SandboxBounds;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// Something that runs instances. Each instance has one for life.
pub(crate) trait Runtime {
    /// All that it needs to know to start an instance; made by the owner.
    type Start;

    /// Asks for a start. The answer comes as an event.
    ///
    /// # Errors
    /// It takes no orders at the moment: nothing was started.
    fn start(&mut self, start: Self::Start) -> io::Result<()>;

    /// Tells an instance something. One that is not known has ended, which was told.
    ///
    /// # Errors
    /// It takes no orders at the moment; whoever gave it tries again at his deadline.
    fn order(&self, id: u64, order: Order) -> io::Result<()>;

    /// The next event. Cancel safe.
    async fn next(&mut self) -> RuntimeEvent;
}

/// What an instance is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// It is asked to end (SIGTERM).
    Terminate,
    /// It has to end (SIGKILL).
    Kill,
    /// Stops it until `Thaw`; ends neither.
    Freeze,
    Thaw,
}

/// What a runtime tells.
#[derive(Debug)]
pub(crate) enum RuntimeEvent {
    /// It runs; whether it takes requests is another question.
    Started(Started),
    /// It takes requests, there.
    Ready {
        id: u64,
        endpoint: Endpoint,
    },
    /// There is nothing that runs.
    StartFailed {
        id: u64,
        reason: String,
        /// What only the log and developers are told.
        detail: Option<String>,
    },
    /// It runs no more.
    Ended {
        id: u64,
        exit: Exit,
        /// The limit that it reached, as a sentence fragment.
        limit: Option<String>,
    },
    /// Its start is under way and waits for this, as what follows "it": what people are told if it fails by that.
    Waits {
        id: u64,
        what: String,
    },
    /// Its container, before it is said to have started.
    Placed {
        id: u64,
        container: Arc<str>,
    },
    /// So many instances of a service run that nobody has started: they are what its next starts get.
    Found {
        service: Arc<str>,
        count: u32,
    },
    /// The runtime takes no orders for now. What runs goes on.
    Away {
        reason: String,
    },
    Back,
    /// Of the guardian: what of a strict sandbox this machine gives.
    Probed {
        sandbox: Option<SandboxBounds>,
    },
    /// The runtime is dead, and all that ran there with it.
    Lost,
}

/// An instance runs.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) id: u64,
    /// Its process, if it is one of this machine.
    pub(crate) pid: Option<i32>,
    /// What of its isolation this machine does not give.
    pub(crate) notices: Vec<String>,
    /// What of its sandbox is in force.
    pub(crate) sandbox: Option<SandboxBounds>,
}
