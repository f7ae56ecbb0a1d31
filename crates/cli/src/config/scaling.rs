//! The keys of a service that say how many instances it has, who waits for them, and when they are replaced.

use std::time::Duration;

use pilotlight_supervisor::QueueLimits;
use toml::de::DeTable;

use super::diagnostic::{Code, Diagnostic};
use super::model::{Config, Scaling, ServiceKind};
use super::schema::{self, Bounds, Part};
use super::section::{Section, noted};
use super::value::HumanTime;

pub(super) fn read(
    section: &Section<'_>,
    start_timeout: Duration,
    queue_max: u64,
    found: &mut Vec<Diagnostic>,
) -> Scaling {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let scaling = Scaling {
        max_instances: small(section.number("max_instances", &schema::MAX_INSTANCES, found)),
        concurrency: section.number_or_none("concurrency", &schema::CONCURRENCY, found).map(small),
        spare: u8::from(section.number("spare", &schema::SPARE, found) > 0),
        queue: queue(section, start_timeout, queue_max, found),
        scale_up_after: section.time("scale_up_after", &schema::SCALE_UP_AFTER, found),
        scale_down_after: section.time("scale_down_after", &schema::SCALE_DOWN_AFTER, found),
        max_requests: section.number_or_none("max_requests", &schema::MAX_REQUESTS, found),
        max_age: section.time_or_none("max_age", &schema::MAX_AGE, None, found),
        max_memory: section.size_or_none("max_memory", &schema::MAX_MEMORY, None, found),
        max_request_time: section.time_or_none("max_request_time", &schema::MAX_REQUEST_TIME, None, found),
        max_failures: small(section.number("max_failures", &schema::MAX_FAILURES, found)),
        max_request_time_at: section.field("max_request_time").map(|field| field.key_at),
    };
    check(section, &scaling, found);
    scaling
}

/// `queue.max`, by default `default_max`, and `queue.timeout`.
fn queue(section: &Section<'_>, start_timeout: Duration, default_max: u64, found: &mut Vec<Diagnostic>) -> QueueLimits {
    let empty = DeTable::new();
    let field = section.field("queue");
    let table = field.as_ref().and_then(|field| noted(field.value.as_table().ok_or_else(|| field.wrong_type()), found));
    let at = field.map_or(0..0, |field| field.at);
    let queue = Section::read(Part::ServiceQueue, "in the service's queue", at, table.unwrap_or(&empty), found);
    let bounds = Bounds { default: default_max, ..schema::QUEUE_MAX };
    let max = usize::try_from(queue.number("max", &bounds, found)).unwrap_or(usize::MAX);
    let Some(field) = queue.field("timeout") else {
        return QueueLimits { max, timeout: schema::QUEUE_TIMEOUT.default.max(start_timeout) };
    };
    let timeout = queue.time("timeout", &schema::QUEUE_TIMEOUT, found);
    if let (Some(start), true) = (section.field("start_timeout"), timeout < start_timeout) {
        let message = format!(
            "`queue.timeout` ({}) is shorter than `start_timeout` ({}): the first request may give up while the service still starts",
            HumanTime(timeout),
            HumanTime(start_timeout)
        );
        found.push(
            Diagnostic::warning(Code::Conflict, field.key_at, message)
                .related(start.key_at, "`start_timeout` is")
                .help("raise `queue.timeout`, or lower `start_timeout`"),
        );
    }
    QueueLimits { max, timeout }
}

fn check(section: &Section<'_>, scaling: &Scaling, found: &mut Vec<Diagnostic>) {
    let several = scaling.max_instances > 1;
    if let (Some(field), true, false) = (section.field("max_instances"), several, section.mentions("concurrency")) {
        let message = format!(
            "`max_instances` is {}, but without `concurrency` the first instance is never full",
            scaling.max_instances
        );
        found.push(Diagnostic::error(Code::Conflict, field.at, message).help(
            "add concurrency = 1 for a program that does one thing at a time, more for one with threads or an event loop",
        ));
    } else if let (Some(field), true, None) = (section.field("concurrency"), several, scaling.concurrency)
        && field.value.as_str() == Some("none")
    {
        let message = "`concurrency` cannot be \"none\" with several instances: the first would never be full";
        found.push(
            Diagnostic::error(Code::Conflict, field.at, message).help("write how many requests one takes at once"),
        );
    }
    if let (Some(field), 1, false) = (section.field("spare"), scaling.spare, several) {
        let message = "`spare` is the only instance: `max_instances` leaves no room for another";
        let help = "raise `max_instances`, or write min_instances = 1 instead";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
    }
    for name in ["scale_up_after", "scale_down_after"] {
        if let Some(field) = section.field(name).filter(|_| !several) {
            let message = format!("`{name}` has no effect: there is one instance at most");
            let help = "raise `max_instances`, or take it away";
            found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
        }
    }
}

/// A request that is given up by its route's `response_timeout` never reaches a longer `max_request_time`.
pub(super) fn check_routes(config: &Config, found: &mut Vec<Diagnostic>) {
    for (index, service) in config.services.iter().enumerate() {
        let ServiceKind::Managed(managed) = &service.kind else { continue };
        let scaling = &managed.scaling;
        let (Some(time), Some(at)) = (scaling.max_request_time, &scaling.max_request_time_at) else { continue };
        let longest =
            config.routes.iter().filter(|route| route.service == index).map(|route| route.response_timeout).max();
        if let Some(longest) = longest.filter(|longest| *longest <= time) {
            let message = format!(
                "`max_request_time` has no effect: requests are given up after `response_timeout` ({})",
                HumanTime(longest)
            );
            found.push(
                Diagnostic::warning(Code::NoEffect, at.clone(), message)
                    .help("make it shorter than `response_timeout` (in [limits] or [[routes]])"),
            );
        }
    }
}
