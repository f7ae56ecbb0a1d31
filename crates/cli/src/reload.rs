//! Another configuration for a running gateway.
//!
//! Everything that can be refused comes first: reading, checking, binding. Then services, then routes, then listeners,
//! and last what is no longer wanted goes. A request that is on its way meanwhile has the old route and the old
//! service, or the new ones.

use std::collections::HashMap;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilotlight_gateway::{Emptying, External, Gateway, NotDone, ServiceTarget};
use pilotlight_supervisor::{ServiceId, ServiceSpec, Supervisor};
use pilotlight_tls::FileError;

use crate::config::{Config, Loaded, Operate, Ports, Report, Service, Style};
use crate::labelled;
use crate::memory::{self, Lender};
use crate::operate::Shown;
use crate::origin::Origin;
use crate::plan::{self, Plan};
use crate::settings;
use crate::tls::LiveTls;

/// What is kept of the configuration that is followed. The rest is in its text, which is a tenth of what it says and is
/// read again for the next reload: an idle gateway with a thousand services is not to hold two descriptions of each.
#[derive(Clone)]
pub(crate) struct Followed {
    shown: Shown,
    /// That of the start, without services and routes: what cannot be followed stays as it was there.
    start: Config,
    /// The engine whose containers declare services by their labels, if they do.
    labels: Option<PathBuf>,
    /// How long services may take to end.
    pub(crate) stop_timeout: Duration,
    /// The warnings that were printed last, by a reload.
    said: String,
}

impl Followed {
    pub(crate) fn new(config: &Config, shown: Shown) -> Self {
        let (labels, stop_timeout) = (labelled::wanted(config), settings::stop_timeout(config));
        Self { shown, start: config.without_services(), labels, stop_timeout, said: String::new() }
    }

    /// The engine whose containers declare services by their labels, if they do.
    pub(crate) fn labels(&self) -> Option<PathBuf> {
        self.labels.clone()
    }

    /// Where the file ends in the text; what follows there was declared by labels.
    fn end_of_file(&self) -> usize {
        labelled::end_of_file(&self.shown.text())
    }

    /// What the operator sees of the gateway.
    pub(crate) fn operate(&self) -> &Operate {
        &self.start.operate
    }

    /// The whole of it.
    fn config(&self, origin: &Origin) -> Result<Config, Report> {
        origin.reread(&self.shown.text()).map(|config| plan::followed_config(&self.start, config))
    }
}

/// What a reload works on.
pub(crate) struct Live<'a> {
    /// The path of this program.
    pub(crate) program: &'a Path,
    pub(crate) origin: &'a Origin,
    pub(crate) followed: &'a mut Followed,
    pub(crate) services: &'a mut Vec<ServiceTarget>,
    pub(crate) gateway: &'a mut Gateway,
    pub(crate) supervisor: &'a Supervisor,
    pub(crate) tls: &'a mut LiveTls,
}

/// Reads the file again and follows it. `Err`: nothing has changed.
pub(crate) fn reload(live: Live<'_>, emptying: Emptying) -> Result<Plan, NotDone> {
    let (origin, known, end) = (live.origin, live.followed.clone(), live.followed.end_of_file());
    // Its own ports are in use, by itself.
    let read = |lender: Lender<_>| origin.load_for(Ports::Skip, |new| lender.lend((known.config(origin), new)));
    let followed = memory::apart(read, |(old, new)| {
        let invalid = |report: &Report| NotDone::Invalid(report.render(Style::Plain));
        let (new, old) = (new.as_ref().map_err(invalid)?, old.as_ref().map_err(invalid)?);
        if let Some(emptied) = emptied(old, end, &new.config).filter(|_| emptying == Emptying::Refused) {
            return Err(NotDone::Invalid(format!(
                "{}: {emptied}, so it was not followed: it may be half written, or truncated; if this is meant: pilotlight reload --force",
                origin.file().display()
            )));
        }
        follow(live, old, new)
    });
    let no_thread = |e| NotDone::Failed(format!("the thread that reads the configuration cannot be started: {e}"));
    followed.map_err(no_thread)?
}

/// What the file has no more of, if it has none of the routes and services that it had. What labels declared, behind
/// `end` of the old text, may go.
fn emptied(old: &Config, end: usize, new: &Config) -> Option<String> {
    let is_of_file = |service: &Service| service.place() < end;
    let routes = old.routes.iter().filter(|route| old.service_of(route).is_none_or(is_of_file)).count();
    let services = old.services.iter().filter(|service| is_of_file(service)).count();
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let counts = [("route", routes, new.routes.len()), ("service", services, new.services.len())];
    let gone: Vec<String> = counts
        .into_iter()
        .filter(|(_, now, then)| *now > 0 && *then == 0)
        .map(|(what, now, _)| counted(now, what))
        .collect();
    (!gone.is_empty()).then(|| format!("it has none of the {} that there are now", gone.join(" and ")))
}

fn follow(live: Live<'_>, old: &Config, Loaded { config: new, warnings }: &Loaded) -> Result<Plan, NotDone> {
    let Live { program, origin, followed, services, gateway, supervisor, tls } = live;
    let said = warnings.render(Style::Plain);
    // A program tells its configuration again and again, each time with what was said before.
    if !(matches!(origin, Origin::Told(_)) && said == followed.said) {
        said.lines().for_each(|line| tracing::warn!("{line}"));
    }
    let plan = Plan::of(old, new);
    let unusable = |e: FileError| NotDone::Failed(format!("{e}; {}", e.remedy()));
    let certificates = tls.context.prepare(settings::tls(new)).map_err(unusable)?;
    let listeners = gateway.bind(settings::listen(new)).map_err(|e| NotDone::Failed(e.to_string()))?;
    let control = supervisor.control();
    let specs: Vec<_> = settings::started(new, program).map(|spec| (same(services, &spec), spec)).collect();
    let kept: Vec<ServiceId> = specs.iter().filter_map(|(id, _)| *id).collect();
    let managed = control.configure(specs).map_err(|e| NotDone::Failed(e.to_string()))?;
    let targets = with_known(settings::targets(new, &managed), services);
    tls.apply(certificates);
    gateway.reload(listeners, settings::serving(new, targets.clone()));
    control.retire(ids(services).filter(|id| !kept.contains(id)).collect());
    *services = targets;
    followed.shown.follow(warnings);
    followed.said = said;
    (followed.labels, followed.stop_timeout) = (labelled::wanted(new), settings::stop_timeout(new));
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
            let alike = discriminant(transport) == discriminant(&spec.transport);
            (**service.name() == *spec.name && alike).then(|| service.id())
        }
        ServiceTarget::External(_) => None,
    })
}

/// Services of somebody else's of which nothing or only servers have changed stay the same objects, and so do the
/// connections to servers that stay.
fn with_known(targets: Vec<ServiceTarget>, known: &[ServiceTarget]) -> Vec<ServiceTarget> {
    let known: HashMap<&str, &Arc<External>> = known.iter().filter_map(external).map(|one| (one.name(), one)).collect();
    let known = |target: ServiceTarget| match target {
        ServiceTarget::External(new) => {
            let old = known.get(new.name()).filter(|old| old.follow(&new));
            ServiceTarget::External(old.map_or(new, |old| Arc::clone(old)))
        }
        managed @ ServiceTarget::Managed(..) => managed,
    };
    targets.into_iter().map(known).collect()
}

fn external(target: &ServiceTarget) -> Option<&Arc<External>> {
    match target {
        ServiceTarget::External(external) => Some(external),
        ServiceTarget::Managed(..) => None,
    }
}
