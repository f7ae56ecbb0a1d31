//! The way of spans to the collector: OTLP over HTTP, binary, from a thread of its own.
//!
//! ```text
//!  workers ─ append ─▶ batches of MAX_QUEUED requests ─▶ the first (MAX_BATCH_SPANS, or GATHER_TIME) ─▶ POST ─ 2xx
//!              │ full: dropped                                                                           │ 429, 502–504, no answer:
//!              ▼                                                                                         ▼ wait, again, MAX_TRIES times
//!           counted                                                                                   dropped, counted
//! ```
//! While a batch waits to be sent again, the batches behind it fill; that is all that a dead collector costs. The
//! thread is woken for the first spans of a batch and for the last, not for each request.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use pilotlight_http_client::{Bounds, HttpClient, RequestError, Roots};
use pilotlight_traces::{Scope, export_request, rejected};
use tokio::sync::{Notify, watch};

use super::{ExportOptions, TraceOptions};

/// Requests whose spans wait to be sent; those of one more are dropped.
const MAX_QUEUED: usize = 2048;
/// Spans that are sent together. A request's are not separated, so a batch may have some more.
const MAX_BATCH_SPANS: u64 = 512;
/// How long spans are gathered.
const GATHER_TIME: Duration = Duration::from_secs(1);
/// How often one batch is sent.
const MAX_TRIES: u32 = 5;
/// Between two tries: the first, and the longest that is chosen here.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The longest that a collector may ask to be left alone for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);
/// Bytes of an answer that are read.
const MAX_ANSWER: usize = 64 * 1024;
/// How long the end of the gateway waits for the last spans to be sent.
const LAST_SPANS_TIME: Duration = Duration::from_secs(1);

/// Bytes of spans that a worker keeps room for.
const MAX_KEPT: usize = 16 * 1024;

/// Spans, each an element of `ScopeSpans.spans`.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) spans: u64,
}

impl Encoded {
    /// To be written anew.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(MAX_KEPT);
        self.spans = 0;
    }
}

/// Spans that are sent together, and of how many requests they are.
#[derive(Default)]
struct Batch {
    encoded: Encoded,
    requests: usize,
}

impl Batch {
    fn is_whole(&self) -> bool {
        self.encoded.spans >= MAX_BATCH_SPANS
    }
}

/// What waits to be sent. All batches but the last are whole.
#[derive(Default)]
struct Queue {
    batches: VecDeque<Batch>,
    requests: usize,
    /// Nobody takes anything from it any more.
    is_closed: bool,
}

impl Queue {
    /// Appends the spans of a request. Returns whether the thread has something to do now that it had not before.
    fn push(&mut self, spans: &Encoded) -> Result<bool, Dropped> {
        if self.is_closed {
            return Err(Dropped::Ended);
        }
        if self.requests == MAX_QUEUED {
            return Err(Dropped::QueueFull);
        }
        if self.batches.back().is_none_or(Batch::is_whole) {
            self.batches.push_back(Batch::default());
        }
        let Some(batch) = self.batches.back_mut() else { return Ok(false) };
        batch.encoded.bytes.extend_from_slice(&spans.bytes);
        batch.encoded.spans += spans.spans;
        batch.requests += 1;
        self.requests += 1;
        Ok(self.requests == 1 || batch.is_whole())
    }

    fn has_whole(&self) -> bool {
        self.batches.front().is_some_and(Batch::is_whole)
    }

    fn pop(&mut self) -> Option<Encoded> {
        let batch = self.batches.pop_front()?;
        self.requests -= batch.requests;
        Some(batch.encoded)
    }
}

/// Why spans were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// The queue was full.
    QueueFull,
    /// The collector could not be reached, or was busy, too often.
    Unreachable,
    /// It refused the request.
    Refused,
    /// It took the request, and refused some of its spans.
    Rejected,
    /// The gateway ended, or `[traces]` was taken away, before they were sent.
    Ended,
}

