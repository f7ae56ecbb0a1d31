//! The read: one round trip where the target does not vary, or where it is known by what.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use pilotlight_cache::{Key, Parts, Selection, Standing, Stored, Timestamp};
use pilotlight_redis::{Commands, Error};

use super::Tier;
use super::budget::{Late, within};
use super::ticket::Ticket;
use crate::keys::{self, EXTRA, Name};
use crate::options::{BODY_BYTES_PER_MS, MAX_CLOCK_SKEW};
use crate::record::{self, Apart, Content, Generation, Record, RecordError, Response};

/// What Redis has for a request.
#[derive(Debug)]
pub struct Asked {
    /// A response that the request selects, fresh or not.
    pub stored: Option<Arc<Stored>>,
    /// For what is fetched from the service instead. `None`: Redis did not answer, so nothing may be written either.
    pub ticket: Option<Ticket>,
}

/// The target as it was found.
#[derive(Default)]
struct Target {
    seen: Option<Generation>,
    selection: Option<Selection>,
    response: Option<Box<Response>>,
    is_refused: bool,
}

impl Tier {
    /// Asks for the response to a request, at most for the budget.
    ///
    /// # Cancel safety
    /// Dropping it leaves nothing behind.
    pub async fn ask(&self, key: &Key<'_>, request: &HeaderMap, now: Timestamp) -> Asked {
        let name = self.shared.keys().name(key);
        let began = Instant::now();
        if !self.breakers.borrow_mut().of(&name.base).permits(began) {
            self.own.counters.skipped.add_one();
            return Asked { stored: None, ticket: None };
        }
        let Some((found, stored)) = self.look(&name, key, request, now).await else {
            return Asked { stored: None, ticket: None };
        };
        let counters = &self.own.counters;
        match &stored {
            Some(stored) if self.cache.serves(key, stored, request, now) => counters.hits.add_one(),
            Some(_) => counters.stale.add_one(),
            None => counters.misses.add_one(),
        }
        let Target { seen, selection, .. } = found;
        let selection = with_extra(selection, key);
        let ticket = Ticket { name, seen, selection, began, lease: None, worker: Arc::clone(&self.own) };
        Asked { stored, ticket: Some(ticket) }
    }

    /// One look, counted and told to the breaker. `None`: there was no response.
    async fn look(
        &self,
        name: &Name,
        key: &Key<'_>,
        request: &HeaderMap,
        now: Timestamp,
    ) -> Option<(Target, Option<Arc<Stored>>)> {
        // Before the read, so that a purge during it counts.
        let position = self.cache.purges().position();
        let read = within(self.shared.options().budget, self.read(name, key, request)).await;
        let mut found = self.heard(name, read)?;
        if found.is_refused {
            self.own.counters.refused.add_one();
        }
        if let Some(expected) = self.shared.invalid().expected(name)
            && found.seen != Some(expected)
        {
            // Redis has not heard of our invalidation, or has lost it.
            found = Target { seen: Some(expected), ..Target::default() };
        }
        let response = found.response.take().filter(|response| self.is_trusted(response, now));
        let Some(mut response) = response else { return Some((found, None)) };
        match self.cache.purges().admits(key, &response.parts.headers, response.position) {
            // What was purged since the log was lost is not known.
            Standing::Good if self.shared.knows_purges() => {}
            // It may be used once it was validated.
            Standing::Good | Standing::Stale(_) | Standing::Unknown => response.parts.freshness.no_cache = true,
            Standing::Gone => return Some((found, None)),
        }
        let parts = self.whole(name, *response).await;
        let stored = parts.map(|parts| self.cache.restored(key, name.record_name(), parts, position));
        Some((found, stored))
    }

    /// The same after a wait, without a breaker's permission: what is found replaces what the ticket knew.
    pub(super) async fn look_again(
        &self,
        ticket: &mut Ticket,
        key: &Key<'_>,
        request: &HeaderMap,
        now: Timestamp,
    ) -> Option<Option<Arc<Stored>>> {
        let began = Instant::now();
        let (found, stored) = self.look(&ticket.name, key, request, now).await?;
        ticket.seen = found.seen;
        ticket.selection = with_extra(found.selection, key);
        ticket.began = began;
        Some(stored)
    }

    fn is_trusted(&self, response: &Response, now: Timestamp) -> bool {
        let received = response.parts.freshness.received;
        // A clock that is ahead makes responses look younger than they are.
        let skew_ms = u64::try_from(MAX_CLOCK_SKEW.as_millis()).unwrap_or(u64::MAX);
        let is_trusted = self.shared.invalid().trusts(received) && received.0 <= now.0.saturating_add(skew_ms);
        if !is_trusted {
            self.own.counters.refused.add_one();
        }
        is_trusted
    }

