//! What has no time left is not sent any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Commands, Config, Ran};
use pilotlight_testkit::ScriptedServer;

const TIMEOUT: Duration = Duration::from_millis(300);

/// The runtime stands still while a pipeline pauses before its second round, until its deadline has passed.
#[tokio::test]
async fn a_pipeline_sends_no_round_after_its_deadline() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let respond = move |words: Vec<Bytes>| {
        if words[0] == "INCR"[..] {
            count.fetch_add(1, Ordering::Relaxed);
        }
        b"-LOADING it does\r\n".to_vec()
    };
    let server = ScriptedServer::respond(respond).await.unwrap();
    let config = Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()));
    let client = Client::new(Config { command_timeout: Some(TIMEOUT), ..config }).unwrap();
    // The pipeline's time is not for connecting.
    client.get("k").await.unwrap_err();
    let before = client.stats().retries;
    let is_over = Arc::new(AtomicBool::new(false));
    let blocker = tokio::spawn({
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        async move {
            while client.stats().retries == before && !is_over.load(Ordering::Relaxed) {
                tokio::task::yield_now().await;
            }
            std::thread::sleep(TIMEOUT);
        }
    });
    let mut pipeline = client.pipeline();
    let keys = ["a", "b", "c"];
    let queued = keys.map(|key| pipeline.incr(key));
    let replies = pipeline.run().await;
    is_over.store(true, Ordering::Relaxed);
    let mut replies = replies.unwrap();
    for queued in queued {
        let error = replies.take(queued).unwrap_err();
        assert_eq!((error.ran(), error.server().map(|it| it.code())), (Ran::NotSent, Some("LOADING")), "{error}");
    }
    blocker.await.unwrap();
    // Whatever is sent is read before this is answered.
    client.get("k").await.unwrap_err();
    assert_eq!(asked.load(Ordering::Relaxed), keys.len());
}
