//! Structs in hashes, JSON in strings, times as durations: `cargo run -p pilotlight-redis --example structs [URL]`. A
//! program of one's own has the features `derive` and `json` of the client.

use std::time::Duration;

use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::{Client, Commands, Error, FromReply, Json, ToArgs};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, FromReply, ToArgs)]
#[redis(rename_all = "kebab-case")]
pub(crate) struct User {
    full_name: String,
    age: Option<u8>,
    #[redis(default)]
    visits: u64,
    status: Status,
    #[redis(flatten)]
    address: Address,
}

#[derive(Debug, Clone, Copy, PartialEq, FromReply, ToArgs)]
#[redis(rename_all = "lowercase")]
pub(crate) enum Status {
    Active,
    Gone,
}

#[derive(Debug, Clone, PartialEq, FromReply, ToArgs)]
pub(crate) struct Address {
    city: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Settings {
    theme: String,
    columns: Vec<u16>,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    println!("{:?}", run(&url).await?);
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<Option<User>, Error> {
    let client = Client::connect(url).await?;
    let address = Address { city: "London".to_owned() };
    let ada = User { full_name: "Ada".to_owned(), age: None, visits: 0, status: Status::Active, address };

    // Its fields are the hash's; `age` is not sent while it is none.
    client.hset("structs:user", &ada).await?;
    client.expire("structs:user", Duration::from_secs(60)).await?;
    client.hincrby("structs:user", "visits", 1_u8).await?;
    client.hset("structs:user", ("status", Status::Gone)).await?;

    let settings = Settings { theme: "dark".to_owned(), columns: vec![80, 120] };
    let for_a_minute = SetOptions::new().px(Duration::from_secs(60));
    client.set_with("structs:settings", Json(&settings), for_a_minute).await?;
    let read: Option<Json<Settings>> = client.get("structs:settings").read_as().await?;
    println!("{read:?}");

    // None, if there is no such key.
    client.hgetall("structs:user").read_as().await
}
