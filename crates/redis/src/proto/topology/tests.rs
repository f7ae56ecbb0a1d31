//! Views by value: both commands, both protocols, and what real clusters announce when they are half configured.

use std::collections::HashMap;

use bytes::Bytes;

use super::compare::{MovedSlots, consensus, diff};
use super::*;
use crate::config::AddressMap;
use crate::proto::asked::Security;

fn text(text: &str) -> Value {
    Value::Bulk(Bytes::copy_from_slice(text.as_bytes()))
}

fn array<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}

fn map(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| (text(name), value.clone())).collect())
}

fn flat(fields: &[(&str, Value)]) -> Value {
    Value::Array(fields.iter().flat_map(|(name, value)| [text(name), value.clone()]).collect())
}

fn node(host: &str, port: i64, id: &str) -> Value {
    array([text(host), Value::Integer(port), text(id), array([])])
}

fn range<const N: usize>(first: i64, last: i64, nodes: [Value; N]) -> Value {
    let mut items = vec![Value::Integer(first), Value::Integer(last)];
    items.extend(nodes);
    Value::Array(items)
}

fn shard(slots: &[i64], nodes: Vec<Value>, fields: fn(&[(&str, Value)]) -> Value) -> Value {
    let slots = Value::Array(slots.iter().map(|&slot| Value::Integer(slot)).collect());
    fields(&[("slots", slots), ("nodes", Value::Array(nodes))])
}

fn member(port: i64, role: &str, health: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("id", text(&format!("id{port}"))),
        ("port", Value::Integer(port)),
        ("ip", text("10.0.0.1")),
        ("endpoint", text("10.0.0.1")),
        ("role", text(role)),
        ("replication-offset", Value::Integer(0)),
        ("health", text(health)),
    ]
}

fn seed() -> NodeAddress {
    NodeAddress::tcp("seed", 7000)
}

fn slots(reply: &Value) -> Result<Topology, TopologyError> {
    Topology::from_slots(reply, &Asked::plain(&seed()))
}

fn shards(reply: &Value) -> Result<Topology, TopologyError> {
    Topology::from_shards(reply, &Asked::plain(&seed()))
}

fn slot(number: u16) -> Slot {
    Slot::new(number).unwrap()
}

/// Three primaries of a third each; the first has a replica.
fn three() -> Topology {
    let reply = array([
        range(0, 5460, [node("a", 7000, "ida"), node("d", 7003, "idd")]),
        range(5461, 10922, [node("b", 7001, "idb")]),
        range(10923, 16383, [node("c", 7002, "idc")]),
    ]);
    slots(&reply).unwrap()
}

#[track_caller]
fn check_owner(topology: &Topology, number: u16, announced: Option<&str>) {
    let owner = topology.owner(slot(number)).and_then(|owner| topology.node(owner));
    assert_eq!(owner.map(|node| node.announced.to_string()).as_deref(), announced, "slot {number}");
}

#[track_caller]
fn check_error(actual: Result<Topology, TopologyError>, expected: &TopologyError) {
    assert_eq!(&actual.unwrap_err(), expected);
}

mod cluster_slots {
    use super::*;

    #[test]
    fn parses_simple_cluster_slots_response() {
        let topology = three();
        check_owner(&topology, 0, Some("a:7000"));
        check_owner(&topology, 5460, Some("a:7000"));
        check_owner(&topology, 5461, Some("b:7001"));
        check_owner(&topology, 16383, Some("c:7002"));
        assert_eq!((topology.nodes().len(), topology.covered()), (4, 16384));
        assert_eq!(topology.primaries().count(), 3);
    }

    #[test]
    fn parses_response_with_replicas() {
        let topology = three();
        let owner = topology.owner(slot(7)).unwrap();
        let replicas = &topology.shard_of(owner).unwrap().replicas;
        let [replica] = replicas[..] else { panic!("{replicas:?}") };
        let replica = topology.node(replica).unwrap();
        assert_eq!(
            (replica.role, &*replica.id, replica.announced.to_string().as_str()),
            (Role::Replica, "idd", "d:7003")
        );
    }

