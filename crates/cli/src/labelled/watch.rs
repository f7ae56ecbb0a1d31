//! Labels, while the gateway runs: containers come and go.

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use pilotlight_containers::{Engine, EngineError};
use pilotlight_gateway::{Asked, Emptying, Order};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::found::{Found, listed};
use super::text;

/// For which nothing has to become of containers until they are looked at: Compose makes several at once.
const SETTLES: Duration = Duration::from_millis(200);
/// After which they are looked at anyway.
const MAX_SETTLES: Duration = Duration::from_secs(5);
/// Between two tries to reach the engine: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Follows the engine whose labels count, if any does.
pub(crate) struct Follower {
    orders: mpsc::UnboundedSender<Order>,
    watch: Option<Watch>,
}

/// Ends when dropped.
struct Watch {
    socket: PathBuf,
    _stop: oneshot::Sender<()>,
}

impl Follower {
    /// One that sends its orders there.
    pub(crate) fn new(orders: mpsc::UnboundedSender<Order>) -> Self {
        Self { orders, watch: None }
    }

    /// From now on this engine, or none; says which labels were of no use.
    pub(crate) fn follow(&mut self, found: Option<&Found>, engine: Option<PathBuf>) {
        let Some(found) = found else { return };
        found.take_refused().iter().for_each(|why| tracing::warn!("{why}"));
        if engine == self.watch.as_ref().map(|watch| watch.socket.clone()) {
            return;
        }
        self.watch = engine.and_then(|socket| {
            Watch::start(socket, found.clone(), self.orders.clone())
                .inspect_err(|e| tracing::warn!("labels of containers are not followed: {e}"))
                .ok()
        });
    }

    /// No longer.
    pub(crate) fn stop(&mut self) {
        self.watch = None;
    }
}

impl Watch {
    /// Asks for a reload when labels declare something else, on a thread of its own.
    fn start(socket: PathBuf, found: Found, orders: mpsc::UnboundedSender<Order>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let engine = Engine::new(&socket);
        thread::Builder::new().name("labels".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {} // dropped, which is an error that means it
                    () = follow(&engine, &found, &orders) => {}
                }
            });
        })?;
        Ok(Self { socket, _stop: stop })
    }
}

async fn follow(engine: &Engine, found: &Found, orders: &mpsc::UnboundedSender<Order>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match until_it_ends(engine, found, orders, &mut pause).await {
            Ok(()) => tracing::debug!("the engine of containers has ended its events"),
            Err(error) => tracing::debug!(%error, "containers are not followed"),
        }
        sleep(pause).await;
        pause = MAX_PAUSE.min(pause * 2);
    }
}

/// Follows the events of an engine that is there.
async fn until_it_ends(
    engine: &Engine,
    found: &Found,
    orders: &mpsc::UnboundedSender<Order>,
    pause: &mut Duration,
) -> Result<(), EngineError> {
    let mut events = engine.events().await?; // before the first look, so that nothing is between the two
    *pause = FIRST_PAUSE;
    loop {
        look(engine, found, orders).await?;
        let mut is_new = false;
        while !is_new {
            let Some(event) = events.next().await? else { return Ok(()) };
            is_new = concerns(&event.action);
        }
        let settled = async {
            while let Ok(next) = timeout(SETTLES, events.next()).await {
                if next?.is_none() {
                    return Ok(());
                }
            }
            Ok(())
        };
        if let Ok(ended) = timeout(MAX_SETTLES, settled).await {
            ended?;
        }
    }
}

/// What changes which containers there are.
fn concerns(action: &str) -> bool {
    matches!(action, "create" | "destroy" | "remove" | "rename")
}

async fn look(engine: &Engine, found: &Found, orders: &mpsc::UnboundedSender<Order>) -> Result<(), EngineError> {
    let groups = text::groups(&listed(engine).await?);
    if found.is(&groups) {
        return Ok(());
    }
    tracing::info!(services = groups.len(), "labels of containers declare something else");
    let (reply, told) = oneshot::channel();
    if orders.send(Order { asked: Asked::Reload(Emptying::Refused), reply }).is_err() {
        pending::<()>().await; // the gateway stops
    }
    let _ = told.await; // what becomes of it is logged
    Ok(())
}
