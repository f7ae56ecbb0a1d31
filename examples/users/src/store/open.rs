//! Opening: the file, its settings, its threads.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};

use super::log::{self, Log};
use super::reader::Reader;
use super::seed::seed;
use super::writer::{self, Writer};

/// Pages that each connection keeps, in KiB; SQLite's own default is 2,000.
const PAGE_CACHE_KIB: i64 = 16 * 1024;

/// How long others who open a new database at the same time are waited for, and how long between two tries.
const SWITCH_WAIT: Duration = Duration::from_secs(5);
const SWITCH_PAUSE: Duration = Duration::from_millis(5);

/// How a store is opened, and its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreSettings {
    /// Writes that may wait for the writer.
    pub(crate) max_waiting_writes: usize,
    /// How long another process may hold the write lock.
    pub(crate) lock_wait: Duration,
    /// Whether a database that has no index of ids gets it.
    pub(crate) index: bool,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{}: the file system is read-only, and SQLite writes beside its database: mount it writable, or name another file by --db", .0.display())]
    ReadOnly(PathBuf),
    #[error("{}: this user may not write there, and SQLite writes beside its database: change its owner or mode, or name another file by --db", .0.display())]
    Forbidden(PathBuf),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// An open database. Dropping it waits until the writer has done what was asked of it, and closes its connections.
#[derive(Debug)]
pub(crate) struct Store {
    handle: StoreHandle,
    /// The writer, and who folds its log: he ends after it.
    threads: Vec<JoinHandle<()>>,
}

/// What makes readers and writers, on any thread.
#[derive(Clone, Debug)]
pub(crate) struct StoreHandle {
    path: PathBuf,
    writer: Writer,
}

impl Store {
    /// Opens the database; creates and fills it if it is new.
    pub(crate) fn open(path: &Path, settings: StoreSettings) -> Result<Self, OpenError> {
        Self::try_open(path, settings).map_err(|error| explained(path, error))
    }

    fn try_open(path: &Path, settings: StoreSettings) -> Result<Self, OpenError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut connection = connect(path)?;
        connection.busy_timeout(settings.lock_wait)?;
        // What was answered with success is on the disk.
        connection.pragma_update(None, "synchronous", "FULL")?;
        seed(&mut connection, settings.index)?;
        Log::watch(&connection);
        let (log, folder) = log::new(connect(path)?);
        let (writer, work) = writer::new(connection, log, settings.max_waiting_writes);
        let start = |name: &str| thread::Builder::new().name(name.into());
        let threads =
            vec![start("users-writer").spawn(move || work.run())?, start("users-log").spawn(move || folder.run())?];
        Ok(Self { handle: StoreHandle { path: path.to_owned(), writer }, threads })
    }

    pub(crate) fn handle(&self) -> StoreHandle {
        self.handle.clone()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.handle.writer.end();
        for thread in self.threads.drain(..) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                eprintln!("users: the thread {name} had panicked");
            }
        }
    }
}

impl StoreHandle {
    /// A reader for the calling thread.
    pub(crate) fn reader(&self) -> rusqlite::Result<Reader> {
        Reader::new(connect(&self.path)?)
    }

    pub(crate) fn writer(&self) -> Writer {
        self.writer.clone()
    }
}

/// SQLite says "unable to open database file" of much, and of the folder's state nothing: it is looked what hinders a
/// write there.
fn explained(path: &Path, error: OpenError) -> OpenError {
    let hindrance = match &error {
        OpenError::Io(error) => Some((path.to_owned(), error.kind())),
        _ => hindrance(path),
    };
    match hindrance {
        Some((place, io::ErrorKind::ReadOnlyFilesystem)) => OpenError::ReadOnly(place),
        Some((place, io::ErrorKind::PermissionDenied)) => OpenError::Forbidden(place),
        _ => error,
    }
}

/// Why the database, or a file beside it, cannot be written, if so.
fn hindrance(path: &Path) -> Option<(PathBuf, io::ErrorKind)> {
    if let Err(error) = OpenOptions::new().write(true).open(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Some((path.to_owned(), error.kind()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let probe = folder.join(format!(".users-{}", std::process::id()));
    match OpenOptions::new().write(true).create_new(true).open(&probe) {
        Ok(_) => {
            let _ = fs::remove_file(&probe);
            None
        }
        Err(error) => Some((folder.to_owned(), error.kind())),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    log_ahead(&connection)?;
    connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)?;
    // Otherwise a statement whose LIMIT is bound is planned anew for each value: half of what a page costs.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// With a write-ahead log readers and the writer do not wait for each other. A new database gets it while nobody else
/// has it open for a moment; SQLite itself does not wait for that, whatever its `busy_timeout`, as two who wait for
/// each other would wait for ever.
fn log_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + SWITCH_WAIT;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < end => {
                thread::sleep(SWITCH_PAUSE);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::seed::ROWS;
    use super::*;

    const SETTINGS: StoreSettings =
        StoreSettings { max_waiting_writes: 16, lock_wait: Duration::from_secs(5), index: true };

    fn rows(path: &Path) -> i64 {
        connect(path).unwrap().query_row("SELECT count(*) FROM users", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_new_database_is_filled_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/down/users.db");
        drop(Store::open(&path, SETTINGS).unwrap());
        connect(&path).unwrap().execute("DELETE FROM users WHERE id = 1", []).unwrap();
        drop(Store::open(&path, SETTINGS).unwrap());
        assert_eq!(rows(&path), ROWS - 1);
    }

    #[test]
    fn filling_that_was_cut_short_starts_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.db");
        let half = connect(&path).unwrap();
        half.execute_batch("BEGIN; CREATE TABLE users (id INTEGER PRIMARY KEY); INSERT INTO users VALUES (1);")
            .unwrap();
        drop(half);
        drop(Store::open(&path, SETTINGS).unwrap());
        assert_eq!(rows(&path), ROWS);
    }

    #[test]
    fn a_database_without_the_index_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.db");
        let indexes = || -> i64 {
            let count = "SELECT count(*) FROM sqlite_schema WHERE name = 'users_by_id'";
            connect(&path).unwrap().query_row(count, [], |row| row.get(0)).unwrap()
        };
        for _ in 0..2 {
            drop(Store::open(&path, StoreSettings { index: false, ..SETTINGS }).unwrap());
            assert_eq!((rows(&path), indexes()), (ROWS, 0));
        }
        for index in [true, false] {
            drop(Store::open(&path, StoreSettings { index, ..SETTINGS }).unwrap());
            assert_eq!((rows(&path), indexes()), (ROWS, 1), "once made it stays");
        }
    }

    #[test]
    fn two_at_once_fill_it_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.db");
        thread::scope(|scope| {
            let open: Vec<_> = (0..2).map(|_| scope.spawn(|| Store::open(&path, SETTINGS).unwrap())).collect();
            for one in open {
                one.join().unwrap();
            }
        });
        assert_eq!(rows(&path), ROWS);
    }
}
