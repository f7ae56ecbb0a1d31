//! What makes a command arrive. It sees the core, options, payload and target, and never a client.

pub(crate) mod attached;
pub(crate) mod cluster;
pub(crate) mod core;
pub(crate) mod credential_refresh;
mod dialler;
mod finder;
pub(crate) mod flight;
pub(crate) mod lane;
pub(crate) mod lane_options;
mod large;
mod node;
mod observe;
pub(crate) mod options;
pub(crate) mod pool;
pub(crate) mod pubsub;
mod readers;
mod reply_check;
pub(crate) mod request;
pub(crate) mod retry;
pub(crate) mod route;
pub(crate) mod routing;
pub(crate) mod sealed;
mod sentinel;
mod single;
pub(crate) mod sink;
pub(crate) mod submission;
pub(crate) mod trail;
