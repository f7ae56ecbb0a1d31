//! Which requests are sampled, and what is told of them when they are over.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Version};
use pilotlight_cache::Timestamp;
use pilotlight_traces::{Flags, IdSource, Sampler, TraceContext, check_tracestate};

use super::export::{Encoded, Exporter};
use super::spans::Served;
use super::{Passage, Propagation, RequestTrace, SampledRequest, StateUse, TRACEPARENT, TRACESTATE, TraceOptions};
use crate::head::{self, Head};
use crate::metrics::{Book, FinishedRequest, Series, Verdict};
use crate::peer_address::PeerAddress;
use crate::timing::{Layer, Mark, Moment};

/// One worker's source of traces.
pub(crate) struct Tracer {
    pub(crate) ids: IdSource,
    sampler: Sampler,
    /// Where the spans of a request are written.
    spans: RefCell<Encoded>,
}

/// What a request that may be answered from its head alone is to traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// It has no spans.
    No,
    /// It begins a trace that is sampled.
    Drawn,
    /// Its client may have it sampled: [`Tracer::begin`] has to look at it.
    Asked,
}

/// A hit that was answered from its head alone.
pub(crate) struct TracedHit<'a> {
    pub(crate) series: &'a Series,
    pub(crate) book: &'a Book,
    pub(crate) peer: &'a PeerAddress,
    pub(crate) authority: &'a str,
    pub(crate) target: &'a str,
    pub(crate) version: Version,
    pub(crate) user_agent: Option<&'a [u8]>,
    pub(crate) status: u16,
    pub(crate) sent_bytes: u64,
    pub(crate) begun: Moment,
    /// The time of day then.
    pub(crate) at: Timestamp,
    pub(crate) took_ns: u64,
}

impl Tracer {
    pub(crate) fn new() -> Self {
        let seed = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        Self { ids: IdSource::new(seed), sampler: Sampler::default(), spans: RefCell::default() }
    }

