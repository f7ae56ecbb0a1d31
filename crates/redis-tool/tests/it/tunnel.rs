//! `pilotlight redis tunnel`, as a process, against real servers.

mod bed;
mod clients;
mod cluster;
mod differences;
mod numbers;
mod pinned;
mod same_bytes;
mod smart;
