//! What `[cache]` says about the rules: targeted fields, heuristics, staleness in place of errors.

use http::HeaderName;
use pilotlight_gateway::{LanguageOrder, PolicyOptions};

use super::diagnostic::{Code, Diagnostic};
use super::readers::word;
use super::section::{Field, Section, a_time, noted, or_none};
use super::shown::shown;
use super::value::nearest;

/// Response fields that look like targeted ones and have other rules.
const NOT_TARGETED: [&str; 4] = ["cache-control", "expires", "pragma", "surrogate-control"];

/// Reads the keys of `[cache]` that are policy.
pub(super) fn read(section: &Section<'_>, policy: &mut PolicyOptions, found: &mut Vec<Diagnostic>) {
    const ORDERS: [(&str, LanguageOrder); 2] = [("counts", LanguageOrder::Counts), ("ignored", LanguageOrder::Ignored)];
    if let Some(targets) = section.field("targets").and_then(|field| targets(&field, found)) {
        policy.targets = targets;
    }
    if let Some(order) = section.field("language_order").and_then(|field| word(&field, &ORDERS, found)) {
        policy.language_order = order;
    }
    section.set("max_heuristic", or_none(a_time(&PolicyOptions::MAX_HEURISTIC)), &mut policy.max_heuristic, found);
    section.set("stale_if_error", or_none(a_time(&PolicyOptions::STALE_IF_ERROR)), &mut policy.stale_if_error, found);
}

/// RFC 9213 §2.2: the target list, in its order. An empty one means that `Cache-Control` alone counts.
fn targets(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<HeaderName>> {
    let list = noted(field.value.as_array().ok_or_else(|| field.wrong_type()), found)?;
    if list.len() > PolicyOptions::MAX_TARGETS {
        let message =
            format!("`targets` has {} fields; at most {} are looked at", list.len(), PolicyOptions::MAX_TARGETS);
        found.push(Diagnostic::error(Code::OutOfRange, field.at.clone(), message).help("take some away"));
        return None;
    }
    let mut read: Vec<HeaderName> = Vec::new();
    for item in list {
        let one = Field { at: item.span(), value: item.get_ref(), ..field.clone() };
        let Some(text) = noted(one.string(), found) else { continue };
        match HeaderName::from_bytes(text.as_bytes()) {
            Ok(name) if NOT_TARGETED.contains(&name.as_str()) => {
                let message = format!("{} is not a targeted field", shown(text));
                let help = "a targeted field is made for this list, such as \"CDN-Cache-Control\"; Cache-Control counts in any case";
                found.push(Diagnostic::error(Code::BadValue, item.span(), message).help(help));
            }
            Ok(name) if read.contains(&name) => {
                let message = format!("{} is there twice", shown(text));
                found.push(Diagnostic::error(Code::Duplicate, item.span(), message).help("take one of the two away"));
            }
            Ok(name) => {
                if !name.as_str().ends_with("-cache-control") {
                    let near = nearest(name.as_str(), ["cdn-cache-control"]).is_some();
                    let help = if near {
                        "did you mean \"CDN-Cache-Control\"?"
                    } else {
                        "they are named `…-Cache-Control` (RFC 9213)"
                    };
                    let message = format!("{} does not look like a targeted field", shown(text));
                    found.push(Diagnostic::warning(Code::NoEffect, item.span(), message).help(help));
                }
                read.push(name);
            }
            Err(_) => {
                let message = format!("{} is not the name of a field", shown(text));
                found.push(Diagnostic::error(Code::BadValue, item.span(), message).help("write \"CDN-Cache-Control\""));
            }
        }
    }
    Some(read)
}
