//! What all connections of this instance share: its settings, its handler, how far it is on its way out, and how many
//! connections it has.
//!
//! A connection never opens another one. It notes the wish here, and the loop of the instance (`supervise`) dials.

use super::outcome::Handler;
use super::settings::Service;
use super::stage::Stage;
use crate::control::{More, MoreKind};
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::{mpsc, watch};

/// Shared connections of one instance; MORE is not followed beyond.
const MAX_SHARED: u16 = 64;

/// A connection to open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dial {
    pub(super) kind: MoreKind,
    /// The worker that asked for it; `None` for the first connection (P-2).
    pub(super) worker: Option<u32>,
}

/// What all connections of the instance share.
pub(super) struct Instance {
    pub(super) settings: Service,
    pub(super) handler: Handler,
    stage: watch::Sender<Stage>,
    /// Bounded by the limits of the connections that it announces: `want` counts one before it sends the wish.
    dials: mpsc::UnboundedSender<Dial>,
    shared: Cell<u16>,
    own: Cell<u16>,
    upgraded: Cell<u16>,
}

impl Instance {
    /// The instance, and the connections that it wants opened.
    pub(super) fn new(settings: Service, handler: Handler) -> (Rc<Self>, mpsc::UnboundedReceiver<Dial>) {
        let (dials, wanted) = mpsc::unbounded_channel();
        let stage = watch::Sender::new(Stage::Serving);
        let (shared, own, upgraded) = <_>::default();
        (Rc::new(Self { settings, handler, stage, dials, shared, own, upgraded }), wanted)
    }

    pub(super) fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    pub(super) fn watch_stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// SIGTERM came.
    pub(super) fn leave(&self) {
        self.settings.draining.send_replace(true);
        self.stage.send_if_modified(|stage| {
            let serving = *stage == Stage::Serving;
            if serving {
                *stage = Stage::Leaving;
            }
            serving
        });
    }

    /// DRAIN came (P-31).
    pub(super) fn drained(&self) {
        self.settings.draining.send_replace(true);
        self.stage.send_replace(Stage::Drained);
    }

    /// MORE came (P-23). What is above the limits is not dialled.
    pub(super) fn more(&self, more: More) {
        if self.stage() != Stage::Serving {
            return;
        }
        let limit = match more.kind {
            MoreKind::Own => self.settings.max_own,
            MoreKind::Shared => MAX_SHARED,
        };
        for _ in 0..more.count.min(limit.saturating_sub(self.open(more.kind).get())) {
            self.want(Dial { kind: more.kind, worker: Some(more.worker) });
        }
    }

    /// Asks for a connection, which counts as open from now on.
    pub(super) fn want(&self, dial: Dial) {
        let open = self.open(dial.kind);
        open.set(open.get() + 1);
        // Only after the instance's loop has ended is there nobody to dial.
        let _sent = self.dials.send(dial);
    }

    /// A connection has ended; returns how many of its kind are left.
    pub(super) fn closed(&self, kind: MoreKind) -> u16 {
        let open = self.open(kind);
        open.set(open.get() - 1);
        open.get()
    }

    /// Whether one more own connection may become another protocol's.
    pub(super) fn takes_upgrade(&self) -> bool {
        self.upgraded.get() < self.settings.max_upgraded
    }

    /// An own connection has switched to another protocol, and is none any more (P-42).
    pub(super) fn upgraded(&self) {
        self.closed(MoreKind::Own);
        self.upgraded.set(self.upgraded.get() + 1);
    }

    /// One that had switched has ended.
    pub(super) fn upgraded_closed(&self) {
        self.upgraded.set(self.upgraded.get() - 1);
    }

    fn open(&self, kind: MoreKind) -> &Cell<u16> {
        match kind {
            MoreKind::Own => &self.own,
            MoreKind::Shared => &self.shared,
        }
    }
}
