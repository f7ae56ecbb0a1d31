//! axum on hyper.
use std::process::ExitCode;

use factors::{Axum, ByHand, Shape, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    serve::<ByHand, Axum>(Shape::PerCore)
}
