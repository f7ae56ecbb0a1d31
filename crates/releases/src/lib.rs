//! Releases of a service as folders, one of which is the current one.
//!
//! ```text
//!  FOLDER/current ─────────────▶ releases/20261124-001500-abcdef     a link, replaced in one step
//!  FOLDER/releases/NAME/         what was unpacked, whole; `.incoming-…` what is being unpacked
//!  FOLDER/.served/NAME           it has been the current one
//!  FOLDER/.failed/NAME           why it was not used
//!  FOLDER/.lock                  held by who changes anything
//! ```
//! `name` has the names, `folder` the layout and the steps, `unpack` archives from anybody, `pack` a folder as an
//! archive, `prune` which releases go (pure). What it refuses to know: services, the gateway, HTTP.
//!
//! Invariant: `current` leads to a folder that was unpacked to its end and written to the disk before, or is not there.
#![forbid(unsafe_code)]

mod folder;
mod name;
mod pack;
mod prune;
mod release;
mod unpack;

pub use folder::{Incoming, Lock, LockError, Releases};
pub use name::Name;
pub use pack::{compressed, pack};
pub use prune::FAILED_KEPT;
pub use release::{Release, State};
pub use unpack::{Limits, UnpackError, Unpacked, unpack};
