//! `pilotlight-redis`: what `pilotlight redis` runs.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Work with Redis and Valkey: a prompt, a benchmark, a filler, a tunnel, local clusters
#[derive(Parser)]
#[command(name = "redis", bin_name = "pilotlight redis", display_name = "pilotlight-redis", version)]
struct Arguments {
    #[command(subcommand)]
    mode: pilotlight_redis_tool::Mode,
}

fn main() -> ExitCode {
    pilotlight_companion::describe_if_asked(&Arguments::command())
        .unwrap_or_else(|| pilotlight_redis_tool::run(Arguments::parse().mode))
}
