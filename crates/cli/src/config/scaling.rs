//! The keys of a service that say how many instances it has, who waits for them, and when they are replaced.

use pilotlight_supervisor::{QueueLimits, RecycleLimits, RestartOrder, ServiceSpec, Spare, Transport};

use super::diagnostic::{Code, Diagnostic};
use super::model::Config;
use super::readers::word;
use super::schema::Part;
use super::section::{Section, a_number, a_size, a_time, or_none};
use super::shown::shown;
use super::value::HumanTime;

/// `queue_max`: the default of `queue.max`.
pub(super) fn read(section: &Section<'_>, queue_max: usize, spec: &mut ServiceSpec, found: &mut Vec<Diagnostic>) {
    section.set("max_instances", a_number(&ServiceSpec::MAX_INSTANCES), &mut spec.max_instances, found);
    section.set("concurrency", or_none(a_number(&ServiceSpec::CONCURRENCY)), &mut spec.concurrency, found);
    section.set("scale_up_after", a_time(&ServiceSpec::SCALE_UP_AFTER), &mut spec.scale_up_after, found);
    section.set("scale_down_after", a_time(&ServiceSpec::SCALE_DOWN_AFTER), &mut spec.scale_down_after, found);
    let recycle = &mut spec.recycle;
    section.set("max_requests", or_none(a_number(&RecycleLimits::MAX_REQUESTS)), &mut recycle.max_requests, found);
    section.set("max_age", or_none(a_time(&RecycleLimits::MAX_AGE)), &mut recycle.max_age, found);
    section.set("max_memory", or_none(a_size(&RecycleLimits::MAX_MEMORY)), &mut recycle.max_memory, found);
    section.set("max_request_time", or_none(a_time(&ServiceSpec::MAX_REQUEST_TIME)), &mut spec.max_request_time, found);
    section.set("max_failures", a_number(&ServiceSpec::MAX_FAILURES), &mut spec.max_failures, found);
    spec.queue.max = queue_max;
    queue(section, spec, found);
    check(section, spec, found);
    restart(section, spec, found);
}

/// A program that must be alone has one instance, and nothing is tried beside it.
fn restart(section: &Section<'_>, spec: &mut ServiceSpec, found: &mut Vec<Diagnostic>) {
    let Some(field) = section.field("restart") else { return };
    // As in units of systemd and in Compose.
    if field.value.as_str().is_some_and(|text| ["always", "no", "on-failure", "unless-stopped"].contains(&text)) {
        let message = format!("{} means nothing as `restart`", shown(field.value.as_str().unwrap_or_default()));
        let help = "take it away: a service is started on its first request, and again after its end; min_instances = 1 \
                    starts it with Pilotlight";
        return found.push(Diagnostic::error(Code::BadValue, field.at, message).help(help));
    }
    spec.restart = word(&field, &RestartOrder::NAMES, found).unwrap_or_default();
    if spec.restart == RestartOrder::StartFirst {
        return;
    }
    let several = spec.max_instances > 1 || spec.spare != Spare::None;
    let beside = [("max_instances", several), ("spare", several), ("releases", spec.releases.is_some())];
    let other = beside.into_iter().filter(|(_, is_set)| *is_set).find_map(|(name, _)| section.field(name));
    if let Some(other) = other {
        let message = format!("`restart` says that one instance runs at a time, and `{}` runs several", other.key.name);
        found.push(
            Diagnostic::error(Code::Conflict, field.key_at, message)
                .related(other.key_at, "that is")
                .help("take one of the two away"),
        );
    }
}

fn queue(section: &Section<'_>, spec: &mut ServiceSpec, found: &mut Vec<Diagnostic>) {
    spec.queue.timeout = spec.queue.timeout.max(spec.start_timeout);
    let Some(queue) = section.part("queue", Part::ServiceQueue, "in the service's queue", found) else { return };
    queue.set("max", a_number(&QueueLimits::MAX), &mut spec.queue.max, found);
    queue.set("timeout", a_time(&QueueLimits::TIMEOUT), &mut spec.queue.timeout, found);
    if let (Some(field), Some(start)) = (queue.field("timeout"), section.field("start_timeout"))
        && spec.queue.timeout < spec.start_timeout
    {
        let message = format!(
            "`queue.timeout` ({}) is shorter than `start_timeout` ({}): the first request may give up while the service still starts",
            HumanTime(spec.queue.timeout),
            HumanTime(spec.start_timeout)
        );
        found.push(
            Diagnostic::warning(Code::Conflict, field.key_at, message)
                .related(start.key_at, "`start_timeout` is")
                .help("raise `queue.timeout`, or lower `start_timeout`"),
        );
    }
}

fn check(section: &Section<'_>, spec: &ServiceSpec, found: &mut Vec<Diagnostic>) {
    let several = spec.max_instances > 1;
    if let (Some(field), true, false) = (
        section.field("max_instances"),
        several,
        section.mentions("concurrency") || spec.transport == Transport::Lambda,
    ) {
        let message = format!(
            "`max_instances` is {}, but without `concurrency` the first instance is never full",
            spec.max_instances
        );
        found.push(Diagnostic::error(Code::Conflict, field.at, message).help(
            "add concurrency = 1 for a program that does one thing at a time, more for one with threads or an event loop",
        ));
    } else if let (Some(field), true, None) = (section.field("concurrency"), several, spec.concurrency)
        && field.value.as_str() == Some("none")
    {
        let message = "`concurrency` cannot be \"none\" with several instances: the first would never be full";
        found.push(
            Diagnostic::error(Code::Conflict, field.at, message).help("write how many requests one takes at once"),
        );
    }
    if let (Some(field), Spare::One, false) = (section.field("spare"), spec.spare, several) {
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
        let time = service.spec().and_then(|spec| spec.max_request_time);
        let Some((time, at)) = time.zip(service.at.max_request_time.as_ref()) else { continue };
        let general = config.settings.limits.response_timeout;
        let routes = config.routes.iter().filter(|route| route.to.service() == Some(index));
        let longest = routes.filter_map(|route| route.response_timeout.or(general)).max();
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
