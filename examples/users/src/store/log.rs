//! The write-ahead log: how long it may become, and when it is folded into the database.
//!
//! By itself SQLite folds 1,000 pages in the commit that fills them, and that commit and the next take five times as
//! long. Here a thread of its own folds what the writer has left behind, with a connection of its own, so no request
//! waits for that. A log is written from its beginning again only after all of it was folded; while commits follow each
//! other there is no such moment. So the writer makes one, between two commits, when the log has [`MAX_PAGES`].

use std::cell::Cell;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;

/// New pages of 4 KiB after which the other thread folds them.
const FOLD_PAGES: u32 = 1000;
/// Pages after which the writer folds what is left, and again after each further [`FOLD_PAGES`] while another process
/// reads an old state: 16 MiB. An fsync of a file that grows waits for the file system's journal, of one that is
/// written over it does not (ext4: 0.40 against 0.28 ms, p99 4 to 6 against 0.4 to 0.7 ms), so a log that is begun anew
/// soon is faster. A quarter of it would make so many pauses that they show in p99 of a slow disk.
const MAX_PAGES: u32 = 4096;

thread_local! {
    /// What SQLite has told of the log in this thread's last commit. Its hook is a function, and has no place of its
    /// own.
    static PAGES: Cell<u32> = const { Cell::new(0) };
}

/// The log as the writer's thread sees it.
#[derive(Debug)]
pub(super) struct Log {
    /// Pages in it after the last commit.
    pages: u32,
    /// Pages that were in it when it was last folded, or the other thread was asked to do that.
    asked: u32,
    ask: SyncSender<()>,
}

/// What folds the log on a thread of its own.
#[derive(Debug)]
pub(super) struct Folder {
    connection: Connection,
    asked: Receiver<()>,
}

/// What is to be done after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// The other thread folds.
    Ask,
    /// The writer folds.
    Fold,
}

/// `connection` is the folder's.
pub(super) fn new(connection: Connection) -> (Log, Folder) {
    // One place: who is asked while he works has to work once more.
    let (ask, asked) = sync_channel(1);
    (Log { pages: 0, asked: 0, ask }, Folder { connection, asked })
}

impl Log {
    /// Keeps SQLite from folding in the writer's commits, and listens to what it says instead.
    pub(super) fn watch(writer: &Connection) {
        writer.wal_hook(Some(|_, pages| {
            PAGES.set(u32::try_from(pages).unwrap_or_default());
            Ok(())
        }));
    }

    /// After a commit and its answers.
    pub(super) fn committed(&mut self, writer: &Connection) {
        match self.step(PAGES.get()) {
            Step::Nothing => {}
            Step::Ask => self.ask(),
            Step::Fold => fold(writer),
        }
    }

    /// The writer has nothing to do: all of the log can be folded now, and will be written from its beginning.
    pub(super) fn idle(&mut self) {
        if self.asked < self.pages {
            self.asked = self.pages;
            self.ask();
        }
    }

    /// The disk is full: a log that is written from its beginning takes no more of it.
    pub(super) fn full(&mut self, writer: &Connection) {
        self.asked = self.pages;
        fold(writer);
    }

    fn step(&mut self, pages: u32) -> Step {
        if pages < self.pages {
            // From its beginning.
            self.asked = 0;
        }
        self.pages = pages;
        if pages - self.asked < FOLD_PAGES {
            return Step::Nothing;
        }
        self.asked = pages;
        if pages < MAX_PAGES { Step::Ask } else { Step::Fold }
    }

    fn ask(&self) {
        // Full: it was asked already, and will look after this. Disconnected: it has ended, and said why.
        let _asked = self.ask.try_send(());
    }
}

impl Folder {
    /// Until the writer has ended.
    pub(super) fn run(self) {
        while self.asked.recv().is_ok() {
            fold(&self.connection);
        }
    }
}

/// Copies into the database what nobody has to find in the log any more. It waits for no reader and no writer
/// (<https://sqlite.org/c3ref/wal_checkpoint_v2.html>, PASSIVE); what they still need stays for the next time.
fn fold(connection: &Connection) {
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        eprintln!("users: the log could not be folded into the database, and grows: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn open(path: &Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection
    }

    #[test]
    fn the_other_thread_is_asked_every_thousand_pages_and_the_writer_folds_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, _folder) = new(open(&folder.path().join("a.db")));
        assert_eq!(log.step(FOLD_PAGES - 1), Step::Nothing);
        assert_eq!(log.step(FOLD_PAGES + 5), Step::Ask);
        assert_eq!(log.step(2 * FOLD_PAGES + 4), Step::Nothing);
        assert_eq!(log.step(2 * FOLD_PAGES + 5), Step::Ask);
        assert_eq!(log.step(MAX_PAGES), Step::Fold);
        // A reader has kept it from being folded whole.
        assert_eq!(log.step(MAX_PAGES + 12), Step::Nothing);
        assert_eq!(log.step(MAX_PAGES + FOLD_PAGES), Step::Fold);
        // It was: the log begins anew.
        assert_eq!(log.step(12), Step::Nothing);
        assert_eq!(log.step(FOLD_PAGES), Step::Ask);
    }

    #[test]
    fn a_commit_folds_nothing_and_who_is_idle_has_everything_folded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let writer = open(&path);
        Log::watch(&writer);
        let (mut log, other) = new(open(&path));
        let thread = std::thread::spawn(move || other.run());
        writer.execute_batch("CREATE TABLE t (text)").unwrap();
        // More than SQLite by itself would leave in the log.
        for _ in 0..3 {
            writer.execute("INSERT INTO t VALUES (zeroblob(2000000))", []).unwrap();
        }
        let size = || std::fs::metadata(&path).unwrap().len();
        let before = size();
        assert!(before < 100_000, "{before} bytes are in the database already");
        log.step(PAGES.get());
        log.asked = 0;
        log.idle();
        drop(log);
        thread.join().unwrap();
        assert!(size() > 6_000_000, "{} bytes are in the database", size());
        writer.execute("DELETE FROM t WHERE rowid = 9", []).unwrap();
        writer.execute("INSERT INTO t VALUES (1)", []).unwrap();
        assert!(PAGES.get() < 10, "the log has {} pages: it was not begun anew", PAGES.get());
    }
}
