//! Connections that have not sent HELLO: few, and so counted that one service's do not take the places of others.
//!
//! They belong to the instance whose process has dialled, or one of its descendants. A process that left its family (a
//! daemon) belongs to no instance; all of those of one user share one instance's places.
//!
//! A service sends HELLO as soon as it is connected, so of those that wait the oldest is the least likely to.

use crate::limits::{HELLO_TIMEOUT, MAX_UNGREETED, MAX_UNGREETED_INSTANCE};
use std::collections::VecDeque;
use std::time::Instant;
use tokio::task::AbortHandle;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialler {
    /// An instance's, by its run.
    Instance(u64),
    /// A process of this user that is below no instance that is known.
    User(u32),
}

/// Those that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Ungreeted {
    waiting: VecDeque<(Dialler, AbortHandle)>,
    said: Option<Instant>,
}

impl Ungreeted {
    /// Whether others have to be looked at before the next one is accepted.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting.len() >= MAX_UNGREETED_INSTANCE / 2
    }

    /// Notes one more. One that waits is closed for it if there are too many; returns whether that should be said.
    pub(super) fn add(&mut self, dialler: Dialler, handle: AbortHandle, now: Instant) -> bool {
        self.waiting.retain(|(_, handle)| !handle.is_finished());
        let count = |one: Dialler| self.waiting.iter().filter(|(other, _)| *other == one).count();
        let crowded = if count(dialler) >= MAX_UNGREETED_INSTANCE {
            Some(dialler)
        } else if self.waiting.len() >= MAX_UNGREETED {
            self.waiting.iter().map(|(one, _)| *one).max_by_key(|one| count(*one))
        } else {
            None
        };
        let oldest = crowded.and_then(|crowded| self.waiting.iter().position(|(one, _)| *one == crowded));
        let closed = oldest.and_then(|oldest| self.waiting.remove(oldest));
        self.waiting.push_back((dialler, handle));
        closed.inspect(|(_, handle)| handle.abort()).is_some() && self.may_say(now)
    }

    fn may_say(&mut self, now: Instant) -> bool {
        let is_due = self.said.is_none_or(|said| now.duration_since(said) >= HELLO_TIMEOUT);
        if is_due {
            self.said = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn one_keeps_only_itself_out() {
        let (mut ungreeted, mut tasks, now) = (Ungreeted::default(), JoinSet::new(), Instant::now());
        let mut add = |dialler, tasks: &mut JoinSet<()>| {
            let handle = tasks.spawn(std::future::pending());
            ungreeted.add(dialler, handle.clone(), now)
        };
        let (flood, other) = (Dialler::Instance(1), Dialler::Instance(2));
        assert!(!add(other, &mut tasks));
        let said = (0..1000).filter(|_| add(flood, &mut tasks)).count();
        assert_eq!(said, 1);
        for _ in 0..1000 - MAX_UNGREETED_INSTANCE {
            assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
        }
        assert_eq!(tasks.len(), MAX_UNGREETED_INSTANCE + 1);
        for instance in 3..1000 {
            add(Dialler::Instance(instance), &mut tasks);
        }
        let of = |dialler| ungreeted.waiting.iter().filter(|(one, _)| *one == dialler).count();
        assert_eq!((of(flood), of(Dialler::Instance(999)), ungreeted.waiting.len()), (1, 1, MAX_UNGREETED));
    }
}
