//! What is to be done about certificates, and when. Pure: the time is an argument, chance a seeded generator.
//!
//! The owner asks [`Agenda::next`] until it says [`Work::Nothing`], does what it says, and tells how it went. Each name
//! has a certificate of its own. Authorities are tried in their order: the first that is not being waited for.
//!
//! Invariant: a name has one piece of work under way at most, and all names together [`MAX_ORDERS`] orders.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use crate::backoff::{Failure, Pause};
use crate::certificate::Facts;
use crate::name::Name;
use crate::renewal::{Renewal, Suggestion};

/// Most orders at once.
pub const MAX_ORDERS: usize = 8;
/// Most questions for renewal windows at once.
const MAX_QUESTIONS: usize = 4;
/// Most names. Those beyond it get no certificate, which the owner says.
pub const MAX_NAMES: usize = 50_000;
/// How soon it is looked again whether another gateway has the certificate that it is getting.
const ELSEWHERE_FIRST: Duration = Duration::from_millis(200);
/// And how seldom, in the end.
const ELSEWHERE_MAX: Duration = Duration::from_secs(30);

/// Everything that is known about names and their certificates.
#[derive(Debug)]
pub struct Agenda {
    entries: BTreeMap<Name, Entry>,
    authorities: Vec<Pause>,
    chance: fastrand::Rng,
}

#[derive(Debug, Default)]
struct Entry {
    /// Whether a route has it; others came on demand.
    is_routed: bool,
    held: Option<Held>,
    /// At each authority.
    pauses: Vec<Pause>,
    /// Another gateway has the lease: looked at again then, after the wait that led there.
    elsewhere: Option<(SystemTime, Duration)>,
    busy: Option<Busy>,
    /// Somebody asked for a new one.
    is_asked_for: bool,
    attempts: u64,
    last_error: Option<LastError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    Reading,
    Order,
    Question,
}

/// A certificate that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    facts: Facts,
    renewal: Renewal,
    issuer: Issuer,
}

/// Which authority a certificate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issuer {
    /// That of this index.
    Configured(usize),
    /// Another one, or it is not known.
    Other,
    /// One for trying out, which is not configured any more: it is replaced at once.
    Staging,
    /// A person brought it: it is replaced when it is due, as any other.
    Imported,
}

/// What went wrong last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// When.
    pub at: SystemTime,
    /// In words.
    pub text: String,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Get a certificate.
    Order {
        /// For this name.
        name: Name,
        /// From the authority of this index.
        authority: usize,
        /// How often it was tried before, whatever came of it.
        attempt: u64,
    },
    /// Ask when the certificate should be renewed.
    AskWindow {
        /// Of this name.
        name: Name,
        /// The authority of this index.
        authority: usize,
    },
    /// Wait for what is under way, for somebody who wants something, or until this time.
    Nothing {
        /// `None`: nothing comes by itself.
        until: Option<SystemTime>,
    },
}

/// What is known about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameState {
    /// The name.
    pub name: Name,
    /// Whether a route has it.
    pub is_routed: bool,
    /// Until when its certificate is valid; `None` without one.
    pub not_after: Option<SystemTime>,
    /// When that is renewed.
    pub renew_at: Option<SystemTime>,
    /// Where it comes from.
    pub issuer: Option<Issuer>,
    /// Whether an order is under way.
    pub is_ordering: bool,
    /// When the next order may be placed, if one is wanted and has to wait.
    pub next_attempt: Option<SystemTime>,
    /// What went wrong since the certificate was had.
    pub last_error: Option<LastError>,
}

