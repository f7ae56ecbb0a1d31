//! One task: what it does, what it was told, and whether that was true.

use std::collections::{HashMap, HashSet};
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::{Commands, Error, ErrorKind, Ran};
use pilotlight_testkit::Cluster;

use super::faults::Loss;
use super::{LateCall, Run};

/// The hash tag of a worker's keys.
pub(crate) fn tag(worker: usize) -> String {
    format!("w{worker}")
}

/// What was told about writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    Doubtful,
    NotSent,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) acknowledged: u64,
    doubtful: u64,
    not_sent: u64,
    reads: u64,
    failed_reads: u64,
    dropped: u64,
}

pub(crate) struct Worker {
    run: Arc<Run>,
    rng: fastrand::Rng,
    ledger: Ledger,
    next: u64,
}

/// What a worker was told.
pub(crate) struct Ledger {
    keys: Keys,
    pub(crate) tally: Tally,
    acked: u64,
    doubted: u64,
    acked_repeatable: u64,
    last_count: i64,
    tokens: Vec<(String, Fate)>,
    /// Sequence numbers of the register: the last one acknowledged, the last one tried, and those in doubt, which may
    /// be written at any time: bytes may lie in the buffers of a stopped server or a silent network when the client has
    /// long given them up.
    acked_register: u64,
    tried_register: u64,
    doubted_register: HashSet<u64>,
}

struct Keys {
    name: String,
    counter: String,
    repeatable: String,
    list: String,
    register: String,
}

impl Worker {
    pub(crate) fn new(run: Arc<Run>, number: usize, rng: fastrand::Rng) -> Self {
        let name = format!("{{{}}}:{:?}", tag(number), run.loss);
        let keys = Keys {
            counter: format!("{name}:counter"),
            repeatable: format!("{name}:repeatable"),
            list: format!("{name}:list"),
            register: format!("{name}:register"),
            name,
        };
        let ledger = Ledger {
            keys,
            tally: Tally::default(),
            acked: 0,
            doubted: 0,
            acked_repeatable: 0,
            last_count: 0,
            tokens: Vec::new(),
            acked_register: 0,
            tried_register: 0,
            doubted_register: HashSet::new(),
        };
        Self { run, rng, ledger, next: 0 }
    }

    pub(crate) async fn work(mut self) -> Ledger {
        while !self.run.is_over.load(Ordering::Relaxed) {
            match self.rng.u32(..8) {
                0 => self.count().await,
                1 => self.count_repeatable().await,
                2 => self.append().await,
                3 => self.append_and_leave().await,
                4 | 5 => self.write_and_read().await,
                6 => self.pipeline().await,
                _ => self.read_two().await,
            }
        }
        self.ledger
    }

    async fn count(&mut self) {
        let (client, key) = (self.run.client.clone(), self.ledger.keys.counter.clone());
        let timeout = self.timeout();
        let result = self.timed(timeout, client.incr(&key).timeout(timeout)).await;
        match self.fate(&result) {
            Fate::Acknowledged => self.ledger.acked += 1,
            Fate::Doubtful => self.ledger.doubted += 1,
            Fate::NotSent => {}
        }
        if let Ok(count) = result {
            let ledger = &self.ledger;
            let most = (ledger.acked + ledger.doubted) as i64;
            let least = if self.run.loss == Loss::Never { ledger.last_count + 1 } else { 1 };
            if !(least..=most).contains(&count) {
                self.run.lie(format!("{key}: INCR answered {count}, possible were {least} to {most}"));
            }
            self.ledger.last_count = count;
        }
    }

    async fn count_repeatable(&mut self) {
        let (client, key) = (self.run.client.clone(), self.ledger.keys.repeatable.clone());
        let timeout = self.timeout();
        let result = self.timed(timeout, client.incr(&key).retryable().timeout(timeout)).await;
        self.ledger.acked_repeatable += u64::from(self.fate(&result) == Fate::Acknowledged);
    }

    async fn append(&mut self) {
        let (client, key, token) = (self.run.client.clone(), self.ledger.keys.list.clone(), self.token());
        let timeout = self.timeout();
        let result = self.timed(timeout, client.rpush(&key, &token).timeout(timeout)).await;
        let fate = self.fate(&result);
        self.ledger.tokens.push((token, fate));
    }

    /// The caller does not wait for the reply.
    async fn append_and_leave(&mut self) {
        let (client, key, token) = (self.run.client.clone(), self.ledger.keys.list.clone(), self.token());
        let patience = Duration::from_micros(self.rng.u64(..1500));
        let fate = match tokio::time::timeout(patience, client.rpush(&key, &token)).await {
            Ok(result) => self.fate(&result),
            Err(_) => Fate::Doubtful,
        };
        self.ledger.tally.dropped += u64::from(fate == Fate::Doubtful);
        self.ledger.tokens.push((token, fate));
    }

