//! Typed commands of modules, each module's in a trait of its own, and of vector sets (the feature `modules`).
//!
//! ```no_run
//! use pilotlight_redis::Client;
//! use pilotlight_redis::commands::modules::{JsonCommands, Schema, SearchCommands, TextField};
//!
//! # async fn example(client: Client) -> Result<(), pilotlight_redis::Error> {
//! client.json_set("user:1", "$", r#"{"name":"Ada","born":1815}"#).await?;
//! let born = client.json_get("user:1", "$.born").await?; // "[1815]"
//!
//! let schema = Schema::new().text_as("$.name", "name", TextField::new().sortable());
//! client.ft_create_with("users", schema, FtCreateOptions::new().on(IndexOn::Json).prefix("user:")).await?;
//! for document in client.ft_search("users", "ada").await?.documents {
//!     println!("{:?}: {:?}", document.id, document.fields);
//! }
//! # Ok(()) }
//! # use pilotlight_redis::commands::{modules::FtCreateOptions, words::IndexOn};
//! ```
//!
//! All that has the other commands has these: clients, pipelines, transactions, caches, the blocking client. Keys are
//! where they are for any command, so a cluster routes them; those that only read may go to replicas and are cached.
//! `FT.…` and the commands of time series that choose by label have no key: any node takes them, and it is the module
//! that asks the others.
//!
//! A server without the module answers `unknown command`, and the error says what is missing.

mod bloom;
mod json;
mod replies;
mod schema;
mod search;
mod time_series;
#[expect(clippy::type_complexity, reason = "replies are as the server nests them")]
mod vector_set;

pub use bloom::*;
pub use json::*;
pub use replies::{Aggregated, Document, Found, Sample, Series, Similar};
pub use schema::{Schema, TagField, TextField, VectorField};
pub use search::*;
pub use time_series::*;
pub use vector_set::*;
