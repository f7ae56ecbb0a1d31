//! The client against scripted peers and real servers.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod alloc;
mod ancestor;
mod answers;
mod apart;
mod arguments;
mod bed;
mod blocking;
mod busy;
mod chaos;
mod cluster;
mod connecting;
mod deadline;
mod depth;
mod derive;
mod desync;
mod examples;
mod failover;
mod lag;
mod late;
mod latency;
mod life;
mod load;
mod migration;
mod observability;
mod option_examples;
mod order;
mod oversized;
mod problems;
mod pubsub;
mod raw;
mod recipes;
mod refused;
mod renewal;
mod replicas;
mod resharding;
mod sentinel;
mod several;
mod slow;
mod spare;
mod special;
mod stream;
mod tracking;
mod verify;
