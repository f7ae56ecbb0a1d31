//! The runner and the judge with programs that do what programs of peers may do: answer, crash, hang, and answer
//! wrongly.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod run;
