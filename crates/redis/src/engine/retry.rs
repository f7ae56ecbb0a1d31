//! One loop from requests to their replies, for one request or many.
//!
//! It goes in rounds under one deadline:
//!
//! ```text
//!  what is left, in order ─► each lane's share in one piece ─► replies
//!         ▲                                                      │ failures, judged one by one
//!         └─────── a pause, if any ◄──── what may be sent again ◄┴─► what may not: its error
//! ```
//!
//! Nobody waits for the slow: what may be sent again goes on when its pause is over, though replies of other lanes are
//! still to come.
//!
//! What to do about a failure is decided by [`crate::proto::retry`]; this module does it.
//!
//! Invariant: in each round the requests of one lane stay together, in their order.

mod apart;
mod judge;
mod round;
mod rounds;
mod state;

use std::time::Instant;

use crate::engine::core::Core;
use crate::engine::options::CallOptions;
use crate::engine::request::Request;
use crate::engine::sink::Sink;
use crate::error::Error;
use crate::reply::Value;
pub(crate) use judge::Failure;
pub(crate) use state::Line;
use state::{RetryLoop, Tries, Try};

/// Sends all requests and awaits all replies, in the order of the requests.
pub(crate) async fn run(
    core: &Core,
    requests: &[Request<'_, '_>],
    options: CallOptions,
    line: Line,
) -> Vec<Result<Value, Error>> {
    let mut run = RetryLoop::new(core, requests, options, Instant::now(), line);
    run.rounds((0..requests.len()).map(Try::first).collect()).await;
    // Each request has ended in one of the rounds.
    let mut replies = Vec::with_capacity(requests.len());
    replies.extend(run.replies.into_iter().flatten());
    replies
}

/// One request, from its beginning.
pub(crate) async fn one(
    core: &Core,
    request: &Request<'_, '_>,
    options: CallOptions,
    line: Line,
) -> Result<Value, Error> {
    let mut run = RetryLoop::new(core, std::slice::from_ref(request), options, Instant::now(), line);
    run.rounds(std::iter::once(Try::first(0)).collect()).await;
    run.only_reply()
}

/// As [`one`], on a connection that nobody shares, with the reply going to `sink` if it is a string.
pub(crate) async fn one_into(
    core: &Core,
    request: &Request<'_, '_>,
    options: CallOptions,
    sink: &mut Sink<'_>,
) -> Result<Value, Error> {
    let run = RetryLoop::new(core, std::slice::from_ref(request), options, Instant::now(), Line::Own);
    let mut run = RetryLoop { sink: Some(sink), ..run };
    run.rounds(std::iter::once(Try::first(0)).collect()).await;
    run.only_reply()
}

/// Goes on with a request that was submitted at `since` and came to `failure`.
pub(crate) async fn follow(
    core: &Core,
    request: &Request<'_, '_>,
    options: CallOptions,
    failure: Failure,
    since: Instant,
) -> Result<Value, Error> {
    let mut run = RetryLoop::new(core, std::slice::from_ref(request), options, since, Line::Shared);
    run.judge(Try::first(0), failure, since);
    run.rounds(Tries::new()).await;
    run.only_reply()
}
