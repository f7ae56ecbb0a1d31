//! As examples/users is made; every other program differs from it in one layer.
use std::process::ExitCode;

use factors::{ByHand, Hyper, Shape, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    serve::<ByHand, Hyper>(Shape::PerCore)
}
