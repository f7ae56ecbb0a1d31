//! A new database: the table, its index and 10,000 users, the same each time.

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};

/// Users in a new database.
pub(crate) const ROWS: i64 = 10_000;
const CREATED_AT: &str = "2024-01-01 00:00:00";
/// `PRAGMA user_version` of a filled database.
const VERSION: i64 = 2;
/// The same of one that has no index of ids yet.
const WITHOUT_INDEX: i64 = 1;
/// The ids alone, several hundred to a page of the file: what a list leaves out before its own page is counted in these
/// few pages instead of in the rows. Each commit makes every reader read anew what it had of the file, so pages are
/// what costs.
const INDEX: &str = "CREATE INDEX users_by_id ON users (id)";

const FIRST: [&str; 20] = [
    "Ada",
    "Alan",
    "Barbara",
    "Claude",
    "Dennis",
    "Donald",
    "Edsger",
    "Frances",
    "Grace",
    "Hedy",
    "John",
    "Katherine",
    "Ken",
    "Leslie",
    "Linus",
    "Margaret",
    "Niklaus",
    "Radia",
    "Sophie",
    "Tim",
];
const LAST: [&str; 25] = [
    "Allen", "Backus", "Cerf", "Dijkstra", "Easley", "Floyd", "Goldberg", "Hamilton", "Hopper", "Iverson", "Johnson",
    "Kay", "Knuth", "Lamport", "Liskov", "Lovelace", "McCarthy", "Naur", "Perlman", "Ritchie", "Shannon", "Thompson",
    "Turing", "Wilson", "Wirth",
];

/// Creates and fills the table, and its index if it is wanted, unless that is done. It is one transaction with its own
/// mark in it, so a process that is killed half-way leaves nothing behind, and two at once do it once.
pub(crate) fn seed(connection: &mut Connection, index: bool) -> rusqlite::Result<()> {
    if is_done(version(connection)?, index) {
        return Ok(());
    }
    match fill(connection, index) {
        // Its lists take longer.
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::ReadOnly) && version(connection)? == WITHOUT_INDEX => Ok(()),
        done => done,
    }
}

fn fill(connection: &mut Connection, index: bool) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    if is_done(found, index) {
        return Ok(()); // by another process, meanwhile
    }
    if found != WITHOUT_INDEX {
        add_users(&transaction)?;
    }
    if index {
        transaction.execute_batch(INDEX)?;
    }
    transaction.pragma_update(None, "user_version", if index { VERSION } else { WITHOUT_INDEX })?;
    transaction.commit()
}

/// Whether there is nothing to do for a database of this version.
fn is_done(version: i64, index: bool) -> bool {
    version == VERSION || version == WITHOUT_INDEX && !index
}

fn add_users(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "CREATE TABLE users (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            email TEXT NOT NULL UNIQUE,
            bio TEXT,
            created_at TEXT DEFAULT CURRENT_TIMESTAMP
        )",
    )?;
    let mut insert =
        transaction.prepare("INSERT INTO users (id, name, email, bio, created_at) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for id in 1..=ROWS {
        let index = id as usize - 1;
        let (first, last) = (FIRST[index % FIRST.len()], LAST[index / FIRST.len() % LAST.len()]);
        let email = format!("{}.{}.{id}@example.org", first.to_lowercase(), last.to_lowercase());
        // Every third has none.
        let bio = (id % 3 != 0).then(|| format!("{first} is number {id} and likes small, fast services."));
        insert.execute(params![id, format!("{first} {last}"), email, bio, CREATED_AT])?;
    }
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
