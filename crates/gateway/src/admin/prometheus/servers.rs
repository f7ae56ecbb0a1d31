//! What is known of the servers of services that somebody else starts.

use std::sync::Arc;

use pilotlight_balance::{RetryCounts, State};

use super::text::{Text, labels};
use crate::options::ServiceTarget;
use crate::servers::{Live, Named, OneServer, Servers};
use crate::timing::{Moment, millis};

/// Most servers that have series of their own: the first ones. Those beyond are in `pilotlight status`.
const MAX_SHOWN: usize = 1024;

/// A service whose servers may change.
struct Watched<'a> {
    service: &'a str,
    live: &'a Live,
    now: Arc<Servers>,
    /// Whether its requests may have to wait.
    has_line: bool,
}

impl<'a> Watched<'a> {
    fn of(target: &'a ServiceTarget) -> Option<Self> {
        let ServiceTarget::External(external) = target else { return None };
        let live = external.live()?;
        let has_line = external.spec().balance.settings.max_open.is_some() || live.may_be_empty();
        Some(Self { service: external.name(), live, now: live.now(), has_line })
    }
}

/// Of those services that there is something to know of.
pub(super) fn servers(text: &mut Text, services: &[ServiceTarget]) {
    let all: Vec<Watched<'_>> = services.iter().filter_map(Watched::of).collect();
    if all.is_empty() {
        return;
    }
    each(text, &all);
    let name = "pilotlight_service_servers";
    text.family(name, "gauge", "Servers of a service.");
    for one in &all {
        text.sample(name, &labels(&[("service", one.service)]), &one.now.all().len());
    }
    let name = "pilotlight_service_server_changes_total";
    text.family(name, "counter", "Servers that have come to a service, and that have gone.");
    for one in &all {
        let (came, went) = one.live.changes();
        for (change, count) in [("came", came), ("went", went)] {
            text.sample(name, &labels(&[("service", one.service), ("change", change)]), &count);
        }
    }
    let name = "pilotlight_service_retries_total";
    text.family(name, "counter", "Requests that were sent again to another server, or not for want of budget.");
    for one in &all {
        let RetryCounts { sent, refused } = one.now.group().retries();
        for (outcome, count) in [("sent", sent), ("refused", refused)] {
            text.sample(name, &labels(&[("service", one.service), ("outcome", outcome)]), &count);
        }
    }
    names(text, &all);
    let lines: Vec<_> = all.iter().filter(|one| one.has_line).collect();
    if lines.is_empty() {
        return;
    }
    let name = "pilotlight_service_waiting_for_server";
    text.family(name, "gauge", "Requests that wait: there is no server, or every one has max_connections requests.");
    for one in &lines {
        text.sample(name, &labels(&[("service", one.service)]), &one.live.waiting());
    }
    let name = "pilotlight_service_waiting_for_server_refused_total";
    text.family(name, "counter", "Requests that got no server, by reason: queue.max, queue.timeout.");
    for one in &lines {
        let (full, timeout) = one.live.line().refused();
        for (reason, count) in [("full", full), ("timeout", timeout)] {
            text.sample(name, &labels(&[("service", one.service), ("reason", reason)]), &count);
        }
    }
}

/// Of names that are followed.
fn names(text: &mut Text, all: &[Watched<'_>]) {
    let of = |one: &Watched<'_>| one.live.named().into_iter().map(|name| (one.service.to_owned(), name)).collect();
    let names: Vec<(String, Named)> = all.iter().flat_map::<Vec<_>, _>(of).take(MAX_SHOWN).collect();
    if names.is_empty() {
        return;
    }
    let name = "pilotlight_service_name_lookups_total";
    text.family(name, "counter", "Questions to the DNS for the servers of a name, by outcome: answered, failed.");
    for (service, one) in &names {
        for (outcome, count) in [("answered", one.answers), ("failed", one.failures)] {
            let labels = labels(&[("service", service), ("name", &one.name.to_string()), ("outcome", outcome)]);
            text.sample(name, &labels, &count);
        }
    }
    let name = "pilotlight_service_name_answer_age_seconds";
    text.family(name, "gauge", "How old the answer of the DNS is that counts.");
    for (service, one) in &names {
        if let Some(answered) = one.answered {
            let labels = labels(&[("service", service), ("name", &one.name.to_string())]);
            text.sample(name, &labels, &answered.elapsed().as_secs_f64());
        }
    }
}

/// A server of a service, and its labels.
fn each(text: &mut Text, all: &[Watched<'_>]) {
    let now = millis(Moment::now());
    let mut shown = Vec::new();
    for Watched { service, now, .. } in all {
        shown.extend(now.all().iter().enumerate().map(|(index, server)| (*service, now.group(), index, server)));
    }
    shown.truncate(MAX_SHOWN);
    let labels = |service, server: &OneServer| labels(&[("service", service), ("server", server.address())]);
    let name = "pilotlight_server_requests_open";
    text.family(name, "gauge", "Requests that are open at a server.");
    for (service, group, index, server) in &shown {
        text.sample(name, &labels(service, server), &group.open(*index));
    }
    let name = "pilotlight_server_up";
    text.family(name, "gauge", "Whether a server gets requests: 1, or 0 while it is left out.");
    for (service, group, index, server) in &shown {
        let is_in = group.state(*index, now) == State::In;
        text.sample(name, &labels(service, server), &u64::from(is_in));
    }
}
