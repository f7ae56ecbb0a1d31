//! One request's client, whichever protocol it speaks: a connection of HTTP/1.1, which has one request at a time, or a
//! stream of HTTP/2. An exchange knows no more of it than this.

use std::rc::Rc;
use std::sync::Arc;

use crate::head::Head;
use crate::options::Settings;
use crate::outbound::InterimSink;
use crate::peer_address::PeerAddress;
use crate::record::Record;
use crate::target::{Hop, Trust};
use crate::timing::Layer;
use crate::upstream::Upgraded;

/// What an exchange needs of the client whose request it is.
pub(crate) trait Downstream: InterimSink {
    /// Where it is.
    fn peer(&self) -> &Rc<PeerAddress>;

    /// The settings of the time when it connected.
    fn settings(&self) -> &Arc<Settings>;

    /// The connection of a request with this head, as far as its origin goes.
    fn hop(&self, head: &Head) -> Hop {
        let trust = Trust::of(&self.settings().trust_forwarded, self.peer().address(), || head.headers());
        Hop { scheme: self.peer().scheme(), trust }
    }

    /// The head of its request is whole.
    fn request_began(&self);

    /// Its response has been handed over, body and all, or it gets none.
    fn request_ended(&self, record: Rc<Record>);

    /// Its response is awaited. `takes_interim`: RFC 9110 §15.2, no HTTP/1.0 client takes interim responses.
    fn awaits_response(&self, takes_interim: TakesInterim);

    /// From now on it gets the response itself.
    fn response_began(&self);

    /// Takes what is here already of a request's body that nobody wants. Returns whether the next request can be read
    /// behind it.
    fn skip_body(&self) -> bool;

    /// The service has switched protocols: what follows the response is that connection's.
    fn upgrade_to(&self, upgraded: Box<Upgraded>);
}

/// Whether a client takes interim responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TakesInterim {
    Yes,
    No,
}

/// Marks the end of a request when the response's body is done or dropped.
pub(crate) struct RequestGuard {
    client: Rc<dyn Downstream>,
    record: Rc<Record>,
}

impl RequestGuard {
    pub(crate) fn new(client: Rc<dyn Downstream>, record: Rc<Record>) -> Self {
        client.request_began();
        Self { client, record }
    }

    /// Whose request it is, and what is noted of it.
    pub(crate) fn parts(&self) -> (&dyn Downstream, &Record) {
        (&*self.client, &self.record)
    }

    /// Bytes of the response's body were handed over.
    pub(crate) fn sent(&self, bytes: usize) {
        self.record.sent(bytes);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.record.end_phase(Layer::Body);
        self.client.request_ended(Rc::clone(&self.record));
    }
}
