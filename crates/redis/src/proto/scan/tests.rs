//! A cluster in memory whose slots move while it is scanned.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fastrand::Rng;

use super::*;
use crate::proto::asked::Asked;
use crate::reply::Value;

/// Slots are moved in so many blocks.
const BLOCKS: u16 = 16;
const BUCKETS: u64 = 8;

/// Servers with their keys. A cursor is the number of a bucket; each run of a server has its own order of keys.
struct Model {
    servers: Vec<Server>,
    /// Block → server.
    owners: Vec<usize>,
    /// Block on its way → where to.
    moving: BTreeMap<usize, usize>,
}

struct Server {
    keys: BTreeSet<String>,
    seed: u64,
}

impl Model {
    fn new(servers: usize, keys: usize) -> Self {
        let server = |seed| Server { keys: BTreeSet::new(), seed };
        let mut model = Self {
            servers: (0..servers as u64).map(server).collect(),
            owners: (0..usize::from(BLOCKS)).map(|block| block % servers).collect(),
            moving: BTreeMap::new(),
        };
        for key in (0..keys).map(|key| format!("key:{key}")) {
            let owner = model.owners[block_of(&key)];
            model.servers[owner].keys.insert(key);
        }
        model
    }

    fn topology(&self) -> Topology {
        let width = i64::from(crate::proto::slot::SLOTS / BLOCKS);
        let range = |(block, &owner): (usize, &usize)| {
            let node = Value::Array(vec![text(&format!("s{owner}")), Value::Integer(1), text(&format!("id{owner}"))]);
            let first = block as i64 * width;
            Value::Array(vec![Value::Integer(first), Value::Integer(first + width - 1), node])
        };
        let seed = NodeAddress::tcp("seed", 1);
        Topology::from_slots(&Value::Array(self.owners.iter().enumerate().map(range).collect()), &Asked::plain(&seed))
            .unwrap()
    }

    fn survey(&self, scan: &mut ClusterScan) {
        let moving = Slot::all()
            .filter(|slot| self.moving.contains_key(&usize::from(slot.number() / (16_384 / BLOCKS))))
            .collect();
        let run_id = |node: &Node| Some(self.servers[index_of(&node.announced)].seed.to_string().into());
        scan.surveyed(&Survey { topology: &self.topology(), moving: &moving, run_id: &run_id });
    }

    fn page(&self, node: &NodeAddress, cursor: u64) -> (u64, Vec<String>) {
        let server = &self.servers[index_of(node)];
        let in_bucket = |key: &&String| hash(server.seed, key) % BUCKETS == cursor;
        ((cursor + 1) % BUCKETS, server.keys.iter().filter(in_bucket).cloned().collect())
    }

    /// Something happens: a block moves at once, begins, goes on or ends to move key by key, or a server restarts.
    fn change(&mut self, rng: &mut Rng) -> Option<usize> {
        let (block, target) = (rng.usize(..self.owners.len()), rng.usize(..self.servers.len()));
        match rng.u8(..5) {
            0 if !self.moving.contains_key(&block) => {
                self.move_keys(block, target, usize::MAX);
                self.owners[block] = target;
            }
            1 if self.owners[block] != target => _ = self.moving.entry(block).or_insert(target),
            2 => {
                for (block, target) in self.moving.clone() {
                    self.move_keys(block, target, 3);
                }
            }
            3 => self.settle(),
            4 => {
                self.servers[target].seed += 100;
                return Some(target);
            }
            _ => {}
        }
        None
    }

    /// All that moves arrives.
    fn settle(&mut self) {
        for (block, target) in std::mem::take(&mut self.moving) {
            self.move_keys(block, target, usize::MAX);
            self.owners[block] = target;
        }
    }

    fn move_keys(&mut self, block: usize, target: usize, most: usize) {
        let owner = self.owners[block];
        let keys: Vec<String> =
            self.servers[owner].keys.iter().filter(|key| block_of(key) == block).take(most).cloned().collect();
        for key in keys {
            self.servers[owner].keys.remove(&key);
            self.servers[target].keys.insert(key);
        }
    }

