//! The binary: everything is in the crates that it is linked of.
//!
//! It is a package of its own because a program that is optimized as a whole is optimized as the package of its binary
//! is, and the commands, which are compiled for size, must not decide that for the path of a request.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pilotlight_cli::command_line::main()
}
