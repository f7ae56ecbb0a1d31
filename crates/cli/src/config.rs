//! The configuration file, `pilotlight.toml`.
//!
//! Owns the file's keys and the report of everything that is wrong with a file: each mistake with its place, the reason
//! and what to write instead, all of them in one go. The values, their defaults and their ranges belong to the crates
//! that use them; a file is read straight into those types (docs/adr/0029). Refuses to know how the values are used.
//!
//! ```text
//! text ──toml──▶ tree with spans ──section, value──▶ Config ──relations──▶ Config
//!   │                 │                               │                      │
//!   └─ syntax         └─ unknown keys, types          └─ values, ranges      └─ duplicates, unknown or unused services
//! ```
//!
//! [`parse`] is pure: it looks at the text only. [`load`] reads the file and then looks at the machine too
//! (executables, folders, ports; see [`environment`]).
//!
//! Invariant: a [`Config`] given out by `parse` or `load` has no error in its report; every number in it is within the
//! range of its type, every path in it is joined to the folder of the file.

mod address;
mod cache_policy;
mod cache_redis;
mod caching;
mod cold_start;
pub mod commands;
mod diagnostic;
pub mod environment;
mod isolation;
mod listeners;
mod load;
mod model;
mod operate;
mod pattern;
mod relations;
mod render;
pub mod retired;
mod root;
mod route;
mod scaling;
pub mod schema;
mod section;
mod service;
mod syntax;
mod value;
mod words;

pub use cache_redis::{CacheRedis, RedisUrl};
pub use diagnostic::{Code, Diagnostic, Report, Severity, Span};
pub use listeners::Ports;
pub use load::{DEFAULT_FILE, Loaded, MAX_FILE_BYTES, load, parse, reread};
pub use model::{Config, Listener, Service, ServiceKind, Workers};
pub use operate::{AdminSocket, Operate};
pub use render::Style;
