//! One try to have a request answered.

use pilotlight_supervisor::Lease;

use super::first_byte::FirstByte;

/// Whether a connection may be used that has carried an exchange before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    MayBeUsed,
    IsNotUsed,
}

/// One try: what its response takes along, and what stays where it is if it fails.
pub(crate) struct Try<'t> {
    /// Keeps the instance from being stopped; `None`: it is somebody else's service.
    pub(crate) lease: &'t mut Option<Lease>,
    pub(crate) first_byte: &'t mut Option<FirstByte>,
}