    fn all_keys(&self) -> BTreeSet<String> {
        self.servers.iter().flat_map(|server| server.keys.iter().cloned()).collect()
    }
}

fn text(text: &str) -> Value {
    Value::Bulk(Bytes::copy_from_slice(text.as_bytes()))
}

fn index_of(node: &NodeAddress) -> usize {
    node.host().unwrap()[1..].parse().unwrap()
}

fn block_of(key: &str) -> usize {
    usize::from(Slot::of(key.as_bytes()).number() / (16_384 / BLOCKS))
}

fn hash(seed: u64, key: &str) -> u64 {
    key.bytes().fold(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    }) >> 7
}

/// Scans while `disturb` changes things before each step, for at most 2000 steps; then the cluster rests until the scan
/// is done.
fn scan(model: &mut Model, mut disturb: impl FnMut(&mut Model, &mut ClusterScan)) -> Vec<String> {
    let (mut scan, mut found) = (ClusterScan::new(), Vec::new());
    for count in 0..100_000 {
        if count < 2000 {
            disturb(model, &mut scan);
        }
        match scan.step() {
            Step::Survey => model.survey(&mut scan),
            Step::Pause => {
                model.settle();
                model.survey(&mut scan);
            }
            Step::Scan { node, cursor } => {
                let (next, keys) = model.page(node, cursor);
                found.extend(keys.into_iter().filter(|key| scan.wants(key.as_bytes())));
                scan.page(next);
            }
            Step::Done => return found,
        }
    }
    panic!("the scan does not end: {scan}");
}

