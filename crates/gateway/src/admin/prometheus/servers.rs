//! What is known of the servers of services that somebody else starts.

use std::sync::Arc;

use pilotlight_balance::{RetryCounts, State};

use super::text::{Text, labels};
use crate::options::{External, ServiceTarget};
use crate::timing::Moment;
use crate::upstream::server::{address, millis};

/// Most servers that have series of their own: the first ones of the file. Those beyond are in `pilotlight status`.
const MAX_SHOWN: usize = 1024;

/// Of those services that there is something to know of.
pub(super) fn servers(text: &mut Text, services: &[ServiceTarget]) {
    let watched = |target: &ServiceTarget| match target {
        ServiceTarget::External(external) => external.group().is_some().then(|| Arc::clone(external)),
        ServiceTarget::Managed(..) => None,
    };
    let all: Vec<_> = services.iter().filter_map(watched).collect();
    if all.is_empty() {
        return;
    }
    each(text, &all);
    let name = "pilotlight_service_retries_total";
    text.family(name, "counter", "Requests that were sent again to another server, or not for want of budget.");
    for external in &all {
        let RetryCounts { sent, refused } = external.group().map(|group| group.retries()).unwrap_or_default();
        for (outcome, count) in [("sent", sent), ("refused", refused)] {
            text.sample(name, &labels(&[("service", external.name()), ("outcome", outcome)]), &count);
        }
    }
    let lines: Vec<_> = all.iter().filter_map(|external| Some((external.name(), external.line()?))).collect();
    if lines.is_empty() {
        return;
    }
    let name = "pilotlight_service_waiting_for_server";
    text.family(name, "gauge", "Requests that wait because every server has max_connections requests.");
    for (service, line) in &lines {
        text.sample(name, &labels(&[("service", service)]), &line.length());
    }
    let name = "pilotlight_service_waiting_for_server_refused_total";
    text.family(name, "counter", "Requests that got no server, by reason: queue.max, queue.timeout.");
    for (service, line) in &lines {
        let (full, timeout) = line.refused();
        for (reason, count) in [("full", full), ("timeout", timeout)] {
            text.sample(name, &labels(&[("service", service), ("reason", reason)]), &count);
        }
    }
}

/// A server of a service, and its labels.
fn each(text: &mut Text, all: &[Arc<External>]) {
    let now = millis(Moment::now());
    let of = |external: &Arc<External>| {
        let external = Arc::clone(external);
        (0..external.spec().servers.len()).map(move |index| (Arc::clone(&external), index))
    };
    let shown: Vec<_> = all.iter().flat_map(of).take(MAX_SHOWN).collect();
    let labels =
        |external: &External, index| labels(&[("service", external.name()), ("server", &address(external, index))]);
    let name = "pilotlight_server_requests_open";
    text.family(name, "gauge", "Requests that are open at a server.");
    for (external, index) in &shown {
        let open = external.group().map_or(0, |group| group.open(*index));
        text.sample(name, &labels(external, *index), &open);
    }
    let name = "pilotlight_server_up";
    text.family(name, "gauge", "Whether a server gets requests: 1, or 0 while it is left out.");
    for (external, index) in &shown {
        let is_in = external.group().is_some_and(|group| group.state(*index, now) == State::In);
        text.sample(name, &labels(external, *index), &u64::from(is_in));
    }
}
