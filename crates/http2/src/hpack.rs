//! HPACK (RFC 7541): header blocks to fields and back.

pub(crate) mod decoder;
pub(crate) mod encoder;
pub(crate) mod error;
pub(crate) mod huffman;
pub(crate) mod integer;
pub(crate) mod static_table;
pub(crate) mod table;
