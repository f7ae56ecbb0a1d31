//! What a client tells of itself: a snapshot of counters, to be read, printed as a table, or exported.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::proto::topology::Role;

/// A client at one moment. Counters are since it was made. Its `Display` is a table, a line for each connection.
///
/// Taking it costs commands nothing: lanes count behind locks that they hold anyway, the rest is counted where
/// something went wrong.
///
/// ```no_run
/// # fn example(client: &pilotlight_redis::Client) {
/// let stats = client.stats();
/// println!("{stats}");
/// for lane in &stats.lanes {
///     println!("{}: {} commands", lane.node, lane.snapshot.counters.commands);
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// The connections, by node.
    pub lanes: Vec<LaneStats>,
    /// `MOVED` and the like that were followed.
    pub redirects_moved: u64,
    /// `ASK` that were followed.
    pub redirects_ask: u64,
    /// Commands sent again for other reasons.
    pub retries: u64,
    /// The cluster's topology; `None`: it is no cluster.
    pub topology: Option<TopologyStats>,
    /// Connections that are not shared.
    pub pool: PoolStats,
    /// The caches that were made from this client and are still used.
    pub caches: Vec<CacheStats>,
}

/// One connection of a client at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStats {
    /// The node, as `host:port`.
    pub node: Arc<str>,
    /// What it is taken for.
    pub role: Role,
    /// Which of the node's lanes.
    pub lane: usize,
    /// Its numbers.
    pub snapshot: Snapshot,
}

/// A lane at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Since the lane began.
    pub counters: Counters,
    /// Commands not yet written.
    pub queued: usize,
    /// Commands whose replies are awaited.
    pub in_flight: usize,
    /// Of [`max_queued_bytes`](crate::Config::max_queued_bytes).
    pub budget_used_bytes: usize,
    /// Waiters, including those whose callers have left before the reply.
    pub cells_in_use: usize,
    /// Whether there is a connection.
    pub is_connected: bool,
    /// How long the node took to answer a `PING` lately, on average: on an idle connection, or with
    /// [`ReadFrom::LowestLatency`](crate::config::ReadFrom::LowestLatency) on any. `None`: it was not measured on this
    /// connection.
    pub latency: Option<Duration>,
}

/// What a lane has done so far. Plain numbers behind the lane's lock; a snapshot costs nobody anything.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Commands accepted.
    pub commands: u64,
    /// Waves written: calls to the kernel for one or many commands.
    pub waves: u64,
    /// Commands that their caller wrote itself because the lane was idle.
    pub inline_writes: u64,
    /// Reads that brought something.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Replies whose callers had gone.
    pub abandoned: u64,
    /// Deadlines that passed.
    pub timeouts: u64,
    /// Commands that gave way to later ones ([`Overload::Shed`](crate::config::Overload::Shed)).
    pub shed: u64,
    /// Connections made.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub connect_failures: u64,
    /// Connections lost.
    pub disconnects: u64,
    /// Pushes received.
    pub pushes: u64,
}

/// A cache at one moment. Counters are since it was made. In OpenTelemetry (Redis' names): `redis.client.csc.requests`
/// by `redis.client.csc.result` are `hits`, and `misses` with `shared`; `redis.client.csc.items` are `entries`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStats {
    /// Calls answered without the server.
    pub hits: u64,
    /// Requests to the server.
    pub misses: u64,
    /// Calls that waited for a request of another one.
    pub shared: u64,
    /// Keys of which servers told that they changed.
    pub invalidations: u64,
    /// How often all was forgotten: `FLUSHALL` and the like, and [`clear`](crate::Cached::clear).
    pub flushes: u64,
    /// Connections lost, with all that had been read on them.
    pub losses: u64,
    /// Replies kept, with those that will not be used any more and are not evicted yet.
    pub entries: usize,
    /// Their memory in bytes.
    pub bytes: u64,
    /// The cache's connections.
    pub lanes: Vec<LaneStats>,
}

/// Connections that are not shared, at one moment: of blocking commands, and those that callers have for themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// By node: those that there are, or were not long ago.
    pub nodes: Vec<PoolNodeStats>,
    /// How often one was lent.
    pub leases: u64,
    /// How often somebody had to wait since as many as
    /// [`max_blocking_connections`](crate::Config::max_blocking_connections) were in use.
    pub waits: u64,
    /// Connections made.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub connect_failures: u64,
}

/// The connections to one node that are not shared, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolNodeStats {
    /// The node, as `host:port`.
    pub node: Arc<str>,
    /// What it is taken for.
    pub role: Role,
    /// Lent, or about to be.
    pub in_use: usize,
    /// Kept for the next user.
    pub idle: usize,
    /// Callers that wait for one.
    pub waiting: usize,
}

/// The topology of a cluster at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyStats {
    /// How often it was asked for, and answered.
    pub refreshes: u64,
    /// How often nobody answered.
    pub failures: u64,
    /// How often it was another one than before.
    pub changes: u64,
    /// Time since the last answer; `None`: there was none yet.
    pub age: Option<Duration>,
}

/// What is counted for all lanes together.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) moved: AtomicU64,
    pub(crate) asked: AtomicU64,
    pub(crate) retries: AtomicU64,
}

