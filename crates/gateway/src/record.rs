//! One request from its head to its last byte, for metrics and the access log.
//!
//! Invariant: every request of a client that has a record is counted once, when the last holder of its record lets go
//! of it, whatever became of the request.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use pilotlight_cache::Unstored;
use pilotlight_traces::TraceId;
use tracing::field::{DisplayValue, display};

use crate::access_log::Entry;
use crate::admission::pacer::Pacer;
use crate::admission::refusal::Refusal;
use crate::admission::{Gate, Place};
use crate::head::{self, Head};
use crate::metrics::{FinishedRequest, Series, Verdict};
use crate::peer_address::PeerAddress;
use crate::request_body::Received;
use crate::request_id::RequestId;
use crate::timing::{Layer, Moment, Timeline};
use crate::traces::{Propagation, RequestTrace, TryOutcome};
use crate::worker::Worker;

/// One request on its way.
pub(crate) struct Record {
    worker: Rc<Worker>,
    /// Empty until its body has said which route it has.
    series: OnceCell<Arc<Series>>,
    /// Whether it is a client's.
    counts: bool,
    pub(crate) timeline: Timeline,
    verdict: Cell<Verdict>,
    status: Cell<u16>,
    sent_bytes: Cell<u64>,
    received: OnceCell<Rc<Received>>,
    /// Only with traces.
    trace: OnceCell<RequestTrace>,
    /// Only with an access log.
    head: OnceCell<Box<LoggedHead>>,
    /// Only on routes with such limits.
    place: OnceCell<Place>,
    pacer: Cell<Option<Box<Pacer>>>,
}

/// What the access log wants of a request's head.
struct LoggedHead {
    method: Method,
    target: Box<str>,
    version: Version,
    fields: LoggedFields,
    id: RequestId,
    peer: Rc<PeerAddress>,
}

/// Fields of a head that are logged.
struct LoggedFields {
    host: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    referer: Option<HeaderValue>,
}

impl LoggedFields {
    fn of(headers: &HeaderMap) -> Self {
        let field = |name| headers.get(name).cloned();
        Self {
            host: field(http::header::HOST),
            user_agent: field(http::header::USER_AGENT),
            referer: field(http::header::REFERER),
        }
    }
}

impl Record {
    pub(crate) fn new(worker: &Rc<Worker>, series: &Arc<Series>, timeline: Timeline) -> Rc<Self> {
        series.book(worker.index).begun();
        Self::make(worker, Some(series), true, timeline)
    }

    /// For an exchange that no client waits for: it is neither counted nor logged as a request.
    pub(crate) fn uncounted(worker: &Rc<Worker>, series: &Arc<Series>, timeline: Timeline) -> Rc<Self> {
        Self::make(worker, Some(series), false, timeline)
    }

    /// Of a request whose route is not known yet.
    pub(crate) fn without_route(worker: &Rc<Worker>, timeline: Timeline) -> Rc<Self> {
        Self::make(worker, None, true, timeline)
    }

    /// Its route is known now.
    pub(crate) fn routed(&self, series: &Arc<Series>) {
        if self.series.set(Arc::clone(series)).is_ok() {
            series.book(self.worker.index).begun();
        }
    }

    /// Where it is counted: with those that have no route, if it got none.
    fn series(&self) -> &Arc<Series> {
        self.series.get_or_init(|| {
            let none = Arc::clone(&self.worker.common.metrics.none);
            none.book(self.worker.index).begun();
            none
        })
    }

    #[inline(always)] // so that it is written where it stays
    fn make(worker: &Rc<Worker>, series: Option<&Arc<Series>>, counts: bool, timeline: Timeline) -> Rc<Self> {
        Rc::new(Self {
            worker: Rc::clone(worker),
            series: series.cloned().map(OnceCell::from).unwrap_or_default(),
            counts,
            timeline,
            verdict: Cell::new(Verdict::Off),
            status: Cell::new(0),
            sent_bytes: Cell::new(0),
            received: OnceCell::new(),
            trace: OnceCell::new(),
            head: OnceCell::new(),
            place: OnceCell::new(),
            pacer: Cell::new(None),
        })
    }

    /// Keeps of the head what the access log wants.
    pub(crate) fn keep_head(&self, request: &Head, id: &RequestId, peer: &Rc<PeerAddress>) {
        if self.worker.access_log.is_some() {
            let head = LoggedHead {
                method: request.method.clone(),
                target: request.target().into(),
                version: request.version,
                fields: LoggedFields::of(request.headers()),
                id: id.clone(),
                peer: Rc::clone(peer),
            };
            let _ = self.head.set(Box::new(head)); // the first is the one
        }
    }

