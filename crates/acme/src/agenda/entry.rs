//! What is known of one name, and what it needs next. Pure.

use std::time::{Duration, SystemTime};

use crate::backoff::Pause;
use crate::certificate::Facts;
use crate::renewal::Renewal;

/// Most orders at once.
pub const MAX_ORDERS: usize = 8;
/// Of them, most for names that came on demand: a flood of those leaves the others their places.
pub(super) const MAX_ORDERS_ON_DEMAND: usize = MAX_ORDERS / 2;
/// Most questions for renewal windows at once, and as many for permissions.
const MAX_QUESTIONS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Whether a route has it; others came on demand.
    pub(super) is_routed: bool,
    /// Whether it may have its next certificate. Names of routes always may.
    pub(super) is_permitted: bool,
    /// Asked again then, after this wait.
    pub(super) permission: Option<(SystemTime, Duration)>,
    /// It may have no other certificate than the one that it has.
    pub(super) is_refused: bool,
    pub(super) held: Option<Held>,
    /// At each authority.
    pub(super) pauses: Vec<Pause>,
    /// Another gateway has the lease: looked at again then, after the wait that led there.
    pub(super) elsewhere: Option<(SystemTime, Duration)>,
    pub(super) busy: Option<Busy>,
    /// Somebody asked for a new one.
    pub(super) is_asked_for: bool,
    pub(super) attempts: u64,
    pub(super) last_error: Option<LastError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    Reading,
    Order,
    Question,
    Permission,
}

/// A certificate that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) facts: Facts,
    pub(super) renewal: Renewal,
    pub(super) issuer: Issuer,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Order(usize),
    Ask(usize),
    Permission,
}

/// For what there is room.
pub(super) struct Room {
    orders: usize,
    on_demand: usize,
    questions: usize,
    permissions: usize,
}

impl Room {
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut room = Self {
            orders: MAX_ORDERS,
            on_demand: MAX_ORDERS_ON_DEMAND,
            questions: MAX_QUESTIONS,
            permissions: MAX_QUESTIONS,
        };
        for entry in entries {
            match entry.busy {
                Some(Busy::Order) => {
                    room.orders = room.orders.saturating_sub(1);
                    room.on_demand = room.on_demand.saturating_sub(usize::from(!entry.is_routed));
                }
                Some(Busy::Question) => room.questions = room.questions.saturating_sub(1),
                Some(Busy::Permission) => room.permissions = room.permissions.saturating_sub(1),
                Some(Busy::Reading) | None => {}
            }
        }
        room
    }

    pub(super) fn has(&self, step: Step, entry: &Entry) -> bool {
        match step {
            Step::Order(_) => self.orders > 0 && (entry.is_routed || self.on_demand > 0),
            Step::Ask(_) => self.questions > 0,
            Step::Permission => self.permissions > 0,
        }
    }
}

impl Entry {
    /// When a new certificate is wanted, whatever stands in the way.
    pub(super) fn due(&self) -> Option<SystemTime> {
        match &self.held {
            _ if self.is_asked_for => None,
            None => None,
            Some(held) if held.issuer == Issuer::Staging => None,
            Some(held) => Some(held.renewal.at()),
        }
    }

    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        self.due().is_none_or(|due| due <= now)
    }

    /// The authority that is ready first, and when: of several that are ready the first of them.
    pub(super) fn ready(&self, authorities: &[Pause], now: SystemTime) -> Option<(SystemTime, usize)> {
        let ready = |authority: usize| {
            let pauses = [self.pauses.get(authority), authorities.get(authority)];
            pauses.into_iter().flatten().filter_map(Pause::until).max().unwrap_or(SystemTime::UNIX_EPOCH)
        };
        (0..authorities.len()).map(|index| (ready(index).max(now), index)).min()
    }

    /// What this name needs, and from when on.
    pub(super) fn steps(&self, authorities: &[Pause], now: SystemTime) -> impl Iterator<Item = (SystemTime, Step)> {
        let order = self.ready(authorities, now).and_then(|(at, index)| {
            let waits = [self.due(), self.elsewhere.map(|(at, _)| at)];
            let at = waits.into_iter().flatten().fold(at, SystemTime::max);
            if self.is_permitted {
                return Some((at, Step::Order(index)));
            }
            // Without a certificate it waits for a client.
            self.held.as_ref()?;
            Some((self.permission.map_or(at, |(asked, _)| at.max(asked)), Step::Permission))
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
