//! Every limit of this crate that is not a setting, with what happens beyond it.

use std::ops::RangeInclusive;
use std::time::Duration;

/// How long a connection may take to send HELLO (spec §10); beyond it RESET(PROTOCOL) and close.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections of one instance that have not sent HELLO (spec §10); beyond it its oldest is closed. More than one turn
/// of the event loop accepts before it looks at what came on them.
pub const MAX_UNGREETED_INSTANCE: usize = 64;
/// Connections of all instances that have not sent HELLO (spec §10); beyond it the oldest of the instance with the most
/// is closed.
pub const MAX_UNGREETED: usize = 512;
/// How often the memory of instances with `max_memory` is looked at.
pub const MEMORY_LOOK: Duration = Duration::from_secs(1);
/// Processes of one instance that are counted in its memory; the rest is not looked at.
pub const MAX_PROCESSES: usize = 1024;
/// Events not yet taken by a worker; beyond it an event is dropped (a connection with it is closed) and logged.
pub const MAX_WORKER_EVENTS: usize = 8192;
/// Log lines not yet taken by the gateway; beyond it lines are dropped and counted.
pub const MAX_LOG_LINES: usize = 1024;
/// Bytes of one log line; what is longer is cut and marked.
pub const MAX_LINE: usize = 8192;
/// Lines of output kept for each instance.
pub const TAIL_LINES: usize = 50;
/// Lines of output in a [`StartError`](crate::StartError).
pub const REPORT_LINES: usize = 20;
/// Bytes of output read before the pump lets other tasks run.
pub const PUMP_BUDGET: usize = 64 * 1024;
/// How long the output of an instance that has exited may take to end before the report is made without it.
pub const OUTPUT_GRACE: Duration = Duration::from_millis(100);
/// How long an instance whose last shared connection ended may take to exit before it gets SIGTERM.
pub const LINK_GRACE: Duration = Duration::from_secs(1);
/// How long DRAIN waits for requests that were given to an instance and may not be written yet: one written after DRAIN
/// may find the service gone.
pub const DRAIN_SETTLE: Duration = Duration::from_secs(1);
/// How long a pipe service without open exchanges may take to exit after DRAIN before it gets SIGTERM.
pub const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How long a group that got SIGKILL may take to vanish before it is killed and reported again.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the guardian may take to say that it is there, and to end.
pub const GUARDIAN_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of one message to or from the guardian; a larger one is an error of the start it belongs to.
pub const MAX_MESSAGE: usize = 1024 * 1024;
/// Processes that ended without being a run, remembered by the guardian for a zygote's word about them; the oldest is
/// forgotten.
pub const MAX_STRAYS: usize = 256;
/// How long a zygote may take to end when it was told to, before it is killed.
pub const ZYGOTE_GRACE: Duration = Duration::from_secs(2);
/// What one zygote has said and the supervisor not heard yet; beyond it the zygote waits.
pub const MAX_ZYGOTE_EVENTS: usize = 64;
/// How soon the guardian looks again at a process that was beginning another program, before it reports the end of the
/// instance that it may belong to.
pub const EXEC_LOOK: Duration = Duration::from_millis(1);
/// How many such looks a report waits for.
pub const MAX_EXEC_LOOKS: usize = 20;
/// How soon it looks again after that, until the program has begun.
pub const LATE_EXEC_LOOK: Duration = Duration::from_millis(20);
/// Messages waiting for the guardian's socket; beyond it a start fails, a signal is sent again by its timer.
pub const MAX_GUARDIAN_QUEUE: usize = 1024;
/// Backlog of the sockets that HTTP services inherit, and of the pipe's.
pub const BACKLOG: i32 = 4096;
/// Bytes of a Unix socket's path: what the kernel's `sun_path` holds, one byte being its end.
pub const MAX_SOCKET_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// Pause after `accept` failed (no descriptors left, for example).
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// After this time it is looked whether a service listens elsewhere than on its `PORT`.
pub const OTHER_PORT_LOOK: Duration = Duration::from_secs(2);
/// The same where an earlier instance was spoken to elsewhere; doubled after each look.
pub const NEXT_OTHER_PORT_LOOK: Duration = Duration::from_millis(20);
/// How long the first request may take to connect to a new instance before the supervisor connects itself, to see
/// whether it accepts.
pub const CONNECT_BY_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// First and longest pause between two looks at whether a service listens on its `PORT`, or accepts on the socket that
/// it inherited.
pub const PORT_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// First and longest pause between two tries to reach an engine of containers.
pub const ENGINE_PAUSE: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(1);
/// First and longest pause between two looks at whether a container is healthy.
pub const HEALTH_PAUSE: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_millis(500);
/// How often a start begins anew with another container because the engine was killed over the last one; beyond it the
/// start fails.
pub const MAX_HALVES: u32 = 10;
/// How long a pull may take; beyond it it is given up, and the starts that wait for it fail.
pub const PULL_TIME: Duration = Duration::from_secs(30 * 60);
/// How long the removal of a container that has ended is tried; beyond it it is tried again when the engine comes back,
/// when another one ends, and when the gateway stops.
pub const REMOVE_TIME: Duration = Duration::from_secs(15);
/// Containers that are to be removed later, at most; beyond it the next start of the gateway finds them.
pub const MAX_LEFTOVERS: usize = 1000;
/// How long an engine that is away is tried for a frozen container; beyond it that stays frozen, and is told to end by
/// its idle time.
pub const THAW_TIME: Duration = Duration::from_secs(30);
/// Orders that wait for one container; beyond it an order is given again at its stage's deadline.
pub const MAX_RUN_ORDERS: usize = 16;
/// What a runtime has told and the supervisor not heard yet; beyond it the runtime waits.
pub const MAX_RUNTIME_EVENTS: usize = 1024;
/// Bytes of one secret or one file of variables; a larger one is an error of the start.
pub const MAX_SECRET: u64 = 1024 * 1024;
/// The first descriptor that a secret gets.
pub const FIRST_SECRET_FD: i32 = 10;
/// Bytes that a forked child may say about its start; more is an error of the start.
pub const MAX_REPORT: u64 = 64 * 1024;
/// Processes below instances that are told to end, remembered by the guardian; of more only those are found that have
/// kept their environment.
pub const MAX_FAMILY: usize = 4096;
/// Bytes of a process's environment that are searched for what it belongs to.
pub const MAX_ENVIRONMENT: usize = 4 * 1024 * 1024;
