//! One runtime whose threads take tasks from each other.
use std::process::ExitCode;

use factors::{ByHand, Hyper, Shape, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    serve::<ByHand, Hyper>(Shape::MultiThread)
}
