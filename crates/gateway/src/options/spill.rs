//! Where requests go that a service has no room for.

/// The other service of a service that is started here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillSpec {
    /// Its name; it is one that somebody else starts, and speaks HTTP.
    pub to: String,
    /// Requests that may wait here, beyond which others go there though there might be room soon. `None`: as many as
    /// the queue takes.
    pub queue: Option<usize>,
}
