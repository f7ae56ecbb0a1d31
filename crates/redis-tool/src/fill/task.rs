//! What is to be filled in, checked: the arguments, and what follows from them.

use std::sync::Arc;

use pilotlight_redis::Config;

use super::arguments::FillArgs;
use super::item::Items;
use super::work::Crew;

/// What is to be done, checked.
pub(crate) struct Fill<'a> {
    pub(crate) args: &'a FillArgs,
    pub(crate) config: Config,
    pub(crate) items: Arc<Items>,
    pub(crate) count: u64,
    pub(crate) item_bytes: u64,
    pub(crate) crew: Crew,
}