impl Agenda {
    /// For so many authorities.
    #[must_use]
    pub fn new(authorities: usize, seed: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            authorities: vec![Pause::default(); authorities],
            chance: fastrand::Rng::with_seed(seed),
        }
    }

    /// The names of routes from now on; what came on demand stays. Gives out those that are new and those that went.
    pub fn route(&mut self, names: &BTreeSet<Name>) -> Changed {
        let gone = |entry: &(&Name, &Entry)| entry.1.is_routed && !names.contains(entry.0);
        let gone: Vec<Name> = self.entries.iter().filter(gone).map(|(name, _)| name.clone()).collect();
        for name in &gone {
            self.entries.remove(name);
        }
        let mut changed = Changed { new: Vec::new(), gone, over: 0 };
        for name in names {
            if let Some(entry) = self.entries.get_mut(name) {
                entry.is_routed = true;
            } else if self.add(name, true) {
                changed.new.push(name.clone());
            } else {
                changed.over += 1;
            }
        }
        changed
    }

    /// A name that somebody asked for, and that may have a certificate. Whether it is new.
    pub fn demand(&mut self, name: &Name) -> bool {
        !self.entries.contains_key(name) && self.add(name, false)
    }

    fn add(&mut self, name: &Name, is_routed: bool) -> bool {
        if self.entries.len() >= MAX_NAMES {
            return false;
        }
        let pauses = vec![Pause::default(); self.authorities.len()];
        self.entries.insert(name.clone(), Entry { is_routed, pauses, ..Entry::default() });
        true
    }

    /// Whether the name is known.
    #[must_use]
    pub fn knows(&self, name: &Name) -> bool {
        self.entries.contains_key(name)
    }

    /// What the certificate of a name says.
    #[must_use]
    pub fn facts(&self, name: &Name) -> Option<&Facts> {
        self.entries.get(name)?.held.as_ref().map(|held| &held.facts)
    }

    /// The storage is being asked for a certificate of the name: nothing is ordered meanwhile.
    pub fn is_being_read(&mut self, name: &Name) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.busy = Some(Busy::Reading);
        }
    }

    /// The storage has answered.
    pub fn was_read(&mut self, name: &Name) {
        if let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.busy == Some(Busy::Reading)) {
            entry.busy = None;
        }
    }

    /// Whether the certificate of a name comes from this authority.
    #[must_use]
    pub fn is_from(&self, name: &Name, authority: usize) -> bool {
        let held = self.entries.get(name).and_then(|entry| entry.held.as_ref());
        held.is_some_and(|held| held.issuer == Issuer::Configured(authority))
    }

    /// Whether the storage is being asked for a certificate.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.entries.values().any(|entry| entry.busy == Some(Busy::Reading))
    }

    /// A name has this certificate now.
    pub fn hold(&mut self, name: &Name, facts: Facts, issuer: Issuer, now: SystemTime) {
        let chance = self.chance.f64();
        let Some(entry) = self.entries.get_mut(name) else { return };
        let ask_at = matches!(issuer, Issuer::Configured(_)).then_some(()).and(facts.renewal_id.as_ref()).map(|_| now);
        let renewal = Renewal::new(facts.not_before, facts.not_after, ask_at, chance);
        entry.held = Some(Held { facts, renewal, issuer });
        (entry.is_asked_for, entry.elsewhere, entry.last_error, entry.attempts) = (false, None, None, 0);
        entry.pauses.fill(Pause::default());
    }

    /// Somebody wants a new certificate now, whatever was waited for. `false`: there is no such name.
    pub fn renew(&mut self, name: &Name) -> bool {
        let Some(entry) = self.entries.get_mut(name) else { return false };
        (entry.is_asked_for, entry.elsewhere) = (true, None);
        entry.pauses.fill(Pause::default());
        self.authorities.fill(Pause::default());
        true
    }

    /// What to do now. What it gives out is under way until it is told how that went.
    pub fn next(&mut self, now: SystemTime) -> Work {
        let under_way = |busy| self.entries.values().filter(|entry| entry.busy == Some(busy)).count();
        let may_order = under_way(Busy::Order) < MAX_ORDERS;
        let may_ask = under_way(Busy::Question) < MAX_QUESTIONS;
        let mut until: Option<SystemTime> = None;
        let mut first: Option<(SystemTime, Name, Step)> = None;
        for (name, entry) in self.entries.iter().filter(|(_, entry)| entry.busy.is_none()) {
            for (at, step) in entry.steps(&self.authorities, now) {
                let may = if matches!(step, Step::Order(_)) { may_order } else { may_ask };
                if at > now {
                    until = Some(until.map_or(at, |until| until.min(at)));
                } else if may {
                    // Names without a certificate before those with one, then the one that expires first.
                    let urgency = entry.held.as_ref().map_or(SystemTime::UNIX_EPOCH, |held| held.facts.not_after);
                    if first.as_ref().is_none_or(|(other, ..)| urgency < *other) {
                        first = Some((urgency, name.clone(), step));
                    }
                }
            }
        }
        let Some((_, name, step)) = first else { return Work::Nothing { until } };
        let Some(entry) = self.entries.get_mut(&name) else { return Work::Nothing { until } };
        match step {
            Step::Order(authority) => {
                entry.busy = Some(Busy::Order);
                entry.attempts += 1;
                Work::Order { name, authority, attempt: entry.attempts - 1 }
            }
            Step::Ask(authority) => {
                entry.busy = Some(Busy::Question);
                Work::AskWindow { name, authority }
            }
        }
    }

    /// An order brought a certificate, or another gateway has stored one.
    pub fn obtained(&mut self, name: &Name, facts: Facts, issuer: Issuer, now: SystemTime) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.busy = None;
        }
        if let Issuer::Configured(authority) = issuer
            && let Some(pause) = self.authorities.get_mut(authority)
        {
            pause.succeeded();
        }
        self.hold(name, facts, issuer, now);
    }

    /// Another gateway has the lease of a name: it is looked at again soon.
    pub fn is_elsewhere(&mut self, name: &Name, now: SystemTime) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        let wait = entry.elsewhere.map_or(ELSEWHERE_FIRST, |(_, last)| (last * 3 / 2).min(ELSEWHERE_MAX));
        (entry.busy, entry.elsewhere) = (None, Some((now + wait, wait)));
    }

    /// An order failed at an authority.
    pub fn failed(&mut self, name: &Name, authority: usize, failure: Failure, text: String, now: SystemTime) {
        let chance = self.chance.f64();
        if let Some(pause) = self.authorities.get_mut(authority) {
            pause.authority_failed(failure, now, chance);
        }
        let Some(entry) = self.entries.get_mut(name) else { return };
        if let Some(pause) = entry.pauses.get_mut(authority) {
            pause.name_failed(failure, now, chance);
        }
        entry.busy = None;
        entry.last_error = Some(LastError { at: now, text });
    }

    /// A question about a window was answered.
    pub fn suggested(&mut self, name: &Name, suggestion: Suggestion, now: SystemTime) {
        let chance = self.chance.f64();
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.busy = None;
        if let Some(held) = &mut entry.held {
            held.renewal.suggested(suggestion, now, chance);
        }
    }

    /// Every name, in alphabetical order.
    pub fn names(&self, now: SystemTime) -> impl Iterator<Item = NameState> {
        self.entries.iter().map(move |(name, entry)| {
            let held = entry.held.as_ref();
            let order = entry.steps(&self.authorities, now).find(|(_, step)| matches!(step, Step::Order(_)));
            NameState {
                name: name.clone(),
                is_routed: entry.is_routed,
                not_after: held.map(|held| held.facts.not_after),
                renew_at: held.map(|held| held.renewal.at),
                issuer: held.map(|held| held.issuer),
                is_ordering: entry.busy == Some(Busy::Order),
                next_attempt: order.map(|(at, _)| at).filter(|at| *at > now && entry.is_due(now)),
                last_error: entry.last_error.clone(),
            }
        })
    }
}

