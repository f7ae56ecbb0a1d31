//! `pilotlight redis`: what people who run Redis or Valkey do at a terminal. Each mode is a module with its arguments
//! and its work; [`connection`] has the options that all share.
//!
//! Each mode has the same storeys: `arguments` (its options), the data that follows from them (`plan`, `task`,
//! `shared`), what does the work, and on top the module of the mode, whose `run` calls them. No module needs one above
//! it.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking"))]

mod advice;
pub mod bench;
pub mod cli;
pub mod cluster;
pub mod connection;
pub mod fill;
pub mod load;
mod refusal;
mod run;
mod spec;
mod token_command;
pub mod tunnel;
mod wire;
mod words;

pub use run::{Mode, run};
