//! A row as JSON, in two ways with the same outcome.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::{Serialize, Serializer};

// The very encoding of examples/users.
#[path = "../../../../examples/users/src/json.rs"]
mod json;

use json::{USER_ROOM, UserView};

/// Turns a user into JSON.
pub trait Encode: Send + Sync + 'static {
    /// `row` has id, name, email, bio and created_at.
    ///
    /// # Errors
    /// A column has another type.
    fn user(row: &Row<'_>) -> rusqlite::Result<Vec<u8>>;
}

/// As examples/users does it.
#[derive(Clone, Copy, Debug)]
pub struct ByHand;

impl Encode for ByHand {
    fn user(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(USER_ROOM);
        json::user(&mut out, &read(row)?);
        Ok(out)
    }
}

/// With serde_json, from borrowed fields.
#[derive(Clone, Copy, Debug)]
pub struct BySerde;

/// How serde_json writes a user.
#[derive(Serialize)]
#[serde(remote = "UserView", rename_all = "camelCase")]
struct User<'a> {
    id: i64,
    name: &'a str,
    email: &'a str,
    bio: Option<&'a str>,
    #[serde(serialize_with = "rfc3339")]
    created_at: Option<&'a str>,
}

impl Encode for BySerde {
    fn user(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(USER_ROOM);
        User::serialize(&read(row)?, &mut serde_json::Serializer::new(&mut out))
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(out)
    }
}

/// A user of a row, borrowed from it.
fn read<'r>(row: &'r Row<'_>) -> rusqlite::Result<UserView<'r>> {
    Ok(UserView {
        id: row.get(0)?,
        name: text(row, 1)?.unwrap_or_default(),
        email: text(row, 2)?.unwrap_or_default(),
        bio: text(row, 3)?,
        created_at: text(row, 4)?,
    })
}

/// SQLite's `YYYY-MM-DD HH:MM:SS`, which is UTC.
fn rfc3339<S: Serializer>(time: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    match time.and_then(|time| time.split_once(' ')) {
        Some((date, time)) => serializer.collect_str(&format_args!("{date}T{time}Z")),
        None => time.serialize(serializer),
    }
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<Option<&'r str>> {
    let value: ValueRef<'r> = row.get_ref(column)?;
    let wrong = |error: rusqlite::types::FromSqlError| {
        rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), error.into())
    };
    value.as_str_or_null().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_write_the_same() {
        let database = rusqlite::Connection::open_in_memory().unwrap();
        let rows = [
            "1, 'Ada', 'a@b', 'bio', '2024-01-02 03:04:05'",
            "2, '\"\\\u{1}é', '', NULL, '2024-01-02 03:04:05'",
            "3, '', '', '', NULL",
        ];
        for row in rows {
            let written = |encode: fn(&Row<'_>) -> rusqlite::Result<Vec<u8>>| {
                database.query_row(&format!("SELECT {row}"), [], |row| encode(row)).unwrap()
            };
            assert_eq!(
                String::from_utf8(written(ByHand::user)).unwrap(),
                String::from_utf8(written(BySerde::user)).unwrap()
            );
        }
    }
}
