//! Which directives govern a response: those of a targeted field (RFC 9213), else those of `Cache-Control`.

use http::{HeaderMap, HeaderName};
use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ParameterVisitor};
use sfv::{BareItemFromInput, KeyRef};

use super::directives::{MAX_DELTA_SECONDS, Name, ResponseDirectives, Seconds, known};
use super::options::PolicyOptions;

/// The directives that a response is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) directives: ResponseDirectives,
    pub(crate) field: Field,
}

/// Where directives come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// `Cache-Control`, and so `Expires` as well.
    CacheControl,
    /// A field of the target list. RFC 9213 §2.2: `Cache-Control` and `Expires` are ignored then.
    Targeted,
}

impl Control {
    /// Finds the directives of a response.
    pub(crate) fn of(response: &HeaderMap, policy: &PolicyOptions) -> Self {
        // RFC 9213 §2.2: the first field of the target list that is valid and not empty.
        match policy.targets.iter().find_map(|name| targeted(response, name)) {
            Some(directives) => Self { directives, field: Field::Targeted },
            None => Self { directives: ResponseDirectives::parse(response), field: Field::CacheControl },
        }
    }
}

/// The directives in a targeted field; `None` if it is absent, empty or no dictionary: then it counts as absent (RFC
/// 9213 §2.1).
fn targeted(response: &HeaderMap, name: &HeaderName) -> Option<ResponseDirectives> {
    let mut lines = response.get_all(name).iter();
    let first = lines.next()?;
    let mut combined = first.as_bytes().to_vec();
    // RFC 9651 §4.2: lines are combined before they are parsed.
    for line in lines {
        combined.extend_from_slice(b", ");
        combined.extend_from_slice(line.as_bytes());
    }
    let found = Found { directives: ResponseDirectives::default(), is_empty: true };
    sfv::Parser::new(&combined).parse_dictionary_with_visitor(found).ok().flatten()
}

/// What was read of a dictionary. The parser gives out nothing of one that turns out to be malformed.
struct Found {
    directives: ResponseDirectives,
    is_empty: bool,
}

impl<'de> DictionaryVisitor<'de> for Found {
    type Out = Option<ResponseDirectives>;
    type Error = std::convert::Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Self::Error> {
        self.is_empty = false;
        let name = known(key.as_str().as_bytes());
        // RFC 9213 §2.1: unknown members are ignored, as unknown directives are.
        Ok(Some(Directive { name, into: &mut self.directives }).filter(|directive| directive.name != Name::Unknown))
    }

    fn finish(self) -> Result<Self::Out, Self::Error> {
        Ok(Some(self.directives).filter(|_| !self.is_empty))
    }
}

/// A member that is a directive. RFC 9651 §4.2.2: of several with one key the last counts.
struct Directive<'a> {
    name: Name,
    into: &'a mut ResponseDirectives,
}

impl Directive<'_> {
    fn set(self, value: Value) {
        let is_set = value != Value::False;
        // RFC 9213 §2.1: seconds are an Integer; anything else is no lifetime, which makes the response stale.
        let seconds = match value {
            Value::Integer(seconds) => Seconds::Valid(seconds),
            Value::True | Value::False | Value::Other => Seconds::Invalid,
        };
        let found = self.into;
        match self.name {
            // A restriction counts by its name alone, as in `Cache-Control`; one that says "false" restricts nothing.
            Name::NoStore => found.no_store = is_set,
            Name::Private => found.private = is_set,
            Name::NoCache => found.no_cache = is_set,
            Name::MustRevalidate => found.must_revalidate = is_set,
            Name::ProxyRevalidate => found.proxy_revalidate = is_set,
            Name::Public => found.public = value == Value::True,
            Name::MustUnderstand => found.must_understand = value == Value::True,
            Name::MaxAge => found.max_age = seconds,
            Name::SMaxage => found.s_maxage = seconds,
            Name::StaleWhileRevalidate => found.stale_while_revalidate = seconds,
            Name::StaleIfError => found.stale_if_error = seconds,
            Name::OnlyIfCached | Name::MinFresh | Name::MaxStale | Name::Unknown => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    True,
    False,
    Integer(u64),
    Other,
}

impl<'de> EntryVisitor<'de> for Directive<'_> {
    type Error = std::convert::Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Self::Error> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Self::Error> {
        self.set(Value::Other);
        Ok(Ignored)
    }
}