    #[test]
    fn one_shard_with_several_ranges_is_one_shard() {
        let reply = array([
            range(0, 9, [node("a", 1, "ida"), node("r", 2, "idr")]),
            range(20, 29, [node("a", 1, "ida"), node("r", 2, "idr"), node("s", 3, "ids")]),
        ]);
        let topology = slots(&reply).unwrap();
        assert_eq!((topology.shards().len(), topology.nodes().len(), topology.covered()), (1, 3, 20));
        assert_eq!(topology.shards()[0].replicas.len(), 2);
        let owned = topology.slots_of(topology.owner(slot(0)).unwrap()).map(Slot::number);
        assert!(owned.eq((0..10).chain(20..30)));
    }

    #[test]
    fn slots_not_covered_by_any_node_have_no_owner() {
        let topology = slots(&array([range(10, 10, [node("a", 1, "ida")])])).unwrap();
        check_owner(&topology, 9, None);
        check_owner(&topology, 10, Some("a:1"));
        check_owner(&topology, 11, None);
        assert_eq!(topology.covered(), 1);
    }

    #[test]
    fn servers_before_version_4_have_no_ids() {
        let topology = slots(&array([range(0, 1, [array([text("a"), Value::Integer(1)])])])).unwrap();
        assert_eq!(&*topology.nodes()[0].id, "");
    }

    #[track_caller]
    fn check_host(endpoint: Value, metadata: Value, announced: &str) {
        let reply = array([range(0, 1, [array([endpoint, Value::Integer(7001), text("id"), metadata])])]);
        assert_eq!(slots(&reply).unwrap().nodes()[0].announced.to_string(), announced);
    }

    #[test]
    fn a_null_host_is_the_host_that_was_asked_with_the_port_of_the_reply() {
        check_host(Value::Null, array([]), "seed:7001");
        check_host(Value::Null, flat(&[("ip", text("10.0.0.1"))]), "seed:7001");
    }

    #[test]
    fn an_empty_host_is_the_host_that_was_asked() {
        check_host(text(""), array([]), "seed:7001");
    }

    #[test]
    fn a_question_mark_is_the_ip_address_if_told_else_the_host_that_was_asked() {
        check_host(text("?"), flat(&[("ip", text("10.0.0.1"))]), "10.0.0.1:7001");
        check_host(text("?"), map(&[("ip", text("10.0.0.1"))]), "10.0.0.1:7001");
        check_host(text("?"), array([]), "seed:7001");
    }

    #[test]
    fn ipv6_hosts_are_bracketed_only_in_text() {
        check_host(text("2001:db8::1"), array([]), "[2001:db8::1]:7001");
    }

    #[test]
    fn a_node_is_found_by_each_of_its_names() {
        let metadata =
            map(&[("hostname", text("n1.example")), ("ip", text("10.0.0.1")), ("availability-zone", text("eu-1"))]);
        let told = array([text("n1.example"), Value::Integer(7001), text("id"), metadata]);
        let topology = slots(&array([range(0, 1, [told])])).unwrap();
        let node = &topology.nodes()[0];
        assert_eq!((node.hostname.as_deref(), node.availability_zone.as_deref()), (Some("n1.example"), Some("eu-1")));
        assert_eq!(topology.find(&NodeAddress::tcp("10.0.0.1", 7001)), Some(NodeIndex(0)));
        assert_eq!(topology.find(&NodeAddress::tcp("n1.example", 7001)), Some(NodeIndex(0)));
        assert_eq!(topology.find(&NodeAddress::tcp("10.0.0.1", 7002)), None);
    }

    #[test]
    fn nodes_behind_one_address_are_one_node() {
        let hidden = || array([Value::Null, Value::Integer(6379), text("x"), array([])]);
        let topology = slots(&array([range(0, 8191, [hidden(), hidden()]), range(8192, 16383, [hidden()])])).unwrap();
        assert_eq!((topology.nodes().len(), topology.shards().len(), topology.covered()), (1, 1, 16384));
    }