    async fn write_and_read(&mut self) {
        let (client, key) = (self.run.client.clone(), self.ledger.keys.register.clone());
        self.ledger.tried_register += 1;
        let (number, timeout) = (self.ledger.tried_register, self.timeout());
        let value = self.value(number);
        let written = self.timed(timeout, client.set(&key, value).timeout(timeout)).await;
        let fate = self.fate(&written);
        self.ledger.write_register(number, fate);
        let timeout = self.timeout();
        let read = self.timed(timeout, client.get(&key).timeout(timeout)).await;
        if let Some(read) = self.read(read) {
            self.check_register(read.as_ref());
        }
    }

    /// Commands of one key are run in their order.
    async fn pipeline(&mut self) {
        let client = self.run.client.clone();
        let (register, counter) = (self.ledger.keys.register.clone(), self.ledger.keys.counter.clone());
        let timeout = self.timeout();
        let mut pipeline = client.pipeline().timeout(timeout);
        let (mut sets, mut gets) = (Vec::new(), Vec::new());
        let first = self.ledger.tried_register + 1;
        for number in first..first + self.rng.u64(1..20) {
            sets.push((number, pipeline.set(&register, self.value(number))));
            gets.push((number, pipeline.get(&register)));
        }
        let count = pipeline.incr(&counter);
        self.ledger.tried_register = first + sets.len() as u64 - 1;
        let begin = Instant::now();
        let result = pipeline.run().await;
        self.check_time(timeout, begin, "pipeline");
        let mut replies = match result {
            Ok(replies) => replies,
            Err(error) => return self.run.lie(format!("a pipeline could not be run: {error}")),
        };
        let mut is_whole = true;
        for (number, queued) in sets {
            let fate = self.fate(&replies.take(queued));
            is_whole &= fate == Fate::Acknowledged;
            self.ledger.write_register(number, fate);
        }
        for (number, queued) in gets {
            let result = replies.take(queued);
            is_whole &= result.is_ok();
            let Some(read) = self.read(result) else { continue };
            let (is_own, seen) = self.parse(read.as_ref());
            // Where writes are in doubt, reads were perhaps sent again, after all of them.
            let is_in_order = seen == number || !is_whole || self.run.loss == Loss::Possible;
            if !is_own || !(is_in_order || self.ledger.doubted_register.contains(&seen)) {
                self.run.lie(format!("{register}: number {seen} was read after {number} in a pipeline ({is_own})"));
            }
        }
        match self.fate(&replies.take(count)) {
            Fate::Acknowledged => self.ledger.acked += 1,
            Fate::Doubtful => self.ledger.doubted += 1,
            Fate::NotSent => {}
        }
    }

    async fn read_two(&mut self) {
        let client = self.run.client.clone();
        let keys = [self.ledger.keys.register.clone(), self.ledger.keys.counter.clone()];
        let timeout = self.timeout();
        let read = self.timed(timeout, client.mget(&keys[..]).timeout(timeout)).await;
        match read {
            Ok(values) => match &values[..] {
                [register, counter] => {
                    self.ledger.tally.reads += 1;
                    self.check_register(register.as_ref());
                    let count = counter.as_deref().map_or("0", |count| std::str::from_utf8(count).unwrap());
                    if count.parse::<u64>().is_ok_and(|count| count > self.ledger.acked + self.ledger.doubted) {
                        self.run.lie(format!("{}: {count} is more than ever counted", keys[1]));
                    }
                }
                other => self.run.lie(format!("{keys:?}: {other:?}")),
            },
            Err(error) => self.failed_read(&error),
        }
    }

    fn check_register(&self, read: Option<&Bytes>) {
        let (is_own, seen) = self.parse(read);
        let ledger = &self.ledger;
        let least = if self.run.loss == Loss::Never { ledger.acked_register } else { 0 };
        let is_possible = (least..=ledger.tried_register).contains(&seen) || ledger.doubted_register.contains(&seen);
        if !is_own || !is_possible {
            let (register, tried) = (&ledger.keys.register, ledger.tried_register);
            self.run.lie(format!("{register}: read number {seen} ({is_own}), possible were {least} to {tried}"));
        }
    }

    fn value(&self, number: u64) -> String {
        // Of many lengths, so that frames end anywhere.
        format!("{}#{number}#{}", self.ledger.keys.register, "x".repeat((number * 37 % 3000) as usize))
    }

    /// Whether it is a value of this worker's, and its number.
    fn parse(&self, read: Option<&Bytes>) -> (bool, u64) {
        let Some(read) = read else { return (true, 0) };
        let text = String::from_utf8_lossy(read);
        let number = text.split('#').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
        (text == self.value(number), number)
    }

    fn token(&mut self) -> String {
        self.next += 1;
        format!("{}/{}", self.ledger.keys.name, self.next)
    }

