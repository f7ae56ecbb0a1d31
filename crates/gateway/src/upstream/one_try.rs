//! One try to have a request answered.

use pilotlight_supervisor::Lease;

use super::first_byte::FirstByte;

/// Whether a connection may be used that has carried an exchange before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    MayBeUsed,
    IsNotUsed,
}

/// One try: what it takes along, and leaves behind if it fails.
pub(crate) struct Try {
    /// Keeps the instance from being stopped; `None`: it is somebody else's service.
    pub(crate) lease: Option<Lease>,
    pub(crate) first_byte: Option<FirstByte>,
}
