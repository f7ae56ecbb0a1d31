//! Users in SQLite, over the pipe.
fn main() {}