    #[test]
    fn a_node_listed_as_replica_first_and_then_as_primary_is_a_primary() {
        let reply =
            array([range(0, 1, [node("a", 1, "ida"), node("b", 2, "idb")]), range(2, 3, [node("b", 2, "idb")])]);
        let topology = slots(&reply).unwrap();
        let owner = topology.owner(slot(2)).unwrap();
        assert_eq!(topology.node(owner).unwrap().role, Role::Primary);
        assert!(topology.shards()[0].replicas.is_empty());
        assert_eq!(topology.nodes().len(), 2);
    }

    #[test]
    fn the_address_map_is_applied_and_the_identity_stays_the_announced_address() {
        let table = HashMap::from([(NodeAddress::tcp("10.0.0.1", 7001), NodeAddress::tcp("localhost", 17001))]);
        let map = AddressMap::Table(Arc::new(table));
        let seed = seed();
        let asked = Asked { map: &map, ..Asked::plain(&seed) };
        let topology = Topology::from_slots(&array([range(0, 1, [node("10.0.0.1", 7001, "a")])]), &asked).unwrap();
        assert_eq!(topology.nodes()[0].announced, NodeAddress::tcp("10.0.0.1", 7001));
        assert_eq!(topology.nodes()[0].address, NodeAddress::tcp("localhost", 17001));
    }

    #[test]
    fn handles_invalid_responses() {
        let malformed = |expected, found| TopologyError::Malformed { expected, found };
        check_error(slots(&text("x")), &malformed("the list of ranges", "bulk string"));
        check_error(slots(&Value::Null), &malformed("the list of ranges", "null"));
        check_error(slots(&array([Value::Integer(1)])), &malformed("a range with its nodes", "integer"));
        check_error(slots(&array([range(0, 1, [])])), &malformed("a range with its nodes", "array"));
        check_error(slots(&array([range(0, 1, [array([text("a")])])])), &malformed("a node", "array"));
        let bad_host = array([Value::Integer(1), Value::Integer(1)]);
        check_error(slots(&array([range(0, 1, [bad_host])])), &malformed("the endpoint of a node", "integer"));
        let bad_port = array([text("a"), Value::Null]);
        check_error(slots(&array([range(0, 1, [bad_port])])), &malformed("the port of a node", "null"));
        let bad_slot = array([array([text("x"), Value::Integer(1), node("a", 1, "")])]);
        check_error(slots(&bad_slot), &malformed("the first slot of a range", "bulk string"));
    }

    #[test]
    fn an_error_reply_is_the_servers() {
        let error = Value::Error(Bytes::from_static(b"ERR This instance has cluster support disabled"));
        let server = ServerError::parse(b"ERR This instance has cluster support disabled");
        check_error(slots(&error), &TopologyError::Server(server));
    }

    #[test]
    fn slots_and_ports_are_checked() {
        let of = |first, last| slots(&array([range(first, last, [node("a", 1, "")])]));
        check_error(of(0, 16384), &TopologyError::Range { first: 0, last: 16384 });
        check_error(of(-1, 5), &TopologyError::Range { first: -1, last: 5 });
        check_error(of(6, 5), &TopologyError::Range { first: 6, last: 5 });
        check_error(slots(&array([range(0, 1, [node("a", 65536, "")])])), &TopologyError::Port(65536));
        check_error(slots(&array([range(0, 1, [node("a", -1, "")])])), &TopologyError::Port(-1));
    }

    #[test]
    fn two_owners_of_one_slot_are_a_contradiction() {
        let reply = array([range(0, 10, [node("a", 1, "ida")]), range(10, 20, [node("b", 2, "idb")])]);
        let (first, second) = (NodeAddress::tcp("a", 1), NodeAddress::tcp("b", 2));
        check_error(slots(&reply), &TopologyError::Overlap { slot: 10, first, second });
        let same = array([range(0, 10, [node("a", 1, "ida")]), range(10, 20, [node("a", 1, "ida")])]);
        assert_eq!(slots(&same).unwrap().covered(), 21);
    }

    #[test]
    fn a_map_that_serves_nothing_is_none() {
        check_error(slots(&array([])), &TopologyError::NoSlots);
    }

