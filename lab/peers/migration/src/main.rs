//! Runs the other side of the migration pages: `migration redis://host:port`.

mod fred_side;
mod redis_rs;

#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    redis_rs::run(&url).await.expect("redis-rs");
    fred_side::run(&url).await.expect("fred");
    println!("both run");
}
