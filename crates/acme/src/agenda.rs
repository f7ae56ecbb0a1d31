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

mod entry;

use entry::{Busy, Entry, Held, Room, Step};
pub use entry::{Issuer, LastError, MAX_ORDERS};

/// Most names of routes. Those beyond it get no certificate, which the owner says.
pub const MAX_NAMES: usize = 50_000;
/// Most names that came on demand.
pub const MAX_ON_DEMAND: usize = 10_000;
/// A name that came on demand is waited for if it may be ordered again so soon.
const PATIENCE: Duration = Duration::from_secs(2);
/// When `on_demand.ask` is asked again whether a name may keep its certificate, after a refusal or no answer.
const REFUSED_AGAIN: Duration = Duration::from_secs(3600);
const UNANSWERED_AGAIN: Duration = Duration::from_secs(300);
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
    /// Ask whether a name that came on demand may have a new certificate.
    AskPermission {
        /// This name.
        name: Name,
    },
    /// Wait for a task that is under way, for a command, or until this time.
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
    /// For this number of authorities.
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
                (entry.is_routed, entry.is_permitted, entry.is_refused, entry.permission) = (true, true, false, None);
            } else if self.add(name, true) {
                changed.new.push(name.clone());
            } else {
                changed.over += 1;
            }
        }
        changed
    }

    /// A name that a client asked for, and that may have a certificate.
    pub fn demand(&mut self, name: &Name, now: SystemTime) -> Demand {
        if !self.entries.contains_key(name) && !self.add(name, false) {
            return Demand::Full;
        }
        let Some(entry) = self.entries.get_mut(name) else { return Demand::Full };
        entry.is_permitted = true;
        self.waits(name, now)
    }

    /// What a client that asks for a name can expect after a failed order, or before the first one.
    pub fn waits(&mut self, name: &Name, now: SystemTime) -> Demand {
        let authorities = &self.authorities;
        let Some(entry) = self.entries.get_mut(name) else { return Demand::Full };
        let ready = entry.ready(authorities, now).map(|(at, _)| at).filter(|at| *at > now + PATIENCE);
        match ready.filter(|_| entry.busy.is_none() && entry.elsewhere.is_none()) {
            Some(until) => {
                // No client waits for it any more, so nothing is ordered.
                entry.is_permitted = entry.is_routed;
                Demand::NotBefore(until)
            }
            None => Demand::Ordered,
        }
    }

    fn add(&mut self, name: &Name, is_routed: bool) -> bool {
        let most = if is_routed { MAX_NAMES } else { MAX_ON_DEMAND };
        let is_full = self.entries.values().filter(|entry| entry.is_routed == is_routed).count() >= most;
        if is_full && (is_routed || !self.forget_one()) {
            return false;
        }
        let pauses = vec![Pause::default(); self.authorities.len()];
        let new = Entry { is_routed, is_permitted: is_routed, pauses, ..Entry::default() };
        self.entries.insert(name.clone(), new);
        true
    }

    /// Makes room for a name on demand: one whose orders have failed goes.
    fn forget_one(&mut self) -> bool {
        let is_idle = |entry: &Entry| !entry.is_routed && entry.held.is_none() && entry.busy.is_none();
        let one = self.entries.iter().find(|(_, entry)| is_idle(entry) && !entry.is_permitted);
        let one = one.map(|(name, _)| name.clone());
        one.and_then(|name| self.entries.remove(&name)).is_some()
    }

    /// Forgets the names that came on demand, may have no certificate any more, and whose last one is over.
    pub fn forget_refused(&mut self, now: SystemTime) -> Vec<Name> {
        let is_over = |entry: &Entry| entry.held.as_ref().is_none_or(|held| held.facts.not_after <= now);
        let gone = |entry: &Entry| !entry.is_routed && entry.is_refused && entry.busy.is_none() && is_over(entry);
        let gone: Vec<Name> =
            self.entries.iter().filter(|(_, entry)| gone(entry)).map(|(name, _)| name.clone()).collect();
        for name in &gone {
            self.entries.remove(name);
        }
        gone
    }

    /// What was answered to [`Work::AskPermission`].
    pub fn permitted(&mut self, name: &Name, permission: Permission, now: SystemTime) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        if entry.busy == Some(Busy::Permission) {
            entry.busy = None;
        }
        let (wait, text) = match permission {
            Permission::Given => {
                (entry.is_permitted, entry.is_refused, entry.permission) = (true, false, None);
                return;
            }
            Permission::Refused => {
                const TEXT: &str = "the address of on_demand.ask says that the name may have no certificate; \
                                    the one that is there is used to its end";
                (entry.is_asked_for, entry.is_refused) = (false, true);
                (REFUSED_AGAIN, TEXT.to_owned())
            }
            Permission::Unknown(why) => (UNANSWERED_AGAIN, why),
        };
        entry.permission = Some((now + wait, wait));
        entry.last_error = Some(LastError { at: now, text });
    }

    /// Something that has to be said of a name whose certificate is in use.
    pub fn remark(&mut self, name: &Name, text: Option<String>, now: SystemTime) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.last_error = text.map(|text| LastError { at: now, text });
        }
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
        (entry.is_permitted, entry.is_refused, entry.permission) = (entry.is_routed, false, None);
        entry.pauses.fill(Pause::default());
    }

    /// Somebody wants a new certificate now, whatever was waited for. `false`: there is no such name.
    pub fn renew(&mut self, name: &Name) -> bool {
        let Some(entry) = self.entries.get_mut(name) else { return false };
        (entry.is_asked_for, entry.elsewhere, entry.permission) = (true, None, None);
        entry.pauses.fill(Pause::default());
        self.authorities.fill(Pause::default());
        true
    }

    /// What to do now. A task that it returns is under way until its result is reported.
    pub fn next(&mut self, now: SystemTime) -> Work {
        self.shorten(now);
        let room = Room::of(self.entries.values());
        let mut until: Option<SystemTime> = None;
        let mut first: Option<(SystemTime, Name, Step)> = None;
        for (name, entry) in self.entries.iter().filter(|(_, entry)| entry.busy.is_none()) {
            for (at, step) in entry.steps(&self.authorities, now) {
                let may = room.has(step, entry);
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
            Step::Permission => {
                entry.busy = Some(Busy::Permission);
                Work::AskPermission { name }
            }
        }
    }

    /// A clock that was set back makes no wait longer than it was when it began.
    fn shorten(&mut self, now: SystemTime) {
        let shortened = |until: Option<(SystemTime, Duration)>| until.map(|(at, wait)| (at.min(now + wait), wait));
        self.authorities.iter_mut().for_each(|pause| pause.shorten(now));
        for entry in self.entries.values_mut() {
            entry.pauses.iter_mut().for_each(|pause| pause.shorten(now));
            (entry.elsewhere, entry.permission) = (shortened(entry.elsewhere), shortened(entry.permission));
            if let Some(held) = &mut entry.held {
                held.renewal.shorten(now);
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
        if let Some(held) = self.entries.get_mut(name).and_then(|entry| entry.held.as_mut()) {
            held.renewal.is_new(now);
        }
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
        // The next one of a name that has some is asked about again.
        entry.is_permitted = entry.is_routed || entry.held.is_none() && entry.is_permitted;
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
            let order = entry.steps(&self.authorities, now).find(|(_, step)| !matches!(step, Step::Ask(_)));
            NameState {
                name: name.clone(),
                is_routed: entry.is_routed,
                not_after: held.map(|held| held.facts.not_after),
                renew_at: held.map(|held| held.renewal.at()),
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

/// What a name that a client asked for gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// It is, or will be, ordered at once.
    Ordered,
    /// Its last order failed, or its authorities are away: not before this time.
    NotBefore(SystemTime),
    /// There are [`MAX_ON_DEMAND`] already.
    Full,
}

/// Whether a name that came on demand may have a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may.
    Given,
    /// It may not.
    Refused,
    /// `on_demand.ask` gave no answer, for this reason.
    Unknown(String),
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::entry::MAX_ORDERS_ON_DEMAND;
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
                other => panic!("{other:?}: there is no renewal id"),
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
    fn a_renewal_on_request_does_not_wait() {
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
                other => panic!("{other:?}: there is no certificate"),
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
        assert_eq!(agenda.demand(&name("c.org"), day(0)), Demand::Ordered);
        let changed = agenda.route(&names(&["b.org", "d.org"]));
        assert_eq!(changed, Changed { new: vec![name("d.org")], gone: vec![name("a.org")], over: 0 });
        assert!(agenda.knows(&name("c.org")) && !agenda.knows(&name("a.org")));
        // Results for a name that was removed are dropped.
        agenda.obtained(&name("a.org"), facts(day(0)), Issuer::Configured(0), day(0));
        assert!(!agenda.knows(&name("a.org")));
    }

    #[test]
    fn a_name_on_demand_is_ordered_for_a_waiting_client_and_not_again_by_itself() {
        let mut agenda = agenda(1, &[]);
        let a = name("a.org");
        assert_eq!(agenda.demand(&a, day(0)), Demand::Ordered);
        assert_eq!(order(&mut agenda, day(0)).0, "a.org");
        assert_eq!(agenda.demand(&a, day(0)), Demand::Ordered, "it is under way");
        agenda.failed(&a, 0, Failure::Refused, "refused".into(), day(0));
        let Demand::NotBefore(until) = agenda.waits(&a, day(0)) else { panic!("it has failed") };
        assert!(until >= day(0) + Duration::from_secs(60));
        assert_eq!(agenda.next(day(1)), Work::Nothing { until: None });
        assert_eq!(agenda.demand(&a, day(0)), Demand::NotBefore(until));
        assert_eq!(agenda.demand(&a, until), Demand::Ordered);
        assert_eq!(order(&mut agenda, until).0, "a.org");
        // A second authority, or a second try at once, is waited for.
        agenda.failed(&a, 0, Failure::Transient, "a nonce".into(), until);
        assert_eq!(agenda.waits(&a, until), Demand::Ordered);
        assert_eq!(order(&mut agenda, until + PATIENCE).0, "a.org");
    }

    #[test]
    fn whether_a_name_on_demand_may_have_its_next_certificate_is_asked_again() {
        let mut agenda = agenda(1, &["b.org"]);
        let a = name("a.org");
        agenda.demand(&a, day(0));
        agenda.obtained(&a, facts(day(0)), Issuer::Configured(0), day(0));
        agenda.obtained(&name("b.org"), facts(day(0)), Issuer::Configured(0), day(0));
        assert_eq!(agenda.next(day(60)), Work::AskPermission { name: a.clone() });
        assert_eq!(order(&mut agenda, day(60)).0, "b.org", "names of routes are not asked about");
        assert_eq!(agenda.next(day(60)), Work::Nothing { until: None }, "once");
        agenda.permitted(&a, Permission::Unknown("nobody answers".into()), day(60));
        assert_eq!(waits(&mut agenda, day(60)), UNANSWERED_AGAIN);
        let later = day(60) + UNANSWERED_AGAIN;
        assert_eq!(agenda.next(later), Work::AskPermission { name: a.clone() });
        agenda.permitted(&a, Permission::Given, later);
        assert_eq!(order(&mut agenda, later).0, "a.org");
        agenda.failed(&a, 0, Failure::Refused, "refused".into(), later);
        assert_eq!(agenda.next(day(61)), Work::AskPermission { name: a.clone() }, "for each order");
        agenda.permitted(&a, Permission::Refused, day(61));
        let mut asked = 0;
        let mut now = day(61);
        while now < day(90) {
            assert_eq!(agenda.forget_refused(now), []);
            match agenda.next(now) {
                Work::AskPermission { name } => {
                    asked += 1;
                    agenda.permitted(&name, Permission::Refused, now);
                }
                Work::Nothing { until } => now = until.unwrap(),
                other => panic!("{other:?}: it may have none"),
            }
        }
        assert_eq!(asked, 29 * 24 - 1, "each hour");
        assert_eq!(agenda.forget_refused(day(90)), [a]);
        assert_eq!(agenda.forget_refused(day(200)), [], "names of routes stay");
    }

    #[test]
    fn names_on_demand_leave_others_their_orders() {
        let mut agenda = agenda(1, &[]);
        for number in 0..20 {
            agenda.demand(&name(&format!("n{number}.org")), day(0));
        }
        let begun = std::iter::from_fn(|| match agenda.next(day(0)) {
            Work::Order { name, .. } => Some(name),
            _ => None,
        });
        assert_eq!(begun.count(), MAX_ORDERS_ON_DEMAND);
        let routed: Vec<String> = (0..20).map(|number| format!("r{number}.org")).collect();
        agenda.route(&names(&routed.iter().map(String::as_str).collect::<Vec<_>>()));
        for _ in MAX_ORDERS_ON_DEMAND..MAX_ORDERS {
            assert!(order(&mut agenda, day(0)).0.starts_with('r'));
        }
        assert_eq!(agenda.next(day(0)), Work::Nothing { until: None });
    }

    #[test]
    fn names_on_demand_are_bounded_and_those_that_failed_make_room() {
        let mut agenda = agenda(1, &["a.org"]);
        let numbered = |number: usize| name(&format!("n{number}.org"));
        for number in 0..MAX_ON_DEMAND {
            assert_eq!(agenda.demand(&numbered(number), day(0)), Demand::Ordered);
        }
        assert_eq!(agenda.demand(&name("one.more.org"), day(0)), Demand::Full);
        agenda.failed(&numbered(7), 0, Failure::Refused, "refused".into(), day(0));
        assert!(matches!(agenda.waits(&numbered(7), day(0)), Demand::NotBefore(_)));
        assert_eq!(agenda.demand(&name("one.more.org"), day(0)), Demand::Ordered);
        assert!(!agenda.knows(&numbered(7)));
        assert_eq!(agenda.route(&names(&["a.org", "b.org"])).over, 0, "names of routes have room of their own");
    }

    #[test]
    fn a_clock_that_was_years_ahead_delays_nothing() {
        let mut agenda = agenda(1, &["a.org", "b.org"]);
        let ahead = day(2000);
        let (first, _) = order(&mut agenda, ahead);
        agenda.failed(&name(&first), 0, AWAY, "away".into(), ahead);
        let wait = waits(&mut agenda, day(0));
        assert!(wait < Duration::from_secs(7), "{wait:?}");
        let (first, _) = order(&mut agenda, day(1));
        agenda.is_elsewhere(&name(&first), ahead);
        assert!(order(&mut agenda, day(1)).0 != first);
        assert!(waits(&mut agenda, day(1)) <= ELSEWHERE_MAX);
    }

    #[test]
    fn an_authority_with_another_clock_is_not_asked_again_and_again() {
        let mut agenda = agenda(1, &["a.org"]);
        let (mut now, mut orders) = (day(0), 0);
        while now < day(1) {
            match agenda.next(now) {
                Work::Order { name, .. } => {
                    orders += 1;
                    // By this machine's clock, what comes has been valid for 80 days.
                    agenda.obtained(&name, facts(now - DAY * 80), Issuer::Configured(0), now);
                }
                Work::Nothing { until } => now = until.unwrap(),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(orders, 4);
    }
}
