//! From one round to the next.

use std::time::{Duration, Instant};

use super::round::{Flights, landed};
use super::state::{Again, Detour, Lead, Line, Postponed, Retry, RetryLoop, Tries, Try, of_all_redirects};
use crate::proto::retry::Refresh;

impl RetryLoop<'_, '_, '_, '_> {
    /// Runs until each request has its reply, or its error.
    pub(super) async fn rounds(&mut self, mut tries: Tries) {
        let mut flights = Flights::new();
        loop {
            if !tries.is_empty() {
                self.topology_version = self.work.core.topology_version();
                let tries = std::mem::take(&mut tries);
                match self.work.line {
                    Line::Shared => self.launch(tries, &mut flights).await,
                    Line::Own | Line::Bare => self.round_apart(tries).await,
                }
            }
            if !self.again.at_once.is_empty() {
                let at_once = std::mem::take(&mut self.again.at_once);
                tries = self.resume(at_once);
            } else if !self.again.later.is_empty() {
                tries = self.pause(&mut flights).await;
            } else if let Some((group, outcome)) = landed(&mut flights, self.work).await {
                self.settle(group, outcome);
            } else {
                return;
            }
        }
    }

    /// Waits until the pause is over, or a reply comes before.
    async fn pause(&mut self, flights: &mut Flights) -> Tries {
        let (work, version) = (self.work, self.topology_version);
        let pause = self.again.until.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        let pause = work.remaining().map_or(pause, |remaining| pause.min(remaining));
        let refresh = self.again.refresh.unwrap_or(Refresh::No);
        tokio::select! {
            biased;
            Some((group, outcome)) = landed(flights, work) => {
                self.settle(group, outcome);
                Tries::new()
            }
            () = work.core.pause_or_new_topology(pause, refresh, version) => {
                let Again { later, .. } = std::mem::take(&mut self.again);
                self.resume(later)
            }
        }
    }

    /// The next round, when its pause is over.
    fn resume(&mut self, retries: Postponed) -> Tries {
        if self.again.later.is_empty() {
            self.again.refresh = None;
        }
        let is_new = self.work.core.topology_version() != self.topology_version;
        // On a loaded machine a pause may outlast the deadline: what is sent then could run although its caller is told
        // that it is too late.
        let is_late = self.work.remaining() == Some(Duration::ZERO);
        let mut left = Tries::with_capacity(retries.len());
        for Retry { mut it, error, redirect } in retries {
            let has_way = redirect.is_none_or(|detour| self.take_detour(&mut it, &detour, is_new));
            if has_way && !is_late {
                left.push(it);
            } else {
                let error = of_all_redirects(&it.attempts, error);
                self.fail(&it, error);
            }
        }
        left.sort_unstable_by_key(|it| it.index);
        left
    }

    /// Goes where a redirect points. False: that leads nowhere.
    fn take_detour(&self, it: &mut Try, detour: &Detour, is_new: bool) -> bool {
        let Detour { to, is_late } = detour;
        if *is_late && is_new {
            (it.lead, it.attempts.is_asking) = (Lead::Target, false);
            return true;
        }
        let Some(lane) = self.work.core.redirected(to, self.work.requests[it.index].slot) else { return false };
        (it.lead, it.attempts.is_asking) = (Lead::Lane(lane), to.asking());
        true
    }
}
