//! Files of a folder as answers of HTTP (RFC 9110): from the path of a request to a file below the folder, to a status,
//! fields and a body.
//!
//! ```text
//! path of the request ──target──▶ names ──beneath──▶ a file ──entity──▶ fields, validators
//!                                                                          │
//!                      body ◀──reader── segments ◀──ranges── conditions ◀──┘
//! ```
//!
//! [`target`], [`conditions`], [`ranges`], [`caching`] and [`listing`] decide by value alone. [`beneath`]
//! is where files are opened; [`cache`] keeps what was opened, for a second without looking again.
//!
//! Invariant: nothing is opened but by names that [`target`] has let through, and by a call of the kernel that does not
//! leave the folder.
//!
//! Invariant: nothing of [`keep_private`] is opened, by whatever name.
//!
//! Invariant: bytes that were read of a file that has changed since its fields were made are never sent below those
//! fields; and a body of which the kernel has sent such bytes is never sent to its end.

#![forbid(unsafe_code)]

mod answer;
mod beneath;
mod cache;
mod caching;
mod conditions;
mod entity;
mod listing;
mod media_type;
mod options;
mod private;
mod ranges;
mod reader;
mod script;
mod target;
mod version;

pub use answer::{Answer, Body, FileError, Request, RequestFields};
pub use cache::FileCache;
pub use options::{FileRule, FilesOptions, Listing, NotAPattern};
pub use private::keep_private;
pub use reader::{Changed, Cold, Reader, Segment, Sendable};
pub use script::{Place, Script, ScriptOptions, ScriptPattern};
pub use target::{MAX_NAME, MAX_PATH, is_file_path};