impl Totals {
    pub(crate) fn add_one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

const HEADS: [&str; 15] = [
    "node",
    "role",
    "lane",
    "state",
    "commands",
    "waves",
    "inline",
    "queued",
    "in flight",
    "read",
    "written",
    "timeouts",
    "connects",
    "losses",
    "pushes",
];

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> =
            std::iter::once(HEADS.map(str::to_owned)).chain(self.lanes.iter().map(LaneStats::row)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: [usize; HEADS.len()] = std::array::from_fn(width);
        for row in &rows {
            write!(f, "{:<1$}  {2:<3$}", row[0], widths[0], row[1], widths[1])?;
            for column in 2..HEADS.len() {
                write!(f, "  {:>1$}", row[column], widths[column])?;
            }
            writeln!(f)?;
        }
        let Self { redirects_moved, redirects_ask, retries, .. } = self;
        write!(f, "redirects {redirects_moved} moved, {redirects_ask} ask; retries {retries}")?;
        if let Some(TopologyStats { refreshes, failures, changes, age }) = &self.topology {
            write!(f, "; topology refreshed {refreshes} times ({failures} failed), changed {changes} times")?;
            if let Some(age) = age {
                write!(f, ", {:.1} s old", age.as_secs_f64())?;
            }
        }
        if self.pool.leases + self.pool.connect_failures > 0 {
            write!(f, "\n{}", self.pool)?;
        }
        self.caches.iter().try_for_each(|cache| write!(f, "\n{cache}"))
    }
}

impl fmt::Display for PoolStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&PoolNodeStats) -> usize| self.nodes.iter().map(of).sum::<usize>();
        let (in_use, idle, waiting) = (sum(|it| it.in_use), sum(|it| it.idle), sum(|it| it.waiting));
        let Self { leases, waits, connects, connect_failures, .. } = self;
        write!(
            f,
            "own connections {in_use} in use, {idle} idle, {waiting} awaited; lent {leases} times ({waits} after a wait), "
        )?;
        write!(f, "made {connects} ({connect_failures} failed)")
    }
}

impl fmt::Display for CacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hits, misses, shared, invalidations, flushes, losses, entries, bytes: size, .. } = self;
        let calls = hits + misses + shared;
        let rate = if calls == 0 { 0.0 } else { 100.0 * *hits as f64 / calls as f64 };
        write!(
            f,
            "cache {rate:.1} % hits of {calls} calls ({hits} hits, {misses} misses, {shared} shared), {entries} replies in {}, ",
            bytes(*size)
        )?;
        write!(f, "{invalidations} invalidations, {flushes} flushes, {losses} connections lost")
    }
}

impl LaneStats {
    fn row(&self) -> [String; HEADS.len()] {
        let Snapshot { counters, .. } = self.snapshot;
        [
            self.node.to_string(),
            match self.role {
                Role::Primary => "primary".to_owned(),
                Role::Replica => "replica".to_owned(),
            },
            self.lane.to_string(),
            if self.snapshot.is_connected { "up" } else { "down" }.to_owned(),
            counters.commands.to_string(),
            counters.waves.to_string(),
            counters.inline_writes.to_string(),
            self.snapshot.queued.to_string(),
            self.snapshot.in_flight.to_string(),
            bytes(counters.bytes_read),
            bytes(counters.bytes_written),
            counters.timeouts.to_string(),
            counters.connects.to_string(),
            counters.disconnects.to_string(),
            counters.pushes.to_string(),
        ]
    }
}

/// A size with a unit, four digits at most.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(node: &str, role: Role, commands: u64) -> LaneStats {
        let counters = Counters { commands, bytes_read: commands * 100, ..Counters::default() };
        let snapshot = Snapshot {
            counters,
            queued: 0,
            in_flight: 3,
            budget_used_bytes: 0,
            cells_in_use: 3,
            is_connected: true,
            latency: None,
        };
        LaneStats { node: node.into(), role, lane: 0, snapshot }
    }

    #[test]
    fn the_table_is_aligned() {
        let stats = Stats {
            lanes: vec![
                lane("10.0.0.1:6379", Role::Primary, 7),
                lane("cache-2.example.org:6380", Role::Replica, 123_456_789),
            ],
            redirects_moved: 3,
            redirects_ask: 1,
            retries: 2,
            topology: Some(TopologyStats {
                refreshes: 5,
                failures: 1,
                changes: 2,
                age: Some(Duration::from_millis(12_340)),
            }),
            pool: PoolStats { leases: 9, waits: 1, connects: 3, ..PoolStats::default() },
            caches: Vec::new(),
        };
        let expected = "\
node                      role     lane  state   commands  waves  inline  queued  in flight      read  written  timeouts  connects  losses  pushes
10.0.0.1:6379             primary     0     up          7      0       0       0          3     700 B      0 B         0         0       0       0
cache-2.example.org:6380  replica     0     up  123456789      0       0       0          3  11.5 GiB      0 B         0         0       0       0
redirects 3 moved, 1 ask; retries 2; topology refreshed 5 times (1 failed), changed 2 times, 12.3 s old
own connections 0 in use, 0 idle, 0 awaited; lent 9 times (1 after a wait), made 3 (0 failed)";
        assert_eq!(stats.to_string(), expected);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            [0, 1023, 1024, 1536, 1 << 20, (1 << 30) - 1, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 GiB", "16777216.0 TiB"]
        );
    }
}
