//! Structs from replies and as arguments: derived, by serde, as JSON. On a real server, in both protocols.

use std::collections::{BTreeMap, HashMap};

use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::{
    Client, Command, Commands, ErrorKind, FromReply, Json, Misuse, Ran, Serde, ToArgs, Value, blocking,
};
use pilotlight_testkit::Server;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, FromReply, ToArgs)]
#[redis(rename_all = "camelCase")]
struct User {
    full_name: String,
    age: Option<u8>,
    score: f64,
    is_admin: bool,
    #[redis(rename = "state")]
    status: Status,
    token: Vec<u8>,
    #[redis(default = "one")]
    visits: u64,
    #[redis(skip)]
    is_known: bool,
    #[redis(flatten)]
    address: Address,
}

#[derive(Debug, Clone, PartialEq, FromReply, ToArgs)]
struct Address {
    city: String,
    zip: Zip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromReply, ToArgs)]
struct Zip(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, FromReply, ToArgs)]
#[redis(rename_all = "kebab-case")]
enum Status {
    NeverSeen,
    Active,
    #[redis(rename = "gone")]
    Left,
    #[redis(other)]
    Unknown,
}

fn one() -> u64 {
    1
}

fn ada() -> User {
    User {
        full_name: "Ada".into(),
        age: Some(36),
        score: 0.5,
        is_admin: true,
        status: Status::NeverSeen,
        token: vec![0, 255],
        visits: 7,
        is_known: false,
        address: Address { city: "London".into(), zip: Zip(90133) },
    }
}

/// A client of each protocol.
async fn clients(server: &Server) -> [Client; 2] {
    [
        Client::connect(&format!("{}?protocol=resp2", server.url())).await.unwrap(),
        Client::connect(&format!("{}?protocol=resp3", server.url())).await.unwrap(),
    ]
}

