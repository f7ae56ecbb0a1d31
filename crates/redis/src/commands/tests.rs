//! The generated table and methods: positions of keys, arities, and the exact words of commands with options.

mod ancestor;
mod keys;
mod live;
mod schema;
mod table;
mod words;
