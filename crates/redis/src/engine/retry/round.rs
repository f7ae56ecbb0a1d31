//! One round on shared lanes: each lane's share is written and awaited as one submission.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};

use super::judge::{self, Failure};
use super::state::{FOREVER, Lead, RetryLoop, Tries, Try, Work};
use crate::engine::flight::Flight;
use crate::engine::lane::{Crowd, Lane, Refused, Ticket};
use crate::engine::reply_check::ReplyCheck;
use crate::engine::request::{Payload, Request};
use crate::engine::route::Target;
use crate::engine::submission::{Kind, Outcome, Submission, SubmissionError};
use crate::engine::trail;
use crate::error::{Error, ErrorKind, Ran};
use crate::out::Out;
use crate::reply::Value;

const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// One lane's share of a round.
pub(super) struct Group {
    pub(super) lane: Arc<Lane>,
    pub(super) members: SmallVec<[Member; 1]>,
    /// Each of them has one reply, and none comes before it.
    is_plain: bool,
    pub(super) check: Option<ReplyCheck>,
    /// When it was submitted.
    pub(super) asked: Instant,
}

pub(super) struct Member {
    pub(super) it: Try,
    /// Where it ends, among the bytes of its group.
    pub(super) end: usize,
}

type Failures = SmallVec<[(Try, Failure); 1]>;
pub(super) type Flights = SmallVec<[(Group, Flight); 1]>;

impl Group {
    /// Of one request on a lane's node.
    pub(super) fn alone(lane: Arc<Lane>, it: Try, end: usize, asked: Instant) -> Self {
        Self { lane, members: smallvec![Member { it, end }], is_plain: false, check: None, asked }
    }
}

/// The first group whose replies have come, or will not come; none if none is awaited.
pub(super) async fn landed(flights: &mut Flights, work: Work<'_, '_, '_>) -> Option<(Group, Outcome)> {
    if flights.is_empty() {
        return None;
    }
    let (at, outcome) = poll_fn(|cx| {
        let mut landed = flights.iter_mut().enumerate();
        let landed = landed.find_map(|(at, (group, flight))| match flight.poll(cx.waker()) {
            Some((outcome, _)) => Some((at, outcome)),
            None if group.lane.is_silent_replica() && work.may_ask_primary(group) => {
                Some((at, judge::silent_replica()))
            }
            None => None,
        });
        landed.map_or(Poll::Pending, Poll::Ready)
    })
    .await;
    let (group, _) = flights.remove(at);
    let outcome = match &group.check {
        Some(check) => check.check(outcome, work.shape(&group).kind, &group.lane),
        None => outcome,
    };
    Some((group, outcome))
}

impl RetryLoop<'_, '_, '_, '_> {
    /// Submits each lane's requests in one piece.
    pub(super) async fn launch(&mut self, tries: Tries, flights: &mut Flights) {
        let asked = Instant::now();
        for (it, failure) in self.work.launch(tries, flights, asked).await {
            self.judge(it, failure, asked);
        }
    }

    /// Gives each request its replies, in order; what came to an error is judged.
    pub(super) fn settle(&mut self, group: Group, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Many(replies) if group.is_plain && replies.len() == group.members.len() => {
                for (Member { it, .. }, reply) in group.members.into_iter().zip(replies) {
                    self.give(it, Outcome::One(reply), &group.lane, group.asked);
                }
                return;
            }
            other => other,
        };
        let is_alone = group.members.len() == 1;
        let (replies, failure): (SmallVec<[Value; 1]>, _) = match outcome {
            Outcome::Many(replies) => (SmallVec::from_vec(replies), None),
            Outcome::One(reply) => (smallvec![reply], None),
            Outcome::Failed(mut failure) => (SmallVec::from_vec(std::mem::take(&mut failure.replies)), Some(failure)),
        };
        let mut replies = replies.into_iter();
        let mut begin = 0;
        for Member { it, end } in group.members {
            let (wanted, kind) = self.work.requests[it.index].payload.replies();
            // Alone, the reply to ASKING was passed over already.
            let skip = if it.attempts.is_asking && !is_alone { 1 } else { 0 };
            let own = if replies.len() >= skip + wanted as usize {
                let mut own = replies.by_ref().skip(skip);
                match kind {
                    Kind::One => Outcome::One(own.next().unwrap_or(Value::Null)),
                    Kind::Many => Outcome::Many(own.take(wanted as usize).collect()),
                }
            } else {
                replies.by_ref().for_each(drop);
                let is_transaction = matches!(self.work.requests[it.index].payload, Payload::Transaction(_));
                Outcome::Failed(Box::new(share(failure.as_deref(), begin, end, is_alone && !is_transaction)))
            };
            begin = end;
            self.give(it, own, &group.lane, group.asked);
        }
    }

    fn give(&mut self, it: Try, outcome: Outcome, lane: &Arc<Lane>, asked: Instant) {
        match outcome {
            Outcome::One(value) if !matches!(value, Value::Error(_) | Value::Skipped(_)) => {
                self.replies[it.index] = Some(Ok(value));
            }
            other => self.judge(it, Failure::Outcome(Arc::clone(lane), other), asked),
        }
    }
}

