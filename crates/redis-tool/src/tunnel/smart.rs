//! `smart`: a cluster looks like one server. Ordinary commands of all clients share the lanes of a
//! [`RawClient`](pilotlight_redis::raw::RawClient), whose replies pass unread.
//!
//! What several nodes answer together, and subscriptions, go through a [`Client`](pilotlight_redis::Client): one of
//! each kind for every protocol and database that clients use, made when it is first needed.

mod catalogue;
mod facts;
mod identity;
mod listener;
mod local;
mod others;
mod queue;
mod replies;
mod scan;
mod session;
mod subscriber;
mod transaction;
mod upstream;

pub(crate) use listener::listen;
pub(crate) use session::serve;
pub(crate) use upstream::{CLOSE_TIMEOUT, Upstream};
