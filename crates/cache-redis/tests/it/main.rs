//! The tier with real servers.

mod cluster;
mod coherent;
mod lease;
mod lost;
mod node;
mod sharing;
