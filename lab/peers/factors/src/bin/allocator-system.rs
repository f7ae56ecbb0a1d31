//! The system's allocator.
use std::process::ExitCode;

use factors::{ByHand, Hyper, Shape, serve};

fn main() -> ExitCode {
    serve::<ByHand, Hyper>(Shape::PerCore)
}
