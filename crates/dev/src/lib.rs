//! What `pilotlight dev` knows of a project: which kind it is and how it is started ([`guess`]), which of its files
//! count as changed ([`Ignore`], [`Watch`]), how the output of its services is shown ([`Columns`]), and how a page in a
//! browser learns of a change ([`Changes`]).
//!
//! Refuses to know the gateway: a guess becomes the text of a configuration file, and a change is a path.

#![forbid(unsafe_code)]

mod changes;
mod columns;
mod guess;
mod ignore;
mod machine;
mod name;
mod pattern;
mod render;
mod settle;
mod walk;
mod watch;

pub use changes::Changes;
pub use columns::{Colours, Columns};
pub use guess::{Follows, Guess, NoGuess, Over, Process, Serves, guess, of_command};
pub use ignore::Ignore;
pub use machine::{Installed, Machine};
pub use name::label;
pub use render::render;
pub use settle::{LONGEST_SAVE, QUIET, QUIET_AFTER_WHOLE};
pub use walk::MAX_FOLDERS;
pub use watch::{Change, Watch, WatchError};
