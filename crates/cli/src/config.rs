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
//! Its storeys, each of which needs only those below it:
//!
//! ```text
//! commands                       `check` and `init`
//! load                           a file, from its text to a `Config` or a report; sections: a text that changes a little
//! environment                    what the machine has (with the checks of operate, isolation, listeners)
//! root                           the whole file; relations: what its parts have to do with each other
//! route, service, operate, …     one section each: its reader
//! address, pattern, words        texts of the file that have a grammar of their own
//! section, readers, value        one table, one value; hints: what an unknown key was meant to be
//! structure                      which section a key opens, what a section must have: for the JSON Schema
//! model, schema                  what a file means; its keys and their limits
//! format                         the same file, laid out as all are
//! render, report, diagnostic     what is wrong with it; shown: texts that drive no terminal
//! ```
//!
//! [`parse`] is pure: it looks at the text only. [`load`] reads the file and then looks at the machine too
//! (executables, folders, ports; see [`environment`]).
//!
//! Invariant: a [`Config`] given out by `parse` or `load` has no error in its report; every number in it is within the
//! range of its type, every path in it is joined to the folder of the file.

mod access;
mod acme;
mod address;
mod admission;
mod balance;
mod cache_policy;
mod cache_redis;
mod caching;
mod cgi;
mod changes;
mod cold_start;
pub mod commands;
mod compress;
mod container;
mod diagnostic;
mod dns;
pub mod environment;
mod error_pages;
mod files;
pub mod format;
mod groups;
mod guards;
mod hints;
mod isolation;
mod json;
mod jwt;
mod keys;
mod lambda;
mod listeners;
mod load;
mod logs;
mod model;
mod named_files;
mod networks;
mod operate;
mod pattern;
mod readers;
mod redirect;
mod relations;
mod releases;
mod render;
mod report;
pub mod retired;
mod root;
mod route;
mod scaling;
mod schedules;
pub mod schema;
mod section;
pub mod sections;
mod server_tls;
mod service;
mod shown;
mod spill;
mod stdio;
pub mod structure;
mod syntax;
mod tilde;
mod tls;
mod traces;
mod value;
mod variables;
mod when;
mod words;

pub use diagnostic::{Code, Diagnostic, Severity, Span};
pub(crate) use keys::signs_locally;
pub use listeners::Ports;
pub(crate) use listeners::listener_findings;
pub(crate) use load::load_with;
pub use load::{DEFAULT_FILE, Loaded, MAX_FILE_BYTES, load, load_for, load_text, parse, reread};
pub use model::{
    AdminSocket, CacheRedis, Config, Containers, Listener, LogFormat, LogOptions, Operate, RedisUrl, Service,
    ServiceKind, Tls, Traces, TracesWords, Workers,
};
pub use named_files::PageFile;
pub use render::Style;
pub use report::Report;
