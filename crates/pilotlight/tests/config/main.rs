//! The configuration as its users meet it: files in, reports and exit codes out.
//!
//! `cfg(test)` always holds here; clippy takes it as leave to unwrap in the helpers of tests.

#[cfg(test)]
mod commands;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod json_schema;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod table;
#[cfg(test)]
mod values;
