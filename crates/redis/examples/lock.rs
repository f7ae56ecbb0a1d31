//! A lock whose token protects what is written under it: `cargo run -p pilotlight-redis --example lock [URL]`.

use std::time::Duration;

use pilotlight_redis::recipes::{Lock, LockError};
use pilotlight_redis::{Client, Error, Script};

/// What stands for the resource: it takes a value only with a token that is not older than the last one.
const WRITE: &str = "
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < fence then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1
";

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let (first, late) = run(&Client::connect(&url).await?).await?;
    println!("under the lock: {first}; by a holder that was late: {late}");
    Ok(())
}

/// Whether the resource took what the holder wrote, and what one wrote that had lost the lock before.
pub(crate) async fn run(client: &Client) -> Result<(bool, bool), LockError> {
    let lock = Lock::new(client, "lock:report", Duration::from_secs(10))?;
    let late = lock.acquire(Duration::from_secs(30)).await?;
    let late_token = late.token();
    late.release().await;

    let guard = lock.acquire(Duration::from_secs(30)).await?;
    let taken = tokio::select! {
        taken = write(client, guard.token(), "report of today") => taken?,
        why = guard.lost() => {
            println!("given up: {why}");
            false
        }
    };
    // As a process would that was paused while its lock expired.
    let is_late_taken = write(client, late_token, "report of yesterday").await?;
    guard.release().await;
    Ok((taken, is_late_taken))
}

async fn write(client: &Client, token: u64, value: &str) -> Result<bool, Error> {
    Script::new(WRITE).run(client).key("report").arg(token).arg(value).await
}
