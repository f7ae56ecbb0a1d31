//! When a request is sent again: the only place that decides it.
//!
//! | fault | again | why |
//! |---|---|---|
//! | kept connection closed just then | same instance, new connection | RFC 9112 §9.3.1 |
//! | closed, not delivered | another place | nothing was carried out |
//! | closed, perhaps delivered | another place if the method is idempotent | RFC 9110 §9.2.2 |
//! | closed, suspect | never | the request may have ended the instance |
//! | refused | another place if the instance drains | P-29: otherwise there is no other one |
//! | cannot be connected to | another place if the instance has ended, or at another server | nothing was sent |
//! | cannot be connected to, servers come and go | the next server that takes it, which is waited for | likewise |
//! | any other | never | the service said no, or had its time |
//!
//! Never when a part of the body is gone, at another server only within its service's budget, and at most [`MAX_TRIES`]
//! times in all. A try at an instance that was told to go before it got the request is not one of them: a program that
//! is saved ten times in a second is replaced ten times, and nobody has failed. Of those there are at most
//! [`MAX_MOVES`]. Nor is one that a server took no connection for whose successor is waited for: at most
//! [`MAX_AWAITED`].

use std::time::Duration;

/// Tries for one request: the first, one after a connection that had been closed or a refusal, one for the new
/// instance.
pub const MAX_TRIES: u16 = 3;
/// Tries that do not count, because the instance was told to go before anything of the request was carried out.
pub const MAX_MOVES: u16 = 16;
/// Tries that do not count, because a server took no connection and is waited for. Time ends them long before: servers
/// that refuse are tried four times in a second.
pub const MAX_AWAITED: u16 = 16_384;
/// How long the end of an instance may take from its socket to the supervisor.
pub const END_NOTICE: Duration = Duration::from_millis(500);

/// Whether a request that failed may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Certainly not.
    No,
    /// Perhaps.
    Maybe,
    /// The instance ended with nothing else in progress: sent again, it might end the next one, too.
    Suspect,
}

/// On which connection a request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// It had carried an exchange before.
    Kept,
    /// It was new, or the way to the service has its own rules for kept ones (the pipe).
    New,
}

/// Why a service gave no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be connected to.
    Connect,
    /// The connection or the instance ended.
    Closed(Delivery, Reuse),
    /// It did not take the request.
    Refused,
    /// It has too much to do: more does not help.
    Overloaded,
    /// It broke the protocol.
    Protocol,
    /// It gave up at its deadline.
    Deadline,
    /// It failed.
    Internal,
    /// It does not take a body of that size.
    TooLarge,
    /// The client's body failed.
    Client,
    /// The instance ended before its first response.
    Start,
}

/// What is known of the instance that failed. Of somebody else's nothing is, which is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instance {
    /// It was asked to drain, or said that it does.
    pub drains: bool,
    /// It has ended.
    pub has_ended: bool,
    /// It is one of several servers, of which others were not asked yet.
    pub has_others: bool,
    /// Too many requests to its service have been sent again lately.
    pub over_budget: bool,
    /// It took no connection, and requests to its service wait for a server that does.
    pub is_awaited: bool,
}

/// Whether and where a request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// On a new connection to the same instance.
    SameInstance,
    /// At another place, which the supervisor gives.
    AnotherPlace,
    /// Not at all.
    Never,
    /// Not at all, because too many are.
    OverBudget,
}

/// What can still be sent of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyState {
    /// All, or there is none.
    Whole,
    /// Part of it is gone.
    Spent,
}

/// How often a request was sent. Small, as it moves with the state of every exchange.
#[derive(Debug, Clone, Copy)]
pub struct Tries {
    counted: u16,
    /// Those at instances that were told to go.
    moves: u16,
    /// Those at servers that took no connection.
    awaited: u16,
}

impl Tries {
    pub(crate) fn first() -> Self {
        Self { counted: 1, moves: 0, awaited: 0 }
    }