#[tokio::test]
async fn a_hash_is_a_struct() {
    let server = Server::start().unwrap();
    for client in clients(&server).await {
        client.flushall().await.unwrap();
        assert_eq!(client.hset("user:1", &ada()).await.unwrap(), 9);
        assert_eq!(client.hget("user:1", "fullName").await.unwrap().unwrap(), "Ada");
        assert_eq!(client.hget("user:1", "state").await.unwrap().unwrap(), "never-seen");
        assert_eq!(client.hgetall("user:1").read_as::<User>().await.unwrap(), ada());

        // What is not set is not sent, and not missed.
        client.del("user:1").await.unwrap();
        client.hset("user:1", &User { age: None, ..ada() }).await.unwrap();
        client.hdel("user:1", "visits").await.unwrap();
        client.hset("user:1", [("state", "asleep"), ("something", "else")]).await.unwrap();
        let read = client.hgetall("user:1").read_as::<User>().await.unwrap();
        assert_eq!(read, User { age: None, visits: 1, status: Status::Unknown, ..ada() });
        assert_eq!(client.hgetall("user:2").read_as::<Option<User>>().await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_field_that_cannot_be_read_is_named() {
    let server = Server::start().unwrap();
    for client in clients(&server).await {
        client.del("user:1").await.unwrap();
        client.hset("user:1", &ada()).await.unwrap();
        client.hset("user:1", ("age", "old")).await.unwrap();
        let error = client.hgetall("user:1").read_as::<User>().await.unwrap_err();
        let text = "HGETALL at 127.0.0.1";
        assert!(error.to_string().starts_with(text), "{error}");
        assert!(
            error.to_string().contains("field `age` of User, of type Option<u8>, the server sent a string"),
            "{error}"
        );
        client.hdel("user:1", ["age", "zip"]).await.unwrap();
        let error = client.hgetall("user:1").read_as::<User>().await.unwrap_err();
        assert!(error.to_string().contains("field `zip` of Address, of type Zip"), "{error}");
        assert_eq!(error.ran(), Ran::Executed);
        client.set("text", "x").await.unwrap();
        let error = client.hgetall("text").read_as::<User>().await.unwrap_err();
        assert_eq!(error.server().unwrap().code(), "WRONGTYPE");
    }
}

#[derive(Debug, PartialEq, FromReply, ToArgs)]
struct Point(f64, f64);

#[derive(Debug, PartialEq, FromReply)]
#[redis(array)]
struct Row {
    id: i64,
    name: String,
    r#type: Option<Status>,
}

#[derive(Debug, PartialEq, FromReply, ToArgs)]
struct Pair<K, V> {
    key: K,
    value: V,
}

#[derive(ToArgs)]
struct Borrowed<'t> {
    name: &'t str,
    bytes: &'t [u8],
}

#[derive(Debug, PartialEq, FromReply)]
struct Rest {
    name: String,
    #[redis(flatten)]
    rest: BTreeMap<String, i64>,
}

#[tokio::test]
async fn rows_words_and_what_is_left() {
    let server = Server::start().unwrap();
    for client in clients(&server).await {
        client.flushall().await.unwrap();
        client.rpush("l", &Point(0.5, 2.0)).await.unwrap();
        client.rpush("l", &Point(1.0, 3.0)).await.unwrap();
        let points: Vec<Point> = client.lrange("l", 0, -1).read_as().await.unwrap();
        assert_eq!(points, [Point(0.5, 2.0), Point(1.0, 3.0)]);
        assert_eq!(client.lrange("l", 0, 1).read_as::<Point>().await.unwrap(), points[0]);
        assert_eq!(client.lrange("l", 0, 1).read_as::<[f64; 2]>().await.unwrap(), [0.5, 2.0]);

        let row = Row { id: 1, name: "a".into(), r#type: None };
        let read: Row = client.run(Command::raw("EVAL").arg("return {1, 'a', false}").arg(0)).await.unwrap();
        assert_eq!(read, row);

        client.sadd("zips", Zip(7)).await.unwrap();
        client.sadd("zips", [Zip(8), Zip(9)]).await.unwrap();
        client.set(Zip(7), Zip(8)).await.unwrap();
        assert_eq!(client.get(Zip(7)).read_as::<Option<Zip>>().await.unwrap(), Some(Zip(8)));
        client.set("s", Status::Left).await.unwrap();
        client.sadd("states", [Status::Left, Status::Active]).await.unwrap();
        assert_eq!(client.get("s").read_as::<Status>().await.unwrap(), Status::Left);

        client.hset("h", &Pair { key: "k".to_owned(), value: 7 }).await.unwrap();
        let pair: Pair<String, i64> = client.hgetall("h").read_as().await.unwrap();
        assert_eq!(pair, Pair { key: "k".to_owned(), value: 7 });
        client.hset("b", &Borrowed { name: "n", bytes: b"\xff" }).await.unwrap();
        client.hset("r", [("name", "n"), ("a", "1"), ("b", "2")]).await.unwrap();
        let rest: Rest = client.hgetall("r").read_as().await.unwrap();
        assert_eq!(rest.rest, BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
        client.xadd("x", "*", &Address { city: "Rome".into(), zip: Zip(1) }).await.unwrap();
        assert_eq!(client.xrange("x", "-", "+").await.unwrap()[0].get("zip").unwrap(), "1");
    }
}

#[tokio::test]
async fn a_struct_in_a_pipeline_in_a_map_and_in_a_list() {
    let server = Server::start().unwrap();
    for client in clients(&server).await {
        client.flushall().await.unwrap();
        let (ada, mut pipeline) = (ada(), client.pipeline());
        let _ = pipeline.hset("a", &ada);
        let read = pipeline.hgetall("a").read_as::<User>();
        let mut replies = pipeline.run().await.unwrap();
        assert_eq!(replies.take(read).unwrap(), ada);
        let script = "return {{'city', 'Rome', 'zip', '1'}, {'zip', 2, 'city', 'Bonn'}}";
        let towns: Vec<Address> = client.run(Command::raw("EVAL").arg(script).arg(0)).await.unwrap();
        assert_eq!(towns.iter().map(|town| town.zip.0).collect::<Vec<_>>(), [1, 2]);
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Document {
    title: String,
    tags: Vec<String>,
    size: Option<u64>,
}

#[tokio::test]
async fn by_serde_and_as_json() {
    let server = Server::start().unwrap();
    for client in clients(&server).await {
        client.flushall().await.unwrap();
        client.hset("h", [("title", "x"), ("size", "7")]).await.unwrap();
        #[derive(Debug, PartialEq, Deserialize)]
        struct Head {
            title: String,
            size: u64,
            pages: Option<u64>,
        }
        let Serde(head) = client.hgetall("h").read_as::<Serde<Head>>().await.unwrap();
        assert_eq!(head, Head { title: "x".into(), size: 7, pages: None });
        assert_eq!(client.hgetall("none").read_as::<Option<Serde<Head>>>().await.unwrap(), None);
        let Serde(map) = client.hgetall("h").read_as::<Serde<HashMap<String, String>>>().await.unwrap();
        assert_eq!(map["size"], "7");

        let document = Document { title: "x".into(), tags: vec!["a".into()], size: None };
        client.set("d", Json(&document)).await.unwrap();
        client.set_with("d", Json(&document), SetOptions::new().xx()).await.unwrap();
        assert_eq!(client.get("d").await.unwrap().unwrap(), r#"{"title":"x","tags":["a"],"size":null}"#);
        assert_eq!(client.get("d").read_as::<Option<Json<Document>>>().await.unwrap(), Some(Json(document)));
        assert_eq!(client.get("none").read_as::<Option<Json<Document>>>().await.unwrap(), None);
        client.set("d", "{\"title\":7}").await.unwrap();
        let error = client.get("d").read_as::<Json<Document>>().await.unwrap_err();
        assert!(error.to_string().contains("line 1 column 10"), "{error}");
        let error = client.set("d", Json(&HashMap::from([((1, 2), 3)]))).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::Argument(_))), "{error}");
    }
}

#[test]
fn without_a_runtime() {
    let server = Server::start().unwrap();
    let client = blocking::Client::connect(&server.url()).unwrap();
    client.hset("user:1", &ada()).unwrap();
    assert_eq!(client.read_as::<User>().hgetall("user:1").unwrap(), ada());
}

#[test]
fn words_that_are_none_are_refused() {
    #[derive(Debug, FromReply)]
    #[redis(rename_all = "lowercase")]
    enum Side {
        Left,
        Right,
    }
    let read = |word: &'static str| Side::from_reply(Value::Bulk(word.into()));
    assert!(matches!((read("left").unwrap(), read("right").unwrap()), (Side::Left, Side::Right)));
    let error = read("up").unwrap_err();
    assert_eq!(error.to_string(), "expected one of `left`, `right`, the server sent another word");
}
