//! What workers tell the supervisor's thread.

/// What workers tell the supervisor's thread, without waiting. The queue is unbounded in type and bounded in fact: each
/// kind is in it at most once for an instance (and worker) or a service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// The worker has no shared connection to the run.
    WantShared { run: u64, worker: usize },
    /// A shared connection of the run and worker ended.
    LinkClosed { run: u64, worker: usize },
    /// First bytes of an answer came (HTTP).
    Answered { run: u64 },
    /// The service said that it wants no more exchanges.
    ServiceDrains { run: u64 },
    /// The last exchange of a draining run ended.
    Idle { run: u64 },
    /// A request waits for an instance of the service, or its spare is in use.
    Wanted { service: usize },
    /// The run was given a part of the requests that it may be given.
    Used { run: u64 },
    /// A request got no answer from the run in `max_request_time`.
    Stuck { run: u64 },
}
