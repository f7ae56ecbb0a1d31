//! What interrupts a running gateway: signals, and orders of the admin interface.

use std::fs::File;
use std::future::Future;
use std::io;

use pilotlight_gateway::{Asked, Emptying, Order};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::standard_error::StandardError;

/// What is asked for.
#[derive(Debug)]
pub(crate) enum SignalEvent {
    /// To end, and how it was said.
    Stop(&'static str),
    /// By a signal; nobody waits for an answer.
    Do(Asked),
    /// By somebody who waits for an answer.
    Order(Order),
}

/// A second signal to stop ends the process at once.
pub(crate) fn stop_when_told_again(mut signals: Signals, stderr: StandardError) {
    let impatient = std::thread::Builder::new().name("signals".into()).spawn(move || {
        while !matches!(signals.next(), SignalEvent::Stop(_)) {}
        stderr.say("pilotlight: told again, stopping at once");
        stderr.finish();
        std::process::exit(1); // the guardian kills what is left
    });
    if let Err(e) = impatient {
        tracing::warn!("a second signal will not be noticed: {e}");
    }
}

/// The signals, known from the moment on at which this exists: none of them ends the process by itself any more.
pub(crate) struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    upgrade: Signal,
    orders: UnboundedReceiver<Order>,
    /// It was started on a terminal, and not so that it outlives it (`nohup`).
    terminal: bool,
    /// SIGINT is for somebody else: a shell has started this in the background.
    is_background: bool,
}

impl Signals {
    pub(crate) fn install(orders: UnboundedReceiver<Order>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let ignored = ignored_signals(); // before that is changed
        let ignores = |signal: rustix::process::Signal| ignored & 1 << (signal.as_raw() - 1) != 0;
        let terminal = has_terminal() && !ignores(rustix::process::Signal::HUP);
        let is_background = ignores(rustix::process::Signal::INT);
        let [interrupt, terminate, hangup, upgrade] = {
            let _context = runtime.enter();
            let one = |kind: SignalKind| signal(kind);
            [
                one(SignalKind::interrupt())?,
                one(SignalKind::terminate())?,
                one(SignalKind::hangup())?,
                one(SignalKind::user_defined2())?,
            ]
        };
        Ok(Self { runtime, interrupt, terminate, hangup, upgrade, orders, terminal, is_background })
    }

    /// Waits for the next one.
    pub(crate) fn next(&mut self) -> SignalEvent {
        let Self { runtime, interrupt, terminate, hangup, upgrade, orders, terminal, is_background } = self;
        runtime.block_on(async {
            loop {
                return tokio::select! {
                    biased;
                    _ = interrupt.recv() => match *is_background {
                        true => continue,
                        false => SignalEvent::Stop("interrupted"),
                    },
                    _ = terminate.recv() => SignalEvent::Stop("told to end (SIGTERM)"),
                    _ = hangup.recv() => match *terminal && !has_terminal() {
                        true => SignalEvent::Stop("the terminal is gone (SIGHUP)"),
                        false => SignalEvent::Do(Asked::Reload(Emptying::Refused)),
                    },
                    _ = upgrade.recv() => SignalEvent::Do(Asked::Upgrade { program_file: None }),
                    Some(order) = orders.recv() => match order.reply.is_closed() {
                        true => continue, // who asked has gone away before it was begun
                        false => SignalEvent::Order(order),
                    },
                };
            }
        })
    }

    /// Waits for something else, or to be told to end.
    pub(crate) fn until<T>(&mut self, other: impl Future<Output = T>) -> Result<T, &'static str> {
        let Self { runtime, interrupt, terminate, is_background, .. } = self;
        let interrupted = async {
            loop {
                interrupt.recv().await;
                if !*is_background {
                    return;
                }
            }
        };
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = interrupted => Err("interrupted"),
                _ = terminate.recv() => Err("told to end (SIGTERM)"),
                value = other => Ok(value),
            }
        })
    }
}

/// The signals that whoever started this process has it ignore, a bit for each, the lowest for signal 1. They stay
/// without effect where they would end it. Elsewhere than on Linux nobody is asked.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether this process has a terminal that would send it SIGHUP, as one that closes does. Everybody else means a
/// reload by it.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