#[track_caller]
fn check_complete(model: &Model, found: Vec<String>) {
    let found: BTreeSet<String> = found.into_iter().collect();
    let missed: Vec<String> = model.all_keys().difference(&found).cloned().collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn a_cluster_at_rest_is_scanned_once_without_repetitions() {
    let mut model = Model::new(3, 500);
    let found = scan(&mut model, |_, _| {});
    assert_eq!(found.len(), 500);
    check_complete(&model, found);
}

#[test]
fn a_block_that_moves_behind_the_scan_is_visited_again() {
    let mut model = Model::new(2, 500);
    let mut steps = 0;
    let found = scan(&mut model, |model, _| {
        steps += 1;
        // In the middle of the second node: from it to the first, which is already done.
        if steps == 14 {
            model.move_keys(1, 0, usize::MAX);
            model.owners[1] = 0;
        }
    });
    check_complete(&model, found);
}

#[test]
fn nothing_is_visited_while_it_is_on_its_way() {
    let mut model = Model::new(2, 500);
    model.moving.insert(0, 1);
    let mut pauses = 0;
    let found = scan(&mut model, |model, scan| {
        if scan.step() == Step::Pause {
            pauses += 1;
            assert_eq!(scan.remaining().to_string(), "0-1023");
        }
        model.move_keys(0, 1, 1);
    });
    assert_eq!(pauses, 1);
    check_complete(&model, found);
}

#[test]
fn a_restarted_server_is_scanned_from_its_beginning() {
    let mut model = Model::new(1, 500);
    let mut steps = 0;
    let found = scan(&mut model, |model, scan| {
        steps += 1;
        if steps == 5 {
            model.servers[0].seed = 77;
            scan.node_lost();
        }
    });
    check_complete(&model, found);
}

#[test]
fn a_scan_resumed_after_a_restart_begins_that_node_anew() {
    let mut model = Model::new(1, 500);
    let mut steps = 0;
    let found = scan(&mut model, |model, scan| {
        steps += 1;
        if steps == 5 {
            *scan = scan.to_string().parse().unwrap();
            model.servers[0].seed = 77;
        }
    });
    check_complete(&model, found);
}

#[test]
fn slots_without_an_owner_are_waited_for() {
    let seed = NodeAddress::tcp("seed", 1);
    let node = Value::Array(vec![text("a"), Value::Integer(1), text("ida")]);
    let half = Value::Array(vec![Value::Array(vec![Value::Integer(0), Value::Integer(99), node])]);
    let topology = Topology::from_slots(&half, &Asked::plain(&seed)).unwrap();
    let survey = Survey { topology: &topology, moving: &SlotSet::new(), run_id: &|_| None };
    let mut scan = ClusterScan::new();
    scan.surveyed(&survey);
    assert_eq!(scan.step(), Step::Scan { node: &NodeAddress::tcp("a", 1), cursor: 0 });
    scan.page(0);
    assert_eq!(scan.step(), Step::Survey);
    scan.surveyed(&survey);
    assert_eq!(scan.step(), Step::Pause);
    assert_eq!(scan.remaining().to_string(), "100-16383");
}

#[test]
fn a_slot_that_left_and_returned_is_visited_again_if_that_was_observed() {
    let model = Model::new(2, 0);
    let mut away = Model::new(2, 0);
    away.owners[0] = 1;
    let mut scan = ClusterScan::new();
    model.survey(&mut scan);
    scan.page(5);
    scan.observe(&away.topology());
    scan.page(0);
    model.survey(&mut scan);
    assert!(scan.remaining().contains(Slot::new(0).unwrap()));
    assert!(!scan.remaining().contains(Slot::new(2048).unwrap()));
}

#[test]
fn the_own_line_of_cluster_nodes_names_the_slots_on_their_way() {
    let nodes = "\
        07c3 127.0.0.1:30004@31004,host master - 0 1426238317239 4 connected 5-6 [9->-x]\n\
        e7d1 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460 [93-<-292f] [77->-e7d1]\n";
    assert_eq!(moving_slots(nodes).to_string(), "77,93");
    assert_eq!(own_slots(nodes).to_string(), "0-5460");
    assert_eq!((own_epoch(nodes), own_epoch("")), (Some(1), None));
    assert!(moving_slots("").is_empty());
    assert!(moving_slots("a b myself,slave c 0 0 0 connected\n").is_empty());
}

#[test]
fn texts_that_are_no_scan_are_refused() {
    let of = |text: &str| text.parse::<ClusterScan>().unwrap_err().0;
    assert_eq!(of(""), "it does not have seven fields");
    assert_eq!(of("2||||||"), "it is of another version");
    assert_eq!(of("1|x|||||"), "a set of slots is malformed");
    assert_eq!(of("1||id|a b:1||5|"), "the address is malformed");
    assert_eq!(of("1||id|a:1||x|"), "the cursor is malformed");
    assert_eq!(of("1||id|a:1||5|x"), "a set of slots is malformed");
    assert_eq!("1||||||".parse(), Ok(ClusterScan::new()));
}

#[test]
fn the_text_keeps_everything() {
    let mut scan = ClusterScan::new();
    Model::new(3, 0).survey(&mut scan);
    scan.page(17);
    let again: ClusterScan = scan.to_string().parse().unwrap();
    assert_eq!(again.step(), Step::Survey, "the cluster may have changed");
    assert_eq!(ClusterScan { phase: Phase::Scan, ..again }, scan);
    scan.page(0);
    assert_eq!(scan.to_string().parse(), Ok(scan));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    /// Blocks move at once and key by key, servers restart, the scan is stored and resumed: no key is missed.
    #[test]
    fn every_key_that_was_there_throughout_is_returned(seed: u64, servers in 1_usize..5, calm in 1_u8..20) {
        let mut rng = Rng::with_seed(seed);
        let mut model = Model::new(servers, 120);
        let found = scan(&mut model, |model, scan| {
            if rng.u8(..calm) == 0 {
                let restarted = model.change(&mut rng);
                let scanned = match scan.step() {
                    Step::Scan { node, .. } => Some(index_of(node)),
                    _ => None,
                };
                if restarted.is_some() && restarted == scanned {
                    scan.node_lost();
                }
                // The client learns of most changes by redirects and refreshes; here of all.
                scan.observe(&model.topology());
            }
            if rng.u8(..20) == 0 {
                *scan = scan.to_string().parse().unwrap();
            }
        });
        check_complete(&model, found);
    }
}
