//! One fetch of all gateways: whoever gets the lease asks the service, the others wait for what it stores.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use pilotlight_cache::{Key, Stored, Timestamp};
use pilotlight_redis::Commands;
use pilotlight_redis::commands::options::SetOptions;

use super::Tier;
use super::budget::within;
use super::ticket::Ticket;
use crate::options::LEASE_POLL;

impl Tier {
    /// Gets the right to fetch, or what another gateway has fetched meanwhile. `None`: ask the service.
    ///
    /// It waits for the lease's time at most, and not at all when Redis does not answer. `now` reads the clock.
    ///
    /// # Cancel safety
    /// Dropping it gives the lease back with the ticket.
    pub async fn lead(
        &self,
        ticket: &mut Ticket,
        key: &Key<'_>,
        request: &HeaderMap,
        now: impl Fn() -> Timestamp,
    ) -> Option<Arc<Stored>> {
        let timeout = self.shared.options().lease?;
        if !self.shared.knows_purges() {
            return None; // what another gateway stores would have to be validated all the same
        }
        let begun = Instant::now();
        let mut pause = LEASE_POLL.0;
        loop {
            let token = fastrand::u64(1..);
            // Before it is known: a response that comes too late, or to nobody, has taken it all the same, and it is
            // given back.
            ticket.lease = Some(token);
            // Both in one write, and in this order: who gets the lease sees what its last holder has stored.
            let (taken, stored) = tokio::join!(
                self.take_lease(ticket.name.lease(), token, timeout),
                self.look_again(ticket, key, request, now())
            );
            if !taken? {
                ticket.lease = None;
            }
            let stored = stored?;
            if let Some(stored) = stored.filter(|stored| self.cache.serves(key, stored, request, now())) {
                return Some(stored);
            }
            if ticket.lease.is_some() {
                return None;
            }
            if begun.elapsed() >= timeout {
                self.replace_endless(ticket, timeout).await;
                return None;
            }
            if pause == LEASE_POLL.0 {
                self.own.counters.waits.add_one();
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(LEASE_POLL.1);
        }
    }

    /// A lease that does not end by itself, or not within the time of one, was made by no gateway (or its end was
    /// lost): it is replaced by one that ends, so that only those who wait now pay for it. Whatever happens here, the
    /// service is asked next.
    async fn replace_endless(&self, ticket: &mut Ticket, timeout: Duration) {
        let time = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let budget = self.shared.options().budget;
        let left = within(budget, self.client.pttl(ticket.name.lease())).await;
        // -2: it has gone; -1: it has no end.
        if !matches!(left, Ok(Ok(left)) if left == -1 || left > time) {
            return;
        }
        let token = fastrand::u64(1..);
        ticket.lease = Some(token);
        let options = SetOptions::new().px(time);
        if !matches!(within(budget, self.client.set_with(ticket.name.lease(), token, options)).await, Ok(Ok(_))) {
            ticket.lease = None;
        }
    }

    /// Whether the lease was taken; `None` if there was no response.
    async fn take_lease(&self, lease: String, token: u64, time: Duration) -> Option<bool> {
        let options = SetOptions::new().nx().px(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let budget = self.shared.options().budget;
        within(budget, self.client.set_with(lease, token, options)).await.ok()?.ok()
    }
}
