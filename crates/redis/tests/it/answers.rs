//! Error codes: a server's refusal, or the reply of a script that has written already.

use pilotlight_redis::{Advice, Client, Command, Commands, Config, Error, Ran, Script};
use pilotlight_testkit::Server;

const CODES: [&str; 12] = [
    "TRYAGAIN x",
    "DENIED x",
    "UNBLOCKED x",
    "LOADING x",
    "BUSY x",
    "CLUSTERDOWN x",
    "MASTERDOWN x",
    "READONLY x",
    "READONLY You can't write against a read only replica.",
    "NOAUTH x",
    "MOVED x",
    "NOSCRIPT x",
];

async fn start() -> (Server, Client) {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    (server, client)
}

#[track_caller]
fn assert_is_the_reply(error: &Error, text: &str) {
    assert_eq!(error.server().map(|error| error.text()), Some(text));
    assert_eq!((error.ran(), error.advice()), (Ran::Executed, Advice::Never), "{error}");
}

#[tokio::test]
async fn what_a_script_returns_after_it_has_written_is_its_reply() {
    let (_server, client) = start().await;
    for (number, text) in CODES.into_iter().enumerate() {
        let key = format!("count:{number}");
        let source = format!("redis.call('INCR', KEYS[1]); return redis.error_reply(\"{text}\")");
        let call = client.run::<()>(Command::raw("EVAL").arg(&source).arg(1).arg(&key));
        assert_is_the_reply(&call.await.unwrap_err(), text);
        assert_eq!(client.get(&key).await.unwrap().unwrap(), "1", "{text}");

        let script = Script::new(source.clone());
        script.load(&client).await.unwrap();
        let error = script.run::<()>(&client).key(&key).await.unwrap_err();
        assert_is_the_reply(&error, text);
        assert_eq!(client.get(&key).await.unwrap().unwrap(), "2", "{text}");

        let mut pipeline = client.pipeline();
        let queued = pipeline.queue::<()>(Command::raw("EVAL").arg(&source).arg(1).arg(&key));
        assert_is_the_reply(&pipeline.run().await.unwrap().take(queued).unwrap_err(), text);
        assert_eq!(client.get(&key).await.unwrap().unwrap(), "3", "{text}");
    }
}

#[tokio::test]
async fn what_a_function_returns_after_it_has_written_is_its_reply() {
    let (_server, client) = start().await;
    let library = "#!lua name=mine\nredis.register_function('count', function(keys, args)\n\
                   redis.call('INCR', keys[1]); return redis.error_reply(args[1]) end)";
    client.run::<()>(Command::raw("FUNCTION LOAD").arg(library)).await.unwrap();
    for (number, text) in CODES.into_iter().enumerate() {
        let key = format!("count:{number}");
        let call = client.run::<()>(Command::raw("FCALL").arg("count").arg(1).arg(&key).arg(text));
        assert_is_the_reply(&call.await.unwrap_err(), text);
        assert_eq!(client.get(&key).await.unwrap().unwrap(), "1", "{text}");
    }
}

/// The server's own refusals of scripts are what they were: certainly not run.
#[tokio::test]
async fn a_script_that_the_server_refuses_was_not_run() {
    let (server, client) = start().await;
    let script = Script::new("return redis.call('INCR', KEYS[1])");
    assert_eq!(script.run::<i64>(&client).key("count").await.unwrap(), 1);
    let error = client.run::<()>(Command::raw("EVALSHA").arg("f".repeat(40)).arg(0)).await.unwrap_err();
    assert_eq!((error.server().unwrap().code(), error.ran()), ("NOSCRIPT", Ran::NotSent));
    server.command(&["ACL", "SETUSER", "default", "-eval"]).unwrap();
    let error = client.run::<()>(Command::raw("EVAL").arg("return 1").arg(0)).await.unwrap_err();
    assert_eq!((error.server().unwrap().code(), error.ran()), ("NOPERM", Ran::NotSent));
    // Redis 7.0 names no user, later servers do; a key that the user may not access reads otherwise again.
    server.command(&["ACL", "SETUSER", "default", "+eval", "resetkeys", "~count"]).unwrap();
    let error = client.run::<()>(Command::raw("EVAL").arg("return 1").arg(1).arg("other")).await.unwrap_err();
    assert_eq!((error.server().unwrap().code(), error.ran()), ("NOPERM", Ran::NotSent));
}