    #[test]
    fn nodes_are_bounded() {
        let ranges = (0..65_536).map(|port| range(0, 0, [node(&format!("h{port}"), 1, "")]));
        let replicas: Vec<Value> = (0..65_536).map(|port| node(&format!("h{port}"), 1, "")).collect();
        let mut one = vec![Value::Integer(0), Value::Integer(1)];
        one.extend(replicas);
        check_error(slots(&array([Value::Array(one)])), &TopologyError::TooManyNodes { max: 65_535 });
        // Many primaries contradict each other before they are too many.
        assert!(slots(&Value::Array(ranges.collect())).is_err());
    }
}

mod cluster_shards {
    use super::*;

    #[track_caller]
    fn check_both(
        build: impl Fn(fn(&[(&str, Value)]) -> Value) -> Value,
        check: impl Fn(Result<Topology, TopologyError>),
    ) {
        check(shards(&build(map)));
        check(shards(&build(flat)));
    }

    #[test]
    fn maps_and_flat_arrays_say_the_same() {
        let build = |fields: fn(&[(&str, Value)]) -> Value| {
            let nodes = vec![fields(&member(7000, "master", "online")), fields(&member(7003, "replica", "loading"))];
            array([
                shard(&[0, 100, 200, 16383], nodes, fields),
                shard(&[101, 199], vec![fields(&member(7001, "master", "online"))], fields),
            ])
        };
        check_both(build, |topology| {
            let topology = topology.unwrap();
            check_owner(&topology, 100, Some("10.0.0.1:7000"));
            check_owner(&topology, 101, Some("10.0.0.1:7001"));
            check_owner(&topology, 200, Some("10.0.0.1:7000"));
            assert_eq!(topology.covered(), 16384);
            let replica = topology.node(topology.shards()[0].replicas[0]).unwrap();
            assert_eq!((replica.role, replica.health, &*replica.id), (Role::Replica, Health::Loading, "id7003"));
        });
    }

    #[test]
    fn a_failing_replica_is_kept_and_marked() {
        let nodes = vec![map(&member(7000, "master", "online")), map(&member(7003, "replica", "fail"))];
        let topology = shards(&array([shard(&[0, 16383], nodes, map)])).unwrap();
        assert_eq!(topology.node(topology.shards()[0].replicas[0]).unwrap().health, Health::Failing);
    }

    #[test]
    fn of_two_primaries_the_healthy_one_serves() {
        let nodes = vec![map(&member(7000, "master", "fail")), map(&member(7003, "master", "online"))];
        let topology = shards(&array([shard(&[0, 16383], nodes, map)])).unwrap();
        check_owner(&topology, 5, Some("10.0.0.1:7003"));
        let old = topology.find(&NodeAddress::tcp("10.0.0.1", 7000)).unwrap();
        assert_eq!(topology.node(old).unwrap().role, Role::Replica);
    }

    #[test]
    fn of_two_healthy_primaries_the_one_with_more_data_serves() {
        let mut ahead = member(7003, "master", "online");
        ahead[5].1 = Value::Integer(9);
        let nodes = vec![map(&member(7000, "master", "online")), map(&ahead)];
        check_owner(&shards(&array([shard(&[0, 16383], nodes, map)])).unwrap(), 5, Some("10.0.0.1:7003"));
    }

    #[test]
    fn a_shard_without_slots_is_known() {
        let empty = shard(&[], vec![map(&member(7009, "master", "online"))], map);
        let full = shard(&[0, 16383], vec![map(&member(7000, "master", "online"))], map);
        let topology = shards(&array([empty, full])).unwrap();
        assert_eq!((topology.nodes().len(), topology.primaries().count()), (2, 2));
    }

    #[test]
    fn a_shard_without_a_primary_serves_nothing() {
        let orphan = shard(&[0, 10], vec![map(&member(7009, "replica", "online"))], map);
        let full = shard(&[11, 16383], vec![map(&member(7000, "master", "online"))], map);
        let topology = shards(&array([orphan, full])).unwrap();
        check_owner(&topology, 0, None);
        assert_eq!(topology.shards()[0].primary, None);
        assert_eq!(topology.nodes().len(), 2);
    }

