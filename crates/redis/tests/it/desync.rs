//! Everything that could shift replies: whatever callers, servers and networks do, nobody gets another caller's reply,
//! doubt ends in a typed error that says truly whether the command may have run, and the client goes on working.
//!
//! Each scenario is a script of the peer and what callers do meanwhile ([`scenario::Scenario`]). It is played in
//! memory, over TCP and over a Unix socket. Afterwards a further command gets its own reply, no cell is in use, no byte
//! is accounted for.

pub(crate) mod scenario;

mod cancel;
mod cut;
mod garbage;
mod handshake;
mod pipeline;
mod push;
mod redirect;
mod retry;
mod timeout;

/// One test for each scenario.
macro_rules! scenarios {
    ($($(#[$attribute:meta])* $name:ident: $scenario:expr;)*) => {$(
        $(#[$attribute])*
        #[tokio::test]
        async fn $name() {
            crate::desync::scenario::everywhere(|| $scenario).await;
        }
    )*};
}
use scenarios;
