//! Sentinels.

use crate::started_within;
use pilotlight_testkit::Sentinels;
use std::time::Duration;

#[test]
fn fails_over_on_request_and_after_a_kill() {
    let trio = started_within("1 primary, 2 replicas, 3 Sentinels", Duration::from_secs(6), || Sentinels::start(2));
    let first = trio.primary().unwrap();
    assert_eq!(first.port(), trio.servers()[0].port());
    assert_eq!(trio.replicas().unwrap().len(), 2);

    let second = trio.failover().unwrap();
    assert_ne!(second.port(), first.port());
    assert_eq!(second.info("role").unwrap(), "master");

    second.kill().unwrap();
    let third = trio.wait_for_new_primary(second.addr()).unwrap();
    assert_ne!(third.port(), second.port());
}

#[test]
fn one_replica_is_enough() {
    let pair = Sentinels::start(1).unwrap();
    assert_eq!(pair.sentinels().len(), 3);
    assert_eq!(pair.replicas().unwrap().len(), 1);
}
