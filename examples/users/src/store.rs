//! Users in SQLite. SQLite's calls block, so they run on threads of their own: one that writes, a few that read. Each has a
//! connection with its statements prepared; the queues to them are bounded, and full means [`StoreError::Busy`].

use crate::seed::seed;
use crate::user::{NewUser, User};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};
use tokio::sync::oneshot;

const READERS: usize = 2;
/// Jobs that may wait for the readers, and for the writer.
const MAX_WAITING: usize = 1024;
/// How long another process may hold the write lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const COLUMNS: &str = "id, name, email, bio, strftime('%Y-%m-%dT%H:%M:%SZ', created_at)";

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Why the store has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{MAX_WAITING} jobs are waiting for the database")]
    Busy,
    #[error("the database's thread has ended")]
    Gone,
    #[error("another user has this email")]
    EmailTaken,
    #[error("database: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// A page of users, and how many there are in all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) total: i64,
    pub(crate) users: Vec<User>,
}

/// The database. Dropping it ends its threads when they have done what waits.
pub(crate) struct Store {
    readers: SyncSender<Job>,
    writer: SyncSender<Job>,
}

impl Store {
    /// Opens the database; creates and fills it if it is new.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut writing = connect(path)?;
        seed(&mut writing)?;
        let (writer, jobs) = sync_channel(MAX_WAITING);
        work("users-writer", writing, Arc::new(Mutex::new(jobs)))?;
        let (readers, jobs) = sync_channel(MAX_WAITING);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..READERS {
            work("users-reader", connect(path)?, Arc::clone(&jobs))?;
        }
        Ok(Self { readers, writer })
    }

    pub(crate) async fn find(&self, id: i64) -> Result<Option<User>, StoreError> {
        run(&self.readers, move |db| find(db, id)).await
    }

    /// Users by id, `limit` of them after `offset`.
    pub(crate) async fn list(&self, offset: i64, limit: i64) -> Result<Page, StoreError> {
        run(&self.readers, move |db| {
            // One statement after the other may see different states; a page is a glimpse anyhow.
            let total = db.prepare_cached("SELECT count(*) FROM users")?.query_row([], |row| row.get(0))?;
            let mut select =
                db.prepare_cached(&format!("SELECT {COLUMNS} FROM users ORDER BY id LIMIT ?1 OFFSET ?2"))?;
            let users = select.query_map([limit, offset], user)?.collect::<Result<_, _>>()?;
            Ok(Page { total, users })
        })
        .await
    }

    pub(crate) async fn create(&self, new: NewUser) -> Result<User, StoreError> {
        run(&self.writer, move |db| {
            let sql = format!("INSERT INTO users (name, email, bio) VALUES (?1, ?2, ?3) RETURNING {COLUMNS}");
            db.prepare_cached(&sql)?.query_row(params![new.name, new.email, new.bio], user).map_err(taken)
        })
        .await
    }

    /// The new state, `None` if there is no such user.
    pub(crate) async fn replace(&self, id: i64, new: NewUser) -> Result<Option<User>, StoreError> {
        run(&self.writer, move |db| {
            let sql = format!("UPDATE users SET name = ?2, email = ?3, bio = ?4 WHERE id = ?1 RETURNING {COLUMNS}");
            let mut update = db.prepare_cached(&sql)?;
            update.query_row(params![id, new.name, new.email, new.bio], user).optional().map_err(taken)
        })
        .await
    }

    /// Whether there was such a user.
    pub(crate) async fn delete(&self, id: i64) -> Result<bool, StoreError> {
        run(&self.writer, move |db| Ok(db.prepare_cached("DELETE FROM users WHERE id = ?1")?.execute([id])? > 0)).await
    }
}

fn find(db: &Connection, id: i64) -> Result<Option<User>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM users WHERE id = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([id], user).optional()?)
}

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    Ok(User { id: row.get(0)?, name: row.get(1)?, email: row.get(2)?, bio: row.get(3)?, created_at: row.get(4)? })
}

/// The only constraint that a checked user can break is the unique email.
fn taken(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => StoreError::EmailTaken,
        _ => StoreError::Sqlite(error),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(LOCK_WAIT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // What was answered with success is on the disk.
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn work(name: &str, connection: Connection, jobs: Arc<Mutex<Receiver<Job>>>) -> io::Result<()> {
    let next = move || jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
    thread::Builder::new().name(name.into()).spawn(move || {
        while let Ok(job) = next() {
            job(&connection);
        }
    })?;
    Ok(())
}

async fn run<T: Send + 'static>(
    queue: &SyncSender<Job>,
    job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (answer, waits) = oneshot::channel();
    let job: Job = Box::new(move |connection| {
        // Nobody waits any more: a read is not worth doing, and a write that was not begun may be left out.
        if !answer.is_closed() {
            let _unheard = answer.send(job(connection));
        }
    });
    queue.try_send(job).map_err(|error| match error {
        TrySendError::Full(_) => StoreError::Busy,
        TrySendError::Disconnected(_) => StoreError::Gone,
    })?;
    waits.await.map_err(|_| StoreError::Gone)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::ROWS;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn new(email: &str) -> NewUser {
        NewUser { name: "New".into(), email: email.into(), bio: None }
    }

    #[test]
    fn a_new_database_has_the_same_10000_users_and_is_not_filled_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/down/users.db");
        let store = Store::open(&path).unwrap();
        let ada = block_on(store.find(1)).unwrap().unwrap();
        assert_eq!((ada.name.as_str(), ada.email.as_str()), ("Ada Allen", "ada.allen.1@example.org"));
        assert_eq!(ada.created_at, "2024-01-01T00:00:00Z");
        assert!(block_on(store.delete(1)).unwrap() && !block_on(store.delete(1)).unwrap());
        drop(store);
        let page = block_on(Store::open(&path).unwrap().list(0, 2)).unwrap();
        assert_eq!((page.total, page.users[0].id, page.users.len()), (ROWS - 1, 2, 2));
    }

    #[test]
    fn filling_that_was_cut_short_starts_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.db");
        let half = connect(&path).unwrap();
        half.execute_batch("BEGIN; CREATE TABLE users (id INTEGER PRIMARY KEY); INSERT INTO users VALUES (1);")
            .unwrap();
        drop(half);
        assert_eq!(block_on(Store::open(&path).unwrap().list(0, 1)).unwrap().total, ROWS);
    }

    #[test]
    fn two_at_once_fill_it_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.db");
        let stores: Vec<_> = thread::scope(|scope| {
            let open: Vec<_> = (0..2).map(|_| scope.spawn(|| Store::open(&path))).collect();
            open.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
        });
        for store in stores {
            assert_eq!(block_on(store.list(0, 1)).unwrap().total, ROWS);
        }
    }

    #[test]
    fn create_replace_and_conflict() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("users.db")).unwrap();
        let created = block_on(store.create(new("new@example.org"))).unwrap();
        assert_eq!((created.id, created.name.as_str()), (ROWS + 1, "New"));
        assert!(matches!(block_on(store.create(new("new@example.org"))), Err(StoreError::EmailTaken)));
        assert!(matches!(block_on(store.replace(7, new("new@example.org"))), Err(StoreError::EmailTaken)));
        let replaced = block_on(store.replace(created.id, new("other@example.org"))).unwrap().unwrap();
        assert_eq!((replaced.email.as_str(), &replaced.created_at), ("other@example.org", &created.created_at));
        assert_eq!(block_on(store.find(created.id)).unwrap(), Some(replaced));
        assert_eq!(block_on(store.replace(99_999, new("x@example.org"))).unwrap(), None);
    }
}
