//! The commands of `pilotlight` and its configuration: all but the binary itself, which crates/pilotlight is.

#![forbid(unsafe_code)]

pub mod admin;
mod announce;
pub mod command_line;
pub mod config;
mod dev;
pub mod develop;
pub mod doctor;
pub mod embedded;
pub mod fmt;
pub mod generated;
mod hidden;
pub mod import;
mod labelled;
mod log_end;
mod memory;
mod notify;
mod operate;
mod origin;
mod own_log;
mod plan;
mod port_owner;
mod presence;
mod reload;
pub mod run;
mod runtime_folder;
mod service_log;
mod settings;
mod signals;
mod standard_error;
mod tls;
mod told;
mod traces;
pub mod trust;
mod upgrade;
