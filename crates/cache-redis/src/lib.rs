//! The shared tier of the HTTP cache, in Redis or Valkey, standalone or as a cluster.
//!
//! What memory is to one gateway, this is to several: stored responses as records, the log of purges, and the connection by which a gateway learns what
//! others have changed. Losing Redis means fewer hits, never an error, a stall or a wrong answer (docs/adr/0020).

#![forbid(unsafe_code)]

mod coherence;
mod log;

pub use coherence::{
    BEAT, Coherence, CoherenceStatus, Driver, LOG_COMMAND_TIMEOUT, MAX_CONFIRMATION, MAX_WAITING_PURGES, NODE_LIFETIME,
    Options as CoherenceOptions, SILENCE, Told,
};
pub use log::{MAX_LOG_ENTRIES, MAX_REMEMBERED_ENTRIES};
