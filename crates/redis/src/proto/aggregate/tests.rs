//! Each policy by value.

use bytes::Bytes;

use super::*;

type Reply = Result<Value, &'static str>;

fn int(number: i64) -> Value {
    Value::Integer(number)
}

fn text(text: &'static str) -> Value {
    Value::Bulk(Bytes::from_static(text.as_bytes()))
}

fn error(text: &'static str) -> Value {
    Value::Error(Bytes::from_static(text.as_bytes()))
}

fn ints<const N: usize>(numbers: [i64; N]) -> Value {
    Value::Array(numbers.map(int).into())
}

#[track_caller]
fn check<const N: usize>(policy: ResponsePolicy, replies: [Value; N], expected: &Value) {
    let replies: Vec<Reply> = replies.into_iter().map(Ok).collect();
    assert_eq!(aggregate(policy, replies).as_ref(), Ok(expected));
}

#[track_caller]
fn check_error(policy: ResponsePolicy, replies: Vec<Reply>, reply: usize, cause: Cause<&'static str>) {
    assert_eq!(aggregate(policy, replies), Err(AggregateError::Part { reply, cause }));
}

#[test]
fn one_succeeded_is_the_first_that_did() {
    let policy = ResponsePolicy::OneSucceeded;
    check(policy, [error("NOTBUSY a"), int(1), int(2)], &int(1));
    assert_eq!(aggregate(policy, vec![Err("lost"), Ok(int(7))]), Ok(int(7)));
    check_error(policy, vec![Err("lost"), Ok(error("NOTBUSY a"))], 0, Cause::Failed("lost"));
    check_error(policy, vec![Ok(error("NOTBUSY a")), Err("x")], 0, Cause::Server(ServerError::parse(b"NOTBUSY a")));
}

#[test]
fn all_succeeded_is_one_reply_or_the_first_error() {
    let policy = ResponsePolicy::AllSucceeded;
    check(policy, [text("OK"), text("OK")], &text("OK"));
    check_error(policy, vec![Ok(text("OK")), Ok(error("ERR x"))], 1, Cause::Server(ServerError::parse(b"ERR x")));
    check_error(policy, vec![Ok(text("OK")), Err("lost"), Err("late")], 1, Cause::Failed("lost"));
}

#[test]
fn agg_sum() {
    let policy = ResponsePolicy::AggSum;
    check(policy, [int(1), int(2), int(3)], &int(6));
    check(policy, [int(4)], &int(4));
    check_error(policy, vec![Ok(int(i64::MAX)), Ok(int(1))], 1, Cause::Overflow);
    check_error(
        policy,
        vec![Ok(int(1)), Ok(text("1"))],
        1,
        Cause::Shape { expected: "an integer", found: "bulk string" },
    );
    check_error(policy, vec![Ok(int(1)), Err("lost")], 1, Cause::Failed("lost"));
}

#[test]
fn agg_min_and_max() {
    check(ResponsePolicy::AggMin, [int(3), int(1), int(2)], &int(1));
    check(ResponsePolicy::AggMax, [int(3), int(1), int(7)], &int(7));
    check(ResponsePolicy::AggMin, [ints([1, 5]), ints([2, 0])], &ints([1, 0]));
}

#[test]
fn agg_logical_and_and_or_work_place_by_place() {
    check(ResponsePolicy::AggLogicalAnd, [ints([1, 1, 0]), ints([1, 0, 0])], &ints([1, 0, 0]));
    check(ResponsePolicy::AggLogicalOr, [ints([1, 1, 0]), ints([1, 0, 0])], &ints([1, 1, 0]));
    check(ResponsePolicy::AggLogicalAnd, [int(1), Value::Boolean(true)], &int(1));
    check(ResponsePolicy::AggLogicalOr, [int(0), int(0)], &int(0));
    let other = Cause::Shape { expected: "an array as long as the others", found: "array" };
    check_error(ResponsePolicy::AggLogicalOr, vec![Ok(ints([1, 1])), Ok(ints([1]))], 1, other);
}

#[test]
fn default_puts_all_elements_together() {
    let policy = ResponsePolicy::Default;
    check(policy, [ints([1, 2]), ints([]), ints([3])], &ints([1, 2, 3]));
    check(policy, [ints([1]), Value::Null], &ints([1]));
    check(policy, [Value::Set(vec![int(1)]), Value::Set(vec![int(1)])], &Value::Set(vec![int(1), int(1)]));
    let map = |key, value| Value::Map(vec![(int(key), int(value))]);
    check(policy, [map(1, 2), map(3, 4)], &Value::Map(vec![(int(1), int(2)), (int(3), int(4))]));
    check(policy, [text("a"), text("b")], &Value::Array(vec![text("a"), text("b")]));
    check(policy, [Value::Null, Value::Null], &Value::Array(vec![Value::Null, Value::Null]));
    check_error(policy, vec![Ok(ints([1])), Err("lost")], 1, Cause::Failed("lost"));
}

#[test]
fn nothing_and_special_have_no_rule() {
    assert_eq!(aggregate::<()>(ResponsePolicy::AggSum, vec![]), Err(AggregateError::NoReplies));
    assert_eq!(aggregate::<()>(ResponsePolicy::Special, vec![Ok(int(1))]), Err(AggregateError::NoRule));
}

proptest::proptest! {
    #[test]
    fn a_sum_is_the_sum(numbers in proptest::collection::vec(-1_000_000_i64..1_000_000, 1..20)) {
        let replies: Vec<Reply> = numbers.iter().map(|&number| Ok(int(number))).collect();
        proptest::prop_assert_eq!(aggregate(ResponsePolicy::AggSum, replies), Ok(int(numbers.iter().sum())));
    }
}
