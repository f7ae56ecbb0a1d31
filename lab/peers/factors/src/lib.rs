//! `GET /users/{id}` with cache-aside in Redis, made of layers that can be exchanged one at a time: what
//! `pilotlight lab factors` measures.
//!
//! `base` is made as examples/users is: mimalloc, a current-thread runtime for each core, hyper alone, JSON written by
//! hand. Each of the other programs differs from it in one layer. What examples/users has beside that (leases, entity
//! tags, a breaker, writes) is left out in all of them, so a layer's share is a little larger here than there.

mod encoding;
mod http;
mod options;
mod runtime;
mod users;

use std::process::ExitCode;

pub use encoding::{ByHand, BySerde, Encode};
pub use http::{Axum, Http, Hyper};
pub use options::Options;
pub use runtime::Shape;
pub use users::Users;

/// A program: its JSON, its HTTP, its threads. It serves until it is killed.
pub fn serve<E: Encode, H: Http>(shape: Shape) -> ExitCode {
    let served = Options::parse(std::env::args().skip(1)).and_then(|options| runtime::serve::<E, H>(shape, &options));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("factors: {error:#}");
            ExitCode::FAILURE
        }
    }
}
