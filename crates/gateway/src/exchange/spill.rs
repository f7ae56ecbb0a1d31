//! A request to a service that is started here and has no room goes to another one, if that has.
//!
//! Invariant: a request goes there once at most, with all of its body; if it fails there and may be sent again, it
//! waits at home.

use std::rc::Rc;
use std::sync::Arc;

use pilotlight_balance::Tried;

use super::inbound::Inbound;
use super::spilled::Spilled;
use crate::grpc;
use crate::options::External;
use crate::timing::{Layer, Moment};
use crate::upstream::server::Seat;
use crate::worker::Upstream;

impl Inbound {
    /// Gives the request to the other service, if this one has no room and that one has. The body is whole: nothing of
    /// it has been sent.
    pub(super) fn spill(&mut self) -> bool {
        let Some(spill) = self.route.spill.clone().filter(|_| matches!(self.spilled, Spilled::No)) else {
            return false;
        };
        let (Some(service), Some(external)) = (self.service().cloned(), spill.external()) else { return false };
        let Some(why) = spill.takes(&service) else { return false };
        let upstream = self.worker.upstream(spill.target());
        if grpc::is_grpc(self.head()) && !matches!(&*upstream, Upstream::ExternalHttp2(..) | Upstream::ExternalTls(..))
        {
            return false;
        }
        self.tried = Tried::default();
        let Some(seat) = self.seat_there(external) else { return false };
        service.count_given_away(why);
        tracing::debug!(
            request_id = self.outbound.id.as_str(),
            trace_id = self.record.trace_id(),
            service = &**service.name(),
            to = external.name(),
            "given to another service: {why:?}"
        );
        self.record.end_phase(Layer::Queue);
        (self.seat, self.instance, self.wait) = (seat, None, None);
        let home = std::mem::replace(&mut self.upstream, upstream);
        self.spilled = Spilled::Away { home, has_place: true };
        true
    }

    /// A place at a server of the other service; none is needed where there is one server. `None`: there is no room.
    fn seat_there(&self, external: &Arc<External>) -> Option<Option<Seat>> {
        let Some(live) = external.live() else { return Some(None) };
        let now = Moment::now();
        if live.line().length() > 0 || !live.now().has_one_in(now) {
            return None;
        }
        self.seat_at(external, now).map(Some)
    }

    /// Whether the request comes with its place, which it does once.
    pub(super) fn take_spilled_place(&mut self) -> bool {
        match &mut self.spilled {
            Spilled::Away { has_place, .. } => std::mem::take(has_place),
            Spilled::No | Spilled::Back => false,
        }
    }

    /// After a failure there the request waits for its own service.
    pub(super) fn come_home(&mut self) {
        if let Spilled::Away { home, .. } = &self.spilled {
            self.upstream = Rc::clone(home);
            self.seat = None;
            self.spilled = Spilled::Back;
        }
    }

    pub(super) fn is_away(&self) -> bool {
        matches!(self.spilled, Spilled::Away { .. })
    }
}