    #[test]
    fn the_port_is_the_one_of_the_connections_kind() {
        let mut both = member(7000, "master", "online");
        both.push(("tls-port", Value::Integer(17000)));
        let reply = array([shard(&[0, 16383], vec![map(&both)], map)]);
        let seed = seed();
        let asked = Asked { security: Security::Tls, ..Asked::plain(&seed) };
        assert_eq!(Topology::from_shards(&reply, &asked).unwrap().nodes()[0].announced.port(), Some(17000));
        assert_eq!(shards(&reply).unwrap().nodes()[0].announced.port(), Some(7000));
    }

    #[test]
    fn unknown_endpoint_is_the_host_that_was_asked() {
        let mut unknown = member(7001, "master", "online");
        unknown[3].1 = Value::Null;
        check_owner(&shards(&array([shard(&[0, 1], vec![map(&unknown)], map)])).unwrap(), 0, Some("seed:7001"));
        unknown[3].1 = text("");
        check_owner(&shards(&array([shard(&[0, 1], vec![map(&unknown)], map)])).unwrap(), 0, Some("seed:7001"));
        unknown[3].1 = text("?");
        check_owner(&shards(&array([shard(&[0, 1], vec![map(&unknown)], map)])).unwrap(), 0, Some("10.0.0.1:7001"));
    }

    #[test]
    fn malformed_shards_are_typed_errors() {
        let malformed = |expected, found| TopologyError::Malformed { expected, found };
        check_error(shards(&Value::Integer(1)), &malformed("the list of shards", "integer"));
        check_error(shards(&array([map(&[])])), &malformed("the slots of a shard", "map"));
        let no_nodes = map(&[("slots", array([]))]);
        check_error(shards(&array([no_nodes])), &malformed("the nodes of a shard", "map"));
        let odd = shard(&[0, 1, 2], vec![map(&member(1, "master", "online"))], map);
        check_error(shards(&array([odd])), &malformed("the end of a range", "null"));
        let role = shard(&[0, 1], vec![map(&member(1, "boss", "online"))], map);
        check_error(shards(&array([role])), &malformed("the role of a node", "map"));
        let no_port = shard(&[0, 1], vec![map(&member(1, "master", "online")[2..])], map);
        check_error(shards(&array([no_port])), &malformed("the port of a node", "map"));
    }
}

mod patch {
    use super::*;

    #[test]
    fn one_slot_changes_its_owner_in_place() {
        let topology = three();
        let other = topology.find(&NodeAddress::tcp("b", 7001)).unwrap();
        topology.patch(slot(3), other);
        check_owner(&topology, 2, Some("a:7000"));
        check_owner(&topology, 3, Some("b:7001"));
        check_owner(&topology, 4, Some("a:7000"));
    }

    #[test]
    fn a_promoted_replica_can_own_a_slot() {
        let topology = three();
        topology.patch(slot(3), topology.find(&NodeAddress::tcp("d", 7003)).unwrap());
        check_owner(&topology, 3, Some("d:7003"));
    }

    #[test]
    fn a_node_of_another_topology_is_ignored() {
        let topology = three();
        topology.patch(slot(3), NodeIndex(4));
        check_owner(&topology, 3, Some("a:7000"));
        assert_eq!(topology.node(NodeIndex(4)), None);
    }

    #[test]
    fn a_node_that_only_a_redirect_told_of_is_added_once() {
        let topology = three();
        let (announced, address) = (NodeAddress::tcp("e", 7004), NodeAddress::tcp("mapped", 1));
        let (more, index) = topology.with_node(&announced, &address).unwrap();
        more.patch(slot(3), index);
        check_owner(&more, 3, Some("e:7004"));
        check_owner(&topology, 3, Some("a:7000"));
        assert_eq!(more.node(index).unwrap().address, address);
        assert_eq!(more.with_node(&announced, &address).unwrap().1, index);
        assert!(more.shard_of(index).is_none());
    }

