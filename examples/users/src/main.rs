//! Example: a REST service over the pipe, with its users in SQLite.
//!
//! `main` wires the parts together; [`api`] speaks HTTP, [`store`] speaks SQL on threads of its own, [`user`] knows what a
//! valid user is, [`problem`] turns errors into `application/problem+json`, [`seed`] fills a new database.

mod api;
mod problem;
mod seed;
mod store;
mod user;

use anyhow::Context;
use clap::Parser;
use std::path::PathBuf;
use std::rc::Rc;

/// Users in SQLite, served over the pipe. Pilotlight starts it; see `command` in pilotlight.toml.
#[derive(Parser)]
#[command(name = "users", version)]
struct Arguments {
    /// The database file; created and filled with 10,000 users on first use.
    #[arg(long, value_name = "PATH", default_value = "data/users.db")]
    db: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let path = arguments.db;
    let store = store::Store::open(&path).with_context(|| format!("cannot open the database {}", path.display()))?;
    let store = Rc::new(store);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(pilotlight_pipe::serve(move |request| api::handle(Rc::clone(&store), request)))?;
    Ok(())
}
