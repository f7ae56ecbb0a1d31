//! What goes on without a client: a request that others wait for, and refreshes.

/// Refreshes of one worker at the same time. A stale response beyond them is given out all the same; the next request
/// for it tries again.
pub const MAX_REFRESHES: usize = 64;

/// The setting for a fetch whose client has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandoned {
    /// It is finished for the cache, too.
    Finish,
    /// It is finished only for others who wait.
    Drop,
}

/// Who else has something of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Company {
    /// Whether its response is one for all.
    pub is_shared: bool,
    /// Whether somebody waits for it, or reads what has come of it.
    pub is_awaited: bool,
    /// Whether the worker has room for one more that only the cache waits for.
    pub has_room: bool,
}

/// What becomes of an exchange whose client has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// It goes on without the client until it responds; nobody reads the response.
    Detach,
    /// It ends here. What it holds is dropped, which abandons its flight and cancels its request.
    Drop,
}

impl Abandoned {
    /// For an exchange that leads a fetch.
    pub fn leaving(self, company: Company) -> Leaving {
        let Company { is_shared, is_awaited, has_room } = company;
        let goes_on = match self {
            // What only the cache waits for is bounded: clients that connect, ask and leave do not pile it up.
            Self::Finish => is_shared && (is_awaited || has_room),
            Self::Drop => is_awaited,
        };
        if goes_on { Leaving::Detach } else { Leaving::Drop }
    }
}

/// Whether a worker begins one more refresh (RFC 5861 §3). `running`: those of this worker.
pub fn may_refresh(running: usize, is_stopping: bool) -> bool {
    running < MAX_REFRESHES && !is_stopping
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(abandoned: Abandoned, company: [bool; 3], expected: Leaving) {
        let [is_shared, is_awaited, has_room] = company;
        let company = Company { is_shared, is_awaited, has_room };
        assert_eq!(abandoned.leaving(company), expected, "{abandoned:?} {company:?}");
    }

    #[test]
    fn what_others_wait_for_goes_on() {
        check(Abandoned::Finish, [true, true, false], Leaving::Detach);
        check(Abandoned::Finish, [true, false, true], Leaving::Detach);
        check(Abandoned::Finish, [true, false, false], Leaving::Drop);
        check(Abandoned::Finish, [false, false, true], Leaving::Drop);
        check(Abandoned::Drop, [true, true, false], Leaving::Detach);
        check(Abandoned::Drop, [true, false, true], Leaving::Drop);
    }

    #[test]
    fn refreshes_are_bounded() {
        assert!(may_refresh(MAX_REFRESHES - 1, false));
        assert!(!may_refresh(MAX_REFRESHES, false));
        assert!(!may_refresh(0, true));
    }
}
