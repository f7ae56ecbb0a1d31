//! Several commands at once: each lane's share is written and awaited as one carriage.
//!
//! It goes in rounds: what came to an error that time may mend is sent again with all others of its kind, after one
//! pause for all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::call::{CallOptions, Flight};
use crate::config::Overload;
use crate::core::Core;
use crate::error::{Error, Ran};
use crate::follow::{self, FOREVER, History, Trouble, Verdict};
use crate::net::lane::{Carriage, Failure, Kind, Lane, Outcome, Refused, Ticket};
use crate::net::out::Out;
use crate::parcel::Errand;
use crate::proof::Proof;
use crate::proto::retry::Refresh;
use crate::reply::Value;
use crate::route::Way;

/// Sends all errands and awaits all replies, in the order of the errands. Those of one lane stay together and in order;
/// what is redirected is followed one by one, in order.
pub(crate) async fn run(core: &Core, errands: &[Errand<'_, '_>], options: CallOptions) -> Vec<Result<Value, Error>> {
    let mut batch = Batch {
        core,
        errands,
        options,
        since: Instant::now(),
        retries: 0,
        asked: Instant::now(),
        map_version: core.map_version(),
        replies: errands.iter().map(|_| None).collect(),
        may_have_run: Vec::new(),
        again: Again::default(),
    };
    let mut round: Vec<(usize, Target)> = (0..errands.len()).map(|index| (index, Target::Way)).collect();
    while !round.is_empty() {
        batch.round(&round).await;
        round = batch.gather().await;
    }
    for index in batch.may_have_run {
        // That the last attempt was not sent says nothing about those before.
        batch.replies[index] = batch.replies[index].take().map(|reply| {
            reply.map_err(|error| match error.ran() {
                Ran::NotSent => error.with_ran(Ran::MaybeExecuted),
                _ => error,
            })
        });
    }
    // Each errand has ended in one of the rounds.
    let mut replies = Vec::with_capacity(errands.len());
    replies.extend(batch.replies.into_iter().flatten());
    replies
}

struct Batch<'b, 'p, 'a> {
    core: &'b Core,
    errands: &'b [Errand<'p, 'a>],
    options: CallOptions,
    since: Instant,
    /// When this round began.
    asked: Instant,
    /// The map by which it was routed.
    map_version: u64,
    retries: u32,
    replies: Vec<Option<Result<Value, Error>>>,
    /// Errands of which an attempt failed that may have been executed.
    may_have_run: Vec<usize>,
    again: Again,
}

/// What is sent again.
#[derive(Default)]
struct Again {
    errands: Vec<(usize, Target)>,
    /// Why each of them is.
    errors: Vec<Error>,
    pause: Duration,
    refresh: Option<Refresh>,
}

#[derive(Clone, Copy)]
enum Target {
    /// Where its way leads.
    Way,
    /// The primary of its slot, as a replica did not answer.
    Primary,
}

/// What has no lane, or was not taken.
type Troubled = Vec<(usize, Trouble)>;

/// One lane's share of a round.
struct Group {
    lane: Arc<Lane>,
    /// Indices of its errands, in their order.
    errands: Vec<usize>,
    /// Where each of them ends, among their bytes.
    ends: Vec<usize>,
    proof: Option<Proof>,
}

