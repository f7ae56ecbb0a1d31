//! From what is known of the cluster to the configuration of the gateway, and to what is said of each object.
//!
//! Pure: the same snapshot gives the same text, byte for byte, so a text that is the same needs no reload. A route that
//! the gateway cannot have is left out and told why; nothing that one object says can break the text of others, as the
//! text of each route is read by the gateway's own reader before it is joined.
//!
//! ```text
//! listeners   Gateways → doors: a port, a protocol, hosts, who may come through
//! attach      a route's parents → the doors it has, and why not others
//! backends    what a rule refers to → a service of the gateway, with its endpoints elsewhere
//! rules       rules × doors → [[routes]]
//! ingress     Ingresses → the same
//! work        what is joined, and what was read before
//! text        pieces of TOML; model: what all of them name
//! ```

mod attach;
mod backends;
mod hosts;
mod ingress;
mod listeners;
mod model;
mod rules;
mod text;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::conditions::{Subject, Wanted};
use crate::snapshot::{Snapshot, TlsSecret};
use listeners::Doors;
pub use model::{Backend, BackendPart, Options};
use work::Work;
pub use work::{Checks, MAX_ROUTES};

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Translation {
    /// Addresses that are listened on, for `listen`.
    pub listen: Vec<String>,
    /// Their ports.
    pub ports: BTreeSet<u16>,
    /// The sections.
    pub text: String,
    /// Where those begin in it that can be read by themselves: services and routes.
    pub sections: Vec<usize>,
    /// How many routes are in it.
    pub routes: usize,
    /// Certificates by the name of their files without the ending.
    pub files: BTreeMap<String, Arc<TlsSecret>>,
    /// Services of the gateway, by name.
    pub backends: BTreeMap<String, Backend>,
    /// What is said of each object.
    pub statuses: BTreeMap<Subject, Wanted>,
}

/// Translates everything.
#[must_use]
pub fn translate(snapshot: &Snapshot, options: &Options, checks: &mut Checks) -> Translation {
    let mut doors = Doors::of(snapshot, options);
    let ingresses = ingress::listen(snapshot, &mut doors, options);
    let mut work = Work::new(snapshot, checks);
    let mut statuses = BTreeMap::new();
    listeners::classes(snapshot, options, &mut statuses);
    // The older route of two with the same place and conditions wins (Gateway API, HTTPRouteRule.matches).
    let mut routes: Vec<_> = snapshot.http_routes.iter().collect();
    routes.sort_by_key(|(key, route)| (route.meta.created, (*key).clone()));
    for (key, route) in routes {
        let attachments = attach::attach(snapshot, &doors, key, &route.spec);
        if attachments.is_empty() {
            continue; // somebody else's
        }
        let parents = rules::route(&mut work, &mut doors, key, route, attachments);
        statuses.insert(Subject::HttpRoute(key.clone()), Wanted::Parents(parents));
    }
    ingress::all(&mut work, &ingresses, options, &mut statuses);
    if let Err(why) = rules::keep_apart(&mut work, &doors) {
        tracing::warn!("listeners of one port are not kept apart: {why}");
    }
    let Work { backends, pieces, .. } = work;
    let mut text = doors.certificates_text(&options.certificates);
    let used: BTreeSet<&str> = pieces.iter().filter_map(|piece| piece.service.as_deref()).collect();
    let mut services = backends.services;
    services.retain(|name, _| used.contains(name.as_str()));
    let mut sections = Vec::with_capacity(services.len() + pieces.len());
    for (name, service) in &services {
        sections.push(text.len());
        service.write(name, &mut text);
    }
    for piece in &pieces {
        sections.push(text.len());
        text.push_str(&piece.text);
    }
    doors.statuses(snapshot, options, &mut statuses);
    Translation {
        listen: doors.listen(options),
        ports: doors.ports(),
        text,
        sections,
        routes: pieces.len(),
        files: doors.files(),
        backends: services.into_iter().map(|(name, service)| (name, service.backend)).collect(),
        statuses,
    }
}

#[cfg(test)]
mod tests;
