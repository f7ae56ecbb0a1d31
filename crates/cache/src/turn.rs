//! What a request that needs an upstream answer does next: ask, wait for another request, or use what that one got.

use std::sync::Arc;

use http::{HeaderMap, Method};

use crate::fill::Fill;
use crate::flight::{FlightOutcome, FollowerGuard};
use crate::flights::Joined;
use crate::key::Key;
use crate::leader::LeaderGuard;
use crate::live::Live;
use crate::policy::Timestamp;
use crate::state::State;
use crate::stored::{Refusal, Stored};

/// A request waits for others at most so many times, then goes alone.
pub const MAX_WAITS: u32 = 3;

/// What a request that needs an upstream answer does.
#[derive(Debug)]
pub enum Turn {
    /// A response was stored a moment ago: use it.
    Hit(Arc<Stored>),
    /// Ask the service.
    Leader(Fill),
    /// Another request is asking: wait for it, then take [`crate::Landed::turn`].
    Follower(Wait),
    /// Another request is getting the response, and a part of it is here: read it as it comes.
    Live(Live),
    /// Another request was answered by an error: use this stale response in its place (RFC 5861 §4).
    Failed(Arc<Stored>),
}

impl Turn {
    fn lead(leader: LeaderGuard, method: &Method) -> Self {
        Self::Leader(Fill::new(leader, method.clone()))
    }
}

/// A place behind another request that is on its way upstream.
///
/// It has no time limit of its own: the leader lands at the latest when its own exchange ends. The caller bounds the
/// wait by its request's deadline.
#[derive(Debug)]
pub struct Wait {
    state: Arc<State>,
    method: Method,
    follower: FollowerGuard,
    waits: u32,
}

impl Wait {
    /// Waits until the other request has a response, or a part of one that may be read, or has none to share.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the flight; the leader and other followers do not notice.
    pub async fn landed(self) -> Landed {
        let outcome = self.follower.flight().landed().await;
        Landed { state: self.state, method: self.method, outcome, follower: self.follower, waits: self.waits }
    }
}

/// The end of a [`Wait`].
#[derive(Debug)]
pub struct Landed {
    state: Arc<State>,
    method: Method,
    outcome: FlightOutcome,
    follower: FollowerGuard,
    waits: u32,
}

impl Landed {
    /// What to do now. Takes what `begin` was given, at the present time.
    pub fn turn(self, key: &Key<'_>, request: &HeaderMap, now: Timestamp) -> Turn {
        let next = Company::Any { waits: self.waits + 1 };
        let mut selection = None;
        let company = match self.outcome {
            FlightOutcome::Stored(stored) => match self.state.landed_refusal(key, &stored, request, now) {
                None => return Turn::Hit(stored),
                // The flight began before a purge, this request may have come after it. One of those that waited asks
                // again.
                Some(Refusal::Gone) => next,
                // Its variant has a flight of its own, now that it is known what the resource varies on.
                Some(Refusal::OtherVariant) => next,
                Some(Refusal::Revalidate | Refusal::Validate(_) | Refusal::NotFor(_)) => Company::None,
            },
            FlightOutcome::Live(live) => match self.state.landed_refusal(key, &live.head, request, now) {
                None => return Turn::Live(Live::new(live, self.follower)),
                // As above, but that flight is still in the table.
                Some(Refusal::Gone) => {
                    self.follower.flight().outdate();
                    next
                }
                Some(Refusal::OtherVariant) => {
                    selection = Some(self.state.selection_by(live.head.vary(), request));
                    next
                }
                Some(Refusal::Revalidate | Refusal::Validate(_) | Refusal::NotFor(_)) => Company::None,
            },
            FlightOutcome::Abandoned => next,
            // Who may use what the leader used does not ask a service that has just failed.
            FlightOutcome::Failed(stale) if self.state.serves_if_error(key, &stale, request, now) => {
                return Turn::Failed(stale);
            }
            FlightOutcome::Failed(_) => Company::None,
            // All at the same time, not one behind the other.
            FlightOutcome::Passed => Company::None,
        };
        let selection = selection.unwrap_or_else(|| self.state.selection(key, request));
        start(&self.state, &Asking { key, method: &self.method, request, selection, now }, company)
    }
}

/// Whether a request may share the response of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    Any {
        /// How often the request has waited already.
        waits: u32,
    },
    None,
}

/// A request that needs an upstream answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) key: &'a Key<'a>,
    pub(crate) method: &'a Method,
    pub(crate) request: &'a HeaderMap,
    /// A hash of what it selects, 0 while that is not known.
    pub(crate) selection: u64,
    pub(crate) now: Timestamp,
}

/// Gives a request that needs an upstream answer its turn.
pub(crate) fn start(state: &Arc<State>, asking: &Asking<'_>, company: Company) -> Turn {
    let Asking { key, method, request, selection, now } = *asking;
    // Before anything is asked for: what is purged from here on is found out, whenever the response is stored.
    let position = state.purges().position();
    let hash = state.hash(key);
    let mut locked = state.flights().lock(hash);
    // Between the caller's lookup and this lock a leader may have stored a response and left.
    if let Some(stored) = state.usable(key, method, request, now) {
        return Turn::Hit(stored);
    }
    let leader = |epoch, flight| {
        let (state, key) = (Arc::clone(state), key.to_stored());
        LeaderGuard { state, hash, key, selection, epoch, position, flight, behind: None }
    };
    let waits = match company {
        Company::Any { waits } if waits < MAX_WAITS => waits,
        Company::Any { .. } | Company::None => return Turn::lead(leader(locked.epoch(), None), method),
    };
    match locked.join(key.to_stored(), selection) {
        Joined::Follower(follower) => {
            Turn::Follower(Wait { state: Arc::clone(state), method: method.clone(), follower, waits })
        }
        Joined::Leader(flight_key, flight) => Turn::lead(leader(flight.epoch, Some((flight_key, flight))), method),
    }
}
