//! What workers tell the supervisor's thread.

/// What workers tell the supervisor's thread, without waiting. The queue is unbounded in type and bounded in fact: each
/// kind is in it at most once for an instance (and worker) or a service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// The worker has no shared connection to the instance.
    WantShared { instance: u64, worker: usize },
    /// A shared connection of the instance and worker ended.
    LinkClosed { instance: u64, worker: usize },
    /// First bytes of an answer came (HTTP).
    Answered { instance: u64 },
    /// The service said that it wants no more exchanges.
    ServiceDrains { instance: u64 },
    /// The last exchange of a draining instance ended.
    Idle { instance: u64 },
    /// A request waits for an instance of the service, or its spare is in use.
    Wanted { service: usize },
    /// The instance was given a part of the requests that it may be given.
    Used { instance: u64 },
    /// The answer of a new release's instance to the health request is known, or that there is none.
    Examined { instance: u64 },
    /// The runtime client of a function has asked for its first invocation.
    RuntimeReady { instance: u64 },
    /// A function could not be initialised, as its runtime client says.
    InitFailed { instance: u64 },
    /// A request got no answer from the instance in `max_request_time`.
    Stuck { instance: u64 },
}
