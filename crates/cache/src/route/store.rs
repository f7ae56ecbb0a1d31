//! What a route allows to be stored, of what the RFC allows.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::policy::Unstored;

/// What may be stored. The default: whatever the RFC allows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreRules {
    /// Statuses, `None` for all.
    pub statuses: Option<StatusSet>,
    /// Media types, in small letters, without parameters: `text/html`, or `text/*`. Empty for all.
    pub types: Vec<String>,
}

impl StoreRules {
    /// Why a response must not be stored, if the route says so.
    pub fn refuses(&self, status: StatusCode, response: &HeaderMap) -> Option<Unstored> {
        // A part is a part of what has 200.
        let whole = if status == StatusCode::PARTIAL_CONTENT { StatusCode::OK } else { status };
        if self.statuses.as_ref().is_some_and(|statuses| !statuses.contains(whole)) {
            return Some(Unstored::RouteStatus);
        }
        if !(self.types.is_empty() || self.allows_type(response)) {
            return Some(Unstored::RouteType);
        }
        None
    }

    /// A response without a type, or with several, has none that was allowed.
    fn allows_type(&self, response: &HeaderMap) -> bool {
        let mut lines = response.get_all(CONTENT_TYPE).iter();
        let (Some(only), None) = (lines.next(), lines.next()) else { return false };
        // RFC 9110 §8.3.1: `type "/" subtype parameters`, case-insensitive.
        let essence = only.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        self.types.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(class) => essence.get(..class.len()).is_some_and(|start| start.eq_ignore_ascii_case(class.as_bytes())),
            None => essence.eq_ignore_ascii_case(allowed.as_bytes()),
        })
    }
}

/// A set of final statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusSet {
    /// A bit for each of 200 to 599.
    bits: [u64; 7],
}

impl StatusSet {
    /// Adds a status; those outside of 200 to 599 cannot be stored and are left out.
    pub fn insert(&mut self, status: u16) {
        if let Some((word, bit)) = place(status) {
            self.bits[word] |= bit;
        }
    }

    /// Adds a class: 2 for 200 to 299.
    pub fn insert_class(&mut self, class: u16) {
        (0..100).filter_map(|one| class.checked_mul(100)?.checked_add(one)).for_each(|status| self.insert(status));
    }

    /// Its statuses as text, neighbours together: `200-299`, `404`.
    pub fn ranges(&self) -> Vec<String> {
        let has = |status: u16| place(status).is_some_and(|(word, bit)| self.bits[word] & bit != 0);
        let starts = (200..600).filter(|status| has(*status) && !has(status - 1));
        starts
            .map(|start| match (start..600).take_while(|status| has(*status)).last().unwrap_or(start) {
                end if end == start => start.to_string(),
                end => format!("{start}-{end}"),
            })
            .collect()
    }

    /// Whether it has the status.
    pub fn contains(&self, status: StatusCode) -> bool {
        place(status.as_u16()).is_some_and(|(word, bit)| self.bits[word] & bit != 0)
    }
}

fn place(status: u16) -> Option<(usize, u64)> {
    let at = usize::from(status.checked_sub(200).filter(|at| *at < 400)?);
    Some((at / 64, 1 << (at % 64)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn statuses() {
        let mut set = StatusSet::default();
        set.insert_class(2);
        set.insert(404);
        set.insert(100);
        set.insert(u16::MAX);
        set.insert_class(u16::MAX);
        let has = |status| set.contains(StatusCode::from_u16(status).unwrap());
        assert_eq!((200..=299).filter(|status| has(*status)).count(), 100);
        assert_eq!((100..=999).filter(|status| has(*status)).count(), 101);
        assert_eq!(set.ranges(), ["200-299", "404"]);
        assert!(has(404) && !has(599) && !has(300) && !has(100));
    }

    #[track_caller]
    fn check(types: &[&str], content_type: Option<&'static str>, expected: Option<Unstored>) {
        let rules = StoreRules { statuses: None, types: types.iter().map(|t| (*t).to_owned()).collect() };
        let response = content_type.map(|value| (CONTENT_TYPE, HeaderValue::from_static(value))).into_iter().collect();
        assert_eq!(rules.refuses(StatusCode::OK, &response), expected, "{types:?} {content_type:?}");
    }

    #[test]
    fn types() {
        check(&[], None, None);
        check(&["text/*"], Some("Text/HTML; charset=utf-8"), None);
        check(&["text/html"], Some("text/html"), None);
        check(&["text/html"], Some("text/htmlx"), Some(Unstored::RouteType));
        check(&["text/*"], Some("textual/html"), Some(Unstored::RouteType));
        check(&["text/*", "image/png"], Some("image/png ;x"), None);
        check(&["text/*"], None, Some(Unstored::RouteType));
    }

    #[test]
    fn statuses_come_first() {
        let rules = StoreRules { statuses: Some(StatusSet::default()), types: vec!["text/*".to_owned()] };
        assert_eq!(rules.refuses(StatusCode::OK, &HeaderMap::new()), Some(Unstored::RouteStatus));
    }
}
