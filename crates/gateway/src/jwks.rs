//! The public keys that tokens are verified by: from a file that is followed, or from a URL that is asked again and
//! again, on a thread of their own.
//!
//! ```text
//!  routes ──▶ KeySources ──▶ Keys (one for each source, kept over reloads) ◀── the thread: fetch, wait, fetch …
//!                             │ an unknown key asks for an early fetch ([`Keys::newer`])
//! ```
//!
//! Invariant: keys are replaced whole, by a set that was read without an error; what cannot be had changes nothing, for
//! as long as [`KEPT_WHILE_AWAY`].
//! Invariant: however many unknown keys are named, a source is asked for them once in [`UNKNOWN_KEY_EVERY`].

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use parking_lot::Mutex;
use pilotlight_cache::{ResponseDirectives, Seconds};
use pilotlight_http_client::{Bounds, HttpClient, RequestError, Roots};
use pilotlight_jwt::{KeySet, KeysError, MAX_SET_BYTES};
use pilotlight_printable::bytes_without_mark;
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::file_state::FileState;
use crate::timing::{Moment, nanos};

/// How long keys are used after the last time that their URL gave them.
pub(crate) const KEPT_WHILE_AWAY: Duration = Duration::from_secs(24 * 3600);
/// How often unknown keys may have a source asked.
const UNKNOWN_KEY_EVERY: Duration = Duration::from_secs(5);
/// How long a request waits for keys that are being fetched.
const WAIT: Duration = Duration::from_secs(5);
/// Requests that wait for the keys of one source. Those beyond it go on with the keys that are there.
const MAX_WAITING: usize = 1024;
/// What one fetch may take.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(10), max_answer_bytes: MAX_SET_BYTES };
/// Between two fetches, whatever the answer says of its age.
const MIN_REFRESH: Duration = Duration::from_secs(30);
/// Between two tries while the URL is away: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How often it is looked at whether a file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where keys come from. Routes that say the same share them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeySource {
    /// A file, or a URL.
    pub at: KeysAt,
    /// The authorities by which an `https` URL is checked, as a PEM file; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// How often the URL is asked, unless its answer's `max-age` is less.
    pub refresh: Duration,
}

/// A file, or a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeysAt {
    /// A JWK Set, followed when it changes.
    File(PathBuf),
    /// `https` or `http`, absolute.
    Url(Uri),
}

impl fmt::Display for KeysAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(url) => url.fmt(f),
        }
    }
}

impl KeySource {
    /// `refresh` by default.
    pub const DEFAULT_REFRESH: Duration = Duration::from_secs(600);
    /// Values of `refresh`.
    pub const REFRESH: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(12 * 3600);
}

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysFileError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// What it says is no set of keys.
    #[error("{0}")]
    Keys(#[from] KeysError),
}

