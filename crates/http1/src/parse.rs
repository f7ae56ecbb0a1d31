//! Heads and trailer sections, taken apart.

mod lines;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod trailers;

#[cfg(test)]
mod tests;