impl Work<'_, '_, '_> {
    /// Submits each lane's requests in one piece.
    async fn launch(&self, tries: Tries, flights: &mut Flights, asked: Instant) -> Failures {
        let (groups, mut failures) = self.grouped(tries, asked);
        let mut waiting = Vec::new();
        for mut group in groups {
            let lane = Arc::clone(&group.lane);
            match self.submit(&mut group, |submission, encode| lane.submit(submission, None, encode)) {
                Ok(ticket) => flights.push((group, Flight::new(lane, ticket))),
                Err(Refused::Full(_)) if judge::can_wait(self.core) => waiting.push(group),
                Err(refused) => failures.extend(refuse(group, refused)),
            }
        }
        for group in waiting {
            match self.launch_later(group).await {
                Ok(flight) => flights.push(flight),
                Err(refused) => failures.extend(refused),
            }
        }
        failures
    }

    /// Waits for the byte budget, and submits the group's requests.
    async fn launch_later(&self, mut group: Group) -> Result<(Group, Flight), Failures> {
        let lane = Arc::clone(&group.lane);
        let room = tokio::time::timeout(self.remaining().unwrap_or(FOREVER), lane.room()).await;
        let crowd = match room {
            // On a loaded machine room may come when the deadline has passed.
            Ok(Ok(turn)) if self.remaining() != Some(Duration::ZERO) => {
                group.asked = Instant::now();
                let submitted = self.submit(&mut group, |submission, encode| turn.submit(submission, None, encode));
                drop(turn);
                return match submitted {
                    Ok(ticket) => Ok((group, Flight::new(Arc::clone(&lane), ticket))),
                    Err(refused) => Err(refuse(group, refused).collect()),
                };
            }
            Ok(Err(crowd)) => Some(crowd),
            Ok(Ok(_)) | Err(_) => None,
        };
        let given_up = |Member { it, .. }: Member| {
            let error = match &crowd {
                Some(Crowd { waiting, max }) => {
                    let kind = ErrorKind::Crowded { limit: "max_waiting_commands", waiting: *waiting, max: *max };
                    Error::new(kind, Ran::NotSent, self.name(it.index)).at(lane.node())
                }
                None => self.no_room(&lane, it.index),
            };
            (it, Failure::GivenUp(error))
        };
        Err(group.members.into_iter().map(given_up).collect())
    }

    fn submit(
        &self,
        group: &mut Group,
        submit: impl FnOnce(Submission, &mut dyn FnMut(&mut Out)) -> Result<Ticket, Refused>,
    ) -> Result<Ticket, Refused> {
        let submission = self.shape(group);
        let Group { members, check, .. } = group;
        *check = ReplyCheck::wanted(self.core.config());
        let submission = check.as_ref().map_or(submission, |_| ReplyCheck::of(submission));
        submit(submission, &mut |out| {
            let begin = out.len();
            for member in &mut *members {
                self.encode(&member.it, out);
                member.end = out.len() - begin;
            }
            check.iter().for_each(|check| check.encode(out));
        })
    }

    /// Whether what was sent to a replica may be asked of its primary as well.
    fn may_ask_primary(&self, group: &Group) -> bool {
        let may = |member: &Member| {
            let Request { payload, target, .. } = &self.requests[member.it.index];
            matches!(target, Target::Usual) && self.core.may_leave_replica(payload.spec())
        };
        group.members.iter().all(may)
    }

    /// How a group's replies are gathered: those of one request as it wants them, of several in one list.
    fn shape(&self, group: &Group) -> Submission {
        match &*group.members {
            [only] => self.submission(&only.it, group.asked),
            members => {
                let replies = match group.is_plain {
                    true => u32::try_from(members.len()).unwrap_or(u32::MAX),
                    false => members.iter().map(|member| self.replies(&member.it)).sum(),
                };
                Submission { replies, skip: 0, kind: Kind::Many, timeout: self.remaining_at(group.asked) }
            }
        }
    }

    /// One request by itself, submitted at `asked`.
    pub(super) fn submission(&self, it: &Try, asked: Instant) -> Submission {
        let (_, kind) = self.requests[it.index].payload.replies();
        let skip = u32::from(it.attempts.is_asking);
        Submission { replies: self.replies(it), skip, kind, timeout: self.remaining_at(asked) }
    }

    /// How many it is answered with, that to ASKING among them.
    fn replies(&self, it: &Try) -> u32 {
        self.requests[it.index].payload.replies().0 + u32::from(it.attempts.is_asking)
    }

    pub(super) fn encode(&self, it: &Try, out: &mut Out) {
        if it.attempts.is_asking {
            out.page().extend_from_slice(ASKING);
        }
        self.requests[it.index].payload.encode(out);
    }

    fn grouped(&self, tries: Tries, asked: Instant) -> (SmallVec<[Group; 1]>, Failures) {
        let mut failures = Failures::new();
        let mut groups: SmallVec<[Group; 1]> = SmallVec::new();
        let is_plain = self.is_plain(&tries);
        if let Some(lane) = self.core.only_lane().filter(|_| is_plain && tries.len() > 1) {
            let members = tries.into_iter().map(|it| Member { it, end: 0 }).collect();
            groups.push(Group { lane: Arc::clone(lane), members, is_plain, check: None, asked });
            return (groups, failures);
        }
        let mut tries = tries.into_iter();
        while let Some(it) = tries.next() {
            match self.lane(&it) {
                Ok(lane) => match groups.iter_mut().find(|group| Arc::ptr_eq(&group.lane, &lane)) {
                    Some(group) => {
                        if group.members.len() == 1 {
                            group.members.reserve(tries.len() + 1);
                        }
                        group.members.push(Member { it, end: 0 });
                    }
                    None => groups.push(Group { is_plain, ..Group::alone(lane, it, 0, asked) }),
                },
                Err(error) => failures.push((it, Failure::NoRoute(error))),
            }
        }
        // All that goes to one node stays together: the order of one key's commands is that of the pipeline.
        for group in &mut groups {
            group.lane = match &*group.members {
                [only] => self.core.fitting(Arc::clone(&group.lane), self.requests[only.it.index].payload),
                members => {
                    let size = |member: &Member| self.requests[member.it.index].payload.size();
                    Arc::clone(group.lane.fitting(|| members.iter().map(size).sum()))
                }
            };
        }
        (groups, failures)
    }

    /// Whether all go their usual way for the first time, and have one reply each.
    fn is_plain(&self, tries: &Tries) -> bool {
        tries.iter().all(|it| {
            let Request { payload, target, .. } = &self.requests[it.index];
            let is_first = matches!(it.lead, Lead::Target) && !it.attempts.is_again();
            is_first && matches!(target, Target::Usual) && !matches!(payload, Payload::Transaction(_))
        })
    }

    pub(super) fn lane(&self, it: &Try) -> Result<Arc<Lane>, Error> {
        let request = &self.requests[it.index];
        let spec = request.payload.spec();
        let lane = match &it.lead {
            Lead::Target => self.core.lane_by(&request.target, spec, request.slot),
            Lead::Primary => self.core.primary_lane(spec, request.slot),
            Lead::Lane(lane) => Ok(Arc::clone(lane)),
        }?;
        if it.attempts.is_again() {
            trail::note_again(lane.node());
        }
        Ok(lane)
    }
}

fn refuse(group: Group, refused: Refused) -> impl Iterator<Item = (Try, Failure)> {
    let Group { lane, members, .. } = group;
    let refused = Arc::new(refused);
    members.into_iter().map(move |member| (member.it, Failure::Refused(Arc::clone(&lane), Arc::clone(&refused))))
}

/// What became of the request between these bytes of those that were lost together. A command or transaction of which
/// the last byte has not come does nothing.
fn share(failure: Option<&SubmissionError>, begin: usize, end: usize, is_its_own: bool) -> SubmissionError {
    let Some(failure) = failure else {
        let kind = ErrorKind::Protocol("replies are missing".into());
        return SubmissionError { kind, ran: Ran::MaybeExecuted, replies: Vec::new(), sent_bytes: 0 };
    };
    let ran = match end <= failure.sent_bytes {
        _ if is_its_own => failure.ran,
        true => Ran::MaybeExecuted,
        false => Ran::NotSent,
    };
    SubmissionError {
        kind: failure.kind.clone(),
        ran,
        replies: Vec::new(),
        sent_bytes: failure.sent_bytes.clamp(begin, end) - begin,
    }
}