impl Batch<'_, '_, '_> {
    async fn round(&mut self, round: &[(usize, Target)]) {
        (self.asked, self.map_version) = (Instant::now(), self.core.map_version());
        let (flights, troubled) = self.launch(round).await;
        for (group, flight) in flights {
            let mut outcome = flight.outcome().await.0;
            if let Some(proof) = &group.proof {
                outcome = proof.check(outcome, Kind::Many, &group.lane);
            }
            self.settle(&group, outcome).await;
        }
        for (index, trouble) in troubled {
            self.judge(index, trouble).await;
        }
    }

    /// Submits each lane's errands in one piece.
    async fn launch(&self, round: &[(usize, Target)]) -> (Vec<(Group, Flight)>, Troubled) {
        let (groups, mut troubled) = self.grouped(round);
        let mut flights = Vec::with_capacity(groups.len());
        let mut refused = Vec::new();
        for mut group in groups {
            let lane = Arc::clone(&group.lane);
            match self.submit(&mut group, |carriage, encode| lane.submit(carriage, None, encode)) {
                Ok(ticket) => flights.push((group, Flight::new(lane, ticket))),
                Err(why) => refused.push((group, why)),
            }
        }
        for (mut group, why) in refused {
            match self.launch_later(&mut group, why).await {
                Ok(flight) => flights.push((group, flight)),
                Err(refused) => {
                    let refused = Arc::new(refused);
                    let trouble = || Trouble::Refused(Arc::clone(&group.lane), Arc::clone(&refused));
                    troubled.extend(group.errands.iter().map(|&index| (index, trouble())));
                }
            }
        }
        (flights, troubled)
    }

    /// Waits for the byte budget, if that is why a lane did not take its errands, and submits them.
    async fn launch_later(&self, group: &mut Group, why: Refused) -> Result<Flight, Refused> {
        let can_wait = self.core.config().overload == Overload::Wait && Handle::try_current().is_ok();
        if !can_wait || !matches!(why, Refused::Full(_)) {
            return Err(why);
        }
        let lane = Arc::clone(&group.lane);
        let Ok(Ok(turn)) = tokio::time::timeout(self.remaining().unwrap_or(FOREVER), lane.room()).await else {
            return Err(why);
        };
        if self.remaining() == Some(Duration::ZERO) {
            return Err(why);
        }
        let ticket = self.submit(group, |carriage, encode| turn.submit(carriage, None, encode))?;
        drop(turn);
        Ok(Flight::new(lane, ticket))
    }

    fn submit(
        &self,
        group: &mut Group,
        submit: impl FnOnce(Carriage, &mut dyn FnMut(&mut Out)) -> Result<Ticket, Refused>,
    ) -> Result<Ticket, Refused> {
        #[expect(clippy::cast_possible_truncation, reason = "each has bytes, and the bytes are limited")]
        let replies = group.errands.len() as u32;
        let carriage = Carriage { replies, skip: 0, kind: Kind::Many, timeout: self.remaining() };
        let Group { errands, ends, proof, .. } = group;
        *proof = Proof::wanted(self.core.config());
        let carriage = proof.as_ref().map_or(carriage, |_| Proof::of(carriage));
        submit(carriage, &mut |out| {
            let begin = out.len();
            for &index in &*errands {
                self.errands[index].parcel.encode(out);
                ends.push(out.len() - begin);
            }
            proof.iter().for_each(|proof| proof.encode(out));
        })
    }

    fn remaining(&self) -> Option<Duration> {
        self.options.timeout.map(|timeout| timeout.saturating_sub(self.since.elapsed()))
    }

    fn grouped(&self, round: &[(usize, Target)]) -> (Vec<Group>, Troubled) {
        let mut troubled = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        for &(index, target) in round {
            match self.lane(index, target) {
                Ok(lane) => match groups.iter_mut().find(|group| Arc::ptr_eq(&group.lane, &lane)) {
                    Some(group) => group.errands.push(index),
                    None => groups.push(Group { lane, errands: vec![index], ends: Vec::new(), proof: None }),
                },
                Err(error) => troubled.push((index, Trouble::NoRoute(error))),
            }
        }
        // All that goes to one node stays together: the order of one key's commands is that of the pipeline.
        for group in &mut groups {
            let bytes = group.errands.iter().map(|&index| self.errands[index].parcel.size()).sum();
            group.lane = Arc::clone(group.lane.fitting(bytes));
        }
        (groups, troubled)
    }

    /// Puts a lane's replies in their places; what came to an error is judged one by one, in order.
    async fn settle(&mut self, group: &Group, outcome: Outcome) {
        let (replies, failure) = match outcome {
            Outcome::Many(replies) => (replies, None),
            Outcome::One(reply) => (vec![reply], None),
            Outcome::Failed(mut failure) => (std::mem::take(&mut failure.replies), Some(failure)),
        };
        let mut replies = replies.into_iter();
        for (&index, &end) in group.errands.iter().zip(&group.ends) {
            let outcome = match (replies.next(), &failure) {
                (Some(value), _) if !matches!(value, Value::Error(_) | Value::TooDeep) => {
                    self.replies[index] = Some(Ok(value));
                    continue;
                }
                (Some(error), _) => Outcome::One(error),
                (None, Some(failure)) => Outcome::Failed(Box::new(failure_at(end, failure))),
                (None, None) => return,
            };
            self.judge(index, Trouble::Outcome(Arc::clone(&group.lane), outcome)).await;
        }
    }

    fn lane(&self, index: usize, target: Target) -> Result<Arc<Lane>, Error> {
        let Errand { parcel, way } = &self.errands[index];
        match target {
            Target::Way => self.core.lane_by(way, parcel.spec(), parcel.slot()),
            Target::Primary => self.core.lane_by(&Way::Primary(parcel.slot()), parcel.spec(), None),
        }
    }

    async fn judge(&mut self, index: usize, trouble: Trouble) {
        let errand = &self.errands[index];
        let history = History { since: self.since, asked: self.asked, retries: self.retries };
        match follow::verdict(self.core, errand, self.options, trouble, history) {
            Verdict::Done(reply) => self.replies[index] = Some(reply),
            Verdict::Alone(trouble) => {
                self.replies[index] = Some(follow::follow(self.core, errand, self.options, trouble, self.since).await);
            }
            Verdict::Again { error, after, refresh, to_primary, may_have_run } => {
                if may_have_run {
                    self.may_have_run.push(index);
                }
                self.again.errands.push((index, if to_primary { Target::Primary } else { Target::Way }));
                self.again.errors.push(error);
                self.again.pause = self.again.pause.max(after);
                self.again.refresh = self.again.refresh.max(Some(refresh));
            }
        }
    }

    /// The next round, after its pause.
    async fn gather(&mut self) -> Vec<(usize, Target)> {
        let Again { mut errands, errors, pause, refresh } = std::mem::take(&mut self.again);
        if let Some(refresh) = refresh {
            self.retries += 1;
            self.core.want_refresh(refresh);
            if !pause.is_zero() {
                let pause = self.remaining().map_or(pause, |remaining| pause.min(remaining));
                self.core.pause_or_new_map(pause, refresh, self.map_version).await;
            }
            // On a loaded machine a pause may outlast the deadline: what is sent then could run although its caller is
            // told that it is too late.
            if self.remaining() == Some(Duration::ZERO) {
                for ((index, _), error) in errands.drain(..).zip(errors) {
                    self.replies[index] = Some(Err(error));
                }
            }
            errands.sort_unstable_by_key(|&(index, _)| index);
        }
        errands
    }
}

/// What became of the errand that ends after `end` bytes of those that were lost together.
fn failure_at(end: usize, failure: &Failure) -> Failure {
    let ran = if end <= failure.sent_bytes { Ran::MaybeExecuted } else { Ran::NotSent };
    Failure { kind: failure.kind.clone(), ran, replies: Vec::new(), sent_bytes: 0 }
}
