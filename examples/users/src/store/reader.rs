//! Reading, straight into JSON.

use std::time::Duration;

use rusqlite::types::{FromSqlError, ValueRef};
use rusqlite::{Connection, Row};

use super::StoreError;
use crate::json::{self, USER_ROOM, UserView};

/// How long a read may wait for another process that recovers the database. It holds up the whole thread, so not for
/// long.
const LOCK_WAIT: Duration = Duration::from_millis(20);
/// Statements that stay prepared; there are two.
const STATEMENTS: usize = 4;
const ONE: &str = "SELECT id, name, email, bio, created_at FROM users WHERE id = ?1";
/// What is left out is counted in the index of ids, see `seed`.
const PAGE: &str = "SELECT id, name, email, bio, created_at FROM users \
    WHERE id >= (SELECT id FROM users ORDER BY id LIMIT 1 OFFSET ?2) ORDER BY id LIMIT ?1";

/// A connection that reads.
#[derive(Debug)]
pub(crate) struct Reader {
    connection: Connection,
}

impl Reader {
    pub(super) fn new(connection: Connection) -> rusqlite::Result<Self> {
        connection.busy_timeout(LOCK_WAIT)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(Self { connection })
    }

    /// A user as JSON.
    pub(crate) fn one(&self, id: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let mut select = self.connection.prepare_cached(ONE)?;
        let mut rows = select.query([id])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut out = Vec::with_capacity(USER_ROOM);
        append(&mut out, row)?;
        Ok(Some(out))
    }

    /// Users by id as a JSON array, `limit` of them after `offset`.
    pub(crate) fn page(&self, out: &mut Vec<u8>, offset: i64, limit: i64) -> Result<(), StoreError> {
        let mut select = self.connection.prepare_cached(PAGE)?;
        let mut rows = select.query([limit, offset])?;
        out.push(b'[');
        let mut first = true;
        while let Some(row) = rows.next()? {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            append(out, row)?;
        }
        out.push(b']');
        Ok(())
    }
}

fn append(out: &mut Vec<u8>, row: &Row<'_>) -> rusqlite::Result<()> {
    let view = UserView {
        id: row.get(0)?,
        name: text(row, 1)?.unwrap_or_default(),
        email: text(row, 2)?.unwrap_or_default(),
        bio: text(row, 3)?,
        created_at: text(row, 4)?,
    };
    json::user(out, &view);
    Ok(())
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<Option<&'r str>> {
    let value: ValueRef<'r> = row.get_ref(column)?;
    let wrong =
        |error: FromSqlError| rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), error.into());
    value.as_str_or_null().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::store::{Store, StoreSettings};

    #[test]
    fn pages_are_found_by_the_index_of_ids() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.db");
        let settings = StoreSettings { max_waiting_writes: 16, lock_wait: Duration::from_secs(5), index: true };
        let store = Store::open(&path, settings).unwrap();
        let reader = store.handle().reader().unwrap();
        let plan: String = {
            let mut explain = reader.connection.prepare(&format!("EXPLAIN QUERY PLAN {PAGE}")).unwrap();
            let mut rows = explain.query([20, 5000]).unwrap();
            let mut plan = String::new();
            while let Some(row) = rows.next().unwrap() {
                writeln!(plan, "{}", row.get::<_, String>("detail").unwrap()).unwrap();
            }
            plan
        };
        assert!(plan.contains("SCAN users USING COVERING INDEX users_by_id"), "{plan}");
        assert!(plan.contains("SEARCH users USING INTEGER PRIMARY KEY (rowid>?)"), "{plan}");

        let mut page = Vec::new();
        reader.page(&mut page, 9_998, 20).unwrap();
        let users: Vec<serde_json::Value> = serde_json::from_slice(&page).unwrap();
        assert_eq!(users.iter().map(|user| &user["id"]).collect::<Vec<_>>(), [9_999, 10_000]);

        page.clear();
        reader.page(&mut page, 10_000, 20).unwrap();
        assert_eq!(page, b"[]");
    }
}
