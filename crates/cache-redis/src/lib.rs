//! The shared tier of the HTTP cache, in Redis or Valkey, standalone or as a cluster.
//!
//! What memory is to one gateway, this is to several: stored responses as records, the log of purges, and the connection by which a gateway learns what
//! others have changed. Losing Redis means fewer hits, never an error, a stall or a wrong answer (docs/adr/0020).

#![forbid(unsafe_code)]
