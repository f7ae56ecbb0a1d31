//! The modes of `pilotlight redis` with real servers.

mod cli;
