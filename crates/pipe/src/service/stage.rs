//! How far the instance is on its way out.

/// How far the instance is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Serving,
    /// SIGTERM came: DRAIN is sent, the gateway's DRAIN is awaited, requests that cross it are refused.
    Leaving,
    /// The gateway knows: open exchanges are finished, then connections close.
    Drained,
}
