//! The faults, one at a time, each healed before the next.

use std::time::{Duration, Instant};

use pilotlight_testkit::{Accepting, Cluster, Ending, Failover, FaultProxy, Node, SlotMove};

use super::work::tag;
use crate::bed::{Bed, Proxies, slot_of};

/// Whether acknowledged writes may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Never,
    Possible,
}

/// One fault, and its end; its name.
pub(crate) async fn one(bed: &Bed, proxies: &Proxies, loss: Loss, rng: &mut fastrand::Rng) -> &'static str {
    let node = rng.usize(..proxies.all().len());
    let proxy = &proxies.all()[node];
    let kinds = if loss == Loss::Possible { 14 } else { 11 };
    match rng.u32(..kinds) {
        0 => {
            bed.run(move |cluster| cluster.nodes()[node].server().client_kill_all().unwrap()).await;
            "client kill"
        }
        1 => {
            let delay = Duration::from_millis(rng.u64(1..30));
            proxy.set(|faults| (faults.to_server.delay, faults.to_client.delay) = (delay, delay));
            heal_after(proxy, rng, 300).await;
            "delay"
        }
        2 => {
            let cut = Some((rng.u64(1..4000), if rng.bool() { Ending::Close } else { Ending::Reset }));
            let is_reply = rng.bool();
            proxy.set(
                |faults| if is_reply { faults.to_client.cut_after = cut } else { faults.to_server.cut_after = cut },
            );
            heal_after(proxy, rng, 100).await;
            "cut in mid-frame"
        }
        3 => {
            // The connections there are; new ones work.
            let open: Vec<_> = proxy.connections().into_iter().filter(|connection| connection.is_open()).collect();
            let to_client_only = rng.bool();
            for connection in &open {
                connection
                    .set(|faults| (faults.to_client.is_paused, faults.to_server.is_paused) = (true, !to_client_only));
            }
            pause(rng, 2000).await;
            for connection in &open {
                connection.set(|faults| *faults = pilotlight_testkit::Faults::default());
            }
            "half open"
        }
        4 => {
            let drip = Some(Duration::from_millis(1));
            proxy.set(|faults| (faults.to_client.drip, faults.to_server.drip) = (drip, None));
            heal_after(proxy, rng, 300).await;
            "drip"
        }
        5 => {
            proxy.end_all(Ending::Reset);
            "reset"
        }
        6 | 7 => {
            let (accepting, name) =
                if rng.bool() { (Accepting::Refuse, "refuse") } else { (Accepting::Swallow, "swallow") };
            proxy.set_accepting(accepting).await.unwrap();
            proxy.end_all(Ending::Close);
            pause(rng, 700).await;
            proxy.set_accepting(Accepting::Forward).await.unwrap();
            proxy.end_all(Ending::Close);
            name
        }
        8 => {
            let (count, first, seed) = (rng.u64(1..4), rng.usize(..super::WORKERS), rng.u64(..));
            bed.run(move |cluster| move_some(cluster, count, first, &mut fastrand::Rng::with_seed(seed))).await;
            "slot migration"
        }
        9 => {
            hand_over(bed, Failover::Graceful, node).await;
            "graceful failover"
        }
        10 => {
            // Shorter than the nodes' own patience.
            bed.nodes()[node].server().stop().unwrap();
            pause(rng, 600).await;
            bed.nodes()[node].server().cont().unwrap();
            "short stop"
        }
        11 => {
            hand_over(bed, if rng.bool() { Failover::Takeover } else { Failover::Force }, node).await;
            "takeover"
        }
        12 => {
            replace(bed, node, |node| node.server().kill().unwrap(), |node| node.server().restart().unwrap()).await;
            "kill"
        }
        _ => {
            replace(bed, node, |node| node.server().stop().unwrap(), |node| node.server().cont().unwrap()).await;
            "long stop"
        }
    }
}

