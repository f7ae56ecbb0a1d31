//! jemalloc.
use std::process::ExitCode;

use factors::{ByHand, Hyper, Shape, serve};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    serve::<ByHand, Hyper>(Shape::PerCore)
}
