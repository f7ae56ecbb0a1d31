//! The lab: experiments that measure Pilotlight on the machine of whoever asks, beside its peers, with real processes.
//!
//! [`transport`] is `pilotlight lab transport`, [`rest`] is `pilotlight lab rest`. What experiments share: [`load`] (requests over HTTP), [`stats`] (times, ratios of rounds, intervals),
//! [`processes`] (programs that end with the lab, their CPU time and memory), [`machine`] (what figures depend on),
//! [`report`] (tables and numbers as text), [`interrupt`] (Ctrl-C), [`service`] (the Rust service under measurement).
//!
//! The lab knows Pilotlight as its users do: by the binary, its configuration file and what it prints. It is not linked to
//! the gateway. What it needs of other languages is embedded, so that it runs from an installed binary.
//!
//! Invariant: every program that the lab starts ends with it, however the lab ends. (`processes/hold.rs`)
//! Invariant: every wait has a limit.

#![forbid(unsafe_code)]

pub mod interrupt;
pub mod load;
pub mod machine;
pub mod processes;
pub mod progress;
pub mod report;
pub mod rest;
pub mod service;
pub mod stats;
pub mod transport;