    #[test]
    fn a_copy_keeps_patches_and_is_independent() {
        let topology = three();
        topology.patch(slot(3), NodeIndex(2));
        let copy = topology.clone();
        topology.patch(slot(3), NodeIndex(0));
        check_owner(&copy, 3, Some("b:7001"));
    }
}

mod views {
    use super::*;

    /// Slots below `border` are a's, the others b's.
    fn divided(border: i64, ids: bool) -> Topology {
        let id = |name: &'static str| if ids { name } else { "" };
        slots(&array([
            range(0, border - 1, [node("a", 1, id("ida"))]),
            range(border, 16383, [node("b", 2, id("idb"))]),
        ]))
        .unwrap()
    }

    #[track_caller]
    fn check_border(views: Vec<Topology>, expected: u16) {
        let best = consensus(views).unwrap().view;
        check_owner(&best, expected - 1, Some("a:1"));
        check_owner(&best, expected, Some("b:2"));
    }

    #[test]
    fn nothing_comes_of_no_view() {
        assert!(consensus(Vec::new()).is_none());
    }

    #[test]
    fn the_view_of_most_wins_wherever_it_stands() {
        check_border(vec![divided(100, true), divided(200, true), divided(200, true)], 200);
        check_border(vec![divided(200, true), divided(100, true), divided(200, false)], 200);
        check_border(vec![divided(200, false), divided(100, false), divided(100, false)], 100);
    }

    #[test]
    fn during_a_migration_the_view_in_the_middle_wins() {
        check_border(vec![divided(100, true), divided(110, true), divided(120, true)], 110);
    }

    /// The same, with the epochs of a and b.
    fn in_epochs(border: i64, epochs: [u64; 2]) -> Topology {
        let mut view = divided(border, true);
        let lines = ["ida", "idb"]
            .iter()
            .zip(epochs)
            .map(|(id, epoch)| format!("{id} 10.0.0.1:1@2,host myself,master - 0 0 {epoch} connected 0-9 [5->-x]\n"));
        let other = "idc 10.0.0.1:3@4 slave ida 0 0 9 connected\n\nidd :0@0 noaddr\n";
        view.learn_epochs(&text(&(lines.collect::<String>() + other)));
        view
    }

    #[test]
    fn a_newer_owner_outweighs_all_that_were_not_told_of_it() {
        check_border(vec![in_epochs(100, [3, 2]), in_epochs(200, [5, 2]), in_epochs(100, [3, 2])], 200);
        check_border(vec![in_epochs(200, [2, 3]), in_epochs(200, [2, 3]), in_epochs(100, [2, 4])], 100);
        // Who does not tell epochs does not tell of anything new.
        check_border(vec![divided(200, true), divided(200, true), in_epochs(100, [2, 4])], 100);
        check_border(vec![in_epochs(100, [3, 2]), in_epochs(200, [3, 2]), in_epochs(200, [3, 2])], 200);
    }

    #[test]
    fn a_view_is_older_if_an_owner_has_an_older_claim() {
        let known = in_epochs(200, [5, 2]);
        assert!(in_epochs(100, [3, 2]).is_older_than(&known));
        assert!(!in_epochs(100, [3, 6]).is_older_than(&known) && !in_epochs(300, [6, 2]).is_older_than(&known));
        assert!(!known.is_older_than(&known) && !in_epochs(200, [4, 2]).is_older_than(&known));
        // Who was too slow to tell epochs may be behind as well.
        assert!(divided(100, true).is_older_than(&known) && !divided(200, true).is_older_than(&known));
        // Nothing can be said beside a view without epochs, or where the owner that is known is no longer.
        assert!(!in_epochs(100, [3, 2]).is_older_than(&divided(200, true)));
        let mut alone = slots(&array([range(0, 16383, [node("b", 2, "idb")])])).unwrap();
        alone.learn_epochs(&text("idb 10.0.0.1:2@3 master - 0 0 2 connected 0-16383"));
        assert!(!alone.is_older_than(&known));
    }