/// Reads a file of keys.
///
/// # Errors
/// It cannot be read, or has no key that could be used.
pub fn check_keys(file: &Path) -> Result<KeySet, KeysFileError> {
    let mut text = Vec::new();
    File::open(file)?.take(MAX_SET_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(KeySet::parse(bytes_without_mark(&text))?)
}

/// Whether a file has authorities by which servers can be checked.
///
/// # Errors
/// It cannot be read, or has no certificate.
pub fn check_authority_file(file: &Path) -> io::Result<()> {
    HttpClient::new(Roots::File(file), BOUNDS).map(drop)
}

/// Why there are no new keys.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0}")]
    Read(#[from] KeysFileError),
    #[error("the authorities to check it by: {0}")]
    Roots(io::Error),
    #[error("{0}")]
    Request(#[from] RequestError),
    #[error("the answer was {0}, not 200")]
    Status(StatusCode),
    #[error("{0}")]
    Keys(#[from] KeysError),
}

/// A set of keys, and what it is told by from others.
pub(crate) struct HeldKeys {
    pub(crate) set: KeySet,
    /// Another set has another one, in this process.
    pub(crate) id: [u8; 8],
}

/// The keys of one source.
pub(crate) struct Keys {
    source: KeySource,
    held: ArcSwapOption<HeldKeys>,
    /// Until when they may be used ([`Moment::as_ns`]).
    good_until_ns: AtomicU64,
    /// When an unknown key last had the source asked.
    asked_ns: AtomicU64,
    wanted: Arc<Notify>,
    fetches: watch::Sender<Fetches>,
    waiting: Semaphore,
    last: Mutex<LastFetch>,
}

/// How often the source was asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fetches {
    pub(crate) read: u64,
    pub(crate) failed: u64,
    /// Those that are over, looks at a file that has not changed among them.
    ended: u64,
    is_under_way: bool,
}

#[derive(Default)]
struct LastFetch {
    success: Option<SystemTime>,
    error: Option<String>,
    failures: u32,
    /// Of a file.
    state: Option<FileState>,
}

/// What the operator sees of a source.
pub(crate) struct KeysStatus {
    pub(crate) source: String,
    pub(crate) keys: usize,
    pub(crate) fetches: Fetches,
    pub(crate) last_success: Option<SystemTime>,
    pub(crate) last_error: Option<String>,
}

impl Keys {
    fn new(source: &KeySource) -> Self {
        let keys = Self {
            source: source.clone(),
            held: ArcSwapOption::empty(),
            good_until_ns: AtomicU64::new(u64::MAX),
            asked_ns: AtomicU64::new(0),
            wanted: Arc::default(),
            // The first fetch is on its way: requests that come meanwhile wait for it.
            fetches: watch::Sender::new(Fetches { is_under_way: true, ..Fetches::default() }),
            waiting: Semaphore::new(MAX_WAITING),
            last: Mutex::default(),
        };
        if let KeysAt::File(path) = &source.at {
            let read = keys.read(path);
            keys.finish(read.map(|set| (set, None)));
        }
        keys
    }

    /// Those that may be used now.
    pub(crate) fn current(&self, now: Moment) -> Option<Arc<HeldKeys>> {
        let is_good = self.good_until_ns.load(Ordering::Relaxed) > now.as_ns();
        self.held.load_full().filter(|_| is_good)
    }

    /// Waits for a fetch that ends after this is called; `false` if there is none, as there was one just before.
    ///
    /// # Cancel safety
    /// Dropping it leaves the fetch to its end.
    pub(crate) async fn newer(&self, now: Moment) -> bool {
        let Ok(_one) = self.waiting.try_acquire() else { return false };
        let mut fetches = self.fetches.subscribe();
        let seen = *fetches.borrow_and_update();
        if !seen.is_under_way {
            if !self.may_ask(now) {
                return false;
            }
            self.wanted.notify_one();
        }
        let done = fetches.wait_for(|fetches| fetches.ended > seen.ended);
        matches!(tokio::time::timeout(WAIT, done).await, Ok(Ok(_)))
    }

    fn may_ask(&self, now: Moment) -> bool {
        let (asked, now) = (self.asked_ns.load(Ordering::Relaxed), now.as_ns());
        let is_due = asked == 0 || now.saturating_sub(asked) >= nanos(UNKNOWN_KEY_EVERY);
        is_due && self.asked_ns.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn status(&self) -> KeysStatus {
        let last = self.last.lock();
        KeysStatus {
            source: self.source.at.to_string(),
            keys: self.held.load().as_ref().map_or(0, |held| held.set.count()),
            fetches: *self.fetches.borrow(),
            last_success: last.success,
            last_error: last.error.clone(),
        }
    }

    /// Asks the source; how long until the next time.
    async fn fetch(&self, client: &mut Option<HttpClient>) -> Duration {
        let KeysAt::Url(url) = &self.source.at else {
            return self.look();
        };
        self.fetches.send_modify(|fetches| fetches.is_under_way = true);
        let fetched = match self.client(client) {
            Ok(client) => ask(client, url).await,
            Err(e) => Err(FetchError::Roots(e)),
        };
        if fetched.is_err() {
            *client = None; // the file of its authorities may be another one the next time
        }
        self.finish(fetched)
    }

    fn client<'a>(&self, client: &'a mut Option<HttpClient>) -> io::Result<&'a HttpClient> {
        let is_tls = matches!(&self.source.at, KeysAt::Url(url) if url.scheme_str() == Some("https"));
        let roots = match &self.source.ca {
            _ if !is_tls => Roots::None,
            Some(file) => Roots::File(file),
            None => Roots::System,
        };
        match client {
            Some(client) => Ok(client),
            None => Ok(client.insert(HttpClient::new(roots, BOUNDS)?)),
        }
    }

    /// Reads the file again if it has changed.
    fn look(&self) -> Duration {
        let KeysAt::File(path) = &self.source.at else { return LOOK_EVERY };
        let state = FileState::of(path).ok();
        if state.is_some() && state == self.last.lock().state {
            self.fetches.send_modify(|fetches| fetches.ended += 1); // requests may wait for it
            return LOOK_EVERY;
        }
        let read = self.read(path);
        self.finish(read.map(|set| (set, None)))
    }

    fn read(&self, path: &Path) -> Result<KeySet, FetchError> {
        self.last.lock().state = FileState::of(path).ok();
        Ok(check_keys(path)?)
    }

    /// Takes what was fetched, with the time for which it says it is fresh.
    fn finish(&self, fetched: Result<(KeySet, Option<Duration>), FetchError>) -> Duration {
        let is_failed = fetched.is_err();
        let next = match fetched {
            Ok((set, fresh)) => self.take(set, fresh),
            Err(e) => self.fail(&e),
        };
        self.fetches.send_modify(|fetches| {
            fetches.ended += 1;
            fetches.read += u64::from(!is_failed);
            fetches.failed += u64::from(is_failed);
            fetches.is_under_way = false;
        });
        match self.source.at {
            KeysAt::File(_) => LOOK_EVERY,
            KeysAt::Url(_) => next,
        }
    }

    fn take(&self, set: KeySet, fresh: Option<Duration>) -> Duration {
        static SETS: AtomicU64 = AtomicU64::new(0);

        let at = &self.source.at;
        let is_new = self.held.load().as_ref().is_none_or(|held| held.set != set);
        if is_new {
            tracing::info!("{} keys to verify tokens by from {at}", set.count());
            for skipped in set.skipped() {
                tracing::warn!("{at}: {skipped}; it is left out");
            }
            let id = SETS.fetch_add(1, Ordering::Relaxed).to_le_bytes();
            self.held.store(Some(Arc::new(HeldKeys { set, id })));
        }
        if let KeysAt::Url(_) = at {
            let until = Moment::now() + KEPT_WHILE_AWAY;
            self.good_until_ns.store(until.as_ns(), Ordering::Relaxed);
        }
        let mut last = self.last.lock();
        if last.error.take().is_some() && !is_new {
            tracing::info!("{at} gives keys again");
        }
        (last.success, last.failures) = (Some(SystemTime::now()), 0);
        let refresh = self.source.refresh;
        fresh.map_or(refresh, |fresh| fresh.clamp(MIN_REFRESH.min(refresh), refresh))
    }

    fn fail(&self, error: &FetchError) -> Duration {
        let at = &self.source.at;
        let mut last = self.last.lock();
        let text = error.to_string();
        let is_known = last.error.as_ref() == Some(&text);
        match self.held.load().is_some() {
            _ if is_known => tracing::debug!("there are no new keys from {at}: {text}"),
            true => {
                let hours = KEPT_WHILE_AWAY.as_secs() / 3600;
                tracing::warn!("there are no new keys from {at}: {text}; those of before are used for up to {hours} h");
            }
            false => tracing::error!(
                "there are no keys to verify tokens by from {at}: {text}; requests that need them get 503 until there are"
            ),
        }
        last.error = Some(text);
        let doubled = RETRY.0.saturating_mul(1 << last.failures.min(16));
        last.failures = last.failures.saturating_add(1);
        doubled.min(RETRY.1)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.wanted.notify_one(); // so that its task sees it
    }
}

async fn ask(client: &HttpClient, url: &Uri) -> Result<(KeySet, Option<Duration>), FetchError> {
    let request = Request::get(url.clone()).header(ACCEPT, "application/jwk-set+json, application/json");
    let request = request.body(Empty::<Bytes>::new()).map_err(|_| RequestError::Address(url.clone()))?;
    let answer = client.send(request).await?;
    match answer.status() {
        StatusCode::OK => Ok((KeySet::parse(answer.body())?, fresh_for(answer.headers()))),
        status => Err(FetchError::Status(status)),
    }
}

/// RFC 9111 §5.2.2: `None` if the answer does not say.
fn fresh_for(headers: &HeaderMap) -> Option<Duration> {
    let directives = ResponseDirectives::parse(headers);
    match directives.max_age {
        _ if directives.no_store || directives.no_cache => Some(Duration::ZERO),
        Seconds::Valid(seconds) => Some(Duration::from_secs(seconds)),
        Seconds::Absent | Seconds::Invalid => None,
    }
}

/// The keys of all routes. Dropping it ends the thread.
#[derive(Default)]
pub(crate) struct KeySources {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    all: FxHashMap<KeySource, Weak<Keys>>,
    /// Begun with the first source.
    thread: Option<FetchThread>,
}

impl KeySources {
    /// Those of a source. The first time they are read, or begun to be fetched.
    pub(crate) fn of(&self, source: &KeySource) -> Arc<Keys> {
        let mut known = self.known.lock();
        known.all.retain(|_, keys| keys.strong_count() > 0);
        if let Some(keys) = known.all.get(source).and_then(Weak::upgrade) {
            return keys;
        }
        let keys = Arc::new(Keys::new(source));
        known.all.insert(source.clone(), Arc::downgrade(&keys));
        if known.thread.is_none() {
            match FetchThread::start() {
                Ok(thread) => known.thread = Some(thread),
                Err(e) => tracing::error!("the thread that fetches keys could not be started: {e}"),
            }
        }
        if let Some(thread) = &known.thread {
            thread.follow(&keys);
        }
        keys
    }

    /// What the operator sees of them.
    pub(crate) fn status(&self) -> Vec<KeysStatus> {
        let keys: Vec<Arc<Keys>> = self.known.lock().all.values().filter_map(Weak::upgrade).collect();
        let mut all: Vec<KeysStatus> = keys.iter().map(|keys| keys.status()).collect();
        all.sort_by(|one, other| one.source.cmp(&other.source));
        all
    }
}

/// The thread on which keys are fetched.
struct FetchThread {
    /// As many as there are sources in the configuration.
    sources: Option<mpsc::UnboundedSender<Weak<Keys>>>,
    thread: Option<JoinHandle<()>>,
}

impl FetchThread {
    fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sources, mut new) = mpsc::unbounded_channel();
        let run = async move {
            let mut tasks = JoinSet::new();
            loop {
                tokio::select! {
                    source = new.recv() => match source {
                        Some(source) => drop(tasks.spawn(follow(source))),
                        None => return,
                    },
                    Some(_) = tasks.join_next(), if !tasks.is_empty() => {} // its routes are gone
                }
            }
        };
        let thread = std::thread::Builder::new().name("keys".into()).spawn(move || {
            runtime.block_on(run);
            runtime.shutdown_background(); // a look-up of a name may take its time
        })?;
        Ok(Self { sources: Some(sources), thread: Some(thread) })
    }

    fn follow(&self, keys: &Arc<Keys>) {
        if let Some(sources) = &self.sources {
            let _ = sources.send(Arc::downgrade(keys)); // it has ended, and said why
        }
    }
}

impl Drop for FetchThread {
    fn drop(&mut self) {
        self.sources = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that fetches keys panicked; this is a bug of Pilotlight");
        }
    }
}

/// Fetches the keys of a source for as long as a route has them.
async fn follow(keys: Weak<Keys>) {
    let mut client = None;
    loop {
        let Some(held) = keys.upgrade() else { return };
        let next = held.fetch(&mut client).await;
        let wanted = Arc::clone(&held.wanted);
        drop(held);
        let _ = tokio::time::timeout(next, wanted.notified()).await; // either way it is time
    }
}
