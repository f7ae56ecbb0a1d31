//! Pipelines in a cluster: each command in its place, one deadline for all, and replies by the handles of their own
//! pipeline.

use std::time::{Duration, Instant};

use pilotlight_redis::{Client, Command, Commands, Config, ErrorKind, Misuse, Ran};
use pilotlight_testkit::Server;

use crate::bed::{Bed, SECOND, within};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

async fn bed() -> (Bed, Client) {
    let bed = Bed::start(3, 0).await;
    let client = Client::new(Config { command_timeout: Some(LONG), ..bed.config() }).unwrap();
    (bed, client)
}

/// Keys in slots of different nodes.
const KEYS: [&str; 3] = ["a", "b", "c"];

#[tokio::test]
async fn what_is_split_runs_in_its_place() {
    let (_bed, client) = bed().await;
    client.mset(KEYS.map(|key| (key, "old"))).await.unwrap();
    let mut pipeline = client.pipeline();
    let before = KEYS.map(|key| pipeline.get(key));
    let set = pipeline.mset(KEYS.map(|key| (key, "new")));
    let after = KEYS.map(|key| pipeline.get(key));
    let append = pipeline.append("b", "er");
    let all = pipeline.queue::<Vec<String>>(Command::raw("MGET").args(KEYS));
    let gone = pipeline.del(KEYS);
    let last = pipeline.exists("a");
    let mut replies = within(LONG, "the pipeline", pipeline.run()).await.unwrap();
    for queued in before {
        assert_eq!(replies.take(queued).unwrap().unwrap(), "old");
    }
    replies.take(set).unwrap();
    for queued in after {
        assert_eq!(replies.take(queued).unwrap().unwrap(), "new");
    }
    assert_eq!(replies.take(append).unwrap(), 5);
    assert_eq!(replies.take(all).unwrap(), ["new", "newer", "new"]);
    assert_eq!((replies.take(gone).unwrap(), replies.take(last).unwrap()), (3, 0));
}

#[tokio::test]
async fn what_goes_to_all_nodes_runs_in_its_place() {
    let (_bed, client) = bed().await;
    let mut pipeline = client.pipeline();
    let sizes = [
        pipeline.queue::<i64>(Command::raw("DBSIZE")),
        {
            for key in KEYS {
                let _ = pipeline.set(key, "v");
            }
            pipeline.queue::<i64>(Command::raw("DBSIZE"))
        },
        {
            pipeline.queue::<()>(Command::raw("FLUSHALL"));
            pipeline.queue::<i64>(Command::raw("DBSIZE"))
        },
    ];
    let empty = pipeline.get("a");
    let mut replies = within(LONG, "the pipeline", pipeline.run()).await.unwrap();
    assert_eq!(sizes.map(|size| replies.take(size).unwrap()), [0, 3, 0]);
    assert_eq!(replies.take(empty).unwrap(), None);
}

#[tokio::test]
async fn what_blocks_runs_in_its_place() {
    let (_bed, client) = bed().await;
    for client in [client, alone().await.1] {
        let mut pipeline = client.pipeline();
        let pushed = pipeline.rpush("list", ["one", "two"]);
        let popped = pipeline.queue::<(String, String)>(Command::raw("BLPOP").arg("list").arg("0.5"));
        let left = pipeline.llen("list");
        let mut replies = within(LONG, "the pipeline", pipeline.run()).await.unwrap();
        assert_eq!(replies.take(pushed).unwrap(), 2);
        assert_eq!(replies.take(popped).unwrap(), ("list".to_owned(), "one".to_owned()));
        assert_eq!(replies.take(left).unwrap(), 1);
    }
}

/// The server, alone.
async fn alone() -> (Server, Client) {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    // It is to live as long as the test.
    (server, client)
}

#[tokio::test]
async fn the_deadline_is_for_all_together() {
    let (_bed, client) = bed().await;
    client.set("a", "old").await.unwrap();
    let mut pipeline = client.pipeline().timeout(2 * SECOND);
    let blpop = || Command::raw("BLPOP").arg("none").arg(0.5);
    let blocked = [(); 12].map(|()| pipeline.queue::<Option<(String, String)>>(blpop()));
    let late = pipeline.set("a", "late");
    let begin = Instant::now();
    let mut replies = pipeline.run().await.unwrap();
    // They wait for six seconds together.
    assert!(begin.elapsed() < 4 * SECOND, "{:?}", begin.elapsed());
    let [first, .., last] = blocked.map(|queued| replies.take(queued));
    assert_eq!(first.unwrap(), None);
    for error in [last.unwrap_err(), replies.take(late).unwrap_err()] {
        assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
        assert_eq!(error.ran(), Ran::NotSent, "{error}");
    }
    assert_eq!(client.get("a").await.unwrap().unwrap(), "old");
}

/// Without a deadline of the caller's a blocking command has its own time-out beside that of the whole.
#[tokio::test]
async fn what_blocks_has_time_for_it() {
    let (server, _) = alone().await;
    let client = Client::new(Config { command_timeout: Some(SECOND), ..Config::from_url(&server.url()).unwrap() });
    let client = client.unwrap();
    let mut pipeline = client.pipeline();
    let blocked =
        [(); 3].map(|()| pipeline.queue::<Option<(String, String)>>(Command::raw("BLPOP").arg("none").arg(0.5)));
    let set = pipeline.set("a", "v");
    let mut replies = pipeline.run().await.unwrap();
    for queued in blocked {
        assert_eq!(replies.take(queued).unwrap(), None);
    }
    replies.take(set).unwrap();
}

#[tokio::test]
async fn a_handle_of_another_pipeline_is_refused() {
    let (_server, client) = alone().await;
    client.mset([("a", "1"), ("b", "2")]).await.unwrap();
    let (mut one, mut other) = (client.pipeline(), client.pipeline());
    let (of_one, of_other) = (one.get("a"), other.get("b"));
    let (mut one, mut other) = (one.run().await.unwrap(), other.run().await.unwrap());
    let error = one.take(of_other).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::Arguments(_))), "{error}");
    // Nothing was taken by that.
    assert_eq!(one.take(of_one).unwrap().unwrap(), "1");
    let mut transaction = client.transaction();
    let of_transaction = transaction.get("b");
    let mut replies = transaction.run().await.unwrap();
    let mut third = client.pipeline();
    let of_third = third.get("a");
    replies.take(of_third).unwrap_err();
    assert_eq!(replies.take(of_transaction).unwrap().unwrap(), "2");
    other.take(third.get("a")).unwrap_err();
}
