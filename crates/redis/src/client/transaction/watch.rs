//! Optimistic transactions: read, decide, write, and again if somebody else wrote meanwhile.

use std::time::Duration;

use crate::client::dedicated::Dedicated;
use crate::client::handle::Client;
use crate::command::{Args, Command};
use crate::commands::spec;
use crate::engine::route::Route;
use crate::error::table::Remedy;
use crate::error::{Aborted, Error, ErrorKind, Misuse, Ran};
use crate::proto::redirect::Redirect;
use crate::proto::retry::Refresh;

/// Attempts before a transaction whose keys are changed all the time is given up.
const MAX_ATTEMPTS: u32 = 32;

/// Bound of the first pause; it doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(100);

impl Client {
    /// Watches `keys` and calls `attempt`, which reads what it needs and runs a [transaction](Dedicated::transaction)
    /// on the connection that it is given; if somebody else has changed one of the keys meanwhile, that transaction is
    /// not run, and `attempt` is called again: at most 32 times, with growing pauses between. In a cluster all keys
    /// must be in one slot.
    ///
    /// ```no_run
    /// # use pilotlight_redis::{Client, Commands, Dedicated, Error};
    /// # async fn example(client: &Client) -> Result<(), Error> {
    /// let balance: i64 = client
    ///     .watch("account", async |connection: &mut Dedicated| {
    ///         let balance: i64 = connection.get("account").read_as::<Option<i64>>().await?.unwrap_or(0);
    ///         let mut transaction = connection.transaction();
    ///         transaction.set("account", balance * 2);
    ///         transaction.run().await?;
    ///         Ok(balance * 2)
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of `attempt`; [`Aborted::Changed`] after the last attempt.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection. A transaction that was sent may run.
    pub async fn watch<'k, T, F>(&self, keys: impl Args<'k>, mut attempt: F) -> Result<T, Error>
    where
        F: AsyncFnMut(&mut Dedicated) -> Result<T, Error>,
    {
        let watch = Command::new(&spec::WATCH).args(keys);
        let route = self.route_of(&watch)?;
        let mut attempts = 0;
        let mut idle = None;
        loop {
            attempts += 1;
            let mut connection = match idle.take() {
                Some(connection) => connection,
                None => self.dedicated_on(route.clone()).await?,
            };
            let error = match watched(&mut connection, watch.clone(), &mut attempt).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let is_changed = matches!(error.kind(), ErrorKind::Aborted(Aborted::Changed { .. }));
            if attempts == MAX_ATTEMPTS || !(is_changed || self.may_go_elsewhere(&connection, &error)) {
                return Err(if is_changed {
                    Error::new(Aborted::Changed { attempts }, Ran::NotSent, "EXEC")
                } else {
                    error
                });
            }
            if is_changed && connection.is_open() {
                idle = Some(connection);
            }
            let pause = MIN_PAUSE.saturating_mul(1_u32.checked_shl(attempts - 1).unwrap_or(u32::MAX)).min(MAX_PAUSE);
            tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
        }
    }

    fn route_of(&self, watch: &Command<'_>) -> Result<Route, Error> {
        let misuse = |misuse| Error::new(misuse, Ran::NotSent, "WATCH");
        let Some(first) = watch.slot() else {
            return Err(misuse(Misuse::Arguments("there is no key to watch".into())));
        };
        let mut slots = watch.arguments().iter().map(Command::slot_of);
        match slots.find(|&slot| slot != first) {
            Some(other) if self.core().is_cluster() => {
                Err(misuse(Misuse::CrossSlot { first: first.number(), second: other.number() }))
            }
            _ => Ok(Route::Primary(first)),
        }
    }

    /// Whether the server refused because the slot is, or will be, at another node. What the redirect says is noted.
    pub(crate) fn may_go_elsewhere(&self, connection: &Dedicated, error: &Error) -> bool {
        let Some(server) = error.server().filter(|_| error.ran() == Ran::NotSent) else { return false };
        let address = connection.lease().lane().address();
        match error.judge(server).remedy {
            Remedy::Redirect => {
                if let Ok(Some(to)) = Redirect::detect(server, &self.core().asked(&address))
                    && let Some(slot) = to.moved()
                {
                    self.core().redirected(&to, Some(slot));
                }
                true
            }
            Remedy::Wait => true,
            Remedy::Refresh | Remedy::Reconnect => {
                self.core().want_refresh(Refresh::Urgent);
                true
            }
            Remedy::GiveUp | Remedy::WaitIfReading | Remedy::ReconnectOnce => false,
        }
    }
}

/// One attempt. What it leaves watched is not watched any more when it succeeded.
async fn watched<T, F>(connection: &mut Dedicated, watch: Command<'_>, attempt: &mut F) -> Result<T, Error>
where
    F: AsyncFnMut(&mut Dedicated) -> Result<T, Error>,
{
    connection.execute(watch).await?;
    let value = attempt(connection).await?;
    if connection.is_watching() && connection.is_open() {
        // If that fails, the connection is lost, and with it what it watched.
        let _ = connection.unwatch().await;
    }
    Ok(value)
}
