//! Which server takes a request, of a service whose servers may change: its place there, the wait for one, and what is
//! learned of the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_exchange::Event;
use pilotlight_exchange::retry::Reuse;

use super::handles::Ours;
use super::inbound::Inbound;
use crate::options::External;
use crate::request_body::RequestBody;
use crate::servers::Live;
use crate::timing::{Layer, Moment, millis};
use crate::upstream::server::Seat;
use crate::upstream::{self, CameTo, Failed, SendError, ServiceResponse, UpstreamError, seated};
use crate::worker::Upstream;

/// `Retry-After` of the answer when no server has room and the queue is full.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request has no server now.
pub(super) enum NoServer {
    /// It is one of those that get none.
    Share,
    /// There is none, or all have as many requests as they may.
    Full(Arc<External>),
}

impl Inbound {
    /// Chooses the server that is asked next, of a service whose servers may change. Returns why it has none now.
    pub(super) fn take_server(&mut self) -> Option<NoServer> {
        let (external, live) = changing(&self.upstream)?;
        let share = live.share_without_servers();
        // By chance, and once: a retry does not draw again.
        if share > 0 && !std::mem::replace(&mut self.has_drawn, true) && fastrand::u16(..1000) < share {
            return Some(NoServer::Share);
        }
        self.seat = None; // what was asked before has nothing open of this request
        if live.line().length() == 0 {
            self.seat = self.seat_at(external, self.record.timeline.last());
        }
        self.seat.is_none().then(|| NoServer::Full(Arc::clone(external)))
    }

    /// Fails, or waits until there is a server that has room. Gives the body back.
    pub(super) async fn without_server(
        &mut self,
        none: NoServer,
        body: Option<Box<RequestBody>>,
    ) -> Result<Option<Box<RequestBody>>, Box<Event<Ours>>> {
        match none {
            NoServer::Share => {
                let (error, body) =
                    (UpstreamError::NoShare { service: self.service_name() }, upstream::BodyLeft::Whole(body));
                Err(Box::new(self.send_failed(Failed { error: error.into(), body, reuse: Reuse::New })))
            }
            NoServer::Full(external) => self.wait_for_server(&external, body).await,
        }
    }

    pub(super) fn seat_at(&self, external: &Arc<External>, now: Moment) -> Option<Seat> {
        let (head, peer, trusted) = (&self.outbound.head, &self.client.peer, &self.client.settings.trust_forwarded);
        let client = || trusted.client(head.headers(), peer.address());
        Seat::choose(external, self.tried, now, head, client)
    }

    /// Waits until there is a server that has room.
    async fn wait_for_server(
        &mut self,
        external: &Arc<External>,
        body: Option<Box<RequestBody>>,
    ) -> Result<Option<Box<RequestBody>>, Box<Event<Ours>>> {
        let Some(live) = external.live() else { return Ok(body) };
        let (line, changes) = (live.line(), &self.worker.common.server_changes);
        let limits = line.limits();
        let refused = |why: String| {
            let text = format!("{}, and {why}", waits_because(live));
            let service = external.name().to_owned();
            UpstreamError::Overloaded { service, text, retry_after: FULL_RETRY_AFTER }
        };
        let error = match line.join() {
            None => refused(format!("queue.max ({}) requests wait already", limits.max)),
            Some(place) => {
                let wait = self.new_wait();
                let look = || {
                    let seat = self.seat_at(external, Moment::now());
                    if seat.is_none() {
                        changes.need(external);
                    }
                    seat
                };
                let waited = self.refused_since.map_or(Duration::ZERO, |since| since.elapsed());
                let found = wait.within(place.wait(waited, look)).await;
                self.record.end_phase(Layer::Queue);
                match found {
                    Some(Some(seat)) => {
                        self.seat = Some(seat);
                        return Ok(body);
                    }
                    Some(None) => {
                        refused(format!("this one has waited for queue.timeout ({} s)", limits.timeout.as_secs_f32()))
                    }
                    None => wait.over_before(external.name(), waits_because(live)),
                }
            }
        };
        let body = upstream::BodyLeft::Whole(body);
        Err(Box::new(self.send_failed(Failed { error: error.into(), body, reuse: Reuse::New })))
    }

    /// A request was not sent again because too many are.
    pub(super) fn over_budget(&self) {
        let Some(seat) = &self.seat else { return };
        seat.refused_retry();
        let service = self.service_name();
        tracing::debug!(
            request_id = self.outbound.id.as_str(),
            trace_id = self.record.trace_id(),
            service,
            "not sent again: the budget of retries is used up (retry_percent, retry_per_second)"
        );
    }

    /// Learns from what came of a try whether the server is to be asked again.
    pub(super) fn judge_server(&mut self, result: &Result<ServiceResponse, Failed>) {
        let Some(seat) = &self.seat else { return };
        self.awaits_server = is_refused(result) && seat.refused();
        if self.awaits_server {
            self.refused_since.get_or_insert_with(Instant::now);
        } else if result.is_err() {
            self.tried.add(seat.number()); // one that answers is asked again, as for a fresh copy of what it validated
        }
        match result {
            Ok(answer) if matches!(answer.status.as_u16(), 502..=504) => seat.failed(&answer.status),
            Ok(_) => seat.answered(),
            // A connection that was kept, and closed just then, says nothing.
            Err(Failed { reuse: Reuse::Kept, error: SendError::Upstream(UpstreamError::Closed { .. }), .. }) => {}
            Err(Failed { error: SendError::Upstream(error), .. }) if seated::is_its_fault(error) => seat.failed(error),
            Err(_) => {}
        }
    }
}

/// A service whose servers may change.
fn changing(upstream: &Upstream) -> Option<(&Arc<External>, &Live)> {
    let (Upstream::External(external, _)
    | Upstream::ExternalHttp2(external, _)
    | Upstream::ExternalTls(external, ..)
    | Upstream::ExternalCgi(external, ..)) = upstream
    else {
        return None;
    };
    Some((external, external.live()?))
}

/// Whether nobody took the connection.
fn is_refused(result: &Result<ServiceResponse, Failed>) -> bool {
    matches!(
        result,
        Err(Failed { error: SendError::Upstream(UpstreamError::Connect { came: CameTo::Nobody, .. }), .. })
    )
}

/// What requests wait for that have no server.
fn waits_because(live: &Live) -> &'static str {
    let (names, now) = (live.named(), live.now());
    match (now.group().is_empty(), names.is_empty()) {
        (false, _) if now.group().takes_none(millis(Moment::now())) => "none of its servers takes a connection",
        (false, _) => "each of its servers has max_connections requests open",
        (true, true) => "it has no server",
        (true, false) if names.iter().any(|one| one.error.is_some()) => "it has no server, and the DNS does not answer",
        (true, false) => "it has no server, as the DNS knows none",
    }
}
