//! What the streams of one connection share.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use pilotlight_http2::ServerConnection;

use super::frame_counter::FrameCounter;
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

    /// A frame with data was sent.
    pub(super) fn sent_data(&self) {
        self.counter.borrow_mut().useful();
    }

    /// The end of a response was.
    pub(super) fn sent_response(&self) {
        self.counter.borrow_mut().answered();
    }
}