async fn heal_after(proxy: &FaultProxy, rng: &mut fastrand::Rng, max_ms: u64) {
    pause(rng, max_ms).await;
    proxy.set(|faults| *faults = pilotlight_testkit::Faults::default());
}

async fn pause(rng: &mut fastrand::Rng, max_ms: u64) {
    tokio::time::sleep(Duration::from_millis(rng.u64(max_ms / 4..max_ms))).await;
}

fn move_some(cluster: &Cluster, count: u64, first: usize, rng: &mut fastrand::Rng) {
    for number in 0..count as usize {
        let slot = slot_of(tag((first + number) % super::WORKERS).as_bytes());
        let owner = |slot| known(|| cluster.node_for_slot(slot));
        let source = owner(slot);
        let masters: Vec<&Node> =
            [0, 5461, 10_923, 16_383].into_iter().map(owner).filter(|node| node.id() != source.id()).collect();
        let target = masters[rng.usize(..masters.len())];
        let begin = || known(|| cluster.begin_move(slot, target));
        // While a node imports a slot it ignores a new owner of that slot. So the import is cancelled, the node is
        // given time to learn the owner, and the move begins anew.
        let again = || {
            let _ = target.server().command(&["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]);
            std::thread::sleep(Duration::from_millis(500));
            begin()
        };
        let mut step = begin();
        std::thread::sleep(Duration::from_millis(rng.u64(..30)));
        migrate(&mut step, again, |step| step.migrate_keys(1).map(drop));
        std::thread::sleep(Duration::from_millis(rng.u64(..30)));
        migrate(&mut step, again, SlotMove::migrate_all);
        step.finish().unwrap();
    }
}

/// On a loaded machine nodes take each other for dead now and then: for a moment a slot has no owner, or a primary no
/// replica.
fn known<T>(find: impl Fn() -> Result<T, pilotlight_testkit::Error>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match find() {
            Ok(found) => return found,
            Err(error) => assert!(error.to_string().starts_with("no node ") && Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Moves keys. On a loaded machine nodes take each other for dead now and then: then they take none, and the source may
/// have been replaced, whose replica goes on.
fn migrate<'c>(
    step: &mut SlotMove<'c>,
    again: impl Fn() -> SlotMove<'c>,
    migrate: impl Fn(&SlotMove<'c>) -> Result<(), pilotlight_testkit::Error>,
) {
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(error) = migrate(step) {
        let why = error.to_string();
        let replaced = why.contains("MOVED") || why.contains("not served");
        assert!((replaced || why.contains("CLUSTERDOWN")) && Instant::now() < end, "{why}");
        std::thread::sleep(Duration::from_millis(20));
        if replaced {
            *step = again();
        }
    }
}

/// The shard of a node gets its replica as its primary.
async fn hand_over(bed: &Bed, how: Failover, node: usize) {
    bed.run(move |cluster| {
        let replica = replica_beside(cluster, node);
        // Refused while the replica is not connected: then it is no fault this time.
        if cluster.failover(replica, how).is_ok() {
            cluster.wait_until_agreed().unwrap();
        }
    })
    .await;
}

/// Takes the primary of a node's shard away until another one has its place.
async fn replace(bed: &Bed, node: usize, harm: fn(&Node), heal: fn(&Node)) {
    bed.run(move |cluster| {
        let replica = replica_beside(cluster, node);
        let primary = cluster.primary_of(replica).unwrap();
        harm(primary);
        let promoted = cluster.wait_for_promotion(&[replica]).map(|_| ());
        heal(primary);
        promoted.unwrap();
        cluster.wait_until_agreed().unwrap();
    })
    .await;
}

fn replica_beside(cluster: &Cluster, node: usize) -> &Node {
    let node = &cluster.nodes()[node];
    match cluster.primary_of(node) {
        Ok(_) => node,
        Err(_) => known(|| cluster.replica_of(node)),
    }
}