    #[test]
    fn epochs_that_are_not_told_again_are_kept() {
        let mut view = divided(200, true);
        view.keep_epochs(&in_epochs(200, [5, 2]));
        assert!(in_epochs(100, [3, 2]).is_older_than(&view));
        // A node that is behind tells a lower epoch.
        let mut view = in_epochs(200, [4, 3]);
        view.keep_epochs(&in_epochs(200, [5, 2]));
        assert!(view.epochs().eq(in_epochs(200, [5, 3]).epochs()));
    }

    #[test]
    fn an_error_tells_no_epochs() {
        let mut view = in_epochs(200, [5, 2]);
        view.learn_epochs(&Value::Error(Bytes::from_static(b"NOPERM no")));
        assert!(view.epochs().all(|epoch| epoch == 0));
    }

    #[test]
    fn one_other_view_is_a_dispute() {
        let is_unanimous = |borders: &[i64]| {
            consensus(borders.iter().map(|&border| divided(border, true)).collect()).unwrap().is_unanimous
        };
        assert!(is_unanimous(&[100]) && is_unanimous(&[100, 100, 100]));
        assert!(!is_unanimous(&[100, 100, 101]));
    }

    #[test]
    fn of_views_that_agree_with_nobody_the_fuller_wins() {
        let some = slots(&array([range(0, 9, [node("x", 1, "idx")])])).unwrap();
        let more = slots(&array([range(0, 99, [node("y", 1, "idy")])])).unwrap();
        check_owner(&consensus(vec![some, more]).unwrap().view, 50, Some("y:1"));
    }

    #[test]
    fn one_server_under_two_names_agrees_with_itself() {
        let named = |host| slots(&array([range(0, 16383, [node(host, 1, "ida")])])).unwrap();
        let other = slots(&array([range(0, 16383, [node("z", 1, "idz")])])).unwrap();
        check_owner(&consensus(vec![other, named("a"), named("b")]).unwrap().view, 0, Some("a:1"));
    }
}

mod changes {
    use super::*;

    #[test]
    fn the_same_map_is_no_change() {
        let changes = diff(&three(), &three());
        assert!(changes.is_empty(), "{changes:?}");
        assert_eq!(changes.kept.len(), 4);
    }

    #[test]
    fn a_failover_changes_roles_and_owners() {
        let new = array([
            range(0, 5460, [node("d", 7003, "idd"), node("a", 7000, "ida")]),
            range(5461, 10922, [node("b", 7001, "idb")]),
            range(10923, 16383, [node("c", 7002, "idc")]),
        ]);
        let (old, new) = (three(), slots(&new).unwrap());
        let changes = diff(&old, &new);
        let (a, d) = (NodeAddress::tcp("a", 7000), NodeAddress::tcp("d", 7003));
        let roles: Vec<_> = changes
            .kept
            .iter()
            .filter(|change| change.role)
            .map(|change| &new.node(change.new).unwrap().announced)
            .collect();
        assert_eq!(roles, [&d, &a]);
        assert_eq!(
            changes.moved,
            [MovedSlots { first: slot(0), last: slot(5460), from: old.find(&a), to: new.find(&d) }]
        );
        assert!(changes.came.is_empty() && changes.gone.is_empty());
    }

    #[test]
    fn nodes_come_and_go_with_their_slots() {
        let new = array([range(0, 5460, [node("a", 7000, "ida")]), range(5461, 16383, [node("e", 7004, "ide")])]);
        let (old, new) = (three(), slots(&new).unwrap());
        let changes = diff(&old, &new);
        let gone: Vec<_> = changes.gone.iter().map(|&gone| old.node(gone).unwrap().announced.to_string()).collect();
        assert_eq!(gone, ["d:7003", "b:7001", "c:7002"]);
        let e = new.find(&NodeAddress::tcp("e", 7004));
        assert_eq!(changes.came, [e.unwrap()]);
        assert_eq!(
            changes.moved.iter().map(|moved| (moved.first.number(), moved.last.number(), moved.to)).collect::<Vec<_>>(),
            [(5461, 10922, e), (10923, 16383, e)]
        );
    }

