//! The lab: experiments that measure Pilotlight on the machine of whoever asks, beside its peers, with real processes.
//!
//! [`command`] is what `pilotlight lab` takes. [`experiment`] is what all experiments are made of; [`layers`],
//! [`gateway`], [`capacity`], [`cache`], [`transport`], [`rest`], [`clients`] (of Redis), [`instructions`] and
//! [`equals`] are experiments; [`gate`] counts instructions and has no rounds; [`show`], [`figures`], [`compare`] and
//! [`history`] read stored reports. What they share: [`load`] (requests over HTTP), [`callgrind`] (instructions),
//! [`stats`] (times, ratios of rounds, intervals), [`processes`] (programs that end with the lab, their CPU time and
//! memory), [`cores`] (who runs where), [`profile`] (flame graphs), [`machine`] (what figures depend on), [`report`]
//! (tables and numbers as text), [`progress`], [`interrupt`] (Ctrl-C), [`service`] (the Rust service under
//! measurement).
//!
//! The lab knows Pilotlight as its users do: by the binary, its configuration file and what it prints. It is not linked
//! to the gateway. What it needs of other languages is embedded, so that it runs from an installed binary. It is a
//! program of its own, `pilotlight-lab`, which `pilotlight lab` runs: a gateway does not carry what measures it.
//!
//! Invariant: every program that the lab starts ends with it, however the lab ends. (`processes/hold.rs`)
//! Invariant: every wait has a limit.

#![forbid(unsafe_code)]

pub mod cache;
pub mod callgrind;
pub mod capacity;
pub mod clients;
pub mod command;
pub mod compare;
pub mod containers;
pub mod cores;
pub mod equals;
pub mod eviction;
pub mod experiment;
pub mod factors;
pub mod figures;
pub mod front;
pub mod gate;
pub mod gateway;
mod git;
pub mod history;
pub mod instructions;
pub mod interrupt;
pub mod lambda;
pub mod layers;
pub mod limits;
pub mod load;
pub mod machine;
pub mod mcp;
pub mod php;
pub mod processes;
pub mod profile;
pub mod progress;
pub mod report;
pub mod rest;
pub mod saves;
pub mod servers;
pub mod service;
pub mod show;
pub mod stats;
pub mod transport;