    /// What a request is that may be answered from its head alone. Counts nothing.
    #[inline]
    pub(crate) fn sampling<'a>(
        &self,
        options: Option<&Arc<TraceOptions>>,
        peer: &PeerAddress,
        traceparent: impl FnOnce() -> Option<&'a [u8]>,
    ) -> Sampling {
        let Some(options) = options else { return Sampling::No };
        let is_drawn = self.sampler.is_next_sampled(options.sample, &self.ids);
        let parent = traceparent().and_then(TraceContext::parse);
        match parent.filter(|_| options.trust_parent.believes(peer.address())) {
            Some(parent) if is_drawn || parent.flags.is_sampled() => Sampling::Asked,
            None if is_drawn => Sampling::Drawn,
            _ => Sampling::No,
        }
    }

    /// Counts a request that was answered from its head alone, and has no spans.
    #[inline]
    pub(crate) fn pass(&self) {
        self.sampler.pass();
    }

    /// The same of one that has.
    #[cold]
    pub(crate) fn hit(&self, exporter: &Exporter, options: &TraceOptions, hit: &TracedHit<'_>) {
        self.sampler.take(options.sample, &self.ids);
        let (trace_id, span_id) = (self.ids.trace_id(), self.ids.span_id());
        let context = TraceContext { trace_id, span_id, flags: Flags::RANDOM.sampled() };
        hit.book.hit_sampled(&context, hit.at, hit.took_ns);
        let user_agent = hit.user_agent.map(String::from_utf8_lossy);
        let ended = hit.begun + Duration::from_nanos(hit.took_ns);
        let served = Served {
            context,
            parent: None,
            state: "",
            method: Method::GET.as_str(),
            scheme: hit.peer.scheme(),
            authority: hit.authority,
            target: hit.target,
            query: options.query,
            version: head::protocol(hit.version),
            client: hit.peer.ip(),
            user_agent: user_agent.as_deref(),
            status: hit.status,
            verdict: Verdict::Hit,
            received_bytes: 0,
            sent_bytes: hit.sent_bytes,
            series: hit.series,
            begun: hit.begun,
            ended,
        };
        let phase = Mark { name: Layer::Cache.name(), from: hit.begun, to: ended };
        self.export(exporter, |spans| served.encode(&[phase], &[], &self.ids, spans));
    }

    /// Tells the exporter of a request that is over.
    pub(crate) fn ended(
        &self,
        exporter: &Exporter,
        trace: &RequestTrace,
        outcome: &FinishedRequest<'_>,
        series: &Series,
    ) {
        let Some(request) = &trace.sampled else { return };
        let served = Served {
            context: trace.context,
            parent: request.parent,
            state: &request.state,
            method: request.method.as_str(),
            scheme: request.scheme,
            authority: &request.authority,
            target: &request.target,
            query: request.options.query,
            version: request.version,
            client: &request.client,
            user_agent: request.user_agent.as_deref(),
            status: outcome.status,
            verdict: outcome.verdict,
            received_bytes: outcome.received_bytes,
            sent_bytes: outcome.sent_bytes,
            series,
            begun: outcome.timeline.begun(),
            ended: outcome.timeline.last(),
        };
        let phases = outcome.timeline.marks();
        self.export(exporter, |spans| served.encode(&phases, &request.tries.borrow(), &self.ids, spans));
    }

    fn export(&self, exporter: &Exporter, write: impl FnOnce(&mut Encoded)) {
        let mut spans = self.spans.borrow_mut();
        write(&mut spans);
        exporter.send(&spans);
        spans.clear();
    }

    /// The trace of a request; `None` without `[traces]`.
    #[inline]
    pub(crate) fn begin(
        &self,
        options: Option<&Arc<TraceOptions>>,
        head: &Head,
        peer: &PeerAddress,
    ) -> Option<RequestTrace> {
        options.map(|options| self.trace(options, head, peer))
    }

    fn trace(&self, options: &Arc<TraceOptions>, head: &Head, peer: &PeerAddress) -> RequestTrace {
        let parent = parent(head).filter(|_| options.trust_parent.believes(peer.address()));
        let (trace_id, flags) = match &parent {
            Some(parent) => (parent.trace_id, parent.flags),
            None if self.sampler.take(options.sample, &self.ids) => (self.ids.trace_id(), Flags::RANDOM.sampled()),
            None => (self.ids.trace_id(), Flags::RANDOM),
        };
        let context = TraceContext { trace_id, span_id: self.ids.span_id(), flags };
        if !flags.is_sampled() {
            // §3.4: what is not sampled here may be passed on as it came.
            let passage = if parent.is_some() { Passage::AsItCame } else { Passage::Written(StateUse::Dropped) };
            return RequestTrace { context, passage, sampled: None };
        }
        let mut values = Vec::new();
        if parent.is_some() {
            head.all(&TRACESTATE, &mut |value| values.push(value.to_vec()));
        }
        let state = check_tracestate(values.iter().map(Vec::as_slice)).ok().flatten();
        let used = if state.is_some() { StateUse::Kept } else { StateUse::Dropped };
        let sampled = SampledRequest::new(options, head, peer, parent.map(|parent| parent.span_id), state);
        RequestTrace { context, passage: Passage::Written(used), sampled: Some(Box::new(sampled)) }
    }

    /// What a request of the gateway's own says, which belongs to no client's trace.
    pub(crate) fn unsampled(&self) -> Propagation {
        let (trace_id, span_id) = (self.ids.trace_id(), self.ids.span_id());
        let context = TraceContext { trace_id, span_id, flags: Flags::RANDOM };
        Propagation { traceparent: context.to_traceparent(), state: StateUse::Dropped }
    }
}

/// The context in a head. §3.2: more than one is malformed, as is anything else that cannot be parsed.
fn parent(head: &Head) -> Option<TraceContext> {
    let context = head.field(&TRACEPARENT).and_then(TraceContext::parse)?;
    let mut count = 0;
    head.all(&TRACEPARENT, &mut |_| count += 1);
    (count == 1).then_some(context)
}
