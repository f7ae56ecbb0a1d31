//! The number of a service.

/// A service's place in the list given to [`start`](crate::start).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceId(pub usize);
