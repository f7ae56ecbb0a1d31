//! How long the next step may take.
//!
//! Two times, one deadline. The whole exchange's (the route's `timeout`) runs from the request's head on. The service's
//! (`response_timeout`) stands still while the gateway waits for the client's body and begins anew when more of it has
//! come: a slow client is not a slow service.

use std::time::{Duration, Instant};

/// Which setting ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The route's `timeout`.
    RouteTimeout,
    /// The route's `response_timeout`.
    RouteResponseTimeout,
    /// `limits.response_timeout`.
    GeneralResponseTimeout,
    /// The service's `max_request_time`: an instance that exceeds it counts as stuck.
    MaxRequestTime,
    /// None is known: a driver reported the end of a wait that has none.
    Unknown,
}

/// A time and its setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How long.
    pub after: Duration,
    /// By which setting.
    pub setting: Setting,
}

/// Who is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// The service, another request that asks it, or a place at it.
    Service,
    /// The client, who sends its body.
    Client,
}

/// One wait. The driver keeps it while it does an action, and ends the action when it is [`due`](Self::due).
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// The service's time.
    limit: Option<Limit>,
    /// The whole exchange's, and when it is over.
    whole: Option<(Limit, Instant)>,
    /// Since when the service's time runs.
    since: Option<Instant>,
}

impl Wait {
    /// The whole exchange's time runs, the service's does not yet.
    pub(crate) fn new(limit: Option<Limit>, whole: Option<(Limit, Instant)>) -> Self {
        Self { limit, whole, since: None }
    }

    /// The service's time runs, if it does not yet.
    pub fn service_turn(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Who is waited for while a body is sent; `has_moved`: more of it has come since the last time.
    pub fn turn(&mut self, waits_for: WaitsFor, has_moved: bool, now: Instant) {
        match waits_for {
            WaitsFor::Client => self.since = None,
            WaitsFor::Service if has_moved => self.since = Some(now),
            WaitsFor::Service => self.service_turn(now),
        }
    }

    /// When it is over; `None`: never.
    pub fn due(&self) -> Option<Instant> {
        let service = self.limit.zip(self.since).and_then(|(limit, since)| since.checked_add(limit.after));
        self.ends().into_iter().chain(service).min()
    }

    /// When the whole exchange is over, for services that can be told (P-28).
    pub fn ends(&self) -> Option<Instant> {
        self.whole.map(|(_, ends)| ends)
    }

    /// Who is late when it is over while a request is being sent.
    pub fn waits_for(&self) -> WaitsFor {
        if self.since.is_some() { WaitsFor::Service } else { WaitsFor::Client }
    }

    /// Which limit was exceeded.
    pub(crate) fn over(&self, now: Instant) -> Limit {
        let whole = self.whole.filter(|(_, ends)| now >= *ends).map(|(limit, _)| limit);
        whole.or(self.limit).unwrap_or(Limit { after: Duration::ZERO, setting: Setting::Unknown })
    }

    /// Which limit a client has exceeded that did not send its body: the service's time stood still.
    pub(crate) fn late(&self) -> Limit {
        self.whole.map_or(Limit { after: Duration::ZERO, setting: Setting::Unknown }, |(limit, _)| limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A wait of 100 ms for the service in an exchange of 250 ms; turns at some times, and when it is over.
    #[track_caller]
    fn check(turns: &[(u64, WaitsFor, bool)], expected: u64, setting: Setting) {
        let begin = Instant::now();
        let service = Limit { after: ms(100), setting: Setting::RouteResponseTimeout };
        let whole = Limit { after: ms(250), setting: Setting::RouteTimeout };
        let mut wait = Wait::new(Some(service), Some((whole, begin + ms(250))));
        for (at, waits_for, has_moved) in turns {
            wait.turn(*waits_for, *has_moved, begin + ms(*at));
        }
        assert_eq!(wait.due(), Some(begin + ms(expected)), "{turns:?}");
        assert_eq!(wait.over(begin + ms(expected)).setting, setting, "{turns:?}");
    }

    #[test]
    fn the_service_pays_for_its_own_time_only() {
        use WaitsFor::{Client, Service};
        check(&[], 250, Setting::RouteTimeout);
        check(&[(0, Service, false)], 100, Setting::RouteResponseTimeout);
        check(&[(0, Service, false), (50, Service, false)], 100, Setting::RouteResponseTimeout);
        check(&[(0, Service, false), (50, Service, true)], 150, Setting::RouteResponseTimeout);
        check(&[(0, Service, false), (50, Client, false)], 250, Setting::RouteTimeout);
        check(&[(0, Client, false), (90, Service, true)], 190, Setting::RouteResponseTimeout);
        check(&[(0, Client, false), (190, Service, true)], 250, Setting::RouteTimeout);
    }

    #[test]
    fn without_limits_it_never_ends() {
        let mut wait = Wait::new(None, None);
        wait.service_turn(Instant::now());
        assert_eq!(wait.due(), None);
        assert_eq!(wait.over(Instant::now()).setting, Setting::Unknown);
    }
}
