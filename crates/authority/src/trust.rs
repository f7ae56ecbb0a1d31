//! What has to be done so that the programs of this machine trust the root, or no longer do.
//!
//! What there is on the machine is looked at first ([`machine`]); the plan follows from that alone ([`plan`], pure) and
//! is shown, or carried out ([`run`]).

pub(crate) mod machine;
pub(crate) mod plan;
pub(crate) mod run;
