//! The configuration as its users meet it: files in, reports and exit codes out.

mod commands;
mod docs;
mod json_schema;
mod machine;
mod properties;
mod table;
mod values;
