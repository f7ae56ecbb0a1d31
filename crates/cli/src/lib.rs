//! The library half of the `pilotlight` binary: what tests and fuzz targets need to reach.

#![forbid(unsafe_code)]

pub mod admin;
mod announce;
pub mod config;
pub mod deferred;
pub mod generated;
mod memory;
mod notify;
mod operate;
mod plan;
mod presence;
mod reload;
pub mod run;
mod runtime_folder;
mod service_log;
mod settings;
mod signals;
mod standard_error;
mod tls;
pub mod trust;
mod upgrade;
