//! Writing: one thread, one connection, groups of changes that share a commit.
//!
//! A commit costs an fsync whatever is in it, so whoever comes while one is under way waits for the next, which takes
//! them all. A writer that was idle commits the first change alone, at once. After a commit that took long it waits a
//! little for those whom it has just answered: else they and those who had waited would take turns, each half the group
//! and twice the time.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::sync::oneshot;

use super::StoreError;
use super::log::Log;
use crate::json::{self, USER_ROOM, UserView};
use crate::user::NewUser;

/// Changes in one commit. More would save nothing (at 100, a change costs what one in a group of 500 does) and make the
/// first wait.
const MAX_GROUP: usize = 256;
/// How much of the last commit's time to wait for as many as were there then.
const COMPANY_SHARE: u32 = 8;
/// A shorter wait is not worth its own price: the kernel's timers are late by 50 µs.
const MIN_COMPANY_WAIT: Duration = Duration::from_micros(200);
const MAX_COMPANY_WAIT: Duration = Duration::from_millis(2);
/// After so long without a job the writer counts as idle.
const IDLE: Duration = Duration::from_millis(100);
const INSERT: &str = "INSERT INTO users (name, email, bio) VALUES (?1, ?2, ?3) RETURNING id, created_at";
const UPDATE: &str = "UPDATE users SET name = ?2, email = ?3, bio = ?4 WHERE id = ?1 RETURNING created_at";
const DELETE: &str = "DELETE FROM users WHERE id = ?1";

/// What is to be changed.
#[derive(Debug)]
pub(crate) enum Change {
    Create(NewUser),
    Replace(i64, NewUser),
    Delete(i64),
}

/// What was changed, and is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Created {
        id: i64,
        json: Vec<u8>,
    },
    Replaced {
        json: Vec<u8>,
    },
    Deleted,
    /// There is no such user.
    Missing,
}

type Outcome = Result<Changed, StoreError>;
type Answers = Vec<(oneshot::Sender<Outcome>, Outcome)>;

#[derive(Debug)]
struct Job {
    change: Change,
    answer: oneshot::Sender<Outcome>,
}

/// Hands changes to the writer's thread.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    /// `None` ends the thread, after what was sent before.
    jobs: SyncSender<Option<Job>>,
    max_waiting: usize,
}

/// The writer's thread.
#[derive(Debug)]
pub(super) struct Work {
    connection: Connection,
    log: Log,
    jobs: Receiver<Option<Job>>,
}

/// What comes from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Job,
    /// The thread is to end.
    End,
}

/// How many writers there were lately, and until when to wait for as many.
#[derive(Clone, Copy, Debug)]
struct Company {
    count: usize,
    until: Instant,
}

impl Company {
    fn none(now: Instant) -> Self {
        Self { count: 0, until: now }
    }

    /// After a commit that took `time`: `count` were answered now or have waited meanwhile.
    fn after(count: usize, time: Duration, now: Instant) -> Self {
        let wait = (time / COMPANY_SHARE).min(MAX_COMPANY_WAIT);
        if wait < MIN_COMPANY_WAIT { Self::none(now) } else { Self { count: count.min(MAX_GROUP), until: now + wait } }
    }
}

pub(super) fn new(connection: Connection, log: Log, max_waiting: usize) -> (Writer, Work) {
    let (sender, jobs) = sync_channel(max_waiting);
    (Writer { jobs: sender, max_waiting }, Work { connection, log, jobs })
}

impl Writer {
    /// Waits until the change is on the disk, or is certain not to be.
    ///
    /// # Cancel safety
    /// A change that was not begun is left out; otherwise it is made.
    pub(crate) async fn change(&self, change: Change) -> Outcome {
        let (answer, waits) = oneshot::channel();
        self.jobs.try_send(Some(Job { change, answer })).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy { max_waiting: self.max_waiting },
            TrySendError::Disconnected(_) => StoreError::Gone,
        })?;
        waits.await.map_err(|_| StoreError::Gone)?
    }

    /// Ends the thread when it has done what waits.
    pub(super) fn end(&self) {
        // It has ended already otherwise.
        let _ended = self.jobs.send(None).is_err();
    }
}

impl Work {
    pub(super) fn run(mut self) {
        let (mut group, mut company) = (Vec::new(), Company::none(Instant::now()));
        let mut next = Next::Job;
        while next == Next::Job {
            next = self.gather(&mut group, company);
            // Nobody waits for these any more, and they were not begun.
            group.retain(|job| !job.answer.is_closed());
            let begin = Instant::now();
            let mut answers = Vec::with_capacity(group.len());
            self.commit(std::mem::take(&mut group), &mut answers);
            let time = begin.elapsed();
            if next == Next::Job {
                next = self.take(&mut group);
            }
            company = Company::after(answers.len() + group.len(), time, Instant::now());
            for (answer, outcome) in answers {
                let _unheard = answer.send(outcome);
            }
            self.log.committed(&self.connection);
        }
        let mut answers = Vec::new();
        self.commit(group, &mut answers);
        for (answer, outcome) in answers {
            let _unheard = answer.send(outcome);
        }
    }

