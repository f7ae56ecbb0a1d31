//! Where a request is while another service may take it.

use std::rc::Rc;

use crate::worker::Upstream;

/// Where a request is that may be given to another service.
#[derive(Default)]
pub(super) enum Spilled {
    /// At its own, and was nowhere else.
    #[default]
    No,
    /// At the other one.
    Away {
        home: Rc<Upstream>,
        /// It has its place there.
        has_place: bool,
    },
    /// At its own again.
    Back,
}
