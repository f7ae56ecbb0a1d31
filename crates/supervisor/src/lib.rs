//! Starts, watches and stops services.
//!
//! One supervisor thread owns all state of all services, the Pipe/1 listening socket, the log pumps and the link to the
//! *guardian*, a small child process that spawns the services and outlives the gateway just long enough to kill them.
//! Worker threads of the gateway hold an [`Service`] each and enter a ready instance without a lock and without an
//! atomic that another worker writes; everything slower goes to the supervisor's thread as a message.
//!
//! ```text
//!  worker 0 ─ Service::enter ──┐ count in the worker's own cache line
//!  worker 1 ─ Service::enter ──┤
//!      │                       ▼
//!      │ ready ▶ queue ◀───  counters ◀── state: starting, ready, draining, ended
//!      ▼                       ▲
//!  supervisor thread ──────────┘      spawn, signal ▶ guardian ▶ services (a process group each)
//!      ▲  ▲  ▲                        ◀ spawned, exited
//!      │  │  └─ stdout, stderr of every instance ▶ log lines (bounded, drops counted)
//!      │  └──── pipe.sock: HELLO checked, WELCOME sent, connection handed to its worker
//!      └─────── timers: start, idle, drain, grace
//! ```
//!
//! Its storeys, each of which needs only those below it:
//!
//! ```text
//! supervisor                             the handle: starts the thread, sends it commands
//! owner, owner/start, stop, scale, …     the thread: its loop; its actions, a file for each phase of an instance
//! owner/state, owner/*_record            what the thread knows of services and instances
//! event, command                         what it tells workers; what people tell it
//! service, status                        a service, as workers and people see it
//! queue, waiting                         leases, and the requests that wait for one
//! in_flight, concurrency_limiter         a worker's open exchanges at an instance
//! instance, notice                       an instance, as workers see it; what workers tell the thread
//! runtime, containers/                   where an instance runs: orders to it, events of it; an engine of containers
//! policy/, guardian/, isolation/, spec   decisions; the process that spawns; bounds; settings
//! ```
//!
//! What it refuses to know: HTTP, routes, and every frame of Pipe/1 after HELLO and WELCOME.
//!
//! Invariant: an instance is only drained for idleness while no lease is held, and a lease is only given while the
//! instance is ready (Dekker on the state and the counters, see `in_flight`).
//! Invariant: no process of a service outlives the guardian, and the guardian does not outlive the gateway.
#![forbid(unsafe_code)]

mod command;
mod concurrency_limiter;
mod containers;
mod deploy;
mod error;
mod event;
pub mod fd_message;
mod group;
pub mod guardian;
mod in_flight;
mod instance;
mod isolation;
pub mod limits;
mod lineage;
mod listener;
mod listening;
mod log;
mod memory;
mod notice;
mod owner;
mod padded;
mod policy;
mod processes;
mod queue;
mod runtime;
mod runtime_dir;
mod service;
mod service_id;
mod spec;
mod start_times;
mod status;
mod supervisor;
mod waiting;
mod zygote;

pub use deploy::{Blame, DeployError, Deployed, Trial};
pub use error::{Exit, Phase, StartError, SupervisorError};
pub use event::{Examination, SharedLink, WorkerEvent, WorkerEvents};
pub use group::{GroupShare, GroupSpec};
pub use instance::{Address, Ended, Endpoint, Instance, InstanceState};
pub use isolation::{
    CgroupLimits, EnvFileError, Isolation, ResourceLimits, Sandbox, SandboxBounds, check_account, is_own_variable,
    parse_env_file, probe_sandbox,
};
pub use lineage::{Descent, Guardians, Process};
pub use log::{ErrorLog, LogLine, Output};
pub use policy::circuit::CircuitState;
pub use policy::recycle::RecycleLimits;
pub use queue::Lease;
pub use runtime_dir::{RUNTIME_DIR_PREFIX, make_private_folder, make_runtime_dir};
pub use service::{GivenAway, Service};
pub use service_id::ServiceId;
pub use spec::{
    ContainerOptions, ContainerSource, ContainerSpec, EarlyRequests, ExpectedStatus, HealthCheck, HttpSocket,
    ImageSpec, InheritEnv, MinInstances, OtherPort, Preload, PreloadAt, Program, Pull, RestartOrder, ServiceSpec,
    Spare, SupervisorOptions, Transport,
};
pub use start_times::{StartPhases, StartTimes};
pub use status::{
    Deploys, FunctionErrors, InstanceStatus, Replaced, ServiceState, Status, Stopped, ZygoteState, ZygoteStatus,
};
pub use supervisor::{Control, Supervisor, start};
pub use waiting::{QueueLimits, Refused, Waiting};