impl Dropped {
    pub(crate) const ALL: [Self; 5] = [Self::QueueFull, Self::Unreachable, Self::Refused, Self::Rejected, Self::Ended];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::Ended => "ended",
        }
    }
}

/// What became of spans.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: [AtomicU64; Dropped::ALL.len()],
}

impl Counts {
    fn drop(&self, why: Dropped, spans: u64) {
        self.dropped[why as usize].fetch_add(spans, Relaxed);
    }
}

/// The exporter, which has no thread before it is needed.
pub(crate) struct Exporter {
    shared: Arc<Shared>,
    has_thread: AtomicBool,
    done: Mutex<Option<mpsc::Receiver<()>>>,
    ending: watch::Sender<bool>,
}

#[derive(Default)]
struct Shared {
    /// `None`: nobody wants spans (any more).
    options: ArcSwapOption<TraceOptions>,
    queue: Mutex<Queue>,
    /// There is a first request in the queue, or another whole batch.
    has_more: Notify,
    counts: Counts,
}

impl Exporter {
    fn new() -> Self {
        let (has_thread, done) = (AtomicBool::new(false), Mutex::default());
        Self { shared: Arc::default(), has_thread, done, ending: watch::Sender::new(false) }
    }

    pub(crate) fn following(options: Option<&Arc<TraceOptions>>) -> Self {
        let exporter = Self::new();
        exporter.follow(options);
        exporter
    }

    /// Sends spans by these settings from now on.
    pub(crate) fn follow(&self, options: Option<&Arc<TraceOptions>>) {
        self.shared.options.store(options.cloned());
        if options.is_some() && !self.has_thread.swap(true, Relaxed) {
            match self.start() {
                Ok(done) => *self.done.lock() = Some(done),
                Err(e) => tracing::error!("the thread that sends spans could not be started: {e}; they are dropped"),
            }
        }
    }

