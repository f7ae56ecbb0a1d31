use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::recipes::{Acknowledged, Durability, DurabilityError};
use pilotlight_redis::{Client, Command, Commands, Config};
use pilotlight_testkit::{Answer, ScriptedServer, Server};

use super::start;
use crate::bed::{Bed, eventually};

fn incr<'a>(key: &'a str) -> Command<'a> {
    Command::raw("INCR").arg(key)
}

#[tokio::test]
async fn a_write_that_a_replica_has() {
    let (primary, client) = start(Server::builder()).await;
    let (replica, _) = start(Server::builder()).await;
    let one = Durability::replicas(1).within(Duration::from_millis(50));
    match one.write::<i64>(&client, incr("k")).await {
        Err(DurabilityError::Fewer { acknowledged: Acknowledged { replicas: 0, on_disk: false }, wanted }) => {
            assert_eq!(wanted, one);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(client.get("k").read_as::<i64>().await.unwrap(), 1, "it is not undone");
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let is_linked = || replica.info("master_link_status").is_ok_and(|status| status == "up");
    eventually(Duration::from_secs(20), "the replica is linked", is_linked).await;
    let patient = one.within(Duration::from_secs(20));
    assert_eq!(patient.write::<i64>(&client, incr("k")).await.unwrap(), 2);
    assert_eq!(replica.command(&["GET", "k"]).unwrap().integer(), Some(2));

    let mut connection = client.dedicated().await.unwrap();
    connection.set("a", 1).await.unwrap();
    connection.set("b", 2).await.unwrap();
    assert_eq!(patient.confirm(&mut connection).await.unwrap().replicas, 1);
    let wrong = one.write::<i64>(&client, Command::raw("LPUSH").arg("k").arg(1)).await;
    assert!(matches!(&wrong, Err(DurabilityError::Write(error)) if error.server().is_some()), "{wrong:?}");
}

#[tokio::test]
async fn on_disk_and_what_is_not_known() {
    let respond = |words: Vec<Bytes>| match &*words[0].to_ascii_uppercase() {
        b"WAITAOF" if words[2] == "2" => Answer::from("*2\r\n:1\r\n:1\r\n"),
        b"WAITAOF" => Answer::from("*2\r\n:1\r\n:1\r\n"),
        b"WAIT" => Answer::Reset,
        _ => Answer::from(":7\r\n"),
    };
    let server = ScriptedServer::respond(respond).await.unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    assert_eq!(Durability::on_disk(1).write::<i64>(&client, incr("k")).await.unwrap(), 7);
    let last = server.commands().pop().unwrap().words;
    assert_eq!(last, ["WAITAOF", "1", "1", "1000"].map(Bytes::from));
    let two = Durability::on_disk(2).write::<i64>(&client, incr("k")).await.unwrap_err();
    assert_eq!(
        two.to_string(),
        "written, but not everywhere within 1s: wanted the primary's disk and those of 2 replicas, acknowledged by the \
         primary's disk and 1 replicas"
    );
    let unknown = Durability::replicas(1).write::<i64>(&client, incr("k")).await;
    assert!(matches!(unknown, Err(DurabilityError::Unknown(_))), "{unknown:?}");
}

#[tokio::test]
async fn in_a_cluster_it_goes_to_where_the_slot_is() {
    let bed = Bed::start(3, 1).await;
    let client = bed.client();
    let one = Durability::replicas(1).within(Duration::from_secs(20));
    for key in ["a", "b", "c"] {
        assert_eq!(one.write::<i64>(&client, incr(key)).await.unwrap(), 1);
    }
    // The client believes in the old place until it is told.
    bed.run(|bed| {
        let (source, slot) = bed.node_for_key("a").unwrap();
        let target = bed.nodes()[..3].iter().find(|node| node.id() != source.id()).unwrap();
        bed.move_slot(slot, target).unwrap();
    })
    .await;
    assert_eq!(one.write::<i64>(&client, incr("a")).await.unwrap(), 2);
}