    /// Waits for a first job, and then, as long as company is expected, for others.
    fn gather(&mut self, group: &mut Vec<Job>, company: Company) -> Next {
        if group.is_empty() {
            let first = self.jobs.recv_timeout(IDLE).or_else(|_| {
                self.log.idle();
                self.jobs.recv()
            });
            match first {
                Ok(Some(job)) => group.push(job),
                Ok(None) | Err(_) => return Next::End,
            }
        }
        let mut next = self.take(group);
        while next == Next::Job && group.len() < company.count {
            match self.jobs.recv_timeout(company.until.saturating_duration_since(Instant::now())) {
                Ok(Some(job)) => group.push(job),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => next = Next::End,
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        next
    }

    /// Takes the jobs that are there, as far as a group has room.
    fn take(&self, group: &mut Vec<Job>) -> Next {
        while group.len() < MAX_GROUP {
            match self.jobs.try_recv() {
                Ok(Some(job)) => group.push(job),
                Ok(None) | Err(TryRecvError::Disconnected) => return Next::End,
                Err(TryRecvError::Empty) => break,
            }
        }
        Next::Job
    }

    /// Makes all changes of `group`; what becomes of each goes to `answers`.
    fn commit(&mut self, group: Vec<Job>, answers: &mut Answers) {
        if group.is_empty() {
            return;
        }
        let outcome = match self.transaction(&group) {
            Err(StoreError::Full) => {
                self.log.full(&self.connection);
                self.transaction(&group)
            }
            outcome => outcome,
        };
        match outcome {
            Ok(outcomes) => answers.extend(group.into_iter().map(|job| job.answer).zip(outcomes)),
            // One at a time: what fits on the disk is kept, and who broke the group breaks only himself.
            Err(error) if group.len() > 1 && !is_for_all(&error) => {
                for job in group {
                    self.commit(vec![job], answers);
                }
            }
            Err(error) => {
                eprintln!("users: {} writes failed: {error}", group.len());
                answers.extend(group.into_iter().map(|job| (job.answer, Err(error.clone()))));
            }
        }
    }

    /// All of `group` in one transaction. Its error means that nothing was changed.
    fn transaction(&self, group: &[Job]) -> Result<Vec<Outcome>, StoreError> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let run = || -> Result<_, StoreError> {
            let mut outcomes = Vec::with_capacity(group.len());
            for job in group {
                // A statement that breaks a constraint undoes itself and nothing else, so none needs a savepoint
                // (https://sqlite.org/lang_conflict.html, ABORT).
                match self.apply(&job.change) {
                    Err(error) if error != StoreError::EmailTaken => return Err(error),
                    outcome => outcomes.push(outcome),
                }
            }
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(outcomes)
        };
        run().inspect_err(|_| {
            // A full disk has ended the transaction already (https://sqlite.org/lang_transaction.html, 3).
            if !self.connection.is_autocommit()
                && let Err(error) = self.connection.execute_batch("ROLLBACK")
            {
                eprintln!("users: a transaction could not be undone: {error}");
            }
        })
    }

    fn apply(&self, change: &Change) -> Outcome {
        match change {
            Change::Create(new) => {
                let mut insert = self.connection.prepare_cached(INSERT)?;
                let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                let (id, created_at): (i64, Option<String>) =
                    insert.query_row(params![new.name, new.email, new.bio], row)?;
                Ok(Changed::Created { id, json: encode(id, new, created_at.as_deref()) })
            }
            Change::Replace(id, new) => {
                let mut update = self.connection.prepare_cached(UPDATE)?;
                let found: Option<Option<String>> =
                    update.query_row(params![id, new.name, new.email, new.bio], |row| row.get(0)).optional()?;
                Ok(match found {
                    Some(created_at) => Changed::Replaced { json: encode(*id, new, created_at.as_deref()) },
                    None => Changed::Missing,
                })
            }
            Change::Delete(id) => match self.connection.prepare_cached(DELETE)?.execute([id])? {
                0 => Ok(Changed::Missing),
                _ => Ok(Changed::Deleted),
            },
        }
    }
}

/// Whether it would be the same for each change alone, and waiting for it again would only take longer.
fn is_for_all(error: &StoreError) -> bool {
    matches!(error, StoreError::Locked | StoreError::ReadOnly)
}

fn encode(id: i64, new: &NewUser, created_at: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(USER_ROOM);
    let view = UserView { id, name: &new.name, email: &new.email, bio: new.bio.as_deref(), created_at };
    json::user(&mut out, &view);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        work: Work,
        _folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let mut connection = Connection::open(folder.path().join("users.db")).unwrap();
            connection.pragma_update(None, "journal_mode", "WAL").unwrap();
            super::super::seed::seed(&mut connection, true).unwrap();
            let (_, work) = new(connection, quiet_log(), 1);
            Self { work, _folder: folder }
        }

