//! Purges against a naive model: a list of all purges, searched for each lookup and for each record of a shared tier.

use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::{
    Address, Cache, CacheOptions, Decision, Fill, Key, Lookup, Mode, Purge, RouteRules, Scope, Standing, Turn,
};
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
    /// The log has a number for the purge of this cache that has waited longest.
    Number,
    /// The purges that wait become one of everything.
    Fold,
    /// The log no longer has its older half.
    ForgetLogged,
    /// Another node has replaced a record.
    Replaced(Place),
    /// Nobody can tell any more what has happened until now.
    Uncover,
    Look(Place),
    /// Whether a record is admitted that was fetched when the log had this part (of 4) of what it has now.
    Admit {
        place: Place,
        tags: usize,
        groups: usize,
        age: u64,
    },
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

    fn purge(self, mode: Mode) -> Purge {
        Purge { scope: self.scope(), mode }
    }

    fn concerns(self, (authority, target): Place, tags: usize, groups: usize) -> bool {
        match self {
            Self::Url(place) => place == (authority, target),
            Self::Prefix(a, prefix) => a == authority && TARGETS[target].starts_with(PREFIXES[prefix]),
            Self::Tag(tag) => tags & 1 << tag != 0,
            Self::Group(a, group) => a == authority && groups & 1 << group != 0,
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

/// A purge as the log has it.
#[derive(Debug, Clone, Copy)]
struct InLog {
    what: What,
    mode: Mode,
    /// `None`: it waits for one.
    number: Option<u64>,
}

/// Everything that ever happened.
#[derive(Default)]
struct Model {
    stored: std::collections::HashMap<Place, Entry>,
    purges: Vec<(usize, What, Mode)>,
    uncovered: Vec<usize>,
    replaced: Vec<(usize, Place)>,
    in_log: Vec<InLog>,
    /// The last number of the log.
    logged: u64,
    /// The log has forgotten what is older.
    forgotten: u64,
}

impl Model {
    fn expected(&self, place: Place) -> String {
        let Some(entry) = self.stored.get(&place) else { return "miss".into() };
        let concerns = |what: &What| what.concerns(place, entry.tags, entry.groups);
        let after = self.purges.iter().filter(|(at, what, _)| *at > entry.begun && concerns(what));
        let modes: Vec<Mode> = after.map(|(_, _, mode)| *mode).collect();
        let is_replaced =
            |(at, other): &(usize, Place)| *at > entry.begun && record_name(&key(*other)) == record_name(&key(place));
        let is_unknown = self.uncovered.iter().any(|at| *at > entry.begun) || self.replaced.iter().any(is_replaced);
        if modes.contains(&Mode::Hard) {
            "miss".into()
        } else if modes.contains(&Mode::Soft) || is_unknown {
            format!("stale {}", entry.body)
        } else {
            format!("hit {}", entry.body)
        }
    }

    /// What is expected of a record that was fetched at this number of the log.
    fn admitted(&self, (place, tags, groups): (Place, usize, usize), since: u64) -> Standing {
        let after = self.in_log.iter().filter(|purge| purge.number.is_none_or(|number| number > since));
        let modes: Vec<Mode> =
            after.filter(|purge| purge.what.concerns(place, tags, groups)).map(|purge| purge.mode).collect();
        if modes.contains(&Mode::Hard) {
            Standing::Gone
        } else if self.forgotten > since {
            Standing::Unknown
        } else if modes.contains(&Mode::Soft) {
            Standing::Stale(START)
        } else {
            Standing::Good
        }
    }
}

/// Targets of the same length share a stripe.
fn record_name(key: &Key<'_>) -> u64 {
    key.target.len() as u64
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

/// The fields of a response; tags are spread over both fields.
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

/// A step about purges and what is told of them.
fn purge(cache: &Cache, model: &mut Model, at: usize, step: &Step) {
    let purges = cache.purges();
    match step {
        Step::Purge(what, mode) => {
            cache.purge(&[what.purge(*mode)], START);
            model.purges.push((at, *what, *mode));
            model.in_log.push(InLog { what: *what, mode: *mode, number: None });
        }
        Step::Logged(what, mode) => {
            model.logged += 10;
            purges.apply_logged(&[(what.purge(*mode), model.logged)], START);
            model.purges.push((at, *what, *mode));
            model.in_log.push(InLog { what: *what, mode: *mode, number: Some(model.logged) });
        }
        Step::Number => {
            if let Some(oldest) = model.in_log.iter_mut().find(|purge| purge.number.is_none()) {
                model.logged += 10;
                oldest.number = Some(model.logged);
                purges.number(&oldest.what.purge(oldest.mode), model.logged);
            }
        }
        Step::Fold => {
            let waiting = model.in_log.iter_mut().filter(|purge| purge.number.is_none());
            let folded = waiting.map(|purge| {
                purge.number = Some(0);
                purge.what.purge(purge.mode)
            });
            purges.fold(&folded.collect::<Vec<_>>());
            model.in_log.push(InLog { what: What::Everything, mode: Mode::Hard, number: None });
        }
        Step::ForgetLogged => {
            model.forgotten = model.forgotten.max(model.logged / 2);
            purges.forget_logged(model.logged / 2);
        }
        Step::Replaced(place) => {
            purges.replaced(&[record_name(&key(*place))]);
            model.replaced.push((at, *place));
        }
        Step::Uncover => {
            purges.uncover();
            model.uncovered.push(at);
        }
        Step::Begin(_) | Step::End { .. } | Step::Look(_) | Step::Admit { .. } => unreachable!("{step:?}"),
    }
}

fn end(cache: &Cache, under_way: (Place, usize, Fill), (tags, groups): (usize, usize), body: String) -> Option<Entry> {
    let (_, begun, fill) = under_way;
    let timing = self::at(START);
    let answer = answer(tags, groups);
    let decision = fill.response(&HeaderMap::new(), StatusCode::OK, &answer, timing, RouteRules::default());
    let Decision::Store(mut recorder) = decision else { panic!("{decision:?} of {cache:?}") };
    recorder.push(body.as_bytes()).unwrap();
    // Not stored: a URL was purged meanwhile whose group of keys it shares.
    recorder.finish(START).ok().map(|_| Entry { begun, tags, groups, body })
}

fn play(cache: &Cache, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    let mut under_way: Vec<(Place, usize, Fill)> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Begin(place) => under_way.push((*place, at, begin(cache, *place))),
            Step::End { .. } if under_way.is_empty() => {}
            Step::End { which, tags, groups } => {
                let ended = under_way.swap_remove(which % under_way.len());
                let place = ended.0;
                if let Some(entry) = end(cache, ended, (*tags, *groups), at.to_string()) {
                    model.stored.insert(place, entry);
                }
            }
            Step::Look(place) => prop_assert_eq!(found(cache, *place), model.expected(*place), "step {}", at),
            Step::Admit { place, tags, groups, age } => {
                let since = model.logged * age / 4;
                let admitted = cache.purges().admits(&key(*place), &answer(*tags, *groups), since);
                prop_assert_eq!(admitted, model.admitted((*place, *tags, *groups), since), "step {}", at);
            }
            step => purge(cache, &mut model, at, step),
        }
    }
    for authority in 0..AUTHORITIES.len() {
        for target in 0..TARGETS.len() {
            let place = (authority, target);
            prop_assert_eq!(found(cache, place), model.expected(place), "{:?} in the end", place);
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

/// What happens in any cache.
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

/// The same and what happens in front of a shared tier.
fn shared_step() -> impl Strategy<Value = Step> {
    let admit = (place(), 0..8usize, 0..8usize, 0..=4u64);
    prop_oneof![
        26 => step(),
        2 => place().prop_map(Step::Replaced),
        3 => Just(Step::Number),
        1 => Just(Step::Fold),
        1 => Just(Step::ForgetLogged),
        6 => admit.prop_map(|(place, tags, groups, age)| Step::Admit { place, tags, groups, age }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn lookups_agree_with_the_model(steps in proptest::collection::vec(step(), 0..80)) {
        play(&cache(), &steps)?;
    }

    #[test]
    fn lookups_and_records_agree_with_the_model(steps in proptest::collection::vec(shared_step(), 0..80)) {
        play(&Cache::shared(CacheOptions::default(), record_name).unwrap(), &steps)?;
    }
}
