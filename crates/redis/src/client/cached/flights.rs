//! One request for all who miss the same reply at the same time.
//!
//! Invariant: who joins a flight began before anything happened to the key that the flight's reply may not show:
//! flights are joined only while their start is that of the newcomer, and not once their reply is there. Whoever
//! carries a flight on and goes away leaves it to the next who waits.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::coverage::Start;
use super::store::Name;
use crate::error::Error;
use crate::reply::Value;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flying: Mutex<HashMap<Name, Arc<Flight>>>,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) start: Start,
    /// The first who waits asks; if he goes away, the next one does.
    pub(super) reply: OnceCell<Result<Value, Error>>,
}

/// A place in a flight, given up when dropped.
pub(super) struct Waiter<'f> {
    flights: &'f Flights,
    name: &'f Name,
    /// Only `None` while it is dropped.
    flight: Option<Arc<Flight>>,
    /// Somebody else began it.
    pub(super) is_joined: bool,
}

impl Flights {
    /// Joins the flight for `name`, or begins one.
    pub(super) fn join<'f>(&'f self, name: &'f Name, start: Start) -> Waiter<'f> {
        let mut flying = self.flying.lock();
        let known = flying.get(name).filter(|flight| flight.start == start && !flight.reply.initialized()).cloned();
        let is_joined = known.is_some();
        let flight = known.unwrap_or_else(|| {
            let flight = Arc::new(Flight { start, reply: OnceCell::new() });
            flying.insert(name.clone(), Arc::clone(&flight));
            flight
        });
        Waiter { flights: self, name, flight: Some(flight), is_joined }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.flying.lock().len()
    }
}

impl Waiter<'_> {
    pub(super) fn flight(&self) -> Option<&Arc<Flight>> {
        self.flight.as_ref()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut flying = self.flights.flying.lock();
        let Some(flight) = self.flight.take() else { return };
        let is_listed = flying.get(self.name).is_some_and(|listed| Arc::ptr_eq(listed, &flight));
        // Waiters are taken and left under the lock: this one and the list are the last two.
        if is_listed && (flight.reply.initialized() || Arc::strong_count(&flight) == 2) {
            flying.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cached::coverage::Coverage;

    #[tokio::test]
    async fn a_flight_is_joined_until_its_reply_or_an_invalidation() {
        let (flights, coverage) = (Flights::default(), Coverage::new(1 << 20));
        let name = Name::from_slice(b"GET k");
        let join = || flights.join(&name, coverage.start(b"k"));
        let first = join();
        assert!(!first.is_joined);
        assert!(join().is_joined);
        coverage.invalidate(b"k");
        let second = join();
        assert!(!second.is_joined);
        // The flight that was replaced leaves the other alone.
        drop(first);
        assert!(join().is_joined);
        second.flight().unwrap().reply.set(Ok(Value::Null)).unwrap();
        assert!(!join().is_joined);
    }

    #[tokio::test]
    async fn nothing_is_left_when_all_have_gone() {
        let (flights, coverage) = (Flights::default(), Coverage::new(1 << 20));
        let name = Name::from_slice(b"GET k");
        let waiters: Vec<_> = (0..3).map(|_| flights.join(&name, coverage.start(b"k"))).collect();
        assert_eq!(flights.len(), 1);
        drop(waiters);
        assert_eq!(flights.len(), 0);
    }
}
