//! The labels by which a gateway finds its own containers.

/// Which gateway has made it: the same for one that is started again.
pub(super) const GATEWAY: &str = "dev.pilotlight.gateway";
/// For which service.
pub(super) const SERVICE: &str = "dev.pilotlight.service";
/// The number of the instance that it was made for.
pub(super) const INSTANCE: &str = "dev.pilotlight.instance";
/// A hash of the settings that it was made with.
pub(super) const SETTINGS: &str = "dev.pilotlight.settings";
