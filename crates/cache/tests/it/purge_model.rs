//! Purges against a naive model: a list of all purges, searched for each lookup.

use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::{Address, Cache, Decision, Fill, Key, Lookup, Mode, Purge, RouteRules, Scope, Turn};
use proptest::prelude::*;

use crate::support::*;

const AUTHORITIES: [&str; 2] = ["one.example", "two.example"];
const TARGETS: [&str; 4] = ["/a", "/a/b", "/a/b?c", "/d"];
const PREFIXES: [&str; 4] = ["/", "/a", "/a/b", "/d"];
const TAGS: [&str; 3] = ["x", "y", "z"];

/// A place: authority and target.
type Place = (usize, usize);

#[derive(Debug, Clone)]
enum Step {
    /// A fetch begins.
    Begin(Place),
    /// One of those under way ends, with these tags and groups (a bit for each).
    End {
        which: usize,
        tags: usize,
        groups: usize,
    },
    Purge(What, Mode),
    /// As if another node had told of its purge, by the number of a log.
    Logged(What, Mode),
    /// Nobody can tell any more what has happened until now.
    Uncover,
    Look(Place),
}

#[derive(Debug, Clone, Copy)]
enum What {
    Url(Place),
    Prefix(usize, usize),
    Tag(usize),
    Group(usize, usize),
    Everything,
}

impl What {
    fn scope(self) -> Scope {
        let address = |authority: usize, target: &str| Address {
            scheme: "http".into(),
            authority: AUTHORITIES[authority].into(),
            target: target.into(),
        };
        match self {
            Self::Url((authority, target)) => Scope::Url(address(authority, TARGETS[target])),
            Self::Prefix(authority, prefix) => Scope::Prefix(address(authority, PREFIXES[prefix])),
            Self::Tag(tag) => Scope::Tag(TAGS[tag].into()),
            Self::Group(authority, group) => Scope::Group {
                scheme: "http".into(),
                authority: AUTHORITIES[authority].into(),
                name: TAGS[group].into(),
            },
            Self::Everything => Scope::Everything,
        }
    }

    fn concerns(self, (authority, target): Place, entry: &Entry) -> bool {
        match self {
            Self::Url(place) => place == (authority, target),
            Self::Prefix(a, prefix) => a == authority && TARGETS[target].starts_with(PREFIXES[prefix]),
            Self::Tag(tag) => entry.tags & 1 << tag != 0,
            Self::Group(a, group) => a == authority && entry.groups & 1 << group != 0,
            Self::Everything => true,
        }
    }
}

/// What the model knows of a stored response.
#[derive(Debug, Clone)]
struct Entry {
    /// The step at which its fetch began.
    begun: usize,
    tags: usize,
    groups: usize,
    body: String,
}

/// Everything that ever happened.
#[derive(Default)]
struct Model {
    stored: std::collections::HashMap<Place, Entry>,
    purges: Vec<(usize, What, Mode)>,
    uncovered: Vec<usize>,
}

impl Model {
    fn expected(&self, place: Place) -> String {
        let Some(entry) = self.stored.get(&place) else { return "miss".into() };
        let after = self.purges.iter().filter(|(at, what, _)| *at > entry.begun && what.concerns(place, entry));
        let modes: Vec<Mode> = after.map(|(_, _, mode)| *mode).collect();
        if modes.contains(&Mode::Hard) {
            "miss".into()
        } else if modes.contains(&Mode::Soft) || self.uncovered.iter().any(|at| *at > entry.begun) {
            format!("stale {}", entry.body)
        } else {
            format!("hit {}", entry.body)
        }
    }
}

fn key((authority, target): Place) -> Key<'static> {
    Key { scheme: "http", authority: AUTHORITIES[authority], target: TARGETS[target], extra: "" }
}

fn begin(cache: &Cache, place: Place) -> Fill {
    // It goes alone, so that several of one target may be under way.
    match cache.begin(&key(place), &Method::GET, &fields(&[("cache-control", "no-cache")]), START) {
        Turn::Leader(fill) => fill,
        other => panic!("{other:?}"),
    }
}

fn names(bits: usize) -> Vec<&'static str> {
    (0..TAGS.len()).filter(|bit| bits & 1 << bit != 0).map(|bit| TAGS[bit]).collect()
}

