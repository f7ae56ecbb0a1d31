//! Who the client is to the server, and where that is known from.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// A boxed future, as the traits of the configuration return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A user and a password or token. Neither `Debug` nor any message shows the password.
///
/// ```
/// use pilotlight_redis::config::Credentials;
///
/// let credentials = Credentials::new("ada", "secret");
/// assert_eq!(credentials.username(), Some("ada"));
/// assert!(!format!("{credentials:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    username: Option<Arc<str>>,
    password: Arc<str>,
}

/// Gives the credentials of new connections, and new ones to live connections.
///
/// ```
/// use pilotlight_redis::config::{BoxFuture, CredentialError, CredentialProvider, Credentials};
///
/// /// A password in a file, which may change.
/// struct FromFile;
///
/// impl CredentialProvider for FromFile {
///     fn credentials(&self) -> BoxFuture<'_, Result<Credentials, CredentialError>> {
///         Box::pin(async {
///             let text = std::fs::read_to_string("/run/secrets/redis");
///             let text = text.map_err(|error| CredentialError::new(error.to_string()))?;
///             Ok(Credentials::password(text.trim()))
///         })
///     }
/// }
/// ```
pub trait CredentialProvider: Send + Sync {
    /// The credentials to use now. It is asked at each connection attempt, within the connect time-out, and may be
    /// cancelled at any await point.
    fn credentials(&self) -> BoxFuture<'_, Result<Credentials, CredentialError>>;

    /// Credentials as they change: each new value is sent by `AUTH` on the live connections. `None`: they never change.
    fn changes(&self) -> Option<watch::Receiver<Option<Credentials>>> {
        None
    }

    /// Work that keeps the credentials fresh, if there is any. A client runs it while it lives, and drops it when it
    /// closes.
    fn maintain(self: Arc<Self>) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// A provider has no credentials. The text is the provider's, and shown: it must not hold secrets.
///
/// ```no_run
/// use pilotlight_redis::config::CredentialError;
///
/// fn password() -> Result<String, CredentialError> {
///     std::fs::read_to_string("/run/secrets/redis").map_err(|error| CredentialError::new(error.to_string()))
/// }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct CredentialError(Arc<str>);

/// Credentials that end: what a token service answers with.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The credentials.
    pub credentials: Credentials,
    /// For how long they are valid, from now. They are replaced when four fifths of it have passed.
    pub valid_for: Duration,
}

/// Credentials from a function that is asked again before they end, such as tokens of a cloud's identity service.
///
/// ```
/// use std::time::Duration;
///
/// use pilotlight_redis::Config;
/// use pilotlight_redis::config::{CredentialError, Credentials, Lease, RefreshingCredentials};
///
/// async fn token() -> Result<Lease, CredentialError> {
///     Ok(Lease { credentials: Credentials::new("ada", "token"), valid_for: Duration::from_secs(900) })
/// }
///
/// let config = Config::default().with_credentials(RefreshingCredentials::new(token));
/// ```
pub struct RefreshingCredentials<F> {
    fetch: F,
    /// Held while `fetch` runs: those who come meanwhile share its answer.
    fetching: tokio::sync::Mutex<()>,
    current: Mutex<Option<Current>>,
    changes: watch::Sender<Option<Credentials>>,
}

#[derive(Clone)]
struct Current {
    credentials: Credentials,
    refresh_at: Instant,
    ends_at: Instant,
}

/// Part of a lease after which it is renewed.
const RENEWAL: f64 = 0.8;
/// A shorter lease is not worth a busy loop.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// Pause after the first failed renewal; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A renewal that takes longer has failed.
const MAX_RENEWAL: Duration = Duration::from_secs(30);

impl Credentials {
    /// The user `username` with `password`.
    #[must_use]
    pub fn new(username: impl Into<Arc<str>>, password: impl Into<Arc<str>>) -> Self {
        Self { username: Some(username.into()), password: password.into() }
    }

    /// The default user with `password` (`requirepass`).
    #[must_use]
    pub fn password(password: impl Into<Arc<str>>) -> Self {
        Self { username: None, password: password.into() }
    }

    /// The user; `None` is the server's `default`.
    #[must_use]
    pub fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// The password, to be sent and never shown: a `MIGRATE` has to carry it to the other node.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).field("password", &"***").finish()
    }
}

/// Fixed credentials provide themselves.
impl CredentialProvider for Credentials {
    fn credentials(&self) -> BoxFuture<'_, Result<Credentials, CredentialError>> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}

impl CredentialError {
    /// An error with this text.
    #[must_use]
    pub fn new(message: impl Into<Arc<str>>) -> Self {
        Self(message.into())
    }
}

impl<F, Fut> RefreshingCredentials<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Lease, CredentialError>> + Send + 'static,
{
    /// Credentials from `fetch`. It is called first when a connection needs them, and one call runs at a time.
    #[must_use]
    pub fn new(fetch: F) -> Self {
        Self {
            fetch,
            fetching: tokio::sync::Mutex::default(),
            current: Mutex::default(),
            changes: watch::Sender::new(None),
        }
    }

