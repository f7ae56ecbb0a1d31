//! What becomes of a response, or of its failure: validated, judged, passed on, or replaced by a stale response.

use super::{Exchange, Fetched, Purpose, State};
use crate::action::{Action, Judgement, Response, Status, Verdict};
use crate::event::{Event, Stale};
use crate::handles::Handles;

/// RFC 9110 §15.4.5.
const NOT_MODIFIED: u16 = 304;

impl<H: Handles> Exchange<H> {
    pub(super) fn answer_step(&mut self, state: State<H>, event: Event<H>) -> Action<H> {
        match (state, event) {
            (State::Invalidating(why, post), Event::Invalidated(answer)) => self.passed(why, post, answer),
            (State::MayServeStale { fill, stale, why, fetched }, Event::MayServeStale(may)) => {
                self.may_serve_stale(fill, stale, why, fetched, may)
            }
            (State::LandingFailed { stored, why, answered }, Event::LandedFailed) => {
                self.verdict = Verdict::Stale;
                self.finish(Response::Stored(stored, Status::StaleIfError(why, answered)))
            }
            (State::Validating(why), Event::Validated(stored, unstored, answer)) => {
                self.verdict = Verdict::Revalidated;
                self.finish(Response::Validated { stored, unstored, answer, why })
            }
            (State::Validating(why), Event::Mismatched(fill)) => self.ask_once_more(fill, why),
            (State::Judging(why), Event::Store(answer, recorder)) => {
                self.finish(Response::Recorded(answer, recorder, why))
            }
            (State::Judging(why), Event::Unstored(answer, unstored)) => {
                self.finish(Response::Passed(answer, Some(unstored), why))
            }
            (_, _) => Self::bug(),
        }
    }

    pub(super) fn fetched(&mut self, purpose: Purpose<H>, fetched: Fetched<H>) -> Action<H> {
        match (purpose, fetched) {
            // Whatever fill there was is dropped: it has no flight, or is handed to the next one who waits.
            (
                Purpose::Post { .. } | Purpose::Pass { .. } | Purpose::Fill { stale: None, .. },
                Fetched::Refused(refusal),
            ) => self.finish(Response::Failure(refusal)),
            (Purpose::Post { why }, Fetched::Response(answer, _)) => self.passed(why, None, answer),
            (Purpose::Pass { why, post, invalidates: false }, Fetched::Response(answer, _)) => {
                self.passed(why, post, answer)
            }
            (Purpose::Pass { why, post, invalidates: true }, Fetched::Response(answer, _)) => {
                self.state = State::Invalidating(why, post);
                Action::Invalidate(answer)
            }
            (Purpose::Fill { fill, why, stale: None, .. }, Fetched::Response(answer, _)) => {
                self.judge(fill, why, answer, Judgement::Response)
            }
            (Purpose::Fill { fill, why, stale: Some(stale), .. }, fetched) => {
                if !fetched.is_error() {
                    return self.no_error(fill, stale, why, fetched);
                }
                let stored = stale.stored.clone();
                self.state = State::MayServeStale { fill, stale, why, fetched };
                Action::MayServeStale(stored)
            }
        }
    }

    /// RFC 5861 §4: the stored response in place of an error, if it may be used so.
    fn may_serve_stale(
        &mut self,
        fill: H::Fill,
        stale: Stale<H>,
        why: H::Why,
        fetched: Fetched<H>,
        may: bool,
    ) -> Action<H> {
        if !may {
            return self.no_error(fill, stale, why, fetched);
        }
        let (answered, refusal) = match fetched {
            Fetched::Response(_, status) => (Some(status), None),
            Fetched::Refused(refusal) => (None, Some(refusal)),
        };
        let stored = stale.stored;
        self.state = State::LandingFailed { stored: stored.clone(), why, answered };
        Action::LandFailed(fill, stored, refusal)
    }

    /// Nothing stands in for what was fetched.
    fn no_error(&mut self, fill: H::Fill, stale: Stale<H>, why: H::Why, fetched: Fetched<H>) -> Action<H> {
        match fetched {
            Fetched::Refused(refusal) => {
                drop(fill);
                self.finish(Response::Failure(refusal))
            }
            // RFC 9111 §4.3.3: a 304 is ours only if the condition was.
            Fetched::Response(answer, NOT_MODIFIED) if stale.has_validator => {
                self.state = State::Validating(why);
                Action::Validate(fill, stale.stored, answer)
            }
            Fetched::Response(answer, _) => self.judge(fill, why, answer, Judgement::Response),
        }
    }

    /// A response that the cache has no part in, but what a POST has made.
    pub(super) fn passed(&mut self, why: H::Why, post: Option<H::Fill>, answer: H::Fetched) -> Action<H> {
        match post {
            Some(fill) => self.judge(fill, why, answer, Judgement::Posted),
            None => self.finish(Response::Passed(answer, None, why)),
        }
    }

    fn judge(&mut self, fill: H::Fill, why: H::Why, answer: H::Fetched, judgement: Judgement) -> Action<H> {
        self.state = State::Judging(why);
        Action::Judge(fill, answer, judgement)
    }
}

impl<H: Handles> Purpose<H> {
    /// RFC 9110 §13.1: whose validators go with the request.
    pub(super) fn condition(&self) -> Option<H::Stored> {
        match self {
            Self::Fill { stale: Some(stale), .. } if stale.has_validator => Some(stale.stored.clone()),
            Self::Post { .. } | Self::Pass { .. } | Self::Fill { .. } => None,
        }
    }
}

impl<H: Handles> Fetched<H> {
    /// RFC 5861 §4: "an error is any situation that would result in a 500, 502, 503, or 504 HTTP response status code
    /// being returned".
    fn is_error(&self) -> bool {
        let status = match self {
            Self::Response(_, status) => *status,
            Self::Refused(refusal) => refusal.status(),
        };
        matches!(status, 500 | 502 | 503 | 504)
    }
}
