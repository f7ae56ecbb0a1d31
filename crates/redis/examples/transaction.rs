//! Transactions, optimistic ones, and a script: `cargo run -p pilotlight-redis --example transaction [URL]`.

use pilotlight_redis::{Aborted, Client, Commands, Dedicated, Error, ErrorKind, Script};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    println!("balance: {}", run(&url).await?);
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<i64, Error> {
    let client = Client::connect(url).await?;
    client.set("{account:1}:balance", 0).await?;

    // MULTI … EXEC in one piece: all or nothing, and no other command between.
    let mut deposit = client.transaction();
    let balance = deposit.incrby("{account:1}:balance", 100);
    deposit.rpush("{account:1}:log", "deposit 100");
    let mut replies = deposit.run().await?;
    println!("after the deposit: {}", replies.take(balance)?);

    // What is written depends on what was read: tried again if somebody else writes in between.
    let balances = (0..10).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { withdraw(&client, 7).await })
    });
    for balance in balances.collect::<Vec<_>>() {
        if let Ok(balance) = balance.await {
            balance?;
        }
    }

    // The same as a script: one round trip, and nothing to be tried again.
    let withdraw = Script::new(
        "local balance = tonumber(redis.call('GET', KEYS[1]))
         if balance < tonumber(ARGV[1]) then return nil end
         return redis.call('DECRBY', KEYS[1], ARGV[1])",
    );
    let refused: Option<i64> = withdraw.run(&client).key("{account:1}:balance").arg(1000).await?;
    println!("too much: {refused:?}");
    withdraw.run::<Option<i64>>(&client).key("{account:1}:balance").arg(10).await.map(Option::unwrap_or_default)
}

async fn withdraw(client: &Client, amount: i64) -> Result<i64, Error> {
    let withdrawn = client
        .watch("{account:1}:balance", async move |connection: &mut Dedicated| {
            let balance: i64 = connection.get("{account:1}:balance").read_as().await?;
            let mut transaction = connection.transaction();
            transaction.decrby("{account:1}:balance", amount);
            transaction.rpush("{account:1}:log", format!("withdrawal {amount}"));
            transaction.run().await?;
            Ok(balance - amount)
        })
        .await;
    if let Err(error) = &withdrawn
        && let ErrorKind::Aborted(Aborted::Changed { attempts }) = error.kind()
    {
        println!("others were faster {attempts} times");
    }
    withdrawn
}
