//! The states of one instance and its runtime client.
//!
//! ```text
//!            next                 invoke            a `next` waits          response, error
//!  Starting ─────▶ Idle ─────────▶ Given ─────────▶ Running ───────────────▶ Answering
//!     │             ▲                                  │                        │ the call's end
//!     │ init error  └──────────────────────────────────┼────────────────────────┘
//!     ▼                                                ▼ deadline
//!    Over ◀────────────────────────────────────────── Over
//! ```

use std::collections::VecDeque;
use std::time::Instant;

/// Calls for the next invocation that wait at once; a runtime client has one.
const MAX_WAITING: usize = 4;

/// A call of a runtime client, told apart by whoever reads it.
pub type CallId = u64;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// A call for the next invocation.
    Next(CallId),
    /// An invocation, with its id and its deadline.
    Invoke(&'a str, Instant),
    /// The head of a call with the result of an invocation, or with its error.
    Answer(CallId, &'a str),
    /// A call that says that the function could not be initialised.
    InitError(CallId),
    /// The call with the answer has come to its end.
    Answered(CallId),
    /// The call has gone before its end, or before it could be given anything.
    Gone(CallId),
    /// Time has passed.
    Tick(Instant),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Nothing; a call for the next invocation stays open.
    Wait,
    /// The start is over. The call stays open.
    Ready,
    /// The invocation goes to this call.
    Hand(CallId),
    /// The call is read to its end: it has the answer, or the error of the initialisation.
    Read,
    /// The invocation has been answered.
    Done,
    /// The call is refused.
    Refuse(Refusal),
    /// The answer broke off.
    Broken,
    /// The deadline is over: the invocation has failed, and the instance is to be replaced.
    Late,
}

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// An answer for another invocation, or a second one, or one that is late.
    #[error("there is no invocation with this id that waits for an answer")]
    UnknownId,
    /// The next invocation is asked for before the last one is answered.
    #[error("the invocation before has not been answered")]
    NotAnswered,
    /// More calls for the next invocation than a runtime client has.
    #[error("too many calls for the next invocation wait already")]
    TooMany,
    /// An error of the initialisation behind its end.
    #[error("the initialisation is over")]
    Initialised,
    /// An invocation while there is one.
    #[error("the instance has an invocation")]
    Busy,
    /// The instance takes no more.
    #[error("the instance is being replaced")]
    Over,
}

/// One instance as its runtime client sees it.
#[derive(Debug, Default)]
pub struct Runtime {
    state: State,
    /// Calls for the next invocation.
    waiting: VecDeque<CallId>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Starting,
    Idle,
    /// No call has taken it.
    Given(Current),
    Running(Current),
    /// A call has its answer.
    Answering(Current, CallId),
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Current {
    id: String,
    deadline: Instant,
}

impl Runtime {
    /// An instance that starts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When the invocation has to be answered, if there is one.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Given(current) | State::Running(current) | State::Answering(current, _) => Some(current.deadline),
            State::Starting | State::Idle | State::Over => None,
        }
    }

    /// Whether it has an invocation that no call has taken.
    #[must_use]
    pub fn is_given(&self) -> bool {
        matches!(self.state, State::Given(_))
    }

    /// Whether it takes no more invocations.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Follows what happens.
    pub fn step(&mut self, input: Input<'_>) -> Output {
        match input {
            Input::Next(call) => self.next(call),
            Input::Invoke(id, deadline) => self.invoke(id, deadline),
            Input::Answer(call, id) => self.answer(call, id),
            Input::InitError(_) => match self.state {
                State::Starting => {
                    self.state = State::Over;
                    Output::Read
                }
                _ => Output::Refuse(Refusal::Initialised),
            },
            Input::Answered(call) => match self.state {
                State::Answering(_, of) if of == call => {
                    self.state = State::Idle;
                    Output::Done
                }
                _ => Output::Wait,
            },
            Input::Gone(call) => self.gone(call),
            Input::Tick(now) => match self.deadline() {
                Some(deadline) if deadline <= now => {
                    self.state = State::Over;
                    Output::Late
                }
                _ => Output::Wait,
            },
        }
    }

    fn next(&mut self, call: CallId) -> Output {
        if self.waiting.len() == MAX_WAITING {
            return Output::Refuse(Refusal::TooMany);
        }
        match &self.state {
            State::Running(_) | State::Answering(..) => return Output::Refuse(Refusal::NotAnswered),
            State::Starting | State::Idle | State::Given(_) | State::Over => self.waiting.push_back(call),
        }
        if self.state == State::Starting {
            self.state = State::Idle;
            return Output::Ready;
        }
        self.hand()
    }

    fn invoke(&mut self, id: &str, deadline: Instant) -> Output {
        match self.state {
            State::Idle => {
                self.state = State::Given(Current { id: id.to_owned(), deadline });
                self.hand()
            }
            State::Over => Output::Refuse(Refusal::Over),
            State::Starting | State::Given(_) | State::Running(_) | State::Answering(..) => {
                Output::Refuse(Refusal::Busy)
            }
        }
    }

    /// Gives the invocation to the call that has waited the longest.
    fn hand(&mut self) -> Output {
        let State::Given(current) = &self.state else { return Output::Wait };
        let Some(call) = self.waiting.pop_front() else { return Output::Wait };
        self.state = State::Running(current.clone());
        Output::Hand(call)
    }

    fn answer(&mut self, call: CallId, id: &str) -> Output {
        match &self.state {
            State::Running(current) if current.id == id => {
                self.state = State::Answering(current.clone(), call);
                Output::Read
            }
            _ => Output::Refuse(Refusal::UnknownId),
        }
    }

    fn gone(&mut self, call: CallId) -> Output {
        self.waiting.retain(|waiting| *waiting != call);
        match &self.state {
            State::Answering(_, of) if *of == call => {
                self.state = State::Idle;
                Output::Broken
            }
            _ => Output::Wait,
        }
    }

    /// The call that the invocation was given to has gone before it could have it: the next one gets it.
    pub fn not_handed(&mut self) -> Output {
        if let State::Running(current) = &self.state {
            self.state = State::Given(current.clone());
        }
        self.hand()
    }
}

#[cfg(test)]
mod tests;
