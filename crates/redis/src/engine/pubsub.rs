//! Subscriptions: one hub for a client, and a connection for each node that is needed.

mod connections;
mod event;
mod hub;
mod inbox;
mod jobs;
mod lease;
mod link;
mod notice;
mod route;
mod session;
mod staff;

pub use event::{Event, Message};
pub(crate) use hub::Hub;
pub(crate) use inbox::Inbox;
