//! The loop: waits for sockets and for the next request that is due, and lets connections receive and send.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{ClockId, clock_gettime};

use super::connection::Connection;
use super::requests::{Requests, Source};
use super::schedule::Schedule;
use super::{Load, Outcome, Pace};
use crate::interrupt;
use crate::stats::Times;

/// Room for what is read at once.
const READ_ROOM: usize = 64 * 1024;
const EVENTS: usize = 256;
/// How often it is looked whether an answer is overdue and whether the run was interrupted, if nothing else happens.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How often, if much happens.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What the timer is called among the sockets.
const TIMER: u64 = u64::MAX;
/// Statuses have three digits.
const STATUSES: usize = 1000;

/// A load that is being made.
pub(super) struct Driver {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    source: Source,
    pace: Pace,
    duration: Duration,
    patience: Duration,
    room: Box<[u8]>,
}

/// What is counted.
struct Counts {
    times: Times,
    statuses: Vec<u64>,
    last: Instant,
}

impl Counts {
    fn count(&mut self, status: u16, since: Instant, now: Instant) {
        self.times.record(now.saturating_duration_since(since));
        self.statuses[usize::from(status)] += 1;
        self.last = now;
    }
}

impl Driver {
    /// Connects.
    pub(super) fn new(load: &Load, requests: Requests, patience: Duration) -> anyhow::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(load.connections);
        for index in 0..load.connections {
            interrupt::check()?;
            let socket = load.to.dial()?;
            epoll::add(&epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN)?;
            connections.push(Connection::new(socket));
        }
        let most = match load.pace {
            Pace::Closed { depth } => depth,
            Pace::Open { .. } => 1,
        };
        let source = Source::new(requests, most);
        let room = vec![0; READ_ROOM].into_boxed_slice();
        Ok(Self { epoll, connections, source, pace: load.pace, duration: load.duration, patience, room })
    }

    pub(super) fn run(mut self) -> anyhow::Result<Outcome> {
        let (begin, cpu_before) = (Instant::now(), own_cpu_time());
        let mut counts = Counts { times: Times::new(), statuses: vec![0; STATUSES], last: begin };
        match self.pace {
            Pace::Closed { depth } => self.closed(depth, begin, &mut counts)?,
            Pace::Open { per_second } => self.open(per_second, begin, &mut counts)?,
        }
        let cpu = own_cpu_time().saturating_sub(cpu_before);
        let seen = counts.statuses.iter().enumerate().filter(|(_, count)| **count > 0);
        let statuses: BTreeMap<u16, u64> = seen.map(|(status, count)| (status as u16, *count)).collect();
        let (answers, elapsed) = (counts.times.count(), counts.last - begin);
        Ok(Outcome { answers, elapsed, times: counts.times, statuses, cpu })
    }

    /// Each connection goes on until the time is over or there are no more requests, and ends when it has all its
    /// answers.
    fn closed(&mut self, depth: usize, begin: Instant, counts: &mut Counts) -> anyhow::Result<()> {
        let end = begin + self.duration;
        let mut busy = 0;
        for index in 0..self.connections.len() {
            self.send(index, depth, Instant::now())?;
            busy += usize::from(!self.connections[index].is_idle());
        }
        let (mut events, mut looked) = (Vec::with_capacity(EVENTS), begin);
        while busy > 0 {
            let mut now = self.wait(&mut events)?;
            for event in &events {
                let index = event.data.u64() as usize;
                let answers;
                (answers, now) = self.turn(index, event.flags, |status, since, at| counts.count(status, since, at))?;
                if answers > 0 {
                    if now < end {
                        self.send(index, answers, now)?;
                    }
                    if self.connections[index].is_idle() {
                        // It has done its part; what becomes of it is nobody's concern.
                        epoll::delete(&self.epoll, &self.connections[index].socket)?;
                        busy -= 1;
                        continue;
                    }
                }
                self.watch(index)?;
            }
            if now - looked >= LOOK_EVERY {
                looked = now;
                self.look(now, None)?;
            }
        }
        Ok(())
    }

    /// Every request that is due is sent as soon as a connection is free, and waited for.
    fn open(&mut self, per_second: u32, begin: Instant, counts: &mut Counts) -> anyhow::Result<()> {
        let mut schedule = Schedule::new(begin, per_second, self.duration, self.connections.len())?;
        epoll::add(&self.epoll, schedule.timer(), EventData::new_u64(TIMER), EventFlags::IN)?;
        let (mut events, mut looked, mut now) = (Vec::with_capacity(EVENTS), begin, begin);
        let mut busy = 0;
        loop {
            while let Some((index, due)) = schedule.next(now) {
                self.send(index, 1, due)?;
                self.watch(index)?;
                if self.source.has_ended() {
                    schedule.end();
                    break;
                }
                busy += 1;
            }
            if schedule.has_ended() && busy == 0 {
                return Ok(());
            }
            schedule.arm(now)?;
            now = self.wait(&mut events)?;
            for event in events.iter().filter(|event| event.data.u64() != TIMER) {
                let index = event.data.u64() as usize;
                let (answers, at) =
                    self.turn(index, event.flags, |status, since, at| counts.count(status, since, at))?;
                if answers > 0 {
                    busy -= 1;
                    schedule.free(index);
                }
                self.watch(index)?;
                now = at;
            }
            if now - looked >= LOOK_EVERY {
                looked = now;
                self.look(now, schedule.oldest())?;
            }
        }
    }

    /// What has happened; when that was, to the accuracy of a look at the clock before it is worked on.
    fn wait(&self, events: &mut Vec<Event>) -> anyhow::Result<Instant> {
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(Instant::now()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets a connection send what it could not, and receive.
    fn turn(
        &mut self,
        index: usize,
        flags: EventFlags,
        answered: impl FnMut(u16, Instant, Instant),
    ) -> anyhow::Result<(usize, Instant)> {
        let connection = &mut self.connections[index];
        if flags.contains(EventFlags::OUT) {
            connection.flush()?;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return connection.receive(&mut self.room, self.source.body(), answered);
        }
        Ok((0, Instant::now()))
    }

    fn send(&mut self, index: usize, count: usize, since: Instant) -> anyhow::Result<()> {
        let (taken, bytes) = self.source.take(index, count);
        if taken > 0 { self.connections[index].send(bytes, taken, since) } else { Ok(()) }
    }

    /// Waits for room in the socket while something is to be sent.
    fn watch(&mut self, index: usize) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        if connection.waits_to_write() != connection.watched {
            connection.watched = !connection.watched;
            let interest = if connection.watched { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&self.epoll, &connection.socket, EventData::new_u64(index as u64), interest)?;
        }
        Ok(())
    }

    /// Whether an answer is overdue.
    fn look(&self, now: Instant, unsent: Option<Instant>) -> anyhow::Result<()> {
        interrupt::check()?;
        let late = |since: &Instant| now.saturating_duration_since(*since) > self.patience;
        let waiting = self.connections.iter().filter_map(Connection::oldest).filter(late).count();
        if waiting > 0 {
            bail!("no answer within {} s on {waiting} of {} connections", self.seconds(), self.connections.len());
        }
        ensure!(
            unsent.as_ref().is_none_or(|since| !late(since)),
            "the server is more than {} s behind the rate of the load",
            self.seconds()
        );
        Ok(())
    }

    fn seconds(&self) -> f64 {
        self.patience.as_secs_f64()
    }
}

/// CPU time of this thread.
fn own_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
