//! Watches the Sentinels: one at a time is listened to, and tells of a new primary and of replicas that come and go.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pilotlight_resp::Frame;
use tokio::time::timeout;

use crate::command::Command;
use crate::config::{Config, NodeAddress};
use crate::engine::single::Single;
use crate::error::ErrorKind;
use crate::net::connect::{Purpose, connect};
use crate::net::wire::Wire;
use crate::proto::asked::Asked;
use crate::proto::sentinel::{primary, replicas, sentinels, switched};
use crate::reply::Value;

/// The event of a failover.
const SWITCH: &str = "+switch-master";
/// Events after which everything is asked for anew. The Sentinel that leads a failover names the new primary when asked
/// as soon as that is promoted, yet says `+switch-master` only when the other replicas follow it, which may be never.
const OTHERS: [&str; 5] = ["+promoted-slave", "+slave", "+sdown", "-sdown", "+convert-to-slave"];
/// A silent Sentinel is pinged this often, and given up when it stays silent for another such time.
const PING_EVERY: Duration = Duration::from_secs(2);

/// Why a Sentinel is not listened to any more.
enum Ended {
    /// Nobody is interested any more.
    Dropped,
    Lost(String),
}

impl Single {
    /// Begins to watch the Sentinels, if there are any and that was not begun.
    pub(super) fn start(self: &Arc<Self>) {
        let mut watcher = self.watcher.lock();
        // It is begun again if the runtime of the one before was shut down.
        let is_watched = watcher.task.as_ref().is_some_and(|task| !task.is_finished());
        if self.finder().sentinels().is_none() || is_watched || watcher.is_closed {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            watcher.task = Some(runtime.spawn(watch(Arc::downgrade(self))).abort_handle());
        }
    }
}

/// Runs until the client is dropped or closed.
async fn watch(single: Weak<Single>) {
    let mut failures = 0;
    loop {
        let Some((config, sentinel)) = next(&single) else { return };
        match listen(&single, &config, &sentinel, &mut failures).await {
            Ended::Dropped => return,
            Ended::Lost(reason) => tracing::debug!(%sentinel, reason, "a Sentinel is not listened to any more"),
        }
        let Some(strong) = single.upgrade() else { return };
        strong.finder().sentinels().inspect(|sentinels| sentinels.order.lock().failed(&sentinel));
        drop(strong);
        failures += 1;
        tokio::time::sleep(config.reconnect.pause(failures, &mut fastrand::Rng::new())).await;
    }
}

/// Whom to listen to.
fn next(single: &Weak<Single>) -> Option<(Arc<Config>, NodeAddress)> {
    let single = single.upgrade()?;
    let sentinel = single.finder().sentinels()?.order.lock().addresses().into_iter().next()?;
    Some((Arc::clone(single.finder().config()), sentinel))
}

/// Listens to one Sentinel until it is lost. What happened before is asked for, after the subscription, so that nothing
/// falls between.
async fn listen(single: &Weak<Single>, config: &Config, sentinel: &NodeAddress, failures: &mut u32) -> Ended {
    let lost = |error: ErrorKind| Ended::Lost(error.to_string());
    let mut wire = match connect(config, sentinel, Purpose::Sentinel).await {
        Ok(connection) => Wire::new(connection),
        Err(error) => return Ended::Lost(error.to_string()),
    };
    let subscribe = OTHERS.iter().fold(Command::raw("SUBSCRIBE").arg(SWITCH), |command, &channel| command.arg(channel));
    if let Err(error) = wire.send_command(&subscribe).await {
        return lost(error);
    }
    let mut is_pinged = false;
    let mut is_looking = true;
    loop {
        if std::mem::take(&mut is_looking)
            && let Err(ended) = look(single, config, sentinel).await
        {
            return ended;
        }
        let frame = match timeout(PING_EVERY, wire.next_frame()).await {
            Ok(Ok(frame)) => frame,
            Ok(Err(error)) => return lost(error),
            Err(_) if is_pinged => return Ended::Lost("it is silent".to_owned()),
            Err(_) => {
                is_pinged = true;
                match wire.send_command(&Command::raw("PING")).await {
                    Ok(()) => continue,
                    Err(error) => return lost(error),
                }
            }
        };
        is_pinged = false;
        *failures = 0;
        let Some((channel, message)) = message(&frame) else { continue };
        let Some(single) = single.upgrade() else { return Ended::Dropped };
        let name = single.finder().sentinels().map(|sentinels| Arc::clone(&sentinels.master_name)).unwrap_or_default();
        if channel != SWITCH.as_bytes() {
            is_looking = true;
        } else if let Some(address) = switched(message, &name, &Asked::plain(sentinel)) {
            tracing::info!(master_name = &*name, %address, "Sentinel: a new primary");
            single.moved(&address, "Sentinel named another primary");
            is_looking = true;
        }
    }
}

/// Asks a Sentinel, on a connection of its own, for the primary, the replicas and the other Sentinels.
async fn look(single: &Weak<Single>, config: &Config, sentinel: &NodeAddress) -> Result<(), Ended> {
    let strong = || single.upgrade().ok_or(Ended::Dropped);
    let Some(name) = strong()?.finder().sentinels().map(|sentinels| Arc::clone(&sentinels.master_name)) else {
        return Err(Ended::Dropped);
    };
    let asked = Asked::plain(sentinel);
    let work = async {
        let connection = connect(config, sentinel, Purpose::Sentinel).await.map_err(|error| error.to_string())?;
        let mut wire = Wire::new(connection);
        let primary = primary(&ask(&mut wire, "GET-MASTER-ADDR-BY-NAME", &name).await?, &asked)
            .map_err(|error| error.to_string())?;
        let others =
            sentinels(&ask(&mut wire, "SENTINELS", &name).await?, &asked).map_err(|error| error.to_string())?;
        // `REPLICAS` is known since Redis 5.
        let replicas = replicas(&ask(&mut wire, "REPLICAS", &name).await?, &asked).unwrap_or_default();
        Ok::<_, String>((primary, others, replicas))
    };
    let (primary, others, replicas) = match timeout(config.connect_timeout, work).await {
        Ok(Ok(told)) => told,
        Ok(Err(problem)) => return Err(Ended::Lost(problem)),
        Err(_) => return Err(Ended::Lost("it does not answer".to_owned())),
    };
    let Some(primary) = primary else { return Err(Ended::Lost(format!("it knows no primary called {name:?}"))) };
    let single = strong()?;
    if let Some(sentinels) = single.finder().sentinels() {
        sentinels.order.lock().learn(sentinel, &others);
    }
    if single.finder().last().is_some_and(|last| last != primary) {
        single.moved(&primary, "Sentinel names another primary");
    }
    single.set_replicas(&replicas);
    Ok(())
}

async fn ask(wire: &mut Wire, what: &str, name: &str) -> Result<Value, String> {
    let command = Command::raw("SENTINEL").arg(what.to_owned()).arg(name.to_owned());
    wire.exchange(&command).await.map_err(|error| error.to_string())
}

/// Channel and payload of a message, pushed (RESP3) or sent as a reply (RESP2).
fn message(frame: &Frame) -> Option<(&[u8], &[u8])> {
    let (Frame::Push(items) | Frame::Reply(Value::Array(items))) = frame else { return None };
    match items.as_slice() {
        [Value::Bulk(kind), Value::Bulk(channel), Value::Bulk(payload)] if &**kind == b"message" => {
            Some((channel, payload))
        }
        _ => None,
    }
}
