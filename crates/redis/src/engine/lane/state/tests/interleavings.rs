//! All orders in which callers, the driver and the network can come, for a few steps of each.
//!
//! Whatever threads do to a lane's cells they do under its lock, so what can happen is some order of critical sections,
//! and nothing in between: to go through all orders is to go through all that threads can do. A checker of interleaved
//! instructions (loom, shuttle) would need the lock, the wakers and tokio to be its own, and find no more orders than
//! these.
//!
//! Each order is run against the [`Model`]: own replies, nothing sent twice, nothing sent after it was withdrawn, each
//! cell freed once, nobody asleep with his reply in his cell.

use super::*;

/// A critical section.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A caller's own.
    Submit {
        is_many: bool,
        timeout_ms: Option<u8>,
    },
    /// The caller writes by itself if the lane is idle: so many bytes of ten.
    SubmitInline(u8),
    Poll,
    Cancel,
    /// The driver's, or of the network.
    Do(Act),
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Take,
    Write(u8),
    Reply(u8),
    Tick(u8),
    Shed,
    Lose,
    LoseAll,
}

use Act::{Lose, LoseAll, Reply, Shed, Take, Tick, Write};
use Step::{Cancel, Do, Poll, Submit, SubmitInline};

const ONE: Step = Submit { is_many: false, timeout_ms: None };
const TWO: Step = Submit { is_many: true, timeout_ms: None };
const HASTY: Step = Submit { is_many: false, timeout_ms: Some(5) };
const ALL: u8 = u8::MAX;

/// Runs all orders of the actors' steps, each actor's own in their order; how many there were.
fn check(actors: &[&[Step]]) -> usize {
    let steps = actors.iter().map(|steps| steps.len()).sum();
    let mut order = Vec::with_capacity(steps);
    let mut done = vec![0; actors.len()];
    let mut count = 0;
    each_order(actors, &mut done, &mut order, &mut |order| {
        run(actors, order);
        count += 1;
    });
    count
}

fn each_order(actors: &[&[Step]], done: &mut [usize], order: &mut Vec<usize>, each: &mut impl FnMut(&[usize])) {
    let mut is_over = true;
    for actor in 0..actors.len() {
        if done[actor] < actors[actor].len() {
            is_over = false;
            done[actor] += 1;
            order.push(actor);
            each_order(actors, done, order, each);
            order.pop();
            done[actor] -= 1;
        }
    }
    if is_over {
        each(order);
    }
}

/// If it fails, the order is printed.
struct Told<'o>(&'o [&'o [Step]], &'o [usize]);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut done = vec![0; self.0.len()];
            for &actor in self.1 {
                println!("{actor}: {:?}", self.0[actor][done[actor]]);
                done[actor] += 1;
            }
        }
    }
}

fn run(actors: &[&[Step]], order: &[usize]) {
    let _told = Told(actors, order);
    let mut model = Model::new();
    let mut done = vec![0; actors.len()];
    // By actor: the caller that it is.
    let mut callers = vec![0_u8; actors.len()];
    for &actor in order {
        let step = actors[actor][done[actor]];
        done[actor] += 1;
        if matches!(step, Submit { .. } | SubmitInline(_)) {
            callers[actor] = model.callers.len() as u8;
        }
        model.apply(&match step {
            Submit { is_many, timeout_ms } => {
                let replies = if is_many { 2 } else { 1 };
                Op::Submit { replies, is_many, skips: false, filler: 4, splices: false, timeout_ms }
            }
            SubmitInline(bytes) if model.state.is_idle() => Op::Inline(bytes),
            SubmitInline(_) => {
                Op::Submit { replies: 1, is_many: false, skips: false, filler: 4, splices: false, timeout_ms: None }
            }
            Poll => Op::Poll(callers[actor]),
            Cancel => Op::Cancel(callers[actor]),
            Do(Take) => Op::Take,
            Do(Write(bytes)) => Op::Write(bytes),
            Do(Reply(count)) => Op::Reply(count),
            Do(Tick(ms)) => Op::Tick(ms),
            Do(Shed) => Op::Shed(150),
            Do(Lose) => Op::Lose,
            Do(LoseAll) => Op::LoseAll,
        });
    }
    model.finish();
}

const DRIVER: &[Step] = &[Do(Take), Do(Write(5)), Do(Write(ALL)), Do(Reply(1)), Do(Reply(ALL))];

#[test]
fn all_orders_are_gone_through() {
    assert_eq!(check(&[&[ONE, Poll], &[TWO, Poll], &[Do(Take)]]), 30);
}

#[test]
fn two_callers_one_of_which_leaves() {
    assert_eq!(check(&[&[ONE, Poll, Cancel], &[TWO, Poll], DRIVER]), 2520);
}

#[test]
fn a_caller_leaves_and_its_cell_is_used_again() {
    check(&[&[ONE, Cancel, ONE, Poll], &[ONE, Poll], DRIVER]);
}

#[test]
fn the_connection_is_lost_at_any_moment() {
    check(&[&[ONE, Poll, Cancel], &[TWO, Poll], DRIVER, &[Do(Lose)]]);
    check(&[&[ONE, Poll], &[TWO, Poll], DRIVER, &[Do(LoseAll)]]);
}

#[test]
fn a_deadline_passes_at_any_moment() {
    check(&[&[HASTY, Poll, Cancel], &[TWO, Poll], DRIVER, &[Do(Tick(10))]]);
    check(&[&[HASTY, Poll], &[ONE, Cancel], DRIVER, &[Do(Tick(10)), Do(Lose)]]);
}

#[test]
fn an_inline_write_at_any_moment_whole_or_not() {
    for bytes in [3, ALL] {
        check(&[&[SubmitInline(bytes), Poll], &[SubmitInline(bytes), Cancel], DRIVER, &[Do(Lose)]]);
    }
}

#[test]
fn the_oldest_give_way_at_any_moment() {
    check(&[&[ONE, Poll, Cancel], &[TWO, Poll], DRIVER, &[Do(Shed)]]);
}
