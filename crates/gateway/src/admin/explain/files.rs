//! What files would answer a request with.

use pilotlight_files::{FileRule, FilesOptions, Listing};
use serde_json::{Value, json};

use crate::admin::target::Target;
use crate::path;
use crate::routes::Route;

pub(super) fn explain(options: &FilesOptions, route: &Route, target: &Target) -> Value {
    let below = path::below(target.path(), &route.path);
    let rules = |rules: &[FileRule]| -> Value {
        let rule = |rule: &FileRule| json!({ "pattern": rule.pattern(), "value": String::from_utf8_lossy(rule.value.as_bytes()) });
        rules.iter().map(rule).collect()
    };
    json!({
        "root": options.root.display().to_string(),
        "below": below,
        "index": options.index,
        "fallback": options.fallback,
        "listing": options.listing == Listing::On,
        "cache_control": rules(&options.cache_control),
        "types": rules(&options.types),
    })
}
