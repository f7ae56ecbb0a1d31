//! `compress` of a route: true, false, or `[routes.compress]`.

use pilotlight_gateway::{Coding, CompressOptions};
use toml::de::DeValue;

use super::caching::words;
use super::diagnostic::{Code, Diagnostic};
use super::schema::Part;
use super::section::{Field, Section, a_size, noted};
use super::shown::shown;
use super::value::Rejected;

/// Reads the value of `compress`; none: it is off, or wrong.
pub(super) fn read(field: &Field<'_>, found: &mut Vec<Diagnostic>) -> Option<CompressOptions> {
    let DeValue::Table(table) = field.value else {
        let DeValue::Boolean(_) = field.value else {
            found.push(field.wrong_type());
            return None;
        };
        return noted(field.boolean(), found)?.then(CompressOptions::default);
    };
    let section = Section::read(Part::RouteCompress, "in the route's compress", field.at.clone(), table, found);
    let mut options = CompressOptions::default();
    section.set("min_size", a_size(&CompressOptions::MIN_SIZE), &mut options.min_size, found);
    options.types = words(section.field("types").as_ref(), found, |word, _| {
        word.parse().map_err(|why| {
            let help = "write it without parameters, for example \"text/html\" or \"text/*\"";
            Rejected::help(format!("{} {why}", shown(word)), help)
        })
    });
    if let Some(field) = section.field("algorithms") {
        options.algorithms = words(Some(&field), found, |word, _| {
            Coding::of_name(word.as_bytes()).ok_or_else(|| {
                let help = "the algorithms are \"zstd\", \"br\" and \"gzip\"";
                Rejected::help(format!("{} is not an algorithm", shown(word)), help)
            })
        });
        if matches!(field.value, DeValue::Array(list) if list.is_empty()) {
            let message = "`algorithms` is empty, so nothing would be compressed";
            found.push(Diagnostic::error(Code::BadValue, field.at, message).help("write compress = false instead"));
        }
    }
    if matches!(section.field("types").map(|field| field.value), Some(DeValue::Array(list)) if list.is_empty())
        && let Some(field) = section.field("types")
    {
        let message = "`types` is empty, so nothing would be compressed";
        found.push(Diagnostic::error(Code::BadValue, field.at, message).help("write compress = false instead"));
    }
    Some(options)
}
