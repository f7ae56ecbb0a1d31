//! The generated table and methods: positions of keys, arities, and the exact words of commands with options.

mod ancestor;
mod keys;
mod live;
#[cfg(feature = "modules")]
mod modules;
mod newer;
mod schema;
mod servers;
mod table;
mod words;