    async fn read(&self, name: &Name, key: &Key<'_>, request: &HeaderMap) -> Result<Target, Error> {
        let order = self.cache.language_order();
        let mut hinted = self.hints.borrow().of(&name.hash);
        if hinted.is_none() && !key.extra.is_empty() {
            hinted = Some(Rc::new([EXTRA]));
        }
        let (base, guessed) = match &hinted {
            None => (self.value(&name.base).await?, None),
            Some(names) => {
                let selection = keys::select(&**names, key, request, order);
                let variant = name.variant(&selection);
                let (base, variant) = tokio::join!(self.value(&name.base), self.value(&variant));
                (base?, Some((names, selection, variant?)))
            }
        };
        let Some(base) = base else { return Ok(Target::default()) };
        let seen = Generation::of(&base);
        let (generation, names) = match record::decode(&base, key) {
            Ok(Record { content: Content::Response(response), .. }) => {
                self.hints.borrow_mut().forget(&name.hash);
                return Ok(Target { seen, response: Some(response), ..Target::default() });
            }
            Ok(Record { content: Content::Tombstone, .. }) => return Ok(Target { seen, ..Target::default() }),
            Ok(Record { content: Content::Variants(names), generation }) => (generation, names),
            // Another target's with the same hash: it may be replaced.
            Err(RecordError::OtherTarget | RecordError::Damaged | RecordError::Unknown) => {
                return Ok(Target { seen, is_refused: true, ..Target::default() });
            }
        };
        let (selection, variant) = match guessed {
            Some((known, selection, variant)) if **known == *names => (selection, variant),
            _ => {
                let names: Rc<[HeaderName]> = names.into();
                self.hints.borrow_mut().set(name.hash, Rc::clone(&names));
                let selection = keys::select(&*names, key, request, order);
                let variant = self.value(&name.variant(&selection)).await?;
                (selection, variant)
            }
        };
        let mut target = Target { seen, selection: Some(selection), ..Target::default() };
        match variant.map(|variant| record::decode(&variant, key)) {
            // Only of this life of the target.
            Some(Ok(Record { content: Content::Response(response), generation: own })) if own == generation => {
                target.response = Some(response);
            }
            Some(Err(_)) => target.is_refused = true,
            Some(Ok(_)) | None => {}
        }
        Ok(target)
    }

    async fn value(&self, name: &str) -> Result<Option<Bytes>, Error> {
        self.client.get(name).read_as::<Option<Bytes>>().await
    }

    /// The response with its body, wherever that is.
    async fn whole(&self, name: &Name, response: Response) -> Option<Parts> {
        let Response { parts, apart, .. } = response;
        let Some(apart) = apart else { return Some(parts) };
        let body = Box::pin(self.body(name, apart)).await?; // few need it, and it is large
        Some(Parts { body, ..parts })
    }

    async fn body(&self, name: &Name, apart: Apart) -> Option<Bytes> {
        let length = usize::try_from(apart.length).ok()?;
        let more = Duration::from_millis(u64::try_from(length / BODY_BYTES_PER_MS).unwrap_or(u64::MAX));
        let body_name = name.body(apart.id);
        let body = self.heard(name, within(self.shared.options().budget + more, self.value(&body_name)).await)??;
        if !apart.is(&body) {
            self.own.counters.refused.add_one();
            return None;
        }
        Some(body) // it is longer than a piece of what memory keeps, so it is copied there
    }

    /// Counts what became of a read and tells the breaker.
    pub(super) fn heard<T>(&self, name: &Name, read: Result<Result<T, Error>, Late>) -> Option<T> {
        match read {
            Ok(Ok(value)) => {
                self.note_answer(&name.base);
                return Some(value);
            }
            Ok(Err(error)) => {
                self.own.counters.errors.add_one();
                self.note_failure(&name.base, &error);
            }
            Err(Late) => {
                self.own.counters.timeouts.add_one();
                let budget = self.shared.options().budget;
                self.note_failure(&name.base, &format_args!("no answer within cache.redis.budget ({budget:?})"));
            }
        }
        None
    }
}

/// What a response is written under: what the route adds to the key is always part of it.
fn with_extra(selection: Option<Selection>, key: &Key<'_>) -> Option<Selection> {
    if key.extra.is_empty() {
        return selection;
    }
    let extra = keys::of_extra(key);
    Some(selection.map_or_else(|| extra.clone(), |selection| extra.and(&selection)))
}
