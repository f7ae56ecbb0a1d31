//! What a gateway decides about one request ("exchange"), without I/O: an event goes in, the next action comes out.
//!
//! ```text
//!  Begin(lookup) ─┬─ hit, or stale and refreshed beside ───────────────────────────────────────▶ Respond
//!                 ├─ off, bypass ───────────────────────────────────────┐
//!                 └─ miss, stale ─▶ turn ─┬─ follow ─▶ stored, live ────│───────────────────────▶ Respond
//!                                         │    └ too late: alone ──────▶│
//!                                         └─ lead ─▶ Redis ─▶ lead of another gateway ─▶ found ▶ Respond
//!                                                      └─ nothing ─────▶│
//!                                    place ◀── retry ── send ◀── place ◀┘
//!                                                        ├─ answer ─▶ validate, judge, invalidate ▶ Respond
//!                                                        └─ failure ─▶ stale response, or error ──▶ Respond
//! ```
//!
//! [`Exchange`] owns the policy. It names no socket, clock, header or status text; it holds and passes on what belongs
//! to others as opaque [`Handles`], and whatever it must know of them comes as plain values in an [`Event`]. The driver
//! does one [`Action`] at a time and returns what came of it:
//!
//! ```text
//! let mut event = Event::Begin { .. };
//! loop {
//!     event = match exchange.step(event, Instant::now()) {
//!         Action::Respond { response, connection } => return answer(response, connection),
//!         Action::TakeTurn => Event::Turn(self.turn()),
//!         Action::Send { body, condition, wait } => self.send(body, condition, wait).await,
//!         ..
//!     }
//! }
//! ```
//!
//! Invariants:
//! - Every exchange ends in one [`Action::Respond`], and nothing follows it.
//! - A fill leaves the machine in one action, or is dropped, which abandons its flight: it never does both.
//! - What may have been carried out is sent again only if its method is idempotent; a body of which a part has gone is
//!   never sent again. ([`retry`] is the only file that decides it.)

mod abandoned;
mod action;
mod event;
mod handles;
mod machine;
mod request;
pub mod retry;
mod wait;

pub use abandoned::{Abandoned, Company, Leaving, MAX_REFRESHES, may_refresh};
pub use action::{Action, Connection, Judgement, Keep, PlaceTurn, Refusal, Response, Status, Verdict};
pub use event::{Adopted, BodyLeft, Event, Found, Lookup, OnlyIfCached, RedisReply, RestOfBody, Stale, Tier, Turn};
pub use handles::Handles;
pub use machine::Exchange;
pub use request::{Limits, Method, Request, Upstream};
pub use wait::{Limit, Setting, Wait, WaitsFor};