    /// The trace that the request belongs to.
    pub(crate) fn traced(&self, trace: Option<RequestTrace>) {
        let _ = trace.map(|trace| self.trace.set(trace)); // a request has one
    }

    /// The trace that the request belongs to, if there are any.
    pub(crate) fn trace(&self) -> Option<&RequestTrace> {
        self.trace.get()
    }

    /// The same as a field of an event.
    pub(crate) fn trace_id(&self) -> Option<DisplayValue<TraceId>> {
        self.trace.get().map(|trace| display(trace.trace_id()))
    }

    /// A try at the service begins; what that is told, where it is not what it would be told without.
    pub(crate) fn begin_try(&self) -> Option<Propagation> {
        self.trace.get()?.begin_try(&self.worker.tracer.ids)
    }

    /// It is over.
    pub(crate) fn end_try(&self, outcome: impl FnOnce() -> TryOutcome) {
        if let Some(trace) = self.trace.get().filter(|trace| trace.sampled().is_some()) {
            trace.end_try(outcome());
        }
    }

    /// The request was let in: what that takes is held until its response is written.
    pub(crate) fn admitted(&self, gate: &Gate, place: Option<Place>, peer: &PeerAddress) {
        if let Some(place) = place {
            let _ = self.place.set(place); // a request is let in once
        }
        let pacer = |rate| Box::new(Pacer::new(rate, Rc::clone(&peer.paid_until), self.worker.deadlines.deadline()));
        self.pacer.set(gate.bandwidth().map(pacer));
    }

    /// The pace of the response, if its route has one.
    pub(crate) fn take_pacer(&self) -> Option<Box<Pacer>> {
        self.pacer.take()
    }

    /// The request was not let in.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.series().book(self.worker.index).refused(refusal.kind());
    }

    pub(crate) fn end_phase(&self, layer: Layer) {
        self.timeline.end_phase(layer, Moment::now());
    }

    /// The same, marked by another name.
    pub(crate) fn end_named(&self, layer: Layer, name: &'static str) {
        self.timeline.end_named(layer, name, Moment::now());
    }

    pub(crate) fn verdict(&self, verdict: Verdict) {
        self.verdict.set(verdict);
    }

    pub(crate) fn answered(&self, status: StatusCode) {
        self.status.set(status.as_u16());
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.set(self.sent_bytes.get() + bytes as u64);
    }

    pub(crate) fn unstored(&self, why: Unstored) {
        self.series().book(self.worker.index).unstored(why);
    }

    /// Where the bytes of the request's body are counted; its reader may live longer than this record.
    pub(crate) fn received(&self) -> Rc<Received> {
        Rc::clone(self.received.get_or_init(Rc::default))
    }

    /// Whether nothing of the request's body is left to be read, as far as anybody has begun.
    pub(crate) fn has_received_all(&self) -> bool {
        self.received.get().is_none_or(|received| received.is_whole.get())
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.counts {
            return;
        }
        let outcome = FinishedRequest {
            status: self.status.get(),
            verdict: self.verdict.get(),
            received_bytes: self.received.get().map_or(0, |received| received.bytes.get()),
            sent_bytes: self.sent_bytes.get(),
            timeline: &self.timeline,
        };
        let series = self.series();
        let book = series.book(self.worker.index);
        book.ended(&outcome);
        if let Some(trace) = self.trace.get()
            && trace.sampled().is_some()
        {
            book.sampled(&self.timeline, trace.context(), self.worker.clock.timestamp(self.timeline.begun()));
            self.worker.tracer.ended(&self.worker.common.exporter, trace, &outcome, series);
        }
        let (Some(log), Some(head)) = (&self.worker.access_log, self.head.get()) else { return };
        log.write(&Entry {
            at: self.worker.clock.timestamp(self.timeline.begun()),
            peer: &head.peer,
            host: head.fields.host.as_ref().map(HeaderValue::as_bytes),
            method: head.method.as_str(),
            target: head.target.as_bytes(),
            protocol: head::protocol(head.version),
            status: outcome.status,
            sent_bytes: outcome.sent_bytes,
            received_bytes: outcome.received_bytes,
            took_ns: self.timeline.total_ns(),
            verdict: outcome.verdict,
            series,
            request_id: Some(head.id.as_bytes()),
            trace_id: self.trace.get().map(RequestTrace::trace_id),
            user_agent: head.fields.user_agent.as_ref().map(HeaderValue::as_bytes),
            referer: head.fields.referer.as_ref().map(HeaderValue::as_bytes),
            timeline: Some(&self.timeline),
        });
    }
}