    fn start(&self) -> io::Result<mpsc::Receiver<()>> {
        let sender = Sender {
            shared: Arc::clone(&self.shared),
            ending: self.ending.subscribe(),
            client: None,
            is_failing: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (alive, done) = mpsc::channel();
        std::thread::Builder::new().name("traces".into()).spawn(move || {
            let _alive: mpsc::Sender<()> = alive;
            runtime.block_on(sender.run());
            runtime.shutdown_background(); // a look-up of a name may take its time
        })?;
        Ok(done)
    }

    /// Hands over the spans of a request, if there is room.
    pub(crate) fn send(&self, spans: &Encoded) {
        let pushed = self.shared.queue.lock().push(spans);
        match pushed {
            Ok(true) => self.shared.has_more.notify_one(),
            Ok(false) => {}
            Err(why) => self.shared.counts.drop(why, spans.spans),
        }
    }

    /// Sends what is left, within a moment; the workers must have ended.
    pub(crate) fn finish(&self) {
        let _ = self.ending.send(true); // no receiver: there is no thread
        let Some(done) = self.done.lock().take() else { return };
        // An error that is not the time over is the end of the thread.
        if done.recv_timeout(LAST_SPANS_TIME) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the last spans may be missing: the collector did not take them in time");
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.has_thread.load(Relaxed)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.shared.counts.sent.load(Relaxed)
    }

    pub(crate) fn dropped(&self, why: Dropped) -> u64 {
        self.shared.counts.dropped[why as usize].load(Relaxed)
    }
}

/// The thread's end.
struct Sender {
    shared: Arc<Shared>,
    ending: watch::Receiver<bool>,
    /// Made for the settings beside it.
    client: Option<(Arc<TraceOptions>, HttpClient)>,
    is_failing: bool,
}

/// Why a try failed.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("{0}")]
    Roots(io::Error),
    #[error("{0}")]
    Request(#[from] RequestError),
    /// With how long it wants to be left alone.
    #[error("it answers {0}")]
    Busy(StatusCode, Option<Duration>),
    #[error("it answers {0}")]
    Refused(StatusCode),
}

impl Sender {
    async fn run(mut self) {
        while let Some(batch) = self.next().await {
            self.deliver(batch).await;
        }
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// The next batch; `None` at the end, which comes behind the last span.
    async fn next(&self) -> Option<Encoded> {
        let Shared { queue, has_more, .. } = &*self.shared;
        let mut ending = self.ending.clone();
        let mut is_ending = false;
        while !is_ending && queue.lock().requests == 0 {
            is_ending = tokio::select! {
                biased;
                () = has_more.notified() => false,
                _ = ending.wait_for(|ending| *ending) => true,
            };
        }
        let until = tokio::time::sleep(GATHER_TIME);
        tokio::pin!(until);
        let mut is_over = is_ending;
        while !is_over && !queue.lock().has_whole() {
            is_over = tokio::select! {
                biased;
                () = has_more.notified() => false,
                () = &mut until => true,
                _ = ending.wait_for(|ending| *ending) => true,
            };
        }
        queue.lock().pop()
    }

    /// Sends a batch, more than once if need be.
    async fn deliver(&mut self, batch: Encoded) {
        for tried in 1..=MAX_TRIES {
            let Some(options) = self.shared.options.load_full() else {
                return self.shared.counts.drop(Dropped::Ended, batch.spans);
            };
            let (error, asked) = match self.post(&options, &batch).await {
                Ok(rejected) => return self.delivered(&batch, rejected),
                Err(ExportError::Refused(status)) => {
                    self.failed(&options.export, &ExportError::Refused(status));
                    return self.shared.counts.drop(Dropped::Refused, batch.spans);
                }
                Err(ExportError::Busy(status, asked)) => (ExportError::Busy(status, asked), asked),
                Err(error) => (error, None),
            };
            self.failed(&options.export, &error);
            if tried == MAX_TRIES || self.is_ending() {
                break;
            }
            self.pause(pause(tried, asked), &options).await;
        }
        let why = if self.is_ending() { Dropped::Ended } else { Dropped::Unreachable };
        self.shared.counts.drop(why, batch.spans);
    }

    /// Waits, but not beyond the end of the gateway or a change of the settings.
    async fn pause(&mut self, time: Duration, options: &Arc<TraceOptions>) {
        const LOOK_EVERY: Duration = Duration::from_millis(500);
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            let changed = |now: &Option<Arc<TraceOptions>>| now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, options));
            if changed(&self.shared.options.load_full()) {
                return;
            }
            let ended = self.ending.wait_for(|ending| *ending);
            if tokio::time::timeout(left.min(LOOK_EVERY), ended).await.is_ok() {
                return;
            }
        }
    }

    fn delivered(&mut self, batch: &Encoded, rejected: u64) {
        let rejected = rejected.min(batch.spans);
        self.shared.counts.sent.fetch_add(batch.spans - rejected, Relaxed);
        self.shared.counts.drop(Dropped::Rejected, rejected);
        if rejected > 0 {
            tracing::debug!("the collector rejected {rejected} of {} spans", batch.spans);
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("the collector of traces takes spans again");
        }
    }

    fn failed(&mut self, to: &ExportOptions, error: &ExportError) {
        let endpoint = &to.endpoint;
        match std::mem::replace(&mut self.is_failing, true) {
            true => tracing::debug!("spans were not sent to {endpoint}: {error}"),
            false => tracing::warn!("spans were not sent to {endpoint}: {error}; requests go on, spans may be lost"),
        }
    }

    /// One try. Returns how many spans were rejected.
    async fn post(&mut self, options: &Arc<TraceOptions>, batch: &Encoded) -> Result<u64, ExportError> {
        let export = &options.export;
        let client = match self.client.take().filter(|(of, _)| Arc::ptr_eq(of, options)) {
            Some((_, client)) => client,
            None => connect(export).map_err(ExportError::Roots)?,
        };
        let scope = Scope { name: "pilotlight", version: env!("CARGO_PKG_VERSION") };
        let body = Full::new(Bytes::from(export_request(&export.resource, scope, &batch.bytes)));
        let mut request = Request::post(export.endpoint.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("pilotlight/", env!("CARGO_PKG_VERSION")))
            .body(body)
            .map_err(|_| RequestError::Address(export.endpoint.clone()))?;
        for (name, value) in &export.headers {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        let answer = client.send(request).await?;
        self.client = Some((Arc::clone(options), client)); // after an error the file of authorities may be another one
        match answer.status() {
            status if status.is_success() => Ok(rejected(answer.body())),
            // OTLP, "Failures", the table of retryable response codes.
            status if matches!(status.as_u16(), 429 | 502 | 503 | 504) => {
                Err(ExportError::Busy(status, retry_after(answer.headers(), SystemTime::now())))
            }
            status => Err(ExportError::Refused(status)),
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.is_closed = true;
        while let Some(left) = queue.pop() {
            self.shared.counts.drop(Dropped::Ended, left.spans);
        }
    }
}

fn connect(export: &ExportOptions) -> io::Result<HttpClient> {
    let roots = match &export.ca {
        _ if export.endpoint.scheme_str() != Some("https") => Roots::None,
        Some(file) => Roots::File(file),
        None => Roots::System,
    };
    HttpClient::new(roots, Bounds { time: export.timeout, max_answer_bytes: MAX_ANSWER })
}

/// How long before the next try: what the collector asks for, else twice as long each time, less up to half by chance.
fn pause(tried: u32, asked: Option<Duration>) -> Duration {
    if let Some(asked) = asked {
        return asked.min(MAX_RETRY_AFTER);
    }
    let doubled = BACKOFF.0.saturating_mul(1 << (tried - 1).min(16)).min(BACKOFF.1);
    let chance = getrandom::u32().unwrap_or(0);
    doubled - doubled.mul_f64(f64::from(chance) / f64::from(u32::MAX) / 2.0)
}

/// RFC 9110 §10.2.3: seconds or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_the_collector_is_believed_to_a_limit() {
        for tried in 1..=40 {
            let full = Duration::from_secs(1 << (tried - 1).min(5)).min(BACKOFF.1);
            let chosen = pause(tried, None);
            assert!(chosen <= full && chosen >= full / 2 - Duration::from_millis(1), "{tried}: {chosen:?}");
        }
        assert_eq!(pause(1, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(pause(1, Some(Duration::from_secs(u64::MAX))), MAX_RETRY_AFTER);
    }

    #[track_caller]
    fn check(value: &'static str, expected: Option<Duration>) {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, http::HeaderValue::from_static(value))]);
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(retry_after(&headers, now), expected, "{value}");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        check("120", Some(Duration::from_secs(120)));
        check("Sun, 06 Nov 1994 08:50:07 GMT", Some(Duration::from_secs(30)));
        check("Sun, 06 Nov 1994 08:49:07 GMT", Some(Duration::ZERO));
        check("soon", None);
        check("-1", None);
    }

    #[test]
    fn a_request_is_in_one_batch_and_leaves_room_with_it() {
        let mut queue = Queue::default();
        let news: Vec<_> = (0..200).map(|at| queue.push(&Encoded { bytes: vec![at], spans: 5 })).collect();
        let told: Vec<_> = (0..200).filter(|at| news[*at] == Ok(true)).collect();
        assert_eq!(told, [0, 102], "the first, and the one that makes a batch whole");
        assert!(queue.has_whole());
        let first = queue.pop().unwrap();
        assert_eq!((first.spans, first.bytes), (515, (0..103).collect()));
        assert!(!queue.has_whole());
        let second = queue.pop().unwrap();
        assert_eq!((second.spans, second.bytes), (485, (103..200).collect()));
        assert_eq!((queue.requests, queue.pop().is_none()), (0, true));
        queue.is_closed = true;
        assert_eq!(queue.push(&Encoded::default()), Err(Dropped::Ended));
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let exporter = Exporter::new();
        for _ in 0..MAX_QUEUED + 3 {
            exporter.send(&Encoded { bytes: Vec::new(), spans: 2 });
        }
        assert_eq!(exporter.dropped(Dropped::QueueFull), 6);
        assert!(!exporter.is_used());
    }
}
