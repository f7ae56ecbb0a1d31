//! Another configuration for a running gateway.
//!
//! Everything that can be refused comes first: reading, checking, binding. Then services, then routes, then listeners, and last
//! what is no longer wanted goes. A request that is on its way meanwhile has the old route and the old service, or the new ones.

use std::path::Path;
use std::sync::Arc;

use pilotlight_gateway::{Gateway, NotDone, ServiceTarget};
use pilotlight_supervisor::{ServiceId, ServiceSpec, Supervisor, Transport};

use crate::config::{self, Config, Loaded, Ports, Style};
use crate::plan::{self, Plan};
use crate::settings;

/// What a reload works on.
pub(crate) struct Live<'a> {
    pub(crate) file: &'a Path,
    pub(crate) config: &'a mut Config,
    pub(crate) services: &'a mut Vec<ServiceTarget>,
    pub(crate) gateway: &'a mut Gateway,
    pub(crate) supervisor: &'a Supervisor,
}

/// Reads the file again and follows it. `Err`: nothing has changed.
pub(crate) fn reload(live: Live<'_>) -> Result<Plan, NotDone> {
    let Live { file, config, services, gateway, supervisor } = live;
    let Loaded { config: new, warnings } = config::load(file, Ports::Skip) // its own ports are in use, by itself
        .map_err(|report| NotDone::Invalid(report.render(Style::Plain)))?;
    for line in warnings.render(Style::Plain).lines() {
        tracing::warn!("{line}");
    }
    let plan = Plan::of(config, &new);
    let listeners = gateway.bind(settings::listen(&new)).map_err(|e| NotDone::Failed(e.to_string()))?;
    let control = supervisor.control();
    let specs: Vec<_> = settings::specs(&new).into_iter().map(|spec| (same(services, &spec), spec)).collect();
    let kept: Vec<ServiceId> = specs.iter().filter_map(|(id, _)| *id).collect();
    let managed = control.configure(specs).map_err(|e| NotDone::Failed(e.to_string()))?;
    let targets = with_known(settings::targets(&new, &managed), services);
    gateway.reload(listeners, settings::serving(&new, targets.clone()));
    control.retire(ids(services).filter(|id| !kept.contains(id)).collect());
    *services = targets;
    *config = plan::followed_config(config, new);
    for setting in &plan.fixed {
        tracing::warn!(
            "`{setting}` has changed, which a running gateway cannot follow: `pilotlight upgrade` does, without losing a request"
        );
    }
    Ok(plan)
}

fn ids(services: &[ServiceTarget]) -> impl Iterator<Item = ServiceId> {
    services.iter().filter_map(|target| match target {
        ServiceTarget::Managed(service, _) => Some(service.id()),
        ServiceTarget::External(_) => None,
    })
}

/// The service of this name, if it is spoken to in the same way: a way cannot be changed while it is used.
fn same(services: &[ServiceTarget], spec: &ServiceSpec) -> Option<ServiceId> {
    services.iter().find_map(|target| match target {
        ServiceTarget::Managed(service, transport) => {
            let alike = (*transport == Transport::Pipe) == (spec.transport == Transport::Pipe);
            (**service.name() == *spec.name && alike).then(|| service.id())
        }
        ServiceTarget::External(_) => None,
    })
}

/// Servers of somebody else's that have not changed stay the same objects, and so do the connections to them.
fn with_known(targets: Vec<ServiceTarget>, known: &[ServiceTarget]) -> Vec<ServiceTarget> {
    let known = |target: ServiceTarget| match target {
        ServiceTarget::External(new) => {
            let old = known.iter().find_map(|old| match old {
                ServiceTarget::External(old) => Some(old).filter(|old| **old == new),
                ServiceTarget::Managed(..) => None,
            });
            ServiceTarget::External(old.map_or(new, Arc::clone))
        }
        managed @ ServiceTarget::Managed(..) => managed,
    };
    targets.into_iter().map(known).collect()
}
