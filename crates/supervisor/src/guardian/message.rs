//! What the supervisor and the guardian say to each other. Descriptors travel beside the messages.

use crate::isolation::{Isolation, SandboxBounds};
use crate::runtime::Order;
use crate::spec::InheritEnv;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// The variable that says to which instance a process belongs.
pub(crate) const MARK: &str = "PILOTLIGHT_RUN";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToGuardian {
    /// Comes with descriptors: standard output, standard error, and the socket that `inherit` says.
    Spawn(Box<SpawnRequest>),
    /// A zygote of ours says that this is its grandchild, forked for the instance. It is checked.
    Adopt { id: u64, pid: i32, mark: Option<String> },
    /// Asks what of a strict sandbox this machine gives.
    ProbeSandbox,
    /// To the whole process group.
    Signal { id: u64, order: Order },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpawnRequest {
    pub(crate) id: u64,
    pub(crate) argv: Vec<OsString>,
    pub(crate) dir: Option<OsString>,
    /// What of the guardian's own environment, which is the gateway's, it inherits.
    pub(crate) inherit_env: InheritEnv,
    /// On top of that.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) inherit: Inherit,
    /// Bounds that it is put into, if any.
    pub(crate) isolation: Option<Box<Isolation>>,
}

impl SpawnRequest {
    /// What says of a process that it belongs to this instance. A zygote's is none: what it forks belongs to other
    /// runs.
    pub(crate) fn mark(&self) -> Option<&str> {
        let mark = self.env.iter().rev().find(|(name, _)| name == MARK).map(|(_, value)| value.as_str());
        mark.filter(|_| self.inherit != Inherit::Input)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Inherit {
    Nothing,
    /// The listening socket becomes descriptor 3, as `sd_listen_fds(3)` describes.
    Listener,
    /// The same, and descriptor 0, as FastCGI has it (`FCGI_LISTENSOCK_FILENO`).
    FastCgi,
    /// The socket to a zygote becomes its standard input.
    Input,
}

impl From<Order> for Signal {
    fn from(order: Order) -> Self {
        match order {
            Order::Terminate => Self::TERM,
            Order::Kill => Self::KILL,
            Order::Freeze => Self::STOP,
            Order::Thaw => Self::CONT,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromGuardian {
    /// It is a subreaper and takes requests.
    Ready,
    Spawned {
        id: u64,
        pid: i32,
        /// What of its isolation this machine does not give.
        notices: Vec<String>,
        /// What of its sandbox is in force.
        sandbox: Option<SandboxBounds>,
    },
    /// What a service in a strict sandbox that uses the pipe would have; `None`: that could not be found out.
    Probed { sandbox: Option<SandboxBounds> },
    SpawnFailed {
        id: u64,
        reason: String,
        /// What only the log and developers are told.
        detail: Option<String>,
    },
    Exited {
        id: u64,
        code: Option<i32>,
        signal: Option<i32>,
        /// The limit that it reached, as a sentence fragment.
        limit: Option<String>,
    },
}
