//! serde_json.
use std::process::ExitCode;

use factors::{BySerde, Hyper, Shape, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    serve::<BySerde, Hyper>(Shape::PerCore)
}
