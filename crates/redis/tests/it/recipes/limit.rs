use std::time::Duration;

use pilotlight_redis::recipes::RateLimit;
use pilotlight_redis::{Client, Commands, ErrorKind};
use pilotlight_testkit::Server;

use super::start;
use crate::spare::Kind;

#[tokio::test]
async fn a_burst_is_used_up_and_comes_back() {
    let (_server, client) = start(Server::builder()).await;
    // One each hour: nothing comes back while the test runs.
    let limit = RateLimit::new(24, Duration::from_secs(86_400)).unwrap().burst(3).unwrap();
    let hour = Duration::from_secs(3600);
    for remaining in [2, 1, 0] {
        let decision = limit.check(&client, "slow", 1).await.unwrap();
        assert!(decision.is_allowed && decision.retry_after.is_none(), "{decision:?}");
        assert_eq!(decision.remaining, remaining);
        let wanted = hour * u32::try_from(3 - remaining).unwrap();
        assert!(decision.reset_after <= wanted && decision.reset_after > wanted - hour / 2, "{decision:?}");
    }
    let refused = limit.check(&client, "slow", 1).await.unwrap();
    assert!(!refused.is_allowed && refused.remaining == 0, "{refused:?}");
    assert!(refused.retry_after.is_some_and(|wait| wait <= hour && wait > hour / 2), "{refused:?}");
    assert_eq!(limit.check(&client, "slow", 0).await.unwrap().remaining, 0, "a look costs nothing");
    let never = limit.check(&client, "other", 4).await.unwrap();
    assert!(!never.is_allowed && never.retry_after.is_none() && never.remaining == 3, "{never:?}");
    assert!(limit.check(&client, "other", 3).await.unwrap().is_allowed);
    // The state goes when the burst is full again.
    let ttl: i64 = client.pttl("other").read_as().await.unwrap();
    assert!((10_700_000..10_801_000).contains(&ttl), "{ttl}");

    let quick = RateLimit::new(1000, Duration::from_secs(1)).unwrap().burst(1).unwrap();
    let mut served = 0;
    while served < 20 {
        let decision = quick.check(&client, "quick", 1).await.unwrap();
        served += u32::from(decision.is_allowed);
        tokio::time::sleep(decision.retry_after.unwrap_or_default()).await;
    }
}

#[tokio::test]
async fn many_callers_get_no_more_than_there_is() {
    let (_server, client) = start(Server::builder()).await;
    let limit = std::sync::Arc::new(RateLimit::new(100, Duration::from_secs(86_400)).unwrap());
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, limit): (Client, _) = (client.clone(), std::sync::Arc::clone(&limit));
        callers.spawn(async move {
            let mut allowed = 0;
            for _ in 0..50 {
                allowed += u32::from(limit.check(&client, "shared", 1).await.unwrap().is_allowed);
            }
            allowed
        });
    }
    assert_eq!(callers.join_all().await.into_iter().sum::<u32>(), 100);
}

#[tokio::test]
async fn fractions_of_a_microsecond_add_up() {
    let (_server, client) = start(Server::builder()).await;
    // A unit is due each third of a microsecond.
    let limit = RateLimit::new(3_000_000, Duration::from_secs(1)).unwrap();
    let decision = limit.check(&client, "bytes", 2_000_000).await.unwrap();
    assert_eq!((decision.is_allowed, decision.remaining), (true, 1_000_000));
    assert_eq!(decision.reset_after.as_micros(), 666_667);
}

#[tokio::test]
async fn in_a_cluster_and_wrong_uses() {
    let cluster = tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap();
    let url = cluster.nodes()[0].server().url().replace("redis://", "redis+cluster://");
    let client = Client::connect(&url).await.unwrap();
    let limit = RateLimit::new(2, Duration::from_secs(86_400)).unwrap();
    for key in ["a", "b", "c", "d"] {
        assert!(limit.check(&client, key, 2).await.unwrap().is_allowed);
        assert!(!limit.check(&client, key, 1).await.unwrap().is_allowed);
    }
    client.set("text", "something else").await.unwrap();
    let error = limit.check(&client, "text", 1).await.unwrap_err();
    assert!(error.to_string().contains("has something else in it"), "{error}");
    let is_misuse = |error: pilotlight_redis::Error| matches!(error.kind(), ErrorKind::Misuse(_));
    assert!(is_misuse(RateLimit::new(0, Duration::from_secs(1)).unwrap_err()));
    assert!(is_misuse(RateLimit::new(1, Duration::ZERO).unwrap_err()));
    assert!(is_misuse(RateLimit::new(1, Duration::from_secs(1)).unwrap().burst(0).unwrap_err()));
}
