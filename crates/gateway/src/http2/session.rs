//! What the streams of one connection share.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

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
    /// Requests that are answered, but not all of whose bytes are written.
    pub(super) unwritten: RefCell<Vec<Rc<Record>>>,
    /// Told of what streams send, whatever the type of the socket is.
    pub(super) sent: Box<dyn Sent>,
}

/// Is told of what streams send.
pub(super) trait Sent {
    /// A frame with data.
    fn data(&self);

    /// The end of a response.
    fn response(&self);
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
}
