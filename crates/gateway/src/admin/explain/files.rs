//! What files would answer a request with.

use pilotlight_files::{FilesOptions, Listing};
use serde_json::{Value, json};

use crate::admin::target::Target;
use crate::path;
use crate::routes::Route;

pub(super) fn explain(options: &FilesOptions, route: &Route, target: &Target) -> Value {
    let below = path::below(target.path(), &route.path);
    json!({
        "root": options.root.display().to_string(),
        "below": below,
        "index": options.index,
        "fallback": options.fallback,
        "listing": options.listing == Listing::On,
        "cache_control": options.cache_control.iter().map(|rule| {
            json!({ "pattern": rule.pattern(), "value": String::from_utf8_lossy(rule.value.as_bytes()) })
        }).collect::<Value>(),
    })
}