    #[test]
    fn slots_that_lose_their_owner_moved_to_nobody() {
        let new = slots(&array([range(0, 16000, [node("a", 7000, "ida")])])).unwrap();
        let changes = diff(&three(), &new);
        let last = changes.moved.last().unwrap();
        assert_eq!((last.first.number(), last.last.number(), last.to), (16001, 16383, None));
        assert!(!diff(&new, &three()).is_empty());
    }

    #[test]
    fn another_server_or_another_way_at_the_same_address_is_told() {
        let old = slots(&array([range(0, 1, [node("a", 1, "ida")])])).unwrap();
        let replaced = slots(&array([range(0, 1, [node("a", 1, "idz")])])).unwrap();
        assert!(diff(&old, &replaced).kept[0].identity);
        let map = AddressMap::Table(Arc::new(HashMap::from([(NodeAddress::tcp("a", 1), NodeAddress::tcp("m", 1))])));
        let seed = seed();
        let asked = Asked { map: &map, ..Asked::plain(&seed) };
        let mapped = Topology::from_slots(&array([range(0, 1, [node("a", 1, "ida")])]), &asked).unwrap();
        let changes = diff(&old, &mapped);
        assert!(changes.kept[0].address && !changes.kept[0].identity && changes.moved.is_empty());
    }
}

proptest::proptest! {
    /// Any borders, told in any order and by either command, give the map that they describe.
    #[test]
    fn both_commands_give_the_same_map(borders in proptest::collection::btree_set(1_i64..16_384, 0..12), turn in 0_usize..12) {
        let mut edges: Vec<i64> = std::iter::once(0).chain(borders).collect();
        edges.push(16_384);
        let mut ranges: Vec<(i64, i64, i64)> = edges.windows(2).enumerate().map(|(at, pair)| (pair[0], pair[1] - 1, 7000 + (at as i64) % 4)).collect();
        let turn = turn % ranges.len();
        ranges.rotate_left(turn);
        let by_slots = Value::Array(ranges.iter().map(|&(first, last, port)| range(first, last, [node("10.0.0.1", port, &format!("id{port}"))])).collect());
        let by_shards = (7000..7004).map(|port| {
            let own: Vec<i64> = ranges.iter().filter(|range| range.2 == port).flat_map(|range| [range.0, range.1]).collect();
            shard(&own, vec![map(&member(port, "master", "online"))], map)
        });
        let (one, other) = (slots(&by_slots).unwrap(), shards(&Value::Array(by_shards.collect())).unwrap());
        for &(first, last, port) in &ranges {
            for number in [first, last] {
                let expected = format!("10.0.0.1:{port}");
                check_owner(&one, number as u16, Some(&expected));
                check_owner(&other, number as u16, Some(&expected));
            }
        }
        proptest::prop_assert!(diff(&one, &other).moved.is_empty());
    }
}

/// A node that is forgotten, or that the server has only heard of, has no address.
#[test]
fn a_node_without_a_port_is_none() {
    let alone = range(0, 16383, [node("10.0.0.1", 7001, "a"), node("", 0, "gone"), node("10.0.0.2", 7002, "b")]);
    let topology = slots(&array([alone])).unwrap();
    let addresses: Vec<_> = topology.nodes().iter().map(|node| node.address.to_string()).collect();
    assert_eq!(addresses, ["10.0.0.1:7001", "10.0.0.2:7002"]);
    let served = range(0, 99, [node("10.0.0.1", 7001, "a")]);
    let unserved = range(100, 16383, [node("", 0, "gone"), node("10.0.0.2", 7002, "b")]);
    let topology = slots(&array([served, unserved])).unwrap();
    assert_eq!((topology.primaries().count(), topology.nodes().len()), (1, 2));

    let members = [member(0, "replica", "fail"), member(7001, "master", "online")];
    let reply = array([shard(&[0, 16383], members.iter().map(|fields| map(fields)).collect(), map)]);
    let topology = Topology::from_shards(&reply, &Asked::plain(&seed())).unwrap();
    let addresses: Vec<_> = topology.nodes().iter().map(|node| node.address.to_string()).collect();
    assert_eq!(addresses, ["10.0.0.1:7001"]);
}
