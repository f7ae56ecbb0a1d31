//! Cron expressions, and the times at which they are due.
//!
//! ```text
//!  "30 2 * * *" ──Cron──▶ minutes of the local clock ──Zone──▶ seconds since 1970 ──▶ Schedule::next
//! ```
//! `cron` reads expressions, `civil` has the calendar, `zone` what the clock of a place shows, `next` brings them
//! together, and says what becomes of times that a change of the clock leaves out or repeats. All of it is pure but for
//! [`Zone::load`], which reads a file. What it refuses to know: what is done at those times, and the present one.
#![forbid(unsafe_code)]

mod civil;
mod cron;
mod next;
mod zone;

pub use civil::Minute;
pub use cron::{Cron, CronError};
pub use next::Schedule;
pub use zone::{MAX_ZONE_NAME, Zone, ZoneError};