/// What [`Agenda::route`] has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Names that were not known.
    pub new: Vec<Name>,
    /// Names that are not wanted any more.
    pub gone: Vec<Name>,
    /// How many are too many.
    pub over: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Order(usize),
    Ask(usize),
}

impl Entry {
    /// When a new certificate is wanted, whatever stands in the way.
    fn due(&self) -> Option<SystemTime> {
        match &self.held {
            _ if self.is_asked_for => None,
            None => None,
            Some(held) if held.issuer == Issuer::Staging => None,
            Some(held) => Some(held.renewal.at),
        }
    }

    fn is_due(&self, now: SystemTime) -> bool {
        self.due().is_none_or(|due| due <= now)
    }

    /// What this name needs, and from when on.
    fn steps(&self, authorities: &[Pause], now: SystemTime) -> impl Iterator<Item = (SystemTime, Step)> {
        let ready = |authority: usize| {
            let pauses = [self.pauses.get(authority), authorities.get(authority)];
            pauses.into_iter().flatten().filter_map(Pause::until).max().unwrap_or(SystemTime::UNIX_EPOCH)
        };
        // The first that is ready; else the one that is ready first.
        let at_authority = (0..authorities.len()).map(|index| (ready(index).max(now), index)).min();
        let order = at_authority.map(|(at, index)| {
            let waits = [self.due(), self.elsewhere.map(|(at, _)| at)];
            (waits.into_iter().flatten().fold(at, SystemTime::max), Step::Order(index))
        });
        let ask = self.held.as_ref().and_then(|held| match held.issuer {
            Issuer::Configured(index) => {
                // Not at an authority that is away.
                let is_away = authorities.get(index).is_some_and(|pause| !pause.is_over(now));
                let at = held.renewal.ask_at.filter(|_| !is_away)?;
                Some((at.max(now), Step::Ask(index)))
            }
            Issuer::Other | Issuer::Staging | Issuer::Imported => None,
        });
        [order, ask].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::name::Reach;
    use crate::renewal::Window;

    const DAY: Duration = Duration::from_secs(86_400);
    const AWAY: Failure = Failure::Unreachable { retry_after: None };

    fn day(days: u32) -> SystemTime {
        UNIX_EPOCH + DAY * (20_000 + days)
    }

    fn name(text: &str) -> Name {
        Name::of_host(text, Reach::Public).unwrap()
    }

    fn names(texts: &[&str]) -> BTreeSet<Name> {
        texts.iter().map(|text| name(text)).collect()
    }

    /// A certificate for 90 days.
    fn facts(from: SystemTime) -> Facts {
        Facts {
            names: Vec::new(),
            not_before: from,
            not_after: from + DAY * 90,
            renewal_id: None,
            fingerprint: [0; 32],
        }
    }

    fn agenda(authorities: usize, routed: &[&str]) -> Agenda {
        let mut agenda = Agenda::new(authorities, 7);
        agenda.route(&names(routed));
        agenda
    }

    #[track_caller]
    fn order(agenda: &mut Agenda, now: SystemTime) -> (String, usize) {
        match agenda.next(now) {
            Work::Order { name, authority, .. } => (name.as_str().to_owned(), authority),
            other => panic!("{other:?} is no order"),
        }
    }

    #[track_caller]
    fn waits(agenda: &mut Agenda, now: SystemTime) -> Duration {
        match agenda.next(now) {
            Work::Nothing { until: Some(until) } => until.duration_since(now).unwrap(),
            other => panic!("{other:?} is no wait"),
        }
    }

    #[test]
    fn what_is_missing_is_ordered_at_once_and_what_is_there_at_two_thirds() {
        let mut agenda = agenda(1, &["b.org", "a.org"]);
        agenda.hold(&name("b.org"), facts(day(0)), Issuer::Configured(0), day(0));
        assert_eq!(order(&mut agenda, day(0)), ("a.org".to_owned(), 0));
        let wait = waits(&mut agenda, day(0));
        assert!(wait > DAY * 56 && wait <= DAY * 60, "{wait:?}");
        agenda.obtained(&name("a.org"), facts(day(0)), Issuer::Configured(0), day(0));
        assert!(waits(&mut agenda, day(0)) > DAY * 56);
        let mut due = vec![order(&mut agenda, day(60)).0, order(&mut agenda, day(60)).0];
        due.sort();
        assert_eq!(due, ["a.org", "b.org"]);
    }

    #[test]
    fn the_first_to_expire_is_renewed_first_and_one_without_a_certificate_before_it() {
        let mut agenda = agenda(1, &["a.org", "b.org", "c.org"]);
        agenda.hold(&name("a.org"), facts(day(3)), Issuer::Other, day(3));
        agenda.hold(&name("b.org"), facts(day(1)), Issuer::Other, day(3));
        let in_order: Vec<String> = (0..3).map(|_| order(&mut agenda, day(80)).0).collect();
        assert_eq!(in_order, ["c.org", "b.org", "a.org"]);
        assert_eq!(agenda.next(day(80)), Work::Nothing { until: None });
    }

    #[test]
    fn no_more_orders_at_once_than_allowed() {
        let all: Vec<String> = (0..20).map(|number| format!("n{number}.org")).collect();
        let mut agenda = agenda(1, &all.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..MAX_ORDERS {
            order(&mut agenda, day(0));
        }
        assert_eq!(agenda.next(day(0)), Work::Nothing { until: None });
        let done = agenda.names(day(0)).find(|state| state.is_ordering).unwrap().name;
        agenda.obtained(&done, facts(day(0)), Issuer::Configured(0), day(0));
        order(&mut agenda, day(0));
    }

    #[test]
    fn the_next_authority_takes_over_at_once_and_the_first_comes_back() {
        let mut agenda = agenda(2, &["a.org"]);
        let a = name("a.org");
        assert_eq!(order(&mut agenda, day(0)).1, 0);
        agenda.failed(&a, 0, AWAY, "away".into(), day(0));
        assert_eq!(order(&mut agenda, day(0)).1, 1);
        agenda.failed(&a, 1, Failure::Refused, "refused".into(), day(0));
        let wait = waits(&mut agenda, day(0));
        assert!(wait >= Duration::from_secs(5) && wait < Duration::from_secs(7), "{wait:?}");
        assert_eq!(order(&mut agenda, day(0) + wait).1, 0);
        let state = agenda.names(day(0)).next().unwrap();
        assert_eq!(state.last_error.unwrap().text, "refused");
    }

    #[test]
    fn an_authority_that_is_away_is_not_asked_for_each_name() {
        let mut agenda = agenda(1, &["a.org", "b.org", "c.org"]);
        let (first, _) = order(&mut agenda, day(0));
        agenda.failed(&name(&first), 0, AWAY, "away".into(), day(0));
        assert!(waits(&mut agenda, day(0)) >= Duration::from_secs(5));
    }

    /// The CA is away for seven days in which the certificate becomes due: it is served on, the CA is asked ever more
    /// seldom, and soon after its return there is a new one.
    #[test]
    fn seven_days_without_an_authority() {
        let mut agenda = agenda(1, &["a.org"]);
        let a = name("a.org");
        agenda.hold(&a, facts(day(0)), Issuer::Configured(0), day(0));
        let (mut now, mut tries) = (day(60), 0);
        let back = day(67);
        let obtained = loop {
            match agenda.next(now) {
                Work::Order { .. } if now < back => {
                    tries += 1;
                    agenda.failed(&a, 0, AWAY, "connection refused".into(), now);
                }
                Work::Order { .. } => break now,
                Work::Nothing { until } => now = until.expect("it is wanted").max(now),
                Work::AskWindow { .. } => panic!("there is no renewal id"),
            }
            let state = agenda.names(now).next().unwrap();
            assert!(state.not_after.is_some_and(|end| end > now), "the old certificate is there");
        };
        assert!(obtained.duration_since(back).unwrap() < Duration::from_secs(2400), "{obtained:?}");
        assert!((7 * 24..7 * 48 + 20).contains(&tries), "{tries} tries in a week");
        agenda.obtained(&a, facts(obtained), Issuer::Configured(0), obtained);
        assert_eq!(agenda.names(obtained).next().unwrap().last_error, None);
        assert!(waits(&mut agenda, obtained) > DAY * 56);
    }

    #[test]
    fn a_window_is_asked_for_and_followed() {
        let mut agenda = agenda(1, &["a.org"]);
        let a = name("a.org");
        let id = crate::certificate::RenewalId { authority_key: vec![1], serial: vec![2] };
        let facts = Facts { renewal_id: Some(id), ..facts(day(0)) };
        agenda.hold(&a, facts.clone(), Issuer::Configured(0), day(0));
        assert_eq!(agenda.next(day(0)), Work::AskWindow { name: a.clone(), authority: 0 });
        let window = Window { start: day(5), end: day(6) };
        agenda.suggested(&a, Suggestion::Window { window, again_in: DAY }, day(0));
        assert_eq!(waits(&mut agenda, day(0)), DAY);
        assert_eq!(agenda.next(day(1)), Work::AskWindow { name: a.clone(), authority: 0 });
        agenda.suggested(&a, Suggestion::Unsupported, day(1));
        let wait = waits(&mut agenda, day(1));
        assert!(wait >= DAY * 4 && wait <= DAY * 5, "{wait:?}");
        assert_eq!(order(&mut agenda, day(6)).0, "a.org");
        // One of another authority has no window that could be asked for.
        agenda.obtained(&a, facts, Issuer::Other, day(6));
        assert!(waits(&mut agenda, day(6)) > DAY);
    }

    #[test]
    fn a_certificate_for_trying_out_is_replaced_at_once() {
        let mut agenda = agenda(1, &["a.org", "b.org"]);
        agenda.hold(&name("a.org"), facts(day(0)), Issuer::Staging, day(0));
        agenda.hold(&name("b.org"), facts(day(0)), Issuer::Imported, day(0));
        assert_eq!(order(&mut agenda, day(0)).0, "a.org");
        assert!(waits(&mut agenda, day(0)) > DAY);
    }

    #[test]
    fn who_asks_for_it_waits_for_nothing() {
        let mut agenda = agenda(1, &["a.org"]);
        let a = name("a.org");
        order(&mut agenda, day(0));
        agenda.failed(&a, 0, Failure::Refused, "refused".into(), day(0));
        assert!(waits(&mut agenda, day(0)) >= Duration::from_secs(60));
        assert!(agenda.renew(&a) && !agenda.renew(&name("b.org")));
        order(&mut agenda, day(0));
        agenda.obtained(&a, facts(day(0)), Issuer::Configured(0), day(0));
        assert!(waits(&mut agenda, day(0)) > DAY, "once");
    }

    #[test]
    fn what_another_gateway_gets_is_looked_at_soon_and_then_more_seldom() {
        let mut agenda = agenda(1, &["a.org"]);
        let (mut now, mut looks) = (day(0), 0);
        while now < day(0) + Duration::from_secs(60) {
            match agenda.next(now) {
                Work::Order { name, .. } => agenda.is_elsewhere(&name, now),
                Work::Nothing { until } => now = until.unwrap(),
                Work::AskWindow { .. } => panic!("there is no certificate"),
            }
            looks += 1;
        }
        assert!(looks < 40, "{looks}");
        agenda.obtained(&name("a.org"), facts(now), Issuer::Configured(0), now);
        assert!(waits(&mut agenda, now) > DAY);
    }

    #[test]
    fn names_come_and_go_with_their_routes() {
        let mut agenda = agenda(1, &["a.org", "b.org"]);
        assert!(agenda.demand(&name("c.org")) && !agenda.demand(&name("a.org")));
        let changed = agenda.route(&names(&["b.org", "d.org"]));
        assert_eq!(changed, Changed { new: vec![name("d.org")], gone: vec![name("a.org")], over: 0 });
        assert!(agenda.knows(&name("c.org")) && !agenda.knows(&name("a.org")));
        // What comes for a name that has gone is nobody's.
        agenda.obtained(&name("a.org"), facts(day(0)), Issuer::Configured(0), day(0));
        assert!(!agenda.knows(&name("a.org")));
    }
}
