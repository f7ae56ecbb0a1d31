//! The floors of passing a request on: `lab/peers/proxyfloor`, which does no more than has to be done, with the ways in
//! which its messages go to the kernel.

use std::path::{Path, PathBuf};

use super::SETUP;
use crate::experiment::model::{Skipped, Software};

/// How a floor gives its messages to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floor {
    /// Each by a system call of its own.
    Epoll,
    /// Those of one turn of its loop in one `io_uring_enter`.
    Hybrid,
    /// Nothing without io_uring.
    Uring,
}

impl Floor {
    /// The first stands for what others do; the rest say what io_uring would save.
    pub(super) const ALL: [Self; 3] = [Self::Epoll, Self::Hybrid, Self::Uring];

    /// Its id in the groups.
    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Epoll => "floor-epoll",
            Self::Hybrid => "floor-hybrid",
            Self::Uring => "floor-uring",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Epoll => "the floor (epoll, httparse)",
            Self::Hybrid => "the floor, sends by io_uring",
            Self::Uring => "the floor, all by io_uring",
        }
    }

    /// What the program calls it.
    pub(super) const fn mode(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Hybrid => "hybrid",
            Self::Uring => "uring",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Epoll => "one thread; parses both heads, adds a field to each, keeps connections; a send a message",
            Self::Hybrid => "the same; the sends of one turn in one io_uring_enter",
            Self::Uring => "the same; accepts, receives and sends by io_uring, one enter a turn",
        }
    }

    /// # Errors
    /// It is not built, or the system has no io_uring for it.
    pub(super) fn find(self, peers: Option<&Path>) -> Result<PathBuf, Skipped> {
        let missing = |why: &str, install: &str| Skipped::new(self.title(), why, install);
        let peers =
            peers.ok_or_else(|| missing("this binary knows of no checkout with programs to compare with", SETUP))?;
        let file = peers.join("proxyfloor/target/release/proxyfloor");
        if !file.is_file() {
            return Err(missing(&format!("there is no {}", file.display()), SETUP));
        }
        if self != Self::Epoll && io_uring_is_denied() {
            return Err(missing("the system denies io_uring", "sysctl kernel.io_uring_disabled=0"));
        }
        Ok(file)
    }

    /// For the report.
    pub(super) fn software(self) -> Software {
        Software {
            name: "lab/peers/proxyfloor".into(),
            version: "of this checkout".into(),
            settings: vec![self.what().into()],
        }
    }
}

/// As the administrator has it; what a container denies, only the program finds out, and fails.
fn io_uring_is_denied() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    !setting.is_ok_and(|setting| setting.trim() == "0")
}
