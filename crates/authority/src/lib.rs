//! The local certificate authority: HTTPS on one's own machine, for names that no public authority knows.
//!
//! ```text
//!  a folder, 0700 ──▶ Authority ──▶ Issued: a certificate of some days with its key
//!                         │
//!                         └──▶ Plan (pure): what has to be done so that programs trust it ──▶ carried out, or shown
//! ```
//!
//! Invariant: the root can sign for nothing but names that are special by a standard ([`is_permitted`]) and this
//! machine's own addresses: whoever steals its key can pretend to be no site of the internet. (`root`)
//!
//! Invariant: the root's key is never in a file that somebody else may read. (`root`)

mod folder;
mod names;
mod root;
mod trust;

pub use folder::{FolderError, data_folder};
pub use names::{PERMITTED, is_permitted};
pub use root::{Authority, AuthorityError, Issued, LIFETIME};
pub use trust::machine::{Machine, System};
pub use trust::plan::{Action, Direction, Kind, Plan, Step, Wanted};
pub use trust::run::{Outcome, carry_out};
