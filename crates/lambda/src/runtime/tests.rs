use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[track_caller]
fn check(runtime: &mut Runtime, inputs: &[(Input<'_>, Output)]) {
    for (input, expected) in inputs {
        assert_eq!(runtime.step(*input), *expected, "{input:?}");
    }
}

#[test]
fn one_invocation_after_the_other() {
    let (mut runtime, late) = (Runtime::new(), deadline());
    check(
        &mut runtime,
        &[
            (Input::Invoke("a", late), Output::Refuse(Refusal::Busy)),
            (Input::Next(1), Output::Ready),
            (Input::Invoke("a", late), Output::Hand(1)),
            (Input::Invoke("b", late), Output::Refuse(Refusal::Busy)),
            (Input::Next(2), Output::Refuse(Refusal::NotAnswered)),
            (Input::Answer(3, "b"), Output::Refuse(Refusal::UnknownId)),
            (Input::Answer(3, "a"), Output::Read),
            (Input::Answer(4, "a"), Output::Refuse(Refusal::UnknownId)),
            (Input::Answered(4), Output::Wait),
            (Input::Answered(3), Output::Done),
            (Input::Answer(5, "a"), Output::Refuse(Refusal::UnknownId)),
            (Input::Invoke("b", late), Output::Wait),
            (Input::Next(6), Output::Hand(6)),
        ],
    );
}

#[test]
fn calls_that_go() {
    let (mut runtime, late) = (Runtime::new(), deadline());
    check(
        &mut runtime,
        &[
            (Input::Next(1), Output::Ready),
            (Input::Next(2), Output::Wait),
            (Input::Gone(1), Output::Wait),
            (Input::Invoke("a", late), Output::Hand(2)),
        ],
    );
    assert_eq!(runtime.not_handed(), Output::Wait);
    check(
        &mut runtime,
        &[
            (Input::Next(3), Output::Hand(3)),
            (Input::Answer(4, "a"), Output::Read),
            (Input::Gone(4), Output::Broken),
            (Input::Next(5), Output::Wait),
            (Input::Next(6), Output::Wait),
            (Input::Next(7), Output::Wait),
            (Input::Next(8), Output::Wait),
            (Input::Next(9), Output::Refuse(Refusal::TooMany)),
        ],
    );
}

#[test]
fn what_is_late_is_over() {
    let (mut runtime, late) = (Runtime::new(), deadline());
    check(
        &mut runtime,
        &[
            (Input::Next(1), Output::Ready),
            (Input::Tick(late), Output::Wait),
            (Input::Invoke("a", late), Output::Hand(1)),
            (Input::Tick(late - Duration::from_millis(1)), Output::Wait),
            (Input::Answer(2, "a"), Output::Read),
            (Input::Tick(late), Output::Late),
            (Input::Answered(2), Output::Wait),
            (Input::Answer(3, "a"), Output::Refuse(Refusal::UnknownId)),
            (Input::Next(4), Output::Wait),
            (Input::Invoke("b", late), Output::Refuse(Refusal::Over)),
        ],
    );
    assert!(runtime.is_over());
}

#[test]
fn an_initialisation_that_fails() {
    let mut runtime = Runtime::new();
    check(
        &mut runtime,
        &[(Input::InitError(1), Output::Read), (Input::InitError(2), Output::Refuse(Refusal::Initialised))],
    );
    let mut runtime = Runtime::new();
    check(
        &mut runtime,
        &[(Input::Next(1), Output::Ready), (Input::InitError(2), Output::Refuse(Refusal::Initialised))],
    );
}

proptest! {
    /// Whatever a runtime client does: an invocation is given out once, answered by one call at most, and ends once.
    #[test]
    fn each_invocation_ends_once(steps in proptest::collection::vec((0..8_u8, 0..4_u64), 0..200)) {
        let (mut runtime, begun) = (Runtime::new(), Instant::now());
        let (mut given, mut ended, mut ready, mut reading) = (0_u64, 0_u64, 0, None);
        for (index, (what, which)) in steps.into_iter().enumerate() {
            let call = index as u64;
            let id = format!("{}", given.saturating_sub(which));
            let output = match what {
                0 => runtime.step(Input::Next(call)),
                1 => {
                    let output = runtime.step(Input::Invoke(&format!("{}", given + 1), begun + Duration::from_secs(given + 9)));
                    given += u64::from(!matches!(output, Output::Refuse(_)));
                    output
                }
                2 | 3 => runtime.step(Input::Answer(call, &id)),
                4 | 5 => runtime.step(Input::Answered(reading.unwrap_or(call))),
                6 => runtime.step(Input::Gone(call.saturating_sub(which))),
                _ => runtime.step(Input::Tick(begun + Duration::from_secs(given + 8 + u64::from(which == 3)))),
            };
            match output {
                Output::Ready => ready += 1,
                Output::Read => {
                    prop_assert!(reading.is_none());
                    prop_assert_eq!(id, format!("{given}"), "the answer is that of the invocation");
                    reading = Some(call);
                }
                Output::Done | Output::Broken | Output::Late => {
                    ended += 1;
                    reading = None;
                }
                Output::Wait | Output::Hand(_) | Output::Refuse(_) => {}
            }
            prop_assert!(ready <= 1 && ended <= given && given - ended <= 1);
            prop_assert_eq!(runtime.deadline().is_some(), given > ended);
        }
    }
}