        /// The outcomes of changes that share a group.
        fn group(&mut self, changes: Vec<Change>) -> Vec<Outcome> {
            let (group, waits): (Vec<Job>, Vec<_>) = changes
                .into_iter()
                .map(|change| {
                    let (answer, waits) = oneshot::channel();
                    (Job { change, answer }, waits)
                })
                .unzip();
            let mut answers = Vec::new();
            self.work.commit(group, &mut answers);
            for (answer, outcome) in answers {
                answer.send(outcome).expect("it waits");
            }
            waits.into_iter().map(|wait| wait.blocking_recv().expect("each is answered")).collect()
        }

        fn count(&self) -> i64 {
            self.work.connection.query_row("SELECT count(*) FROM users", [], |row| row.get(0)).unwrap()
        }
    }

    /// SQLite folds by itself, as far as these tests are concerned.
    fn quiet_log() -> Log {
        super::super::log::new(Connection::open_in_memory().unwrap()).0
    }

    fn user(email: &str) -> NewUser {
        NewUser { name: "New".into(), email: email.into(), bio: None }
    }

    #[test]
    fn a_row_that_fails_fails_alone() {
        let mut users = Fixture::new();
        let before = users.count();
        let outcomes = users.group(vec![
            Change::Create(user("a@b")),
            Change::Create(user("a@b")),
            Change::Replace(7, user("a@b")),
            Change::Create(user("c@d")),
            Change::Delete(8),
            Change::Delete(8),
            Change::Replace(8, user("e@f")),
        ]);
        assert!(matches!(outcomes[0], Ok(Changed::Created { id: 10_001, .. })), "{outcomes:?}");
        assert_eq!(outcomes[1], Err(StoreError::EmailTaken));
        assert_eq!(outcomes[2], Err(StoreError::EmailTaken));
        assert!(matches!(outcomes[3], Ok(Changed::Created { id: 10_002, .. })), "{outcomes:?}");
        assert_eq!(outcomes[4..], [Ok(Changed::Deleted), Ok(Changed::Missing), Ok(Changed::Missing)]);
        assert_eq!(users.count(), before + 1);
    }

    #[test]
    fn what_fits_a_full_disk_is_kept_and_the_rest_is_told() {
        let mut users = Fixture::new();
        let database = &users.work.connection;
        let pages: i64 = database.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        // SQLite's own limit raises the error of a full disk; tests/e2e has a disk that is really full.
        database.pragma_update(None, "max_page_count", pages + 2).unwrap();
        let before = users.count();
        let bio = "x".repeat(2000);
        let large = |n: usize| NewUser { bio: Some(bio.clone()), ..user(&format!("{n}@b")) };
        let outcomes = users.group((0..20).map(|n| Change::Create(large(n))).collect());
        let (kept, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert!(!kept.is_empty() && !refused.is_empty(), "{} kept, {} refused", kept.len(), refused.len());
        assert!(refused.iter().all(|outcome| *outcome == Err(StoreError::Full)), "{refused:?}");
        assert_eq!(users.count(), before + kept.len() as i64);
        assert_eq!(users.group(vec![Change::Delete(1)]), [Ok(Changed::Deleted)]);
    }

    #[test]
    fn who_has_gone_before_the_commit_changes_nothing() {
        let users = Fixture::new();
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(folder.path().join("users.db")).unwrap();
        super::super::seed::seed(&mut connection, true).unwrap();
        let (writer, work) = new(connection, quiet_log(), 8);
        let (answer, gone) = oneshot::channel();
        drop(gone);
        writer.jobs.send(Some(Job { change: Change::Delete(1), answer })).unwrap();
        let (answer, waits) = oneshot::channel();
        writer.jobs.send(Some(Job { change: Change::Delete(2), answer })).unwrap();
        writer.end();
        work.run();
        assert_eq!(waits.blocking_recv(), Ok(Ok(Changed::Deleted)));
        let left = Connection::open(folder.path().join("users.db")).unwrap();
        assert_eq!(left.query_row("SELECT min(id) FROM users", [], |row| row.get::<_, i64>(0)), Ok(1));
        assert_eq!(users.count(), 10_000);
    }

    #[test]
    fn company_is_waited_for_an_eighth_of_a_slow_commit_and_not_at_all_after_a_fast_one() {
        let now = Instant::now();
        let slow = Company::after(10, Duration::from_millis(8), now);
        assert_eq!((slow.count, slow.until), (10, now + Duration::from_millis(1)));
        let slower = Company::after(9999, Duration::from_secs(8), now);
        assert_eq!((slower.count, slower.until), (MAX_GROUP, now + MAX_COMPANY_WAIT));
        assert_eq!(Company::after(10, Duration::from_millis(1), now).count, 0);
    }

    #[test]
    fn more_than_may_wait_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("users.db")).unwrap();
        let (writer, _work) = new(connection, quiet_log(), 1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (answer, _waits) = oneshot::channel();
        writer.jobs.send(Some(Job { change: Change::Delete(1), answer })).unwrap();
        let refused = runtime.block_on(writer.change(Change::Delete(2)));
        assert_eq!(refused, Err(StoreError::Busy { max_waiting: 1 }));
    }
}