/// The fields of an answer; tags are spread over both fields.
fn answer(tags: usize, groups: usize) -> HeaderMap {
    let (cache_tags, surrogate_keys) = (names(tags & 0b011).join(", "), names(tags & 0b100).join(" "));
    let groups: Vec<String> = names(groups).iter().map(|name| format!("\"{name}\"")).collect();
    fields(&[
        ("cache-control", "max-age=60"),
        ("etag", "\"e\""),
        ("cache-tag", &cache_tags),
        ("surrogate-key", &surrogate_keys),
        ("cache-groups", &groups.join(", ")),
    ])
}

fn found(cache: &Cache, place: Place) -> String {
    match cache.lookup(&key(place), &Method::GET, &HeaderMap::new(), START) {
        Lookup::Hit(stored) => format!("hit {}", String::from_utf8_lossy(&stored.body().to_bytes())),
        Lookup::Stale(stored, _) => format!("stale {}", String::from_utf8_lossy(&stored.body().to_bytes())),
        Lookup::Miss(_) => "miss".into(),
        other => panic!("{other:?}"),
    }
}

fn play(steps: &[Step]) -> Result<(), TestCaseError> {
    let cache = cache();
    let mut model = Model::default();
    let mut under_way: Vec<(Place, usize, Fill)> = Vec::new();
    let mut logged = 0;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Begin(place) => under_way.push((*place, at, begin(&cache, *place))),
            Step::End { which, tags, groups } => {
                if under_way.is_empty() {
                    continue;
                }
                let (place, begun, fill) = under_way.swap_remove(which % under_way.len());
                let body = at.to_string();
                let decision = fill.response(
                    &HeaderMap::new(),
                    StatusCode::OK,
                    &answer(*tags, *groups),
                    self::at(START),
                    RouteRules::default(),
                );
                let Decision::Store(mut recorder) = decision else { panic!("{decision:?}") };
                recorder.push(body.as_bytes()).unwrap();
                // Not stored: a URL was purged meanwhile whose group of keys it shares.
                if recorder.finish(START).is_ok() {
                    model.stored.insert(place, Entry { begun, tags: *tags, groups: *groups, body });
                }
            }
            Step::Purge(what, mode) => {
                cache.purge(&[Purge { scope: what.scope(), mode: *mode }], START);
                model.purges.push((at, *what, *mode));
            }
            Step::Logged(what, mode) => {
                logged += 10;
                cache.purges().apply_logged(&[(Purge { scope: what.scope(), mode: *mode }, logged)], START);
                model.purges.push((at, *what, *mode));
            }
            Step::Uncover => {
                cache.purges().uncover();
                model.uncovered.push(at);
            }
            Step::Look(place) => prop_assert_eq!(found(&cache, *place), model.expected(*place), "step {}", at),
        }
    }
    for authority in 0..AUTHORITIES.len() {
        for target in 0..TARGETS.len() {
            let place = (authority, target);
            prop_assert_eq!(found(&cache, place), model.expected(place), "{:?} in the end", place);
        }
    }
    Ok(())
}

fn place() -> impl Strategy<Value = Place> {
    (0..AUTHORITIES.len(), 0..TARGETS.len())
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        4 => place().prop_map(What::Url),
        4 => (0..AUTHORITIES.len(), 0..PREFIXES.len()).prop_map(|(a, p)| What::Prefix(a, p)),
        4 => (0..TAGS.len()).prop_map(What::Tag),
        4 => (0..AUTHORITIES.len(), 0..TAGS.len()).prop_map(|(a, g)| What::Group(a, g)),
        1 => Just(What::Everything),
    ]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Hard), Just(Mode::Soft)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => place().prop_map(Step::Begin),
        6 => (any::<usize>(), 0..8usize, 0..8usize).prop_map(|(which, tags, groups)| Step::End { which, tags, groups }),
        3 => (what(), mode()).prop_map(|(what, mode)| Step::Purge(what, mode)),
        2 => (what(), mode()).prop_map(|(what, mode)| Step::Logged(what, mode)),
        1 => Just(Step::Uncover),
        8 => place().prop_map(Step::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn lookups_agree_with_the_model(steps in proptest::collection::vec(step(), 0..80)) {
        play(&steps)?;
    }
}
