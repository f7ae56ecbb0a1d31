//! What the streams of one connection share.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use pilotlight_http2::{Events, ServerConnection};

use super::frame_counter::{Flood, FrameCounter};
use crate::options::Settings;
use crate::peer_address::PeerAddress;
use crate::record::Record;
use crate::timing::{Layer, Moment};
use crate::worker::Worker;

/// One connection, as far as its streams know it.
pub(super) struct Session {
    pub(super) worker: Rc<Worker>,
    pub(super) peer: Rc<PeerAddress>,
    /// Those of the time when it connected.
    pub(super) settings: Arc<Settings>,
    /// Borrowed for one call at a time: what it wakes runs later.
    pub(super) h2: RefCell<ServerConnection>,
    pub(super) counter: RefCell<FrameCounter>,
    /// Requests that are answered, but not all of whose bytes are written.
    pub(super) unwritten: RefCell<Vec<Rc<Record>>>,
}

impl Session {
    /// Everything that was gathered is written: the responses in it are over.
    pub(super) fn written(&self) {
        let mut unwritten = self.unwritten.borrow_mut();
        if !unwritten.is_empty() {
            let now = Moment::now();
            unwritten.drain(..).for_each(|record| record.timeline.end_phase(Layer::Write, now));
        }
    }

    /// Counts what the connection has dealt with by itself.
    #[inline]
    pub(super) fn count(&self, events: Events) -> Result<(), Flood> {
        for _ in 0..events.too_large {
            self.worker.common.metrics.none.book(self.worker.index).rejected(431);
        }
        self.counter.borrow_mut().faults(events.faults)
    }

    /// A frame with data was sent.
    pub(super) fn sent_data(&self) {
        self.counter.borrow_mut().useful();
    }

    /// The end of a response was.
    pub(super) fn sent_response(&self) {
        self.counter.borrow_mut().answered();
    }
}
