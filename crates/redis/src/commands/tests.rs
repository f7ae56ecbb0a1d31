//! The generated table and methods: positions of keys, arities, and the exact words of commands with options.

mod keys;
mod live;
mod table;
mod words;
