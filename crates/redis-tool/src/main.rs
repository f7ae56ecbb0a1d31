//! The modes alone, without the gateway: what the tests drive. Users have them as `pilotlight redis`.

use clap::Parser;

#[derive(Parser)]
#[command(name = "pilotlight redis")]
struct Arguments {
    #[command(subcommand)]
    mode: pilotlight_redis_tool::Mode,
}

fn main() -> std::process::ExitCode {
    pilotlight_redis_tool::run(Arguments::parse().mode)
}
