//! `[services.NAME.spill]`: where requests go that a service has no room for.

use pilotlight_gateway::{ServerProtocol, SpillSpec};
use pilotlight_supervisor::{QueueLimits, ServiceSpec, Transport};

use super::diagnostic::{Code, Diagnostic};
use super::model::{Service, ServiceKind, Spill};
use super::schema::Part;
use super::section::{Section, a_number, noted, or_none};
use super::shown::shown;

pub(super) fn read(section: &Section<'_>, spec: Option<&ServiceSpec>, found: &mut Vec<Diagnostic>) -> Option<Spill> {
    let (field, spec) = (section.field("spill")?, spec?);
    let part = section.part("spill", Part::ServiceSpill, "in the service's spill", found)?;
    let mut queue = None;
    part.set("queue", or_none(a_number(&QueueLimits::MAX)), &mut queue, found);
    if spec.transport == Transport::Stdio {
        let message = "`spill` would part a session from its program, which holds it";
        let help = "take it away; `max_processes` in [services.NAME.stdio] says how many programs there may be";
        found.push(Diagnostic::error(Code::Conflict, field.key_at, message).help(help));
        return None;
    }
    if queue.is_none() && spec.concurrency.is_none() {
        let message = "`spill` has no effect: without `concurrency` an instance takes every request";
        let help = "add concurrency = 10, or spill.queue = 100";
        found.push(Diagnostic::warning(Code::NoEffect, field.key_at, message).help(help));
    }
    let Some(to) = part.field("to") else {
        if !part.mentions("to") {
            let message = "`spill` does not say to which service requests go";
            let help = "add to = \"NAME\", the name of a service with a `url`";
            found.push(Diagnostic::error(Code::MissingKey, field.at, message).help(help));
        }
        return None;
    };
    let name = noted(to.string(), found)?.to_owned();
    Some(Spill { spec: SpillSpec { to: name, queue }, at: to.at })
}

/// Whether the other services can take the requests.
pub(super) fn check(services: &[Service], found: &mut Vec<Diagnostic>) {
    let spills = services.iter().filter_map(|service| service.spill.as_ref());
    for Spill { spec, at } in spills {
        let Some(other) = services.iter().find(|other| other.name() == spec.to) else { continue };
        let what = match &other.kind {
            ServiceKind::Managed(_) => "is started here as well",
            ServiceKind::External(external) if matches!(external.protocol, ServerProtocol::Cgi(_)) => "speaks no HTTP",
            ServiceKind::External(_) => continue,
        };
        let message = format!("`spill` is to a service that runs elsewhere, and {} {what}", shown(&spec.to));
        let help = "name a service with url = \"http://…\", \"https://…\" or \"h2c://…\"";
        found.push(Diagnostic::error(Code::Conflict, at.clone(), message).help(help));
    }
}
