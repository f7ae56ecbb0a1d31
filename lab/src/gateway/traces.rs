//! What traces cost: CPU of a gateway with and without them, for stored answers and for requests passed on.

use std::rc::Rc;

use super::loads::{self, PASSED, STORED};
use super::running::{self, listening_service};
use super::{Lab, SECOND, group, variant};
use crate::cores;
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Group, Question, Sample};

/// The part of requests that is sampled, as it is by default.
const SHARE: f64 = 0.01;
const WITHOUT: &str = "without";
const WITH: &str = "with";

pub(super) fn groups(lab: &Rc<Lab>) -> [Group; 2] {
    [("traces-stored", "an answer from memory", STORED), ("traces-passed", "a request that is passed on", PASSED)]
        .map(|(id, what, path)| group_of(lab, id, what, path))
}

fn group_of(lab: &Rc<Lab>, id: &str, what: &str, path: &'static str) -> Group {
    let of =
        |id: &'static str, title| variant(lab, id, title, SECOND / 2, move |lab, amount| asked(lab, amount, path, id));
    let text = format!("CPU of the gateway for {what}, with traces / without");
    Group {
        variants: vec![of(WITHOUT, "without traces"), of(WITH, "with traces")],
        control: WITHOUT.into(),
        questions: vec![Question::ratio(text, Metric::GatewayCpuUs, WITH, WITHOUT)],
        amount: lab.amount,
        ..group(
            id,
            &format!("What traces cost: {what}"),
            format!(
                "200 bytes of JSON, {} connections, one request in flight on each; {} % of the requests are sampled, and the gateway sends their spans",
                loads::CONNECTIONS,
                SHARE * 100.0
            ),
            &[Metric::GatewayCpuUs, Metric::PerSecond],
        )
    }
}

fn asked(lab: &Lab, amount: Amount, path: &str, id: &str) -> anyhow::Result<Sample> {
    if id == WITHOUT {
        return loads::by_turns(lab, amount, &[path], "");
    }
    // It takes whatever comes.
    let collector = || listening_service("collector", &lab.scratch, &["http-tcp"]);
    let (_collector, address) = cores::on(lab.load_core(), collector)??;
    loads::by_turns(lab, amount, &[path], &running::traces(address, SHARE))
}