    /// The current credentials if they are good enough, and new ones otherwise.
    async fn current_or_new(&self, is_good: impl Fn(&Current) -> bool) -> Result<Current, CredentialError> {
        let known = || self.current.lock().clone().filter(&is_good);
        if let Some(current) = known() {
            return Ok(current);
        }
        let _fetching = self.fetching.lock().await;
        if let Some(current) = known() {
            return Ok(current);
        }
        let Lease { credentials, valid_for } = (self.fetch)().await?;
        let (now, valid_for) = (Instant::now(), valid_for.max(SHORTEST_LEASE));
        let current = Current {
            credentials: credentials.clone(),
            refresh_at: now + valid_for.mul_f64(RENEWAL),
            ends_at: now + valid_for,
        };
        *self.current.lock() = Some(current.clone());
        self.changes.send_replace(Some(credentials));
        Ok(current)
    }

    async fn renew(&self) -> Result<Current, CredentialError> {
        let renewed = self.current_or_new(|current| Instant::now() < current.refresh_at);
        tokio::time::timeout(MAX_RENEWAL, renewed)
            .await
            .unwrap_or_else(|_| Err(CredentialError::new("no answer within 30 s")))
    }

    async fn keep_renewed(&self) {
        // Nobody needs any before the first connection does.
        if self.changes.subscribe().wait_for(Option::is_some).await.is_err() {
            return;
        }
        let mut pause = FIRST_PAUSE;
        loop {
            match self.renew().await {
                Ok(current) => {
                    pause = FIRST_PAUSE;
                    sleep_until(current.refresh_at).await;
                }
                Err(error) => {
                    tracing::warn!(%error, retry_in = ?pause, "cannot renew the credentials");
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

impl<F, Fut> CredentialProvider for RefreshingCredentials<F>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Lease, CredentialError>> + Send + 'static,
{
    fn credentials(&self) -> BoxFuture<'_, Result<Credentials, CredentialError>> {
        Box::pin(async { Ok(self.current_or_new(|current| Instant::now() < current.ends_at).await?.credentials) })
    }

    fn changes(&self) -> Option<watch::Receiver<Option<Credentials>>> {
        Some(self.changes.subscribe())
    }

    fn maintain(self: Arc<Self>) -> Option<BoxFuture<'static, ()>> {
        Some(Box::pin(async move { self.keep_renewed().await }))
    }
}

impl<F> fmt::Debug for RefreshingCredentials<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshingCredentials").finish_non_exhaustive()
    }
}

impl fmt::Debug for dyn CredentialProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialProvider")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    type Fetched = std::future::Ready<Result<Lease, CredentialError>>;

    /// Leases of ten seconds with the passwords `1`, `2`, …; the calls in `failing` fail.
    fn provider(failing: &'static [u32]) -> Arc<RefreshingCredentials<impl Fn() -> Fetched + Send + Sync + 'static>> {
        let calls = AtomicU32::new(0);
        Arc::new(RefreshingCredentials::new(move || {
            let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
            let lease =
                Lease { credentials: Credentials::password(call.to_string()), valid_for: Duration::from_secs(10) };
            std::future::ready(if failing.contains(&call) { Err(CredentialError::new("no token")) } else { Ok(lease) })
        }))
    }

    async fn secret(provider: &impl CredentialProvider) -> String {
        provider.credentials().await.map_or_else(|error| error.to_string(), |known| known.secret().to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_used_until_it_ends() {
        let provider = provider(&[2]);
        assert_eq!(secret(&*provider).await, "1");
        sleep(Duration::from_secs(9)).await;
        assert_eq!(secret(&*provider).await, "1");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(secret(&*provider).await, "no token");
        assert_eq!(secret(&*provider).await, "3");
    }

    #[tokio::test(start_paused = true)]
    async fn maintenance_renews_before_the_end_and_tells_it() {
        let provider = provider(&[2, 3]);
        let mut changes = provider.changes().unwrap();
        let work = Arc::clone(&provider).maintain().unwrap();
        let told = async {
            let mut seen = Vec::new();
            let begin = Instant::now();
            assert_eq!(secret(&*provider).await, "1");
            while seen.len() < 3 {
                changes.changed().await.unwrap();
                let password = changes.borrow_and_update().as_ref().unwrap().secret().to_owned();
                seen.push((password, begin.elapsed().as_secs()));
            }
            seen
        };
        let seen = tokio::select! { seen = told => seen, () = work => panic!("maintenance ended") };
        // Two failures after the first eight seconds cost one and two seconds.
        assert_eq!(seen, [("1".into(), 0), ("4".into(), 11), ("5".into(), 19)]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_fetch_serves_all_who_wait() {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let provider = RefreshingCredentials::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async {
                sleep(Duration::from_millis(10)).await;
                Ok(Lease { credentials: Credentials::password("token"), valid_for: Duration::from_secs(10) })
            }
        });
        let (one, other) = tokio::join!(secret(&provider), secret(&provider));
        assert_eq!((one.as_str(), other.as_str()), ("token", "token"));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