    fn timeout(&mut self) -> Duration {
        Duration::from_millis([30, 200, 1000, 3000][self.rng.usize(..4)])
    }

    async fn timed<T>(&self, timeout: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let begin = Instant::now();
        let result = call.await;
        self.check_time(timeout, begin, &result.as_ref().err().map(ToString::to_string).unwrap_or_default());
        result
    }

    fn check_time(&self, timeout: Duration, begin: Instant, what: &str) {
        let took = begin.elapsed();
        if took > timeout + Duration::from_millis(50) {
            self.run.late.lock().push(LateCall { begin, timeout, took, what: what.to_owned() });
        }
    }

    fn fate<T>(&mut self, result: &Result<T, Error>) -> Fate {
        let fate = match result {
            Ok(_) => Fate::Acknowledged,
            Err(error) => {
                self.check_error(error);
                match error.ran() {
                    Ran::NotSent => Fate::NotSent,
                    Ran::MaybeExecuted | Ran::Executed => Fate::Doubtful,
                }
            }
        };
        let tally = &mut self.ledger.tally;
        match fate {
            Fate::Acknowledged => tally.acknowledged += 1,
            Fate::Doubtful => tally.doubtful += 1,
            Fate::NotSent => tally.not_sent += 1,
        }
        fate
    }

    fn read(&mut self, result: Result<Option<Bytes>, Error>) -> Option<Option<Bytes>> {
        match result {
            Ok(read) => {
                self.ledger.tally.reads += 1;
                Some(read)
            }
            Err(error) => {
                self.failed_read(&error);
                None
            }
        }
    }

    fn failed_read(&mut self, error: &Error) {
        self.ledger.tally.failed_reads += 1;
        self.check_error(error);
    }

    /// Errors that tell of a fault, not of a confusion.
    fn check_error(&self, error: &Error) {
        let is_of_a_fault = match error.kind() {
            // Those that are followed at once, then the deadline came; more of them would be a circle.
            ErrorKind::Redirects { redirects, .. } => *redirects <= 2,
            ErrorKind::Connect(_) | ErrorKind::Connection(_) | ErrorKind::Timeout(_) | ErrorKind::Cluster(_) => true,
            ErrorKind::Server(server) => {
                ["CLUSTERDOWN", "LOADING", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK"].contains(&server.code())
            }
            _ => false,
        };
        if !is_of_a_fault {
            self.run.lie(format!("an error that no fault explains: {error}"));
        }
    }
}

impl Ledger {
    fn write_register(&mut self, number: u64, fate: Fate) {
        match fate {
            Fate::Acknowledged => self.acked_register = number,
            Fate::Doubtful => {
                self.doubted_register.insert(number);
            }
            Fate::NotSent => {}
        }
    }

    /// What the servers know better.
    pub(crate) fn lies(&self, cluster: &Cluster, loss: Loss) -> Vec<String> {
        let keys = &self.keys;
        let mut lies = Vec::new();
        let (node, _) = cluster.node_for_key(&keys.counter).unwrap();
        let count = |key: &str| node.server().command(&["GET", key]).unwrap().integer().unwrap_or(0) as u64;
        let may_lack = loss == Loss::Possible;
        let (least, most) = (if may_lack { 0 } else { self.acked }, self.acked + self.doubted);
        let counted = count(&keys.counter);
        if !(least..=most).contains(&counted) {
            lies.push(format!(
                "{}: is {counted}, {} were acknowledged and {} in doubt",
                keys.counter, self.acked, self.doubted
            ));
        }
        let repeatable = count(&keys.repeatable);
        if repeatable < self.acked_repeatable && !may_lack {
            lies.push(format!("{}: is {repeatable}, {} were acknowledged", keys.repeatable, self.acked_repeatable));
        }
        let list = node.server().command(&["LRANGE", &keys.list, "0", "-1"]).unwrap();
        let mut seen: HashMap<String, usize> = HashMap::new();
        for token in list.array() {
            *seen.entry(token.text().into_owned()).or_default() += 1;
        }
        for (token, fate) in &self.tokens {
            let times = seen.remove(token).unwrap_or(0);
            let is_true = match fate {
                Fate::Acknowledged => times == 1 || (times == 0 && may_lack),
                Fate::Doubtful => times <= 1,
                Fate::NotSent => times == 0,
            };
            if !is_true {
                lies.push(format!("{token}: {fate:?}, but there {times} times"));
            }
        }
        lies.extend(seen.keys().map(|token| format!("{token}: nobody wrote it to {}", keys.list)));
        lies
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            acknowledged: self.acknowledged + other.acknowledged,
            doubtful: self.doubtful + other.doubtful,
            not_sent: self.not_sent + other.not_sent,
            reads: self.reads + other.reads,
            failed_reads: self.failed_reads + other.failed_reads,
            dropped: self.dropped + other.dropped,
        }
    }
}
