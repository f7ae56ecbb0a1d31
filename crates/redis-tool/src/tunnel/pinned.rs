//! `pinned`: a port for each node. Each client has a connection of its own to the node, and bytes pass as they are, in
//! pieces as they come; only the replies to questions about the topology, and redirects, have the tunnel's ports in the
//! place of the nodes' addresses.
//!
//! Invariant: a byte that is not part of such a reply passes unaltered. ([`track`], [`rewrite`])

mod listeners;
mod relay;
mod rewrite;
mod track;
mod upward;

pub(crate) use listeners::listen;
pub(crate) use relay::serve;