    /// Decides whether a request that failed is sent again, and counts it if so. `is_idempotent`: RFC 9110 §9.2.2.
    pub(crate) fn again(&mut self, fault: Fault, is_idempotent: bool, body: BodyState, instance: Instance) -> Again {
        let again = match body {
            BodyState::Spent => Again::Never,
            BodyState::Whole => again(fault, is_idempotent, instance),
        };
        let nothing_done = matches!(fault, Fault::Closed(Delivery::No, _) | Fault::Refused);
        let is_move = nothing_done && instance.drains && !instance.has_ended;
        let is_awaited = fault == Fault::Connect && instance.is_awaited;
        let (count, most) = match (is_move, is_awaited) {
            (true, _) => (&mut self.moves, MAX_MOVES),
            (_, true) => (&mut self.awaited, MAX_AWAITED),
            _ => (&mut self.counted, MAX_TRIES),
        };
        if again == Again::Never || *count >= most {
            return Again::Never;
        }
        if again == Again::AnotherPlace && instance.over_budget && !is_awaited {
            return Again::OverBudget;
        }
        *count += 1;
        again
    }
}

fn again(fault: Fault, is_idempotent: bool, instance: Instance) -> Again {
    let allowed = |may: bool| if may { Again::AnotherPlace } else { Again::Never };
    match fault {
        // RFC 9110 §9.2.2: "A client SHOULD NOT automatically retry a request with a non-idempotent method".
        Fault::Closed(delivery, reuse) => {
            let may = match delivery {
                Delivery::No => true,
                Delivery::Maybe => is_idempotent,
                Delivery::Suspect => false,
            };
            match reuse {
                // RFC 9112 §9.3.1: a kept connection may have been closed just as the request was sent. The other kept
                // ones are of the same age, so a new one is used.
                Reuse::Kept if may => Again::SameInstance,
                Reuse::Kept | Reuse::New => allowed(may),
            }
        }
        // P-29: another instance is only there if this one is going.
        Fault::Refused => allowed(instance.drains),
        // Nothing was sent, and the next instance has a socket of its own.
        Fault::Connect => allowed(instance.has_ended || instance.has_others || instance.is_awaited),
        Fault::Overloaded
        | Fault::Protocol
        | Fault::Deadline
        | Fault::Internal
        | Fault::TooLarge
        | Fault::Client
        | Fault::Start => Again::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: Instance =
        Instance { drains: false, has_ended: false, has_others: false, over_budget: false, is_awaited: false };
    const DRAINING: Instance = Instance { drains: true, ..RUNNING };
    const ENDED: Instance = Instance { has_ended: true, ..RUNNING };
    const ONE_OF_SEVERAL: Instance = Instance { has_others: true, ..RUNNING };

    #[track_caller]
    fn check(fault: Fault, is_idempotent: bool, instance: Instance, expected: Again) {
        let whole = Tries::first().again(fault, is_idempotent, BodyState::Whole, instance);
        assert_eq!(whole, expected, "{fault:?}, idempotent: {is_idempotent}, {instance:?}");
        let spent = Tries::first().again(fault, is_idempotent, BodyState::Spent, instance);
        assert_eq!(spent, Again::Never, "{fault:?} with a spent body");
    }

    #[test]
    fn what_was_closed() {
        use Again::{AnotherPlace, Never, SameInstance};
        use Delivery::{Maybe, No, Suspect};
        for instance in [RUNNING, DRAINING, ENDED] {
            for (delivery, is_idempotent, may) in [
                (No, false, true),
                (No, true, true),
                (Maybe, false, false),
                (Maybe, true, true),
                (Suspect, false, false),
                (Suspect, true, false),
            ] {
                let (kept, new) = if may { (SameInstance, AnotherPlace) } else { (Never, Never) };
                check(Fault::Closed(delivery, Reuse::Kept), is_idempotent, instance, kept);
                check(Fault::Closed(delivery, Reuse::New), is_idempotent, instance, new);
            }
        }
    }

    #[test]
    fn who_is_going_is_replaced() {
        for is_idempotent in [false, true] {
            check(Fault::Refused, is_idempotent, RUNNING, Again::Never);
            check(Fault::Refused, is_idempotent, DRAINING, Again::AnotherPlace);
            check(Fault::Refused, is_idempotent, ENDED, Again::Never);
            check(Fault::Connect, is_idempotent, ENDED, Again::AnotherPlace);
            check(Fault::Connect, is_idempotent, DRAINING, Again::Never);
            check(Fault::Connect, is_idempotent, RUNNING, Again::Never);
            check(Fault::Connect, is_idempotent, ONE_OF_SEVERAL, Again::AnotherPlace);
            check(Fault::Refused, is_idempotent, ONE_OF_SEVERAL, Again::Never);
        }
    }

    #[test]
    fn a_no_is_a_no() {
        use Fault::{Client, Deadline, Internal, Overloaded, Protocol, Start, TooLarge};
        for fault in [Client, Deadline, Internal, Overloaded, Protocol, Start, TooLarge] {
            check(fault, true, DRAINING, Again::Never);
            check(fault, true, ENDED, Again::Never);
        }
    }

    #[test]
    fn beyond_the_budget_only_a_new_connection_to_the_same_server() {
        let spent = Instance { over_budget: true, ..ONE_OF_SEVERAL };
        check(Fault::Connect, true, spent, Again::OverBudget);
        check(Fault::Closed(Delivery::Maybe, Reuse::New), true, spent, Again::OverBudget);
        check(Fault::Closed(Delivery::Maybe, Reuse::New), false, spent, Again::Never);
        check(Fault::Closed(Delivery::No, Reuse::Kept), false, spent, Again::SameInstance);
    }

    #[test]
    fn three_tries() {
        let mut tries = Tries::first();
        let closed = Fault::Closed(Delivery::No, Reuse::New);
        let again: Vec<_> = (0..4).map(|_| tries.again(closed, false, BodyState::Whole, RUNNING)).collect();
        assert_eq!(again, [Again::AnotherPlace, Again::AnotherPlace, Again::Never, Again::Never]);
    }

    #[test]
    fn an_instance_that_was_told_to_go_costs_no_try() {
        for fault in [Fault::Closed(Delivery::No, Reuse::New), Fault::Refused] {
            let mut tries = Tries::first();
            let mut again = |fault, instance| tries.again(fault, false, BodyState::Whole, instance);
            for _ in 0..MAX_MOVES {
                assert_eq!(again(fault, DRAINING), Again::AnotherPlace);
            }
            assert_eq!(again(fault, DRAINING), Again::Never);
            let closed = Fault::Closed(Delivery::No, Reuse::New);
            let counted: Vec<_> = (0..3).map(|_| again(closed, RUNNING)).collect();
            assert_eq!(counted, [Again::AnotherPlace, Again::AnotherPlace, Again::Never]);
        }
    }

    #[test]
    fn who_is_waited_for_costs_no_try_and_nothing_of_the_budget() {
        let mut tries = Tries::first();
        let awaited = Instance { is_awaited: true, over_budget: true, ..RUNNING };
        let mut again = |fault, instance| tries.again(fault, false, BodyState::Whole, instance);
        for _ in 0..MAX_AWAITED {
            assert_eq!(again(Fault::Connect, awaited), Again::AnotherPlace);
        }
        assert_eq!(again(Fault::Connect, awaited), Again::Never);
        let maybe = Fault::Closed(Delivery::Maybe, Reuse::New);
        assert_eq!(again(maybe, awaited), Again::Never, "it may have been carried out");
        let no = Fault::Closed(Delivery::No, Reuse::New);
        let counted: Vec<_> = (0..3).map(|_| again(no, RUNNING)).collect();
        assert_eq!(counted, [Again::AnotherPlace, Again::AnotherPlace, Again::Never]);
    }

    #[test]
    fn what_was_perhaps_carried_out_and_what_has_ended_cost_a_try() {
        let going = Instance { drains: true, ..ENDED };
        for (delivery, instance) in [(Delivery::Maybe, DRAINING), (Delivery::No, going)] {
            let mut tries = Tries::first();
            let fault = Fault::Closed(delivery, Reuse::New);
            let again: Vec<_> = (0..3).map(|_| tries.again(fault, true, BodyState::Whole, instance)).collect();
            assert_eq!(again, [Again::AnotherPlace, Again::AnotherPlace, Again::Never], "{delivery:?}, {instance:?}");
        }
    }
}
