//! What the crates below the binary cannot test alone: configuration files, generated documents and `import`, with the
//! program that users run.
//!
//! `cfg(test)` always holds here; clippy takes it as leave to unwrap in the helpers of tests.

#[cfg(test)]
mod config;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod import;
#[cfg(test)]
mod import_corpus;
#[cfg(test)]
mod import_models;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod private;
#[cfg(test)]
mod running;