impl<'de> ItemVisitor<'de> for Directive<'_> {
    type Out = ();
    type Error = std::convert::Infallible;

    fn bare_item(self, item: BareItemFromInput<'de>) -> Result<impl ParameterVisitor<'de, Out = ()>, Self::Error> {
        let value = match item {
            BareItemFromInput::Boolean(true) => Value::True,
            BareItemFromInput::Boolean(false) => Value::False,
            // RFC 9111 §1.2.2: more than 2^31 is read as 2^31.
            BareItemFromInput::Integer(number) => u64::try_from(i64::from(number))
                .map_or(Value::Other, |seconds| Value::Integer(seconds.min(MAX_DELTA_SECONDS))),
            _ => Value::Other,
        };
        self.set(value);
        // RFC 9213 §2.1: parameters are ignored.
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::options::CDN_CACHE_CONTROL;
    use super::*;

    const OWN: HeaderName = HeaderName::from_static("own-cache-control");

    #[track_caller]
    fn check(response: &[(HeaderName, &'static str)], expected: &str, field: Field) {
        let map = response.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let policy = PolicyOptions { targets: vec![OWN, CDN_CACHE_CONTROL], ..PolicyOptions::default() };
        let found = Control::of(&map, &policy);
        assert_eq!((found.directives.to_string().as_str(), found.field), (expected, field), "{response:?}");
    }

    #[test]
    fn the_first_valid_target_governs_alone() {
        let general = (http::header::CACHE_CONTROL, "no-store");
        check(std::slice::from_ref(&general), "no-store", Field::CacheControl);
        check(&[general.clone(), (CDN_CACHE_CONTROL, "max-age=5")], "max-age=5", Field::Targeted);
        let both = [general.clone(), (CDN_CACHE_CONTROL, "max-age=5"), (OWN, "max-age=6, private")];
        check(&both, "private, max-age=6", Field::Targeted);
        for absent in ["", "max-age=5, &&&", "max-age =5", "MAX-AGE=5", "max-age=", "max-age=5,"] {
            check(&[general.clone(), (CDN_CACHE_CONTROL, absent)], "no-store", Field::CacheControl);
            check(&[(CDN_CACHE_CONTROL, "private"), (OWN, absent)], "private", Field::Targeted);
        }
    }

    #[test]
    fn values_are_structured() {
        let cdn = |value| [(CDN_CACHE_CONTROL, value)];
        for (value, expected) in [
            ("max-age=60;note=1, x-unknown=(1 2)", "max-age=60"),
            ("max-age=\"60\"", "max-age=?"),
            ("max-age=6.5", "max-age=?"),
            ("max-age=-1", "max-age=?"),
            ("max-age", "max-age=?"),
            ("max-age=1, max-age=2", "max-age=2"),
            ("max-age=99999999999", "max-age=2147483648"),
            ("no-store, private=(\"a\"), no-cache=\"b\"", "no-store, private, no-cache"),
            ("no-store=?0, must-revalidate=?1", "must-revalidate"),
            ("public=x", ""),
            ("stale-while-revalidate=3, stale-if-error=4", "stale-while-revalidate=3, stale-if-error=4"),
        ] {
            check(&cdn(value), expected, Field::Targeted);
        }
        let lines = [(CDN_CACHE_CONTROL, "max-age=1"), (CDN_CACHE_CONTROL, "no-cache")];
        check(&lines, "no-cache, max-age=1", Field::Targeted);
    }
}
